"""Scores of many nodes or tasks from one pass over the graph: in pieces that fit into memory."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .errors import InputError
from .graph import Graph
from .methods.method import Method
from .support import UNKNOWN, Support
from .tasks import Tasks

ROWS = 1 << 17  # nodes and neighbours that a piece may touch
OVERHEAD = 4  # what a node counts beside its neighbours, so that isolated nodes come in pieces too

Told = Callable[[int, int], None]  # how many nodes are done, and of how many


@torch.no_grad()
def embed(model: Method, graph: Graph) -> Any:
    """The model's one pass over the graph, at rest."""
    return model.eval().embed(graph)


@torch.no_grad()
def score_tasks(model: Method, graph: Graph, state: Any, tasks: Tasks) -> Tensor:
    """Scores [T, M, N] of a batch of tasks."""
    tasks = tasks.to(graph.device)
    load = (graph.degree[torch.cat([tasks.support, tasks.query], 1)] + OVERHEAD).sum(1)
    parts = [model.score(graph, state, tasks[a:b]) for a, b in pieces(load)]
    return _finite(torch.cat(parts))


def accuracy(scores: Tensor, tasks: Tasks) -> float:
    """The share of right answers."""
    assert tasks.query_y is not None
    return float((scores.argmax(-1).cpu() == tasks.query_y.cpu()).float().mean())


@torch.no_grad()
def score_nodes(
    model: Method, graph: Graph, state: Any, support: Support, nodes: Tensor, progress: Told | None = None
) -> Tensor:
    """Scores [B, N] of ``nodes [B]`` against the classes of the support; ``progress`` is told after each piece."""
    if not len(nodes):
        return torch.empty(0, len(support.classes), device=graph.device)
    parts = []
    for a, b in pieces(graph.degree[nodes] + OVERHEAD):
        tasks = Tasks(support.nodes[None], support.y[None], nodes[None, a:b], None, len(support.classes))
        parts.append(model.score(graph, state, tasks)[0])
        if progress is not None:
            progress(b, len(nodes))
    return _finite(torch.cat(parts))


def pieces(load: Tensor, room: int = ROWS) -> list[tuple[int, int]]:
    """Ranges that cover all items in order, each with a load of about ``room`` or of a single larger item."""
    number = (load.cumsum(0) - load) // room
    starts = (number.diff(prepend=number[:1] - 1) != 0).nonzero().flatten().tolist()
    return list(zip(starts, [*starts[1:], len(load)], strict=True))


def _finite(scores: Tensor) -> Tensor:
    if not bool(torch.isfinite(scores).all()):
        raise FloatingPointError(
            "the model's scores are not all finite: its weights or this graph's features are broken"
        )
    return scores


@dataclass(frozen=True, eq=False)
class Predictions:
    """``probabilities [B, N]`` of the ``classes`` for ``nodes [B]``, with their ``names`` (ids, if they have none)."""

    nodes: Tensor
    names: list[str]
    classes: tuple[str, ...]
    probabilities: Tensor

    def __len__(self) -> int:
        return len(self.nodes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.probabilities.numpy().astype(dtype or np.float32)

    def labels(self, threshold: float = 0.0) -> list[str]:
        """The likeliest class of each node, or "unknown" where its probability is below ``threshold``."""
        if not 0 <= threshold <= 1:
            raise InputError(f"threshold is {threshold}; it is a probability, from 0 to 1")
        best, choice = self.probabilities.max(1)
        sure = (best >= threshold).tolist()
        return [self.classes[c] if ok else UNKNOWN for c, ok in zip(choice.tolist(), sure, strict=True)]

    def table(self, threshold: float = 0.0) -> dict[str, Any]:
        """Columns ``id, label, probability, runner_up, margin``; the margin is that over the runner-up."""
        top, order = self.probabilities.topk(2, dim=1)
        return {
            "id": self.names,
            "label": self.labels(threshold),
            "probability": top[:, 0].double().numpy().round(6),
            "runner_up": [self.classes[c] for c in order[:, 1].tolist()],
            "margin": (top[:, 0] - top[:, 1]).double().numpy().round(6),
        }

    def counts(self, threshold: float = 0.0) -> dict[str, int]:
        """How many nodes each class gets, and how many are unknown."""
        counted = Counter(self.labels(threshold))
        return {name: counted[name] for name in (*self.classes, UNKNOWN)}
