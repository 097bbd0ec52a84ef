"""Closed-set classification: a method scores the nodes, and a temperature converts scores to probabilities.

After Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks. ICML 2017.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn import functional as F

from ..graph import Graph
from ..methods.base import Method
from ..tasks import ClassSplit, Tasks, TaskSampler
from ..training import evaluate as inference


@dataclass(frozen=True)
class Calibration:
    """``softmax(scores / temperature)``, and the ``accuracy`` on the tasks from which the temperature was learned.

    ``source`` is "validation", "examples" (each left out in turn, which is less accurate) or "none".
    """

    temperature: float = 1.0
    n_way: int = 0
    k_shot: float = 0.0
    accuracy: float | None = None
    n_tasks: int = 0
    source: str = "none"

    @classmethod
    def of(cls, scores: Tensor, tasks: Tasks, source: str) -> "Calibration":
        """Learn the temperature from the scores ``[T, M, N]`` of tasks."""
        assert tasks.query_y is not None
        s, y, shots = scores.double().cpu(), tasks.query_y.cpu(), float(tasks.shots().float().mean())
        accuracy = float((s.argmax(-1) == y).float().mean())
        return cls(_temperature(s, y), tasks.n_way, shots, accuracy, len(s), source)

    def probabilities(self, scores: Tensor) -> Tensor:
        """Calibrated probabilities for scores [..., N]."""
        return (scores.double() / self.temperature).softmax(-1).float()


def _temperature(scores: Tensor, y: Tensor) -> float:
    """The temperature with the least Brier score.

    The Brier score is bounded, so that a few tasks with huge scores do not decide for all, as they do with the
    cross-entropy. A weak penalty keeps the temperature above zero where every answer is right.
    """
    s, target = scores.flatten(0, 1), F.one_hot(y.flatten(), scores.shape[-1])
    scale = max(float((s - s.mean(-1, keepdim=True)).square().mean().sqrt()), 1e-9)

    def loss(log_factor: float) -> float:
        chance = (s / scale * math.exp(log_factor)).softmax(-1)
        return float((chance - target).square().sum(-1).mean()) + log_factor**2 / (10 * len(s))

    start = min((i / 4 for i in range(-16, 21)), key=loss)  # there may be several local minima
    return scale * math.exp(-minimize_scalar(loss, bounds=(start - 0.25, start + 0.25), method="bounded").x)


def validation_tasks(y: Tensor, split: ClassSplit, shots: Sequence[int]) -> Tasks | None:
    """100 tasks of validation classes that resemble the user's: as many classes, with the same ``shots`` for each.

    Sizes that the classes do not allow are reduced: ways to the number of classes, shots so that queries remain. None
    if there are fewer than two validation classes.
    """
    sampler = TaskSampler(y, split.validation)
    sizes = sorted((size for size in sampler.size.tolist() if size >= 2), reverse=True)
    ways = min(len(shots), len(sizes))
    if ways < 2:
        return None
    size = sizes[ways - 1]
    queries = min(10, max(1, size // 2))
    wanted = [min(shot, size - queries) for shot in sorted(shots, reverse=True)[:ways]]
    tasks = sampler.draw(ways, wanted[0], queries, 100, 2 * 10**6)  # another stream than training's and selection's
    keep = [c * wanted[0] + j for c, shot in enumerate(wanted) for j in range(shot)]
    return Tasks(tasks.support[:, keep], tasks.support_y[:, keep], tasks.query, tasks.query_y, ways)


def left_out_tasks(nodes: Tensor, y: Tensor, n_way: int) -> Tasks | None:
    """Tasks in which each of the examples ``nodes [S]`` is classified by the others.

    Only examples whose class ``y [S]`` has another one are used; None if no class has two.
    """
    everyone = torch.arange(len(nodes), device=y.device)
    out = everyone[torch.bincount(y)[y] > 1]
    if not len(out):
        return None
    rest = everyone.expand(len(out), -1)[everyone != out[:, None]].view(len(out), len(nodes) - 1)
    return Tasks(nodes[rest], y[rest], nodes[out, None], y[out, None], n_way)


@dataclass(frozen=True)
class ClosedSetTask:
    """New classes only, defined by ``examples``: a method scores the nodes, and a calibration gives probabilities.

    ``state`` is the method's embedding of the graph. ``kinds`` is None: all classes are new.
    """

    model: Method
    graph: Graph
    state: Any
    examples: dict[str, Tensor]
    calibration: Calibration = Calibration()
    kinds: None = None

    def calibrated(self, split: ClassSplit) -> "ClosedSetTask":
        """The task, calibrated on validation tasks like the user's; otherwise on the examples, if any class has two."""
        shots = [len(nodes) for nodes in self.examples.values()]
        tasks, source = validation_tasks(self.graph.y, split, shots), "validation"
        if tasks is None:
            tasks, source = left_out_tasks(*self.support), "examples"
        if tasks is None:
            return self
        scores = inference.score_tasks(self.model, self.graph, tasks, self.state)
        return replace(self, calibration=Calibration.of(scores, tasks, source))

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.examples)

    @property
    def support(self) -> tuple[Tensor, Tensor, int]:
        """The examples ``[S]``, their classes ``[S]``, and the number of classes."""
        parts = list(self.examples.values())
        y = torch.tensor([c for c, part in enumerate(parts) for _ in part], device=parts[0].device)
        return torch.cat(parts), y, len(parts)

    def with_examples(self, examples: Mapping[str, Tensor]) -> "ClosedSetTask":
        """The same classes with other examples."""
        return replace(self, examples=dict(examples))

    def probabilities(self, nodes: Tensor) -> Tensor:
        """Probabilities ``[B, classes]`` of ``nodes [B]``."""
        scores = inference.score_nodes(self.model, self.graph, self.state, *self.support, nodes)
        return self.calibration.probabilities(scores)
