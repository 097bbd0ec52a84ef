"""Scores as probabilities that can be believed: a temperature learned on tasks whose answers are known.

After Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks. ICML 2017.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .. import inference
from ..graph import Graph
from ..methods.base import Method
from ..tasks import ClassSplit, Tasks, TaskSampler
from .support import Support

SHOTS, WAYS = (1, 3, 5, 10), (2, 5)  # calibrated while fitting, for graphs that have no validation labels
TASKS = 100
SEED = 2 * 10**6  # another stream than training's and selection's
QUERIES = 10


@dataclass(frozen=True)
class Calibration:
    """``softmax((scores + offset at new classes) / temperature)``, and how well that did on tasks of ``n_way`` classes.

    ``ece_before`` and ``ece_after`` are the expected calibration errors of the plain and of the calibrated softmax,
    on tasks the parameters were not learned from. ``source`` is "validation", "examples" (each left out in turn: rough)
    or "none". ``accuracy_new`` and ``accuracy_known`` are given where known classes were offered too.
    """

    temperature: float = 1.0
    offset: float = 0.0
    n_way: int = 0
    k_shot: float = 0.0
    accuracy: float | None = None
    ece_before: float | None = None
    ece_after: float | None = None
    n_tasks: int = 0
    source: str = "none"
    accuracy_new: float | None = None
    accuracy_known: float | None = None

    def probabilities(self, scores: Tensor, n_new: int) -> Tensor:
        """Calibrated probabilities for scores [..., N] whose first ``n_new`` columns are new classes."""
        shifted = scores.double().clone()
        shifted[..., :n_new] += self.offset if n_new < scores.shape[-1] else 0.0
        return (shifted / self.temperature).softmax(-1).float()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def calibrate(scores: Tensor, tasks: Tasks, n_new: int, source: str) -> Calibration:
    """Learn a calibration from the scores [T, M, N] of tasks; its error is measured on halves it did not learn from."""
    assert tasks.query_y is not None
    s, y = scores.double().cpu(), tasks.query_y.cpu()
    mixed = n_new < tasks.n_way
    right = s.argmax(-1) == y
    before, after = [], []
    for mine, other in ((slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))):
        if len(s) < 2:
            break
        learned = Calibration(*_learn(s[mine], y[mine], n_new, mixed))
        before.append(expected_calibration_error(s[other].softmax(-1), y[other]))
        p = learned.probabilities(s[other], n_new)
        after.append(expected_calibration_error(p, y[other]))
    temperature, offset = _learn(s, y, n_new, mixed)
    found = Calibration(temperature, offset)
    right = found.probabilities(s, n_new).argmax(-1) == y
    return Calibration(
        temperature,
        offset,
        tasks.n_way,
        float(tasks.shots().float().mean()),
        float(right.float().mean()),
        sum(before) / len(before) if before else None,
        sum(after) / len(after) if after else None,
        len(s),
        source,
        float(right[y < n_new].float().mean()) if mixed else None,
        float(right[y >= n_new].float().mean()) if mixed else None,
    )


def _learn(scores: Tensor, y: Tensor, n_new: int, mixed: bool) -> tuple[float, float]:
    """Temperature and offset with the least Brier score.

    It is bounded, so that a few tasks with huge scores do not decide for all, as they do with the cross-entropy. The
    faint pull towards the scale of the scores keeps the temperature above zero where every answer is right.
    """
    s, target = scores.flatten(0, 1), F.one_hot(y.flatten(), scores.shape[-1])
    scale = max(float((s - s.mean(-1, keepdim=True)).square().mean().sqrt()), 1e-9)
    new = torch.arange(s.shape[1]).lt(n_new).to(s.dtype) * mixed

    def loss(p: Tensor) -> Tensor:
        chance = ((s / scale + p[1] * new) * p[0].exp()).softmax(-1)
        return (chance - target).square().sum(-1).mean() + p.square().sum() / (10 * len(s))

    grid = torch.linspace(-4, 5, 37, dtype=s.dtype)
    starts = torch.stack([grid, torch.zeros_like(grid)], 1)
    p = min(starts, key=lambda start: float(loss(start))).clone().requires_grad_()
    optimizer = torch.optim.LBFGS([p], max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        value = loss(p)
        value.backward()
        return float(value.detach())

    with torch.enable_grad():
        optimizer.step(closure)
    inverse, shift = p.detach().tolist()
    return scale * math.exp(-inverse), shift * scale * mixed


def expected_calibration_error(p: Tensor, y: Tensor, bins: int = 15) -> float:
    """How far stated confidence and share of right answers are apart, averaged over equal-width bins of confidence."""
    confidence, choice = p.flatten(0, -2).max(-1)
    right = (choice == y.flatten()).double()
    bin_of = (confidence.double() * bins).long().clamp(max=bins - 1)
    gap = torch.zeros(bins, dtype=torch.float64).index_add_(0, bin_of, confidence.double() - right)
    return float(gap.abs().sum() / len(right))


def validation_tasks(
    y: Tensor, split: ClassSplit, shots: Sequence[int], mixed_with: int = 0
) -> tuple[Tasks, int] | None:
    """Tasks of validation classes that look like the user's: as many classes, the same ``shots`` for each.

    Returned with the number of their new classes, which come first. What the classes cannot give is reduced: ways to
    the number of classes, shots to what leaves queries. With ``mixed_with`` = k, all base classes with k examples each
    stand beside them, as known ones. None if there are no two validation classes (or no base class to mix with).
    """
    drawn = _drawn(y, split.validation, shots, TASKS if not mixed_with else TASKS // 2)
    if drawn is None or not mixed_with:
        return None if drawn is None else (drawn, drawn.n_way)
    ways, shots = drawn.n_way, [mixed_with] * len(split.base)
    known = _drawn(y, split.base, shots, len(drawn), queries=drawn.query.shape[1] // ways, least=1)
    if known is None:
        return None
    parts = {
        name: torch.cat([getattr(drawn, name), getattr(known, name) + (ways if name.endswith("_y") else 0)], 1)
        for name in ("support", "support_y", "query", "query_y")
    }
    return Tasks(**parts, n_way=ways + known.n_way), ways


def _drawn(
    y: Tensor, classes: Sequence[int], shots: Sequence[int], n_tasks: int, queries: int = QUERIES, least: int = 2
) -> Tasks | None:
    sampler = TaskSampler(y, classes)
    sizes = sorted((size for size in sampler.size.tolist() if size >= 2), reverse=True)
    ways = min(len(shots), len(sizes))
    if ways < least:
        return None
    size = sizes[ways - 1]
    queries = min(queries, max(1, size // 2))
    wanted = [min(shot, size - queries) for shot in sorted(shots, reverse=True)[:ways]]
    tasks = sampler.draw(ways, wanted[0], queries, n_tasks, SEED)
    keep = [c * wanted[0] + j for c, shot in enumerate(wanted) for j in range(shot)]
    return Tasks(tasks.support[:, keep], tasks.support_y[:, keep], tasks.query, tasks.query_y, ways)


def left_out_tasks(support: Support) -> Tasks | None:
    """Each example of a class that has others, to be told from the remaining ones; None if no class has two."""
    out, rest = support.leave_one_out()
    if not len(out):
        return None
    parts = support.nodes[rest], support.y[rest], support.nodes[out, None], support.y[out, None]
    return Tasks(*parts, len(support.classes))


def nearest(found: Sequence[Calibration], n_way: int, k_shot: float) -> Calibration:
    """The calibration of the tasks most like ``n_way`` classes with ``k_shot`` examples, by ratio."""
    return min(found, key=lambda one: abs(math.log(one.n_way / n_way)) + abs(math.log(max(one.k_shot, 0.1) / k_shot)))


def calibrated(
    model: Method, graph: Graph, state: Any, split: ClassSplit, support: Support, kept: Sequence[Calibration]
) -> Calibration:
    """From validation tasks like the user's; else as learned while fitting; else from the examples themselves."""
    shots = support.shots()
    drawn = validation_tasks(graph.y, split, shots)
    if drawn is not None:
        tasks, n_new = drawn
        return calibrate(inference.score_tasks(model, graph, tasks, state), tasks, n_new, "validation")
    if kept:
        return nearest(kept, len(shots), sum(shots) / len(shots))
    left = left_out_tasks(support)
    if left is None:
        return Calibration()
    return calibrate(inference.score_tasks(model, graph, left, state), left, left.n_way, "examples")


def usual_calibrations(model: Method, graph: Graph, state: Any, split: ClassSplit) -> list[Calibration]:
    """Calibrations for usual numbers of classes and examples, kept for graphs without validation labels."""
    found: dict[tuple[int, float], Calibration] = {}
    for way in WAYS:
        for shot in SHOTS:
            drawn = validation_tasks(graph.y, split, [shot] * way)
            if drawn is None:
                return []
            tasks, n_new = drawn
            key = (tasks.n_way, float(tasks.shots().float().mean()))
            if key not in found:
                scores = inference.score_tasks(model, graph, tasks, state)
                found[key] = calibrate(scores, tasks, n_new, "validation")
    return list(found.values())
