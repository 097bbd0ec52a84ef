"""Task-adaptive network: class-ego graphs, weights adapted to each class, matching adapted to each task.

Wang, Ding, Zhang, Chen, Li: Task-Adaptive Few-shot Node Classification. KDD 2022.
"""

import inspect
from typing import Any, Literal

from torch import Tensor

from ..errors import InputError, one_of
from ..graph import Graph
from ..tasks import Tasks
from ._tent_paper import PaperTENT
from ._tent_released import ReleasedTENT
from .method import Method, Training

# One task per step; the best of 20 checks is kept, as printed, so patience never ends a training early.
PAPER_TRAINING = Training(learning_rate=0.005, weight_decay=1e-4, steps=500, check_every=25, patience=20)
RELEASED_TRAINING = Training(learning_rate=0.05, weight_decay=5e-4, steps=2000, check_every=50, patience=10)


class TENT(Method):
    """A class is a virtual node joined to its supports; the network that embeds it is adapted to the class, the one
    that embeds the queries to the task, and scores are divided by how scattered each class is.

    Two departures from the printed settings (docs/tent.md shows why): the first-step embedding is normalised node by
    node (``normalize``), and the learning rate is 0.005. As printed: ``normalize=False, learning_rate=0.05``.

    Args:
        in_channels: feature columns.
        base_classes: the classes of the second loss, ``L_N + gamma * L_CE``.
        variant: "paper" follows the equations, "released" the authors' code: a linear GCN layer, and at test time a
            logistic regression on it; of the other options it has only gamma and the widths.
        backbone: "gin", or "gcn" for both networks.
        mlp_layers: linear maps in each GIN layer; the paper does not say, one trains best.
        normalize: bring each node's first-step embedding to mean 0 and variance 1.
        hidden_channels, out_channels: ``d_h`` of the first-step embedding, ``d_s`` of prototypes and queries.
        ego_hops, query_hops: how far class-ego graphs and query subgraphs reach, 1 or 2; more changes nothing.
        node_adaptation: False takes the supports' mean on the original graph as prototype.
        class_adaptation: False uses the same weights for all classes and queries.
        task_adaptation: False scores by minus the squared Euclidean distance.
        gamma: weight of the loss over the base classes.
        dropout: between the two layers of the first network.
        adapter_start: size of the adapter's last layers at the start, relative to Glorot's.
    """

    training_settings = PAPER_TRAINING

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        variant: Literal["paper", "released"] = "paper",
        backbone: Literal["gin", "gcn"] = "gin",
        mlp_layers: int = 1,
        normalize: bool = True,
        hidden_channels: int = 16,
        out_channels: int = 16,
        ego_hops: int = 1,
        query_hops: int = 2,
        node_adaptation: bool = True,
        class_adaptation: bool = True,
        task_adaptation: bool = True,
        gamma: float = 1.0,
        dropout: float = 0.2,
        adapter_start: float = 1.0,
    ) -> None:
        super().__init__()
        one_of("variant", variant, ("paper", "released"))
        one_of("backbone", backbone, ("gin", "gcn"))
        widths = {"hidden_channels": hidden_channels, "out_channels": out_channels}
        hops = {"ego_hops": ego_hops, "query_hops": query_hops}
        _check_whole(widths | hops | {"mlp_layers": mlp_layers})
        common: dict[str, Any] = {"base_classes": base_classes, "gamma": gamma, **widths}
        own: dict[str, Any] = {
            "backbone": backbone,
            "mlp_layers": mlp_layers,
            "normalize": normalize,
            "node_adaptation": node_adaptation,
            "class_adaptation": class_adaptation,
            "task_adaptation": task_adaptation,
            "dropout": dropout,
            "adapter_start": adapter_start,
            **hops,
        }
        if variant == "paper":
            self.core: Method = PaperTENT(in_channels, **common, **own)
        else:
            _check_unchanged(own)
            self.core = ReleasedTENT(in_channels, **common)
            self.training_settings = RELEASED_TRAINING

    def embed(self, graph: Graph) -> Any:
        return self.core.embed(graph)

    def score(self, graph: Graph, state: Any, tasks: Tasks) -> Tensor:
        return self.core.score(graph, state, tasks)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        return self.core.loss(graph, tasks)


def _check_whole(options: dict[str, int]) -> None:
    for name, value in options.items():
        if value < 1:
            raise InputError(f"{name} is {value}; it must be at least 1")


def _check_unchanged(options: dict[str, Any]) -> None:
    parameters = inspect.signature(TENT).parameters
    for name, value in options.items():
        if value != parameters[name].default:
            raise InputError(f"{name}={value!r} has no meaning for variant='released'; leave it out")
