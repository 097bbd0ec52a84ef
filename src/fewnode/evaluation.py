"""How good a model is: accuracy over one fixed pool of tasks, with its interval."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import Tensor

from .errors import InputError
from .graph import Graph
from .inference import accuracies, score_tasks
from .methods.base import Method
from .tasks import ClassSplit, Tasks, draw_tasks


@dataclass(frozen=True, eq=False)
class Evaluation:
    """``accuracy`` (0..1), the half-width of its 95 % ``interval`` over tasks, and the accuracy ``per_task [T]``."""

    accuracy: float
    interval: float
    per_task: Tensor = field(repr=False)
    n_way: int
    k_shot: int
    n_tasks: int

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
) -> Evaluation:
    """Measure a model's accuracy on few-shot tasks.

    Args:
        model: what ``fit`` or ``load`` returned.
        graph: the graph the tasks are on, with the labels of the classes asked about.
        classes: classes to draw tasks from, for example ``split.validation``, or a split, for its novel ones; the same
            seed gives every model the same pool.
        tasks: the tasks themselves, instead of classes to draw them from.
        n_way: classes of a drawn task.
        k_shot: supports of each class.
        n_query: queries of each class.
        n_tasks: how many tasks are drawn.
        seed: of the tasks.

    Returns:
        The mean accuracy, its interval, and the accuracy of each task.

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
        tasks = draw_tasks(graph.y, classes or (), n_way, k_shot, n_query, n_tasks, seed)
    if tasks.query_y is None:
        raise InputError("these tasks have no query_y: accuracy needs the classes of the queries")
    highest = max(int(tasks.support.max()), int(tasks.query.max()))
    if highest >= graph.num_nodes:
        raise InputError(f"the tasks name node {highest}, but the graph has nodes 0..{graph.num_nodes - 1}")
    return summarize(accuracies(score_tasks(model, graph, tasks), tasks), tasks)


def summarize(per_task: Tensor, tasks: Tasks) -> Evaluation:
    """Mean, and 1.96 standard errors over tasks (0 for a single task, which says nothing about others)."""
    n = len(per_task)
    half = 1.96 * float(per_task.std()) / math.sqrt(n) if n > 1 else 0.0
    shot = int(tasks.shots().min())
    return Evaluation(float(per_task.mean()), half, per_task, tasks.n_way, shot, n)
