"""What every method is: a module that scores the queries of a batch of tasks on a graph."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph
from ..tasks import Tasks


@dataclass(frozen=True)
class Training:
    """How a method is trained: the optimiser's settings, and the shape of the tasks it sees while training.

    ``train_way``, ``train_shot`` and ``train_query`` default to those of the test tasks; ``patience`` counts
    validation checks without improvement; ``clip`` bounds the gradient's norm; ``decoupled`` is AdamW instead of Adam.
    """

    learning_rate: float = 0.005
    weight_decay: float = 5e-4
    steps: int = 500
    tasks_per_step: int = 1
    check_every: int = 10
    patience: int = 10
    train_way: int | None = None
    train_shot: int | None = None
    train_query: int | None = None
    clip: float | None = None
    decoupled: bool = False


class Method(nn.Module):
    """A few-shot node classifier. A new one says how it sees the graph (``embed``) and how it scores (``score``).

    ``embed`` is the one pass over the graph, whatever the tasks; ``score`` turns it into ``[T, M, N]`` scores, one
    row per query, one column per class, larger is likelier. Constructors take ``in_channels`` and any of
    ``base_classes``, ``n_way``, ``k_shot`` they name, then keyword options with the paper's values as defaults.
    """

    training_settings: Training | None = Training()  # None: there is nothing to train; an instance may have its own
    task_transductive: ClassVar[bool] = False  # True: the queries of a task influence each other's scores
    local: ClassVar[bool] = False  # True: ``embed(graph, nodes)`` embeds some nodes and reads only what is near them
    uses_labels: ClassVar[bool] = True  # False: no label is looked at while training, not even of base classes
    card: dict[str, Any]  # where a fitted model comes from; written by fit, kept by save

    def prepare(self, graph: Graph) -> None:
        """Learn what needs no label (a feature basis, say) from the training graph; called once, before training."""

    def embed(self, graph: Graph) -> Any:
        raise NotImplementedError

    def score(self, graph: Graph, state: Any, tasks: Tasks) -> Tensor:
        raise NotImplementedError

    def forward(self, graph: Graph, tasks: Tasks) -> Tensor:
        return self.score(graph, self.embed(graph), tasks)

    def rehead(self, n_way: int | None = None) -> None:
        """Get ready for tasks of ``n_way`` classes, or of any number. Nothing to do, unless a head is of one width."""

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        """The training loss of a batch of tasks: by default the cross-entropy of the scores of the queries."""
        return cross_entropy(self(graph, tasks), tasks)


def cross_entropy(scores: Tensor, tasks: Tasks) -> Tensor:
    """Mean cross-entropy of ``scores [T, M, N]`` against the classes of the queries."""
    assert tasks.query_y is not None, "training tasks carry the classes of their queries"
    return F.cross_entropy(scores.flatten(0, 1), tasks.query_y.flatten())
