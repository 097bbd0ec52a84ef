"""Scores of tasks and of nodes: one pass over the graph, then everything in batches that fit into memory."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .graph import Graph
from .methods.base import Method
from .nn.graph_layers import renumbered
from .tasks import Tasks

CELLS = 40_000_000  # numbers a batch of query embeddings may hold: tasks are scored in as few batches as that allows
ROWS = 1 << 17  # nodes and neighbours that a batch of single nodes may touch
OVERHEAD = 4  # what a node counts beside its neighbours, so that isolated nodes come in batches too

NodeProgress = Callable[[int, int], None]  # told how many nodes are done, and of how many


@torch.no_grad()
def embed(model: Method, graph: Graph) -> Any:
    """The model's one pass over the graph, in eval mode."""
    return model.eval().embed(graph)


@torch.no_grad()
def score_tasks(model: Method, graph: Graph, tasks: Tasks, state: Any = None) -> Tensor:
    """Scores ``[T, M, N]`` of a batch of tasks, in eval mode; the model comes back in the mode it was in.

    ``state`` is what ``embed`` returned, where that is at hand.
    """
    was_training = model.training
    model.eval()
    try:
        tasks = tasks.to(graph.device)
        state, tasks = _embedded(model, graph, tasks) if state is None else (state, tasks)
        width = max((p.shape[-1] for p in model.parameters() if p.ndim), default=256)
        per_task = (tasks.query.shape[1] + tasks.support.shape[1]) * max(width, tasks.n_way, 256)
        size = max(1, CELLS // per_task)
        parts = [model.score(graph, state, tasks[at : at + size]) for at in range(0, len(tasks), size)]
    finally:
        model.train(was_training)
    return _finite(torch.cat(parts))


@torch.no_grad()
def score_nodes(
    model: Method,
    graph: Graph,
    state: Any,
    support: Tensor,
    support_y: Tensor,
    n_way: int,
    nodes: Tensor,
    progress: NodeProgress | None = None,
) -> Tensor:
    """Scores [B, N] of ``nodes [B]`` against the classes of one support: nodes ``support [S]`` of classes
    ``support_y [S]``; ``progress`` is told after each batch."""
    if not len(nodes):
        return torch.empty(0, n_way, device=graph.device)
    parts = []
    for a, b in batches(graph.degree[nodes] + OVERHEAD):
        tasks = Tasks(support[None], support_y[None], nodes[None, a:b], None, n_way)
        parts.append(model.score(graph, state, tasks)[0])
        if progress is not None:
            progress(b, len(nodes))
    return _finite(torch.cat(parts))


def accuracies(scores: Tensor, tasks: Tasks) -> Tensor:
    """The share of right answers in each task, ``[T]``."""
    assert tasks.query_y is not None
    return (scores.argmax(-1).cpu() == tasks.query_y.cpu()).double().mean(1)


def batches(load: Tensor, room: int = ROWS) -> list[tuple[int, int]]:
    """Ranges that cover all items in order, each with a load of about ``room`` or of a single larger item."""
    number = (load.cumsum(0) - load) // room
    starts = (number.diff(prepend=number[:1] - 1) != 0).nonzero().flatten().tolist()
    return list(zip(starts, [*starts[1:], len(load)], strict=True))


def _embedded(model: Method, graph: Graph, tasks: Tasks) -> tuple[Any, Tasks]:
    """The pass over the graph and the tasks to score; over the nodes of the tasks alone, where it is much less."""
    if model.local:
        nodes, renamed = renumbered(tasks)
        if 2 * int(graph.degree[nodes].sum()) < graph.num_nodes:
            return model.embed(graph, nodes), renamed  # type: ignore[call-arg]  # that is what being local means
    return model.embed(graph), tasks


def _finite(scores: Tensor) -> Tensor:
    if not bool(torch.isfinite(scores).all()):
        raise FloatingPointError(
            "the model's scores are not all finite: its weights or this graph's features are broken"
        )
    return scores
