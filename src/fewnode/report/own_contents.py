"""What a page about a user's own graph says: counts, expectations, and the nodes worth looking at, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..own.classifier import FewShotClassifier
from ..own.predictions import UNKNOWN, Predictions
from .own_details import Details

CLASSES = 30  # in the list of sizes
NAMED = 5  # new classes in the first sentence
RANKED = 10  # surest, and as many least sure, of each new class
NEXT, NEXT_EACH = 20, 3  # nodes to label next, and of one predicted class where there are enough classes
BINS = 10


@dataclass(frozen=True)
class NodeRow:
    """One predicted node; ``probability`` is that of the class the table is about."""

    name: str
    label: str
    probability: float
    runner_up: str
    margin: float
    detail: str


@dataclass(frozen=True)
class ClassRow:
    """A class: new, known, other or unknown; nodes that were labelled (given as examples, if new) and predicted."""

    name: str
    kind: str
    labelled: int
    predicted: int


@dataclass(frozen=True)
class Bin:
    """Rows whose probability is from ``low`` up to ``high``, and the accuracy to be expected of them (None: no row)."""

    low: float
    high: float
    rows: int
    accuracy: float | None


class Answers:
    """Predictions as a page needs them: of each node the class, the runner-up, and whether the class is given.

    ``kinds`` are those of the classes; in the closed question all of them are new.
    """

    def __init__(self, found: Predictions, threshold: float, thresholds: Mapping[str, float] | None) -> None:
        if not len(found):
            raise InputError("no node was predicted, so there is nothing to report")
        self.found, self.classes = found, found.classes
        self.kinds = found.kinds or ("new",) * len(found.classes)
        self.accepted = found.accepted(threshold, thresholds)
        self.best, self.choice = found.probabilities.max(1)
        top = found.probabilities.topk(2, dim=1)
        tied = top.indices[:, 0] != self.choice  # equal probabilities: the two functions may differ in which is first
        self.runner_up = torch.where(tied, top.indices[:, 0], top.indices[:, 1])
        self.margin = top.values[:, 0] - top.values[:, 1]
        self.counts: list[int] = torch.bincount(self.choice[self.accepted], minlength=len(self.classes)).tolist()
        self.unknown = int((~self.accepted).sum())

    def of_kind(self, kind: str) -> list[int]:
        """Positions of the classes of a kind."""
        return [i for i, one in enumerate(self.kinds) if one == kind]

    def called(self, position: int) -> Tensor:
        """Rows that are given the class."""
        return ((self.choice == position) & self.accepted).nonzero().flatten()

    def rows(self, chosen: Tensor, details: Details, position: int | None = None) -> list[NodeRow]:
        """Rows to show, with the probability of the class at ``position``, by default of the likeliest."""
        nodes = self.found.nodes[chosen]
        texts = details.of(nodes)
        shown = []
        for row, text in zip(chosen.tolist(), texts, strict=True):
            c = int(self.choice[row])
            p = float(self.found.probabilities[row, c if position is None else position])
            label = self.classes[c] if self.accepted[row] else UNKNOWN
            runner_up = self.classes[int(self.runner_up[row])]
            shown.append(NodeRow(self.found.names[row], label, p, runner_up, float(self.margin[row]), text))
        return shown


def headline(answers: Answers) -> list[tuple[int, str, str]]:
    """What the first sentence counts: how many nodes, what they are like, and the class, if it is one."""
    new = sorted(answers.of_kind("new"), key=lambda i: -answers.counts[i])
    parts = [(answers.counts[i], "like", answers.classes[i]) for i in new[:NAMED]]
    left, known, other = (
        sum(answers.counts[i] for i in part)
        for part in (new[NAMED:], answers.of_kind("known"), answers.of_kind("other"))
    )
    more = [
        (left, f"like one of {len(new) - NAMED} more new classes", ""),
        (known, "like a known class", ""),
        (other, "like none of these", ""),
        (answers.unknown, "too unsure to say", ""),
    ]
    return parts + [part for part in more if part[0]]


def class_rows(classifier: FewShotClassifier, answers: Answers) -> list[ClassRow]:
    """New classes first, then other and unknown, then the known ones, those with most predictions first."""
    assert classifier.support is not None
    labelled = dict(zip(classifier.support.classes, classifier.support.shots(), strict=True))
    if classifier.question is not None:
        model = classifier.question.model
        sizes = torch.bincount(model.y[model.y >= 0], minlength=len(model.classes)).tolist()
        labelled = dict(zip(model.classes, sizes, strict=True)) | labelled
    order = {"new": 0, "other": 1, "known": 3}
    rows = [
        (order[kind], -count, ClassRow(name, kind, 0 if kind == "other" else labelled.get(name, 0), count))
        for name, kind, count in zip(answers.classes, answers.kinds, answers.counts, strict=True)
    ]
    if answers.unknown:
        rows.append((2, 0, ClassRow(UNKNOWN, UNKNOWN, 0, answers.unknown)))
    return [row for *_, row in sorted(rows, key=lambda part: part[:2])]


def ranked(answers: Answers, details: Details) -> list[dict[str, Any]]:
    """Of each new class the surest and the least sure nodes; of one that no node is given, the likeliest instead."""
    parts = []
    for c in answers.of_kind("new"):
        rows = answers.called(c)
        order = rows[answers.best[rows].argsort(descending=True, stable=True)]
        likeliest = order.new_empty(0)
        if not len(rows):
            likeliest = answers.found.probabilities[:, c].argsort(descending=True, stable=True)[:RANKED]
        parts.append(
            {
                "name": answers.classes[c],
                "count": len(rows),
                "surest": answers.rows(order[:RANKED], details, c),
                "least": answers.rows(order[RANKED:][-RANKED:].flip(0), details, c),
                "likeliest": answers.rows(likeliest, details, c),
            }
        )
    return parts


def bins(answers: Answers) -> list[Bin]:
    """Rows by the probability of their class. If probabilities are right, their mean is the accuracy."""
    place = (answers.best * BINS).long().clamp(0, BINS - 1)
    rows = torch.bincount(place, minlength=BINS)
    mean = torch.bincount(place, answers.best.double(), minlength=BINS) / rows
    first = int(rows.nonzero()[0])
    return [
        Bin(i / BINS, (i + 1) / BINS, int(rows[i]), float(mean[i]) if rows[i] else None) for i in range(first, BINS)
    ]


def to_label(answers: Answers, details: Details) -> list[NodeRow]:
    """Nodes whose label would teach most: the least margins, from every predicted class a few."""
    present: Sequence[int] = answers.choice.unique().tolist()
    each = max(NEXT_EACH, -(-NEXT // len(present)))
    parts = []
    for c in present:
        rows = (answers.choice == c).nonzero().flatten()
        parts.append(rows[answers.margin[rows].argsort(stable=True)[:each]])
    rows = torch.cat(parts)
    return answers.rows(rows[answers.margin[rows].argsort(stable=True)[:NEXT]], details)
