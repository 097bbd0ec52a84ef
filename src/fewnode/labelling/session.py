"""A session of labelling: what was said, what the model makes of it now, and what to ask next."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..own.classifier import FewShotClassifier
from ..own.explain.explanation import Explanation
from ..own.openworld import opening
from ..own.predictions import OTHER, Predictions
from ..own.suggest import SURE, Suggester, Suggestions
from ..own.support import Examples, find_nodes, node_name
from ..own.workflow import by_name
from .conversation import Conversation
from .journal import Journal
from .labels import Labels

FLAT, PATIENCE = 0.005, 10  # the answers of late, and the change of expected accuracy and of classes that is none


@dataclass(frozen=True)
class Point:
    """After so many ``answers``: the accuracy ``expected``, the share of ``sure`` nodes (of those without a label) and
    the share whose class ``changed`` with the last step."""

    answers: int
    expected: float
    sure: float
    changed: float


class LabelSession(Conversation):
    """Labels given to nodes of the graph of a ``classifier``, and its predictions with them.

    The open question is asked if the graph has labels; else the closed one, as soon as two classes have examples.

    Args:
        classifier: fitted, with a graph attached.
        journal: where every step is kept; its steps are done again first.
        examples: ``{class: [nodes]}`` to start from, if there are no steps yet.

    Example:
        >>> import fewnode
        >>> graph, split = fewnode.planted(300, 6, seed=0)
        >>> classifier = fewnode.FewShotClassifier("probe").fit(fewnode.training_view(graph, split))
        >>> session = LabelSession(classifier)
        >>> asked = session.suggest(1).names
        >>> session.do({"do": "label", "nodes": asked, "class": "mine"})
        >>> session.examples() == {"mine": asked}
        True
        >>> session.undo()
        >>> session.examples()
        {}
    """

    def __init__(
        self, classifier: FewShotClassifier, journal: Journal | None = None, examples: Examples | None = None
    ) -> None:
        if classifier.graph is None:
            raise InputError("no graph is attached: call attach(graph) first")
        self.classifier, self.open = classifier, bool((classifier.graph.y >= 0).any())
        self.points: list[Point] = []
        known: tuple[str, ...] = ()
        self.known_y = torch.full_like(classifier.graph.y, -1).cpu()
        if self.open:
            y, known = opening.known_labels(classifier.graph, None if classifier.named_classes else classifier.known)
            self.known_y = y.cpu()
        small = tuple(name for name in known if classifier.named_classes and name not in classifier.known.names())
        labels = Labels(known, opening.other_name(known) if self.open else OTHER, small)
        super().__init__(classifier.graph, labels, journal, examples)
        self._learn()

    def _measured(self, entry: Mapping[str, Any]) -> None:
        self._keep_point(Point(**entry))

    # --- what the model makes of it ---------------------------------------------------------------------

    def _learn(self) -> None:
        before = getattr(self, "choice", None)
        examples, classifier = self.examples(), self.classifier
        self.found: Predictions | None = None
        if self.open:
            question = classifier.adapt(examples).question
            assert question is not None
            ids = torch.arange(self.graph.num_nodes, device=self.graph.device)
            names: list[str] = []  # those of a million nodes would take longer than their probabilities
            self.found = Predictions(
                ids.cpu(), names, question.classes, question.probabilities(ids).cpu(), question.kinds
            )
        elif len(examples) >= 2:
            classifier.adapt(examples, among="new")
            self.found = classifier.predict_proba()
        else:
            classifier.support = classifier.calibration = None
        self.classes = self._classes()
        self._score()
        super()._learn()
        self._measure(before)

    def _classes(self) -> list[tuple[str, str]]:
        """Every class with its kind, in the order of the scores: new ones, known ones, other."""
        new = [(name, "new") for name in self.labels.classes]
        return [*new, *((name, "known") for name in self.labels.known), (self.labels.other, "other")]

    def _score(self) -> None:
        place = {name: i for i, (name, _) in enumerate(self.classes)}
        n = self.graph.num_nodes
        self.choice, self.confidence = torch.full((n,), -1, dtype=torch.int16), torch.zeros(n)
        if self.found is not None:
            number = torch.tensor([place[name] for name in self.found.classes], dtype=torch.int16)
            self.confidence, column = self.found.probabilities.max(1)
            self.choice = number[column]
        self.given = torch.where(self.known_y >= 0, self.known_y + len(self.labels.classes), -1).to(torch.int16)
        self.marked = torch.zeros(n, dtype=torch.bool)
        for name, nodes in self.examples().items():
            ids = find_nodes(self.graph, nodes, "examples").cpu()
            self.given[ids], self.marked[ids] = place[name], True
        self.choice = torch.where(self.given >= 0, self.given, self.choice)
        self.confidence = torch.where(self.given >= 0, torch.ones(n), self.confidence)

    def _measure(self, before: Tensor | None) -> None:
        free = (self.given < 0).nonzero().flatten()
        taught = any(name in self.labels.classes for name in self.examples())
        if self.found is None or not len(free) or not taught:
            return  # of known classes alone nothing is asked
        p = self.confidence[free]
        right = float(p.mean())
        if self.open:
            rows = self.found.probabilities[free]
            question = self.classifier.question
            assert question is not None
            right = question.expect(rows, torch.ones(len(rows), dtype=torch.bool)).right.value or right
        changed = 1.0 if before is None else float((before != self.choice)[free].float().mean())
        point = Point(self.labels.answers(), right, float((p >= SURE).float().mean()), changed)
        if before is None and self.points and self.points[-1].answers == point.answers:
            return  # taken up again: the journal has it
        if self.journal is not None and not (self.points and self.points[-1].answers == point.answers):
            self.journal.append(asdict(point), sync=False)
        self._keep_point(point)

    def _keep_point(self, point: Point) -> None:
        self.points = [one for one in self.points if one.answers < point.answers] + [point]

    def settled(self) -> bool:
        """Whether the last ``PATIENCE`` answers changed next to nothing: a good time to stop."""
        late = [one for one in self.points if one.answers > self.labels.answers() - PATIENCE]
        if len(late) < PATIENCE:
            return False
        gain = abs(late[-1].expected - late[0].expected)
        return gain < FLAT and sum(one.changed for one in late) / len(late) < FLAT

    def scores(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of every node: its class (a position in ``classes``; -1: none yet), confidence from 0 to 255, and whether it
        is labelled: 0 no, 1 in the graph, 2 by hand."""
        with self.lock:
            label = (self.given >= 0).to(torch.uint8) + self.marked.to(torch.uint8)
            return self.choice.numpy(), (self.confidence * 255).round().to(torch.uint8).numpy(), label.numpy()

    def counts(self) -> list[dict[str, Any]]:
        """Every class with its kind, its examples, its labels in the graph, and how many nodes are predicted so."""
        with self.lock:
            n = len(self.classes)
            free, taught = self.given < 0, self.examples()
            called = torch.bincount(self.choice[free & (self.choice >= 0)].long(), minlength=n).tolist()
            sure = self.choice[free & (self.choice >= 0) & (self.confidence >= SURE)].long()
            surely = torch.bincount(sure, minlength=n).tolist()
            labelled = torch.bincount(self.given[(self.given >= 0) & ~self.marked].long(), minlength=n).tolist()
            parts = zip(self.classes, called, surely, labelled, strict=True)
            return [
                {
                    "name": name,
                    "kind": kind,
                    "examples": taught.get(name, []),
                    "labelled": own,
                    "predicted": c,
                    "sure": s,
                }
                for (name, kind), c, s, own in parts
            ]

    # --- questions and answers --------------------------------------------------------------------------

    def suggest(self, n: int = 10, by: str = "teach", label: str | None = None) -> Suggestions:
        """The nodes worth a look next, as ``FewShotClassifier.suggest`` has them; skipped ones do not come again."""
        with self.lock:
            free = (self.given < 0).nonzero().flatten()
            found = self.found
            if found is not None:
                names = [""] * len(free)  # only the few that are chosen get a name
                found = Predictions(free, names, found.classes, found.probabilities[free], found.kinds)
            told = [node for node in self.labels.marks if node not in self.lost]
            shots = {name: len(nodes) for name, nodes in self.examples().items()}
            free = free.to(self.graph.device)
            chooser = Suggester(self.graph, self.classifier.coordinates(), free, found, shots)
        return chooser.suggest(n, by, label, told, seed=self.version)

    def why(self, node: str) -> Explanation | None:
        """Why the node gets its class; None before anything is predicted."""
        with self.lock:
            now = copy.copy(self.classifier)  # as it is: steps taken meanwhile make it another one
        return None if self.found is None else now.explain(node)

    def more(self, label: str, n: int = 20) -> list[str]:
        """The ``n`` nodes without a label that are likeliest of a class, to be given to it all at once."""
        with self.lock:
            return [] if self.found is None else self.classifier.find(label, min(n, int((self.given < 0).sum()))).names

    def like(self, nodes: Iterable[str], n: int = 20) -> list[str]:
        """The ``n`` nodes without a label that lie nearest to the given ones."""
        with self.lock:
            x, free = self.classifier.coordinates(), (self.given < 0).nonzero().flatten()
        ids = find_nodes(self.graph, nodes, "nodes")
        free = free[~torch.isin(free, ids.cpu())].to(x.device)
        centre = x[:: max(len(x) // 20_000, 1)].float().mean(0)

        def directions(nodes: Tensor) -> Tensor:
            return torch.nn.functional.normalize(x[nodes].float() - centre, dim=1)

        wanted = directions(ids).mean(0)
        parts = [directions(part) @ wanted for part in free.split(1 << 14)]
        best = torch.cat(parts).topk(min(n, len(free))).indices
        return [node_name(self.graph, i) for i in free[best].tolist()]

    # --- files ------------------------------------------------------------------------------------------

    def predictions_table(self) -> dict[str, Any]:
        """The columns that ``fewnode predict`` writes with that support table."""
        with self.lock:
            if self.found is None or not self.examples():
                raise InputError("there is nothing to predict from yet: give a node to a class first")
            return by_name(self.classifier.predict_proba(self.classifier.unlabelled())).table()
