"""What is to be expected of predictions in the open: how many rows are right, and what each new class is worth."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

ASSUMED = (
    "labels of known classes are missing at random",
    "new classes are as hard to tell as known classes were when they played new",
    "nodes of no class shown are as rare as they were then",
    "the examples are typical of their class",
)
EDGES = (0.05, 0.95)  # quantiles of what the rehearsals missed by
CHANCE = 1.645  # standard deviations that leave out as much on each side
ENOUGH = 5  # rehearsals without which an interval says nothing

Figures = dict[str, list[float]]  # right and known: one number each; precision and recall: one for each new class


@dataclass(frozen=True)
class Estimate:
    """A figure to be expected, and the interval that held it in nine of ten rehearsals; None where nothing is known."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ClassExpectation:
    """Of a new class: the share of right ones among the nodes ``called`` so, the share of its ``members`` found."""

    precision: Estimate
    recall: Estimate
    called: int
    members: float


@dataclass(frozen=True)
class Expectation:
    """Of ``rows`` predictions: the share of ``right`` ones over all, and on nodes that are of a ``known`` class.

    ``rehearsals`` is how many times known classes played new to find the intervals; 0 means that nothing was measured.
    """

    rows: int
    right: Estimate
    known: Estimate
    classes: dict[str, ClassExpectation]
    rehearsals: int
    assumed: tuple[str, ...] = ASSUMED

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Tally:
    """Sums over rows from which the figures are made: so much of each group ``[G]`` was hit, called, and is there."""

    hit: Tensor
    call: Tensor
    sizes: Tensor
    right: Tensor
    rows: Tensor

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(a.double() + b.double() for a, b in zip(self._parts(), other._parts(), strict=True)))

    def _parts(self) -> tuple[Tensor, ...]:
        return self.hit, self.call, self.sizes, self.right, self.rows

    def figures(self) -> Figures:
        precision, recall = (self.hit / self.call), (self.hit / self.sizes)  # nan where a class is not called at all
        return {
            "right": [float(self.right / self.rows)],
            "known": [float(recall[0])],
            "precision": precision[1:-1].tolist(),
            "recall": recall[1:-1].tolist(),
        }


def tallied(best: Tensor, groups: Tensor, accepted: Tensor, weight: Tensor) -> Tally:
    """The sums of rows with these probabilities; see ``expected``."""
    confidence, choice = best.max(1)
    confidence = confidence * accepted * weight
    return _tally(confidence, choice, accepted * weight, (groups * weight[:, None]).sum(0), weight.sum())


def expected(best: Tensor, groups: Tensor, accepted: Tensor, weight: Tensor) -> Figures:
    """What probabilities say of themselves.

    ``groups [n, G]`` are those of known, of each new class and of other; ``best [n, G]`` the same with that of the best
    known class in the first column; rows that are not ``accepted [n]`` get no label and are not right.
    """
    return tallied(best, groups, accepted, weight).figures()


def achieved(best: Tensor, truth: Tensor, right: Tensor, weight: Tensor) -> Figures:
    """The same figures by the ``truth [n]`` (a group) and by whether the best known class is ``right [n]``."""
    choice = best.argmax(1)
    hit = ((choice == truth) & (right | (truth > 0))) * weight
    sizes = torch.bincount(truth, weight, minlength=best.shape[1])
    return _tally(hit, choice, weight, sizes, weight.sum()).figures()


def _tally(hits: Tensor, choice: Tensor, called: Tensor, sizes: Tensor, total: Tensor) -> Tally:
    hit, call = (torch.bincount(choice, part, minlength=len(sizes)) for part in (hits, called))
    return Tally(hit, call, sizes, hits.sum(), total)


def missed(true: Figures, told: Figures) -> Figures:
    """By how much the truth was above what was told; figures that do not exist are left out."""
    gaps = {name: [a - b for a, b in zip(true[name], told[name], strict=True)] for name in true}
    return {name: [gap for gap in part if gap == gap] for name, part in gaps.items()}


def estimated(value: float, gaps: Sequence[float], counted: float) -> Estimate:
    """A figure with its interval: what rehearsals missed it by, and the chance of a share of ``counted`` nodes."""
    if value != value:
        return Estimate(None, None, None)
    if len(gaps) < ENOUGH:
        return Estimate(value, 0.0, 1.0)
    low, high = torch.tensor(gaps).quantile(torch.tensor(EDGES)).tolist()
    chance = CHANCE * (max(value * (1 - value), 0.0) / max(counted, 1.0)) ** 0.5
    below, above = math.hypot(min(low, 0.0), chance), math.hypot(max(high, 0.0), chance)
    return Estimate(value, max(value - below, 0.0), min(value + above, 1.0))


def expectation(names: Sequence[str], tally: Tally, gaps: Mapping[str, Sequence[float]], n: int) -> Expectation:
    """What to expect of rows with such a ``tally``; ``n`` rehearsals missed it by ``gaps``."""
    told, members = tally.figures(), tally.sizes.tolist()
    called, rows = [round(count) for count in tally.call.tolist()], round(float(tally.rows))
    classes = {
        name: ClassExpectation(
            estimated(told["precision"][i], gaps.get("precision", ()), called[i + 1]),
            estimated(told["recall"][i], gaps.get("recall", ()), members[i + 1]),
            called[i + 1],
            members[i + 1],
        )
        for i, name in enumerate(names)
    }
    right = estimated(told["right"][0], gaps.get("right", ()), rows)
    known = estimated(told["known"][0], gaps.get("known", ()), members[0])
    return Expectation(rows, right, known, classes, n)
