"""A session of labelling: what was said, what the model makes of it now, and what to ask next."""

import copy
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..own import opening
from ..own.classes import class_name
from ..own.classifier import FewShotClassifier
from ..own.explanation import Explanation
from ..own.predictions import OTHER, Predictions
from ..own.suggest import SURE, Suggester, Suggestions
from ..own.support import Examples, find_nodes, node_name
from .journal import Journal
from .labels import SKIPPED, Change, Labels

FLAT, PATIENCE = 0.005, 10  # the answers of late, and the change of expected accuracy and of classes that is none


@dataclass(frozen=True)
class Point:
    """After so many ``answers``: the accuracy ``expected``, the share of ``sure`` nodes (of those without a label) and
    the share whose class ``changed`` with the last step."""

    answers: int
    expected: float
    sure: float
    changed: float


class LabelSession:
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
        >>> session.do({"do": "label", "nodes": ["7"], "class": "mine"})
        >>> session.examples(), session.undo(), session.examples()
        ({'mine': ['7']}, None, {})
    """

    def __init__(
        self, classifier: FewShotClassifier, journal: Journal | None = None, examples: Examples | None = None
    ) -> None:
        if classifier.graph is None:
            raise InputError("no graph is attached: call attach(graph) first")
        self.classifier, self.graph, self.journal = classifier, classifier.graph, journal
        self.open = bool((self.graph.y >= 0).any())
        known = self._known_names()
        self.labels = Labels(known, opening.other_name(known) if self.open else OTHER)
        self.notes = [] if journal is None else list(journal.notes)
        self.version, self.lock = 0, threading.RLock()
        self.points: list[Point] = []
        self._listeners: list[Callable[[int], None]] = []
        self._replay()
        self._start_from(examples)
        self._predict()

    def _known_names(self) -> tuple[str, ...]:
        if not self.open:
            return ()
        named = None if self.classifier.named_classes else self.classifier.known
        return opening.known_labels(self.graph, named)[1]

    def _replay(self) -> None:
        lost: set[str] = set()
        for entry in [] if self.journal is None else self.journal.entries:
            if "answers" in entry:
                self._keep_point(Point(**entry))
            elif entry["do"] in ("undo", "redo"):
                getattr(self.labels, entry["do"])()
            else:
                self.labels.apply(self.labels.change(entry))
        for node in self.labels.marks:
            try:
                find_nodes(self.graph, [node], "labels")
            except InputError:
                lost.add(node)
        if lost:
            self.notes.append(
                f"{len(lost)} labelled nodes are no longer in the graph ({', '.join(sorted(lost)[:3])}, ...): they "
                "stay in the journal but are not used"
            )
        self.lost = frozenset(lost)

    def _start_from(self, examples: Examples | None) -> None:
        if not examples:
            return
        if self.labels.done or self.labels.undone:
            self.notes.append("the labels given before are taken up; the support table is not read again")
            return
        for name, nodes in examples.items():
            ids = find_nodes(self.graph, nodes, f"class {name!r}").tolist()
            self._step({"do": "label", "nodes": [node_name(self.graph, i) for i in ids], "class": name})

    # --- steps ------------------------------------------------------------------------------------------

    def do(self, step: Mapping[str, Any]) -> None:
        """Do one step; it is in the journal before anything else happens.

        Steps are ``{"do": "class", "name"}``, ``{"do": "label", "nodes", "class"}``, ``{"do": "take", "nodes"}``,
        ``{"do": "skip", "nodes"}``, ``{"do": "rename", "name", "to"}``, ``{"do": "merge", "name", "into"}`` and
        ``{"do": "remove", "name"}``; nodes are given by name. ``asked`` says which question a step answers.
        """
        with self.lock:
            self._step(step)
            self._predict()
        self._tell()

    def undo(self) -> None:
        """Take the last step back; as often as there are steps."""
        self._turn("undo")

    def redo(self) -> None:
        """Do the step again that was undone last."""
        self._turn("redo")

    def _step(self, step: Mapping[str, Any]) -> None:
        kept = {key: step[key] for key in ("do", "nodes", "class", "name", "to", "into", "asked") if key in step}
        change = self.labels.change(kept)
        find_nodes(self.graph, change.nodes, "nodes")  # refuses unknown ones
        self._check_given(change)
        self._write(kept)
        self.labels.apply(change)

    def _check_given(self, change: Change) -> None:
        """A node that the graph labels already keeps that label."""
        marked = [node for node, (_, new) in change.nodes.items() if new]
        for node, i in zip(marked, find_nodes(self.graph, marked, "nodes").tolist(), strict=True):
            if (label := int(self.graph.y[i])) >= 0 and (own := class_name(self.graph, label)) in self.labels.known:
                raise InputError(f"node {node!r} is labelled {own!r} in the graph; correct it there if it is wrong")

    def _turn(self, which: str) -> None:
        with self.lock:
            if not (self.labels.done if which == "undo" else self.labels.undone):
                raise InputError(f"there is nothing to {which}")
            self._write({"do": which})
            getattr(self.labels, which)()
            self._predict()
        self._tell()

    def _write(self, entry: dict[str, Any]) -> None:
        if self.journal is not None:
            self.journal.append(entry)

    def listen(self, listener: Callable[[int], None]) -> Callable[[], None]:
        """Have ``listener`` told the version after every step; what is returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tell(self) -> None:
        for listener in list(self._listeners):
            listener(self.version)

    # --- what the model makes of it ---------------------------------------------------------------------

    def examples(self) -> dict[str, list[str]]:
        """The nodes of every class that has some, as ``adapt`` and a support table take them."""
        with self.lock:
            found = self.labels.examples()
            kept = {name: [node for node in nodes if node not in self.lost] for name, nodes in found.items()}
            return {name: nodes for name, nodes in kept.items() if nodes}

    def _predict(self) -> None:
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
        self.version += 1
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
        self.given = torch.full((n,), -1, dtype=torch.int16)
        if self.open:
            y, _ = opening.known_labels(self.graph, None if self.classifier.named_classes else self.classifier.known)
            self.given = torch.where(y.cpu() >= 0, y.cpu() + len(self.labels.classes), -1).to(torch.int16)
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
        centre = x[:: max(len(x) // 20_000, 1)].mean(0)
        wanted = torch.nn.functional.normalize(x[ids] - centre, dim=1).mean(0)
        parts = [torch.nn.functional.normalize(x[part] - centre, dim=1) @ wanted for part in free.split(1 << 14)]
        best = torch.cat(parts).topk(min(n, len(free))).indices
        return [node_name(self.graph, i) for i in free[best].tolist()]

    def checked(self) -> dict[str, tuple[int, int]]:
        """Of each class: how many answers to "sure" questions about it there were, and how many of these agreed."""
        found: dict[str, tuple[int, int]] = {}
        for change in self.labels.done:
            asked = str(change.step.get("asked") or "")
            if change.step["do"] == "label" and asked.startswith("sure "):
                n, right = found.get(asked[5:], (0, 0))
                found[asked[5:]] = (n + 1, right + (change.step["class"] == asked[5:]))
        return found

    # --- files ------------------------------------------------------------------------------------------

    def support_table(self) -> dict[str, list[str]]:
        """The columns id and label of a support table from which everything comes out the same."""
        pairs = [(node, name) for name, nodes in self.examples().items() for node in nodes]
        return {"id": [node for node, _ in pairs], "label": [name for _, name in pairs]}

    def predictions_table(self) -> dict[str, Any]:
        """The columns that ``fewnode predict`` writes with that support table."""
        with self.lock:
            if self.found is None or not self.examples():
                raise InputError("there is nothing to predict from yet: give a node to a class first")
            return self.classifier.predict_proba(self.classifier.unlabelled()).table()

    def skipped(self) -> int:
        return sum(mark == SKIPPED for mark in self.labels.marks.values())
