"""Task-adaptive network: adapts to the node, to the class and to the task; starts as the training-free floor.

Wang, Ding, Zhang, Chen, Li: Task-Adaptive Few-shot Node Classification. KDD 2022. (``variant="paper"``)
"""

import inspect
from typing import Any, Literal

from torch import Tensor

from ..errors import InputError, one_of
from ..graph import Graph
from ..tasks import Tasks
from ._tent_gated import GatedTENT
from ._tent_paper import PaperTENT
from ._tent_released import ReleasedTENT
from .method import Method, Training

# The paper: one task per step; the best of 20 checks is kept, as printed, so patience never ends a training early.
PAPER_TRAINING = Training(learning_rate=0.005, weight_decay=1e-4, steps=500, check_every=25, patience=20, clip=1.0)
RELEASED_TRAINING = Training(learning_rate=0.05, weight_decay=5e-4, steps=2000, check_every=50, patience=10)

SWITCHES = ("node_adaptation", "class_adaptation", "task_adaptation")
WIDTHS = ("hidden_channels", "out_channels")
PAPER_ONLY = ("backbone", "mlp_layers", "normalize", "ego_hops", "query_hops", "dropout", "adapter_start")
# Each variant: what it is made of, how it is trained, and which of the options it has.
VARIANTS: dict[str, tuple[type[Method], Training, tuple[str, ...]]] = {
    "gated": (GatedTENT, GatedTENT.training_settings, ("rank", *SWITCHES)),
    "paper": (PaperTENT, PAPER_TRAINING, ("gamma", *WIDTHS, *SWITCHES, *PAPER_ONLY)),
    "released": (ReleasedTENT, RELEASED_TRAINING, ("gamma", *WIDTHS)),
}


class TENT(Method):
    """Three levels of adaptation, in one of three forms.

    "gated", the default, starts as the training-free floor and learns small residuals: a gate over several looks at
    each node, a whitening learned from the base classes, class means drawn towards the unlabelled nodes around them,
    and scores that weigh how widely a class is spread (docs/tent.md).
    "paper" follows the equations: a class is a virtual node joined to its supports; the network that embeds it is
    adapted to the class, the one that embeds the queries to the task, and scores are divided by how scattered each
    class is. Three departures from the printed settings, which stay near chance (docs/tent.md has the evidence): the
    first-step embedding is normalised node by node, the learning rate is 0.005 and gradients are clipped at norm 1.
    As printed: ``normalize=False, learning_rate=0.05, clip=None``.
    "released" follows the authors' code: a linear GCN layer, and at test time a logistic regression on it.

    Args:
        in_channels: feature columns.
        base_classes: the classes that are learned from.
        variant: "gated", "paper" or "released". An option that a variant does not have is refused.
        node_adaptation: False looks at the nodes in one way only (gated), or takes the supports' mean on the original
            graph as prototype (paper).
        class_adaptation: False leaves out the whitening (gated), or uses the same weights for all classes (paper).
        task_adaptation: False leaves out the unlabelled nodes around a class and its spread (gated), or scores by minus
            the squared Euclidean distance (paper).
        rank: width of each look (gated).
        gamma: weight of the loss over the base classes, ``L_N + gamma * L_CE`` (paper, released).
        hidden_channels, out_channels: ``d_h`` of the first-step embedding, ``d_s`` of prototypes and queries (paper,
            released).
        backbone: "gin", or "gcn" for both networks (paper, as all below).
        mlp_layers: linear maps in each GIN layer; the paper does not say, one trains best.
        normalize: bring each node's first-step embedding to mean 0 and variance 1.
        ego_hops, query_hops: how far class-ego graphs and query subgraphs reach, 1 or 2; more changes nothing.
        dropout: between the two layers of the first network.
        adapter_start: size of the adapter's last layers at the start, relative to Glorot's.
    """

    training_settings = GatedTENT.training_settings

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        variant: Literal["gated", "paper", "released"] = "gated",
        node_adaptation: bool = True,
        class_adaptation: bool = True,
        task_adaptation: bool = True,
        rank: int = 256,
        gamma: float = 1.0,
        hidden_channels: int = 16,
        out_channels: int = 16,
        backbone: Literal["gin", "gcn"] = "gin",
        mlp_layers: int = 1,
        normalize: bool = True,
        ego_hops: int = 1,
        query_hops: int = 2,
        dropout: float = 0.2,
        adapter_start: float = 1.0,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in inspect.signature(TENT).parameters}
        super().__init__()
        kind, self.training_settings, names = VARIANTS[one_of("variant", variant, VARIANTS)]
        one_of("backbone", backbone, ("gin", "gcn"))
        _check_whole(given, ("rank", *WIDTHS, "mlp_layers", "ego_hops", "query_hops"))
        _check_unchanged(given, variant, names)
        build: Any = kind
        self.core: Method = build(in_channels, base_classes=base_classes, **{name: given[name] for name in names})

    def prepare(self, graph: Graph) -> None:
        self.core.prepare(graph)

    def embed(self, graph: Graph) -> Any:
        return self.core.embed(graph)

    def score(self, graph: Graph, state: Any, tasks: Tasks) -> Tensor:
        return self.core.score(graph, state, tasks)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        return self.core.loss(graph, tasks)


def _check_whole(given: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if given[name] < 1:
            raise InputError(f"{name} is {given[name]}; it must be at least 1")


def _check_unchanged(given: dict[str, Any], variant: str, names: tuple[str, ...]) -> None:
    """An option of another variant would be ignored silently; refuse it instead."""
    for name, parameter in inspect.signature(TENT).parameters.items():
        known = name in names or name in ("in_channels", "base_classes", "variant")
        if not known and given[name] != parameter.default:
            raise InputError(f"{name}={given[name]!r} has no meaning for variant={variant!r}; leave it out")
