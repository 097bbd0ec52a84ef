"""How good a model is: accuracy over one fixed pool of tasks, with its interval."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .errors import InputError
from .graph import Graph
from .methods.method import Method
from .nn.graph_layers import renumbered
from .tasks import Tasks, draw_tasks

CELLS = 40_000_000  # numbers a batch of query embeddings may hold: tasks are scored in as few batches as that allows


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
    classes: Iterable[int] | None = None,
    *,
    tasks: Tasks | None = None,
    n_way: int = 5,
    k_shot: int = 5,
    n_query: int = 10,
    n_tasks: int = 500,
    seed: int = 0,
) -> Evaluation:
    """Score tasks of ``classes`` (drawn from ``seed``: the same pool for every model), or the ``tasks`` given."""
    if (classes is None) == (tasks is None):
        raise InputError(
            "give either the classes to draw tasks from (for example split.novel) or tasks=, not both or none"
        )
    if tasks is None:
        tasks = draw_tasks(graph.y, classes or (), n_way, k_shot, n_query, n_tasks, seed)
    if tasks.query_y is None:
        raise InputError("these tasks have no query_y: accuracy needs the classes of the queries")
    highest = max(int(tasks.support.max()), int(tasks.query.max()))
    if highest >= graph.num_nodes:
        raise InputError(f"the tasks name node {highest}, but the graph has nodes 0..{graph.num_nodes - 1}")
    correct = predict_scores(model, graph, tasks).argmax(-1).cpu() == tasks.query_y.cpu()
    return summarize(correct.double().mean(1), tasks)


def summarize(per_task: Tensor, tasks: Tasks) -> Evaluation:
    """Mean, and 1.96 standard errors over tasks (0 for a single task, which says nothing about others)."""
    n = len(per_task)
    half = 1.96 * float(per_task.std()) / math.sqrt(n) if n > 1 else 0.0
    shot = int(tasks.shots().min())
    return Evaluation(float(per_task.mean()), half, per_task, tasks.n_way, shot, n)


@torch.no_grad()
def predict_scores(model: Method, graph: Graph, tasks: Tasks) -> Tensor:
    """Scores ``[T, M, N]`` with the model at rest: one pass over the graph, then all tasks, in batches that fit."""
    was_training = model.training
    model.eval()
    try:
        state, tasks = _embed(model, graph, tasks.to(graph.device))
        width = max((p.shape[-1] for p in model.parameters() if p.ndim), default=256)
        per_task = (tasks.query.shape[1] + tasks.support.shape[1]) * max(width, tasks.n_way, 256)
        size = max(1, CELLS // per_task)
        parts = [model.score(graph, state, tasks[at : at + size]) for at in range(0, len(tasks), size)]
    finally:
        model.train(was_training)
    scores = torch.cat(parts)
    if not bool(torch.isfinite(scores).all()):
        raise FloatingPointError(
            "the model's scores are not all finite: its weights or this graph's features are broken"
        )
    return scores


def _embed(model: Method, graph: Graph, tasks: Tasks) -> tuple[Any, Tasks]:
    """The pass over the graph and the tasks to score; over the nodes of the tasks alone, where it is much less."""
    if model.local:
        nodes, renamed = renumbered(tasks)
        if 2 * int(graph.degree[nodes].sum()) < graph.num_nodes:
            return model.embed(graph, nodes), renamed  # type: ignore[call-arg]  # that is what being local means
    return model.embed(graph), tasks
