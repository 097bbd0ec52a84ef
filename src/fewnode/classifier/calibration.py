"""Calibrated probabilities: a temperature learned on tasks whose answers are known.

After Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks. ICML 2017."""

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
from .inputs import Support


@dataclass(frozen=True)
class Calibration:
    """``softmax(scores / temperature)``, and how well that did on tasks of ``n_way`` classes.

    ``ece_before`` and ``ece_after`` are the expected calibration errors of the plain and of the calibrated softmax,
    on tasks the temperature was not learned from. ``source`` is "validation", "examples" (each left out in turn: rough)
    or "none".
    """

    temperature: float = 1.0
    n_way: int = 0
    k_shot: float = 0.0
    accuracy: float | None = None
    ece_before: float | None = None
    ece_after: float | None = None
    n_tasks: int = 0
    source: str = "none"

    def probabilities(self, scores: Tensor) -> Tensor:
        """Calibrated probabilities for scores [..., N]."""
        return (scores.double() / self.temperature).softmax(-1).float()


def calibrate(scores: Tensor, tasks: Tasks, source: str) -> Calibration:
    """Learn a calibration from the scores [T, M, N] of tasks; its error is measured on halves it did not learn from."""
    assert tasks.query_y is not None
    s, y = scores.double().cpu(), tasks.query_y.cpu()
    errors = []
    for half, other in ((0, 1), (1, 0)) if len(s) > 1 else ():
        learned = Calibration(_temperature(s[half::2], y[half::2]))
        chances = s[other::2].softmax(-1), learned.probabilities(s[other::2])
        errors.append([expected_calibration_error(p, y[other::2]) for p in chances])
    before, after = [sum(pair) / 2 for pair in zip(*errors, strict=True)] or (None, None)
    return Calibration(
        temperature=_temperature(s, y),
        n_way=tasks.n_way,
        k_shot=float(tasks.shots().float().mean()),
        accuracy=float((s.argmax(-1) == y).float().mean()),
        ece_before=before,
        ece_after=after,
        n_tasks=len(s),
        source=source,
    )


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


def expected_calibration_error(p: Tensor, y: Tensor, bins: int = 15) -> float:
    """How far confidence and the share of right answers are apart, averaged over equal-width bins of confidence."""
    confidence, choice = p.flatten(0, -2).max(-1)
    right = (choice == y.flatten()).double()
    bin_of = (confidence.double() * bins).long().clamp(max=bins - 1)
    gap = torch.zeros(bins, dtype=torch.float64).index_add_(0, bin_of, confidence.double() - right)
    return float(gap.abs().sum() / len(right))


def validation_tasks(y: Tensor, split: ClassSplit, shots: Sequence[int]) -> Tasks | None:
    """100 tasks of validation classes that look like the user's: as many classes, the same ``shots`` for each.

    What the classes cannot give is reduced: ways to the number of classes, shots to what leaves queries. None if there
    are no two validation classes.
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


def left_out_tasks(support: Support) -> Tasks | None:
    """Each example of a class that has others, to be told from the remaining ones; None if no class has two."""
    nodes, y, everyone = support.nodes, support.y, torch.arange(len(support.nodes), device=support.y.device)
    out = everyone[torch.bincount(y)[y] > 1]
    if not len(out):
        return None
    rest = everyone.expand(len(out), -1)[everyone != out[:, None]].view(len(out), len(nodes) - 1)
    return Tasks(nodes[rest], y[rest], nodes[out, None], y[out, None], len(support.classes))


def nearest(found: Sequence[Calibration], n_way: int, k_shot: float) -> Calibration:
    """The calibration of the tasks most like ``n_way`` classes with ``k_shot`` examples, by ratio."""
    return min(found, key=lambda one: abs(math.log(one.n_way / n_way)) + abs(math.log(max(one.k_shot, 0.1) / k_shot)))


@dataclass(frozen=True)
class ClosedSetTask:
    """New classes only, shown by a ``support``: a method scores the nodes, a calibration makes probabilities of that.

    ``state`` is what the method made of the graph in its one pass over it. ``kinds`` is None: all classes are new.
    """

    model: Method
    graph: Graph
    state: Any
    support: Support
    calibration: Calibration
    kinds: None = None

    @classmethod
    def of(
        cls, model: Method, graph: Graph, state: Any, split: ClassSplit, support: Support, saved: Sequence[Calibration]
    ) -> "ClosedSetTask":
        """Calibrated on validation tasks like the user's; else as it was ``saved`` while fitting for the tasks most
        like these, by ratio; else by the examples themselves."""
        shots = support.shots()
        tasks, source = validation_tasks(graph.y, split, shots), "validation"
        if tasks is None and saved:
            return cls(model, graph, state, support, nearest(saved, len(shots), sum(shots) / len(shots)))
        if tasks is None:
            tasks, source = left_out_tasks(support), "examples"
        if tasks is None:
            return cls(model, graph, state, support, Calibration())
        scores = inference.score_tasks(model, graph, tasks, state)
        return cls(model, graph, state, support, calibrate(scores, tasks, source))

    @property
    def classes(self) -> tuple[str, ...]:
        return self.support.classes

    @property
    def examples(self) -> dict[str, Tensor]:
        return self.support.examples()

    def with_examples(self, examples: Mapping[str, Tensor]) -> "ClosedSetTask":
        """The same classes with other examples."""
        return replace(self, support=Support.of(examples, len(examples)))

    def probabilities(self, nodes: Tensor) -> Tensor:
        """Probabilities ``[B, classes]`` of ``nodes [B]``."""
        support = self.support.nodes, self.support.y, len(self.support.classes)
        return self.calibration.probabilities(
            inference.score_nodes(self.model, self.graph, self.state, *support, nodes)
        )


def usual_calibrations(model: Method, graph: Graph, state: Any, split: ClassSplit) -> list[Calibration]:
    """Calibrations for usual numbers of classes and examples, kept for graphs without validation labels."""
    found: dict[tuple[int, float], Calibration] = {}
    for shots in ([shot] * way for way in (2, 5) for shot in (1, 3, 5, 10)):
        tasks = validation_tasks(graph.y, split, shots)
        if tasks is None:
            return []
        key = (tasks.n_way, float(tasks.shots().float().mean()))
        if key not in found:
            found[key] = calibrate(inference.score_tasks(model, graph, tasks, state), tasks, "validation")
    return list(found.values())
