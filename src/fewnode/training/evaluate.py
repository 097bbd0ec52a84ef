"""Scores of tasks and of nodes in batches that fit into memory, and accuracy on one fixed pool of tasks."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from ..graph import Graph
from ..methods.base import Method
from ..nn.graph_layers import renumbered
from ..store import one_thread
from ..tasks import ClassSplit, Tasks, draw_tasks

CELLS = 40_000_000  # numbers a batch of query embeddings may hold: tasks are scored in as few batches as that allows
OVERHEAD = 4  # what a node counts beside its neighbours, so that isolated nodes come in batches too

NodeProgress = Callable[[int, int], None]  # told how many nodes are done, and of how many


@one_thread
@torch.no_grad()
def embed(model: Method, graph: Graph) -> Any:
    """The embedding of the graph by the model, in eval mode and on the device of the model."""
    return model.eval().embed(graph.to(model.device))


@one_thread
@torch.no_grad()
def score_tasks(model: Method, graph: Graph, tasks: Tasks, state: Any = None) -> Tensor:
    """Scores ``[T, M, N]`` of a batch of tasks, in eval mode and on the device of the model.

    The mode of the model is restored afterwards. ``state`` is the result of ``embed``, if it is available.
    """
    was_training = model.training
    model.eval()
    try:
        graph, tasks = graph.to(model.device), tasks.to(model.device)
        if state is None and model.local:  # over the nodes of the tasks alone, where it is much less
            nodes, renamed = renumbered(tasks)
            if 2 * int(graph.degree[nodes].sum()) < graph.num_nodes:
                state, tasks = model.embed(graph, nodes), renamed  # type: ignore[call-arg]  # what being local means
        state = model.embed(graph) if state is None else state
        width = max((p.shape[-1] for p in model.parameters() if p.ndim), default=256)
        per_task = (tasks.query.shape[1] + tasks.support.shape[1]) * max(width, tasks.n_way, 256)
        size = max(1, CELLS // per_task)
        parts = [model.score(graph, state, tasks[at : at + size]) for at in range(0, len(tasks), size)]
    finally:
        model.train(was_training)
    return _finite(torch.cat(parts))


@one_thread
@torch.no_grad()
def score_nodes(
    model: Method, graph: Graph, state: Any, support: Tensor, support_y: Tensor, n_way: int, nodes: Tensor
) -> Tensor:
    """Scores [B, N] of ``nodes [B]`` against the classes of one support: nodes ``support [S]`` of classes
    ``support_y [S]``."""
    if not len(nodes):
        return torch.empty(0, n_way, device=graph.device)
    if model.task_transductive:
        told = "is task-transductive: answers depend on which other nodes are asked about"
        warnings.warn(f"{model.key()} {told}", stacklevel=1)
    parts = []
    for a, b in batches(graph.degree[nodes] + OVERHEAD):
        tasks = Tasks(support[None], support_y[None], nodes[None, a:b], None, n_way)
        parts.append(model.score(graph, state, tasks)[0])
    return _finite(torch.cat(parts))


def correct(scores: Tensor, tasks: Tasks) -> Tensor:
    """One for each correct answer, zero for each wrong one, ``[T, M]``."""
    assert tasks.query_y is not None
    return (scores.argmax(-1).cpu() == tasks.query_y.cpu()).double()


def batches(load: Tensor, most: int = 1 << 17) -> list[tuple[int, int]]:
    """Ranges that cover all items in order, each with a load of about ``most`` (nodes and neighbours) or of a single
    larger item."""
    number = (load.cumsum(0) - load) // most
    starts = (number.diff(prepend=number[:1] - 1) != 0).nonzero().flatten().tolist()
    return list(zip(starts, [*starts[1:], len(load)], strict=True))


def _finite(scores: Tensor) -> Tensor:
    if not bool(torch.isfinite(scores).all()):
        raise FloatingPointError(
            "the model's scores are not all finite: its weights or this graph's features are broken"
        )
    return scores


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of ``evaluate``.

    ``accuracy`` lies between 0 and 1, ``interval`` is the half-width of its 95 % interval over tasks, and ``per_task
    [T]`` holds the accuracy of each task. ``metrics`` holds means over tasks of other measures (``macro_f1``,
    ``balanced_accuracy``, ``auroc``), and ``per_class`` the recall and the number of queries of each class.
    """

    accuracy: float
    interval: float
    per_task: Tensor = field(repr=False)
    n_way: int
    k_shot: int
    n_tasks: int
    metrics: dict[str, float] = field(default_factory=dict)
    per_class: dict[str, tuple[float, int]] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        over = f"95 % interval over {self.n_tasks} {self.n_way}-way {self.k_shot}-shot tasks"
        return f"{100 * self.accuracy:.2f} % ± {100 * self.interval:.2f} ({over})"


def evaluate(
    model: Method,
    graph: Graph,
    classes: Iterable[int] | ClassSplit | None = None,
    *,
    tasks: Tasks | None = None,
    n_way: int = 5,
    k_shot: int = 5,
    n_query: int = 10,
    n_tasks: int = 500,
    seed: int = 0,
    balanced: bool = True,
    allow_seen: bool = False,
) -> Evaluation:
    """Measure a model's accuracy on few-shot tasks.

    Args:
        model: a model that ``fit`` or ``load`` returned.
        graph: the graph of the tasks, with the labels of their classes.
        classes: classes to draw tasks from, for example ``split.validation``; or a split, for its novel classes. The
            same seed gives every model the same tasks.
        tasks: the tasks themselves, instead of classes to draw them from.
        n_way: classes of a drawn task.
        k_shot: supports of each class.
        n_query: queries of each class.
        n_tasks: number of drawn tasks.
        seed: of the tasks.
        balanced: whether drawn tasks have equally many queries of each class, as in ``draw_tasks``.
        allow_seen: whether ``tasks`` may contain classes that the model was trained or selected on.

    Returns:
        The mean accuracy, its interval, the accuracy of each task, other metrics, and the recall of each class.

    Example:
        >>> import fewnode
        >>> graph, split = fewnode.planted(300, 6, seed=0)
        >>> model = fewnode.fit("probe", graph)
        >>> fewnode.evaluate(model, graph, split, n_way=2, k_shot=3, n_tasks=50).n_tasks
        50
    """
    if (classes is None) == (tasks is None):
        raise InputError(
            "give either the classes to draw tasks from (for example split.novel) or tasks=, not both or none"
        )
    if tasks is None:
        classes = classes.novel if isinstance(classes, ClassSplit) else classes
        tasks = draw_tasks(graph.y, classes or (), n_way, k_shot, n_query, n_tasks, seed, balanced=balanced)
        allow_seen = True  # the classes were named one by one
    if tasks.query_y is None:
        raise InputError("these tasks have no query_y: accuracy needs the classes of the queries")
    classes_of = task_classes(graph, tasks)
    card = getattr(model, "card", None)
    if not allow_seen and model.training_settings is not None and card is not None:
        check_unseen(card.split or {}, classes_of, "give other tasks, or allow_seen=True")
    scores = score_tasks(model, graph, tasks).cpu()
    right = correct(scores, tasks)
    per_class = {
        graph.class_names[c] if graph.class_names else str(c): (float(right[classes_of == c].mean()), int(asked))
        for c, asked in enumerate(torch.bincount(classes_of[classes_of >= 0], minlength=graph.num_classes))
        if asked
    }
    return summarize(right.mean(1), tasks, metrics=metrics(scores, tasks), per_class=per_class)


def task_classes(graph: Graph, tasks: Tasks) -> Tensor:
    """The class of each query [T, M] by the labels of the graph.

    Tasks of another graph are refused: nodes of one of their classes have several labels in this graph.
    """
    highest = max(int(tasks.support.max()), int(tasks.query.max()))
    if highest >= graph.num_nodes:
        raise InputError(f"the tasks name node {highest}, but the graph has nodes 0..{graph.num_nodes - 1}")
    y, query = graph.y.cpu(), tasks.query.cpu()
    if tasks.query_y is not None:
        label = y[torch.cat([tasks.support.cpu(), query], 1)]
        place = torch.cat([tasks.support_y, tasks.query_y], 1).cpu()
        none = label.new_full((len(tasks), tasks.n_way), -1)
        last = none.scatter_reduce(1, place, label, "amax")
        known = label.where(label >= 0, last.gather(1, place))  # a node without a label tells nothing
        first = none.scatter_reduce(1, place, known, "amin", include_self=False)
        if bool((mixed := (first != last)).any()):
            task, c = mixed.nonzero()[0].tolist()
            raise InputError(
                f"class {c} of task {task} has nodes with the labels {int(first[task, c])} and {int(last[task, c])} in "
                "this graph; give tasks that were drawn from it"
            )
    return y[query]


def check_unseen(split: Mapping[str, Sequence[int]], y: Tensor, remedy: str) -> None:
    """Refuse tasks with queries of the classes ``y`` on which a method is trained or selected.

    The text ``remedy`` ends the error message.
    """
    seen = {part: sorted(set(split.get(part, ())) & set(y.unique().tolist())) for part in ("base", "validation")}
    if any(seen.values()):
        told = " and ".join(
            f"{len(ids)} {part} classes ({', '.join(map(str, ids))})" for part, ids in seen.items() if ids
        )
        raise InputError(
            f"the tasks have queries of {told}, which the model is trained or selected on, so that the accuracy would "
            f"not be that of new classes; {remedy}"
        )


def metrics(scores: Tensor, tasks: Tasks) -> dict[str, float]:
    """Macro-F1, balanced accuracy and one-vs-rest AUROC of ``scores [T, M, N]``: means over classes that have queries,
    then over tasks."""
    from scipy.stats import rankdata  # takes a while to import, which training and labelling need not wait for

    assert tasks.query_y is not None
    truth = F.one_hot(tasks.query_y.cpu(), tasks.n_way).double()
    called = F.one_hot(scores.argmax(-1), tasks.n_way).double()
    hits, positives, predicted = (truth * called).sum(1), truth.sum(1), called.sum(1)
    there = positives > 0
    # AUROC from ranks (Mann-Whitney), ties at their mean rank
    rank = torch.from_numpy(rankdata(scores.double().softmax(-1), axis=1))
    negatives = truth.shape[1] - positives
    above = (rank * truth).sum(1) - positives * (positives + 1) / 2
    both = there & (negatives > 0)

    def mean(values: Tensor, where: Tensor) -> float:
        return float((torch.where(where, values, 0.0).sum(1) / where.sum(1).clamp(min=1)).mean())

    return {
        "macro_f1": mean(2 * hits / (positives + predicted), there),
        "balanced_accuracy": mean(hits / positives, there),
        "auroc": mean(above / (positives * negatives), both),
    }


def summarize(per_task: Tensor, tasks: Tasks, **more: Any) -> Evaluation:
    """Mean, and 1.96 standard errors over tasks (0 for a single task, which says nothing about others)."""
    n = len(per_task)
    half = 1.96 * float(per_task.std()) / math.sqrt(n) if n > 1 else 0.0
    shot = int(tasks.shots().min())
    return Evaluation(float(per_task.mean()), half, per_task, tasks.n_way, shot, n, **more)
