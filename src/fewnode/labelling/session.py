"""A labelling session: what was said, what the model makes of it now, and what to ask next."""

import copy
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..classifier import open_set as opening
from ..classifier.classifier import FewShotClassifier
from ..classifier.explain import Explanation
from ..classifier.inputs import Examples, class_name, find_nodes, node_name, sorted_by_name
from ..classifier.predictions import OTHER, UNKNOWN, Predictions
from ..classifier.suggest import SURE, Suggester, Suggestions
from ..errors import InputError, one_of
from ..graph import Graph
from .journal import Journal

# --- What a person has said so far: classes, the nodes given to them, nodes skipped; every step can be undone.
SKIPPED = ""  # the mark of a node that a person did not want to answer; no class has an empty name
LONGEST = 200  # letters of a class name
STEPS = ("class", "label", "take", "skip", "rename", "merge", "remove")


@dataclass(frozen=True)
class Change:
    """One step: what was asked for, the classes before and after, and each node's mark before and after."""

    step: Mapping[str, Any]
    before: tuple[str, ...]
    after: tuple[str, ...]
    nodes: Mapping[str, tuple[str | None, str | None]]


@dataclass
class Labels:
    """The new ``classes`` in the order they were named, and the ``marks`` of nodes: their class, or that they were
    skipped. Nodes may also be given to the classes ``known`` and to ``other``, but not to those ``small`` ones with too
    few labels to be learned: ``fewnode predict`` would forget these labels for the examples, a session does not."""

    known: tuple[str, ...] = ()
    other: str = "other"
    small: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    marks: dict[str, str] = field(default_factory=dict)
    done: list[Change] = field(default_factory=list)
    undone: list[Change] = field(default_factory=list)

    def change(self, step: Mapping[str, Any]) -> Change:
        """What a step would change; nothing is changed yet. A wrong step is refused with the reason."""
        kind = one_of("step", str(step.get("do")), STEPS)
        if kind in ("class", "label", "take", "skip"):
            return self._marking(kind, step)
        name = self._new(step.get("name"))
        of_class = [node for node, mark in self.marks.items() if mark == name]
        if kind == "rename":
            to = self._fresh(step.get("to"), besides=name)
            return self._changed(step, tuple(to if c == name else c for c in self.classes), dict.fromkeys(of_class, to))
        left = tuple(c for c in self.classes if c != name)
        if kind == "remove":
            return self._changed(step, left, dict.fromkeys(of_class))
        into = self._open_to(one_of("class", _text(step.get("into")), (*left, *self.known, self.other)))
        return self._changed(step, left, dict.fromkeys(of_class, into))

    def _marking(self, kind: str, step: Mapping[str, Any]) -> Change:
        if kind == "class":
            return self._changed(step, (*self.classes, self._fresh(step.get("name"))), {})
        nodes = _nodes(step)
        if kind == "take":
            return self._changed(step, self.classes, dict.fromkeys(node for node in nodes if node in self.marks))
        if kind == "skip":
            return self._changed(step, self.classes, {n: SKIPPED for n in nodes if not self.marks.get(n)})
        name = self._open_to(_text(step.get("class")))
        there = name in (*self.classes, *self.known, self.other)
        classes = self.classes if there else (*self.classes, name := self._fresh(name))
        return self._changed(step, classes, dict.fromkeys(nodes, name))

    def _open_to(self, name: str) -> str:
        if name in self.small:
            raise InputError(
                f"{name!r} has labels in the graph, but too few to learn from; add yours to the table of nodes and "
                "fit again, or give the nodes to a class of another name"
            )
        return name

    def _changed(self, step: Mapping[str, Any], classes: tuple[str, ...], marks: Mapping[str, str | None]) -> Change:
        nodes = {n: (old, new) for n, new in marks.items() if (old := self.marks.get(n)) != new}
        if classes == self.classes and not nodes:
            raise InputError("that changes nothing: it is so already")
        return Change(step, self.classes, classes, nodes)

    def apply(self, change: Change) -> None:
        """Make a change; what was undone before can no longer be redone."""
        self._set(change.after, {node: new for node, (_, new) in change.nodes.items()})
        self.done.append(change)
        self.undone.clear()

    def undo(self) -> Change:
        """Take the last change back."""
        if not self.done:
            raise InputError("there is nothing to undo")
        change = self.done.pop()
        self._set(change.before, {node: old for node, (old, _) in change.nodes.items()})
        self.undone.append(change)
        return change

    def redo(self) -> Change:
        """Make the change again that was undone last."""
        if not self.undone:
            raise InputError("there is nothing to redo")
        change = self.undone.pop()
        self._set(change.after, {node: new for node, (_, new) in change.nodes.items()})
        self.done.append(change)
        return change

    def _set(self, classes: tuple[str, ...], marks: Mapping[str, str | None]) -> None:
        self.classes = classes
        for node, mark in marks.items():
            if mark is None:
                self.marks.pop(node, None)
            else:
                self.marks[node] = mark

    def examples(self) -> dict[str, list[str]]:
        """The nodes of every class that has some: new ones in their order, then known ones, then other."""
        found: dict[str, list[str]] = {name: [] for name in (*self.classes, *self.known, self.other)}
        for node, mark in self.marks.items():
            if mark != SKIPPED:
                found[mark].append(node)
        return {name: nodes for name, nodes in found.items() if nodes}

    def answers(self) -> int:
        """How many questions were answered: steps that gave nodes to a class."""
        return sum(change.step["do"] == "label" for change in self.done)

    def _new(self, name: Any) -> str:
        if not self.classes:
            raise InputError("there is no class of your own yet")
        return one_of("class of your own", _text(name), self.classes)

    def _fresh(self, given: Any, besides: str = "") -> str:
        """A name that no other class has."""
        name = _text(given)
        if not name:
            raise InputError("a class without a name; give it one")
        if len(name) > LONGEST or not all(letter.isprintable() or _turns(letter) for letter in name):
            raise InputError(f"a class is named in one line of at most {LONGEST} letters")
        taken = {c.casefold(): c for c in (*self.classes, *self.known, self.other, UNKNOWN) if c != besides}
        if (same := taken.get(name.casefold())) is not None:
            raise InputError(f"there is a class {same!r} already; choose another name, or merge the two")
        return name


def _turns(letter: str) -> bool:
    """Marks of right-to-left writing are no printable characters, but belong to names."""
    return letter in "\u200c\u200d\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{value!r} is no name; names are text")
    return value.strip()


def _nodes(step: Mapping[str, Any]) -> list[str]:
    nodes: Iterable[Any] = step.get("nodes") or ()
    found = list(nodes) if not isinstance(nodes, str) else []
    if not found or not all(isinstance(node, str) for node in found):
        raise InputError("no node is selected; choose one or more first")
    return found


# --- What a person says to a session: steps that are kept before they count, can be undone, and are taken up again.
KEPT = ("do", "nodes", "class", "name", "to", "into", "asked")  # of a step


class Conversation:
    """Labels given to nodes of a ``graph``, each step in the ``journal`` first. ``notes`` is what has to be said about
    the journal, ``lost`` the labelled nodes that the graph has no use for any more."""

    def __init__(self, graph: Graph, labels: Labels, journal: Journal | None, examples: Examples | None) -> None:
        self.graph, self.labels, self.journal = graph, labels, journal
        self.notes = [] if journal is None else list(journal.notes)
        self.version, self.lock = 0, threading.RLock()
        self._listeners: list[Callable[[int], None]] = []
        self._replay()
        self._start_from(examples)

    def _replay(self) -> None:
        for entry in [] if self.journal is None else self.journal.entries:
            try:
                if "do" not in entry:
                    self._measured(entry)
                elif entry.get("do") in ("undo", "redo"):
                    getattr(self.labels, entry["do"])()
                else:
                    self.labels.apply(self.labels.change(entry))
            except (InputError, TypeError) as error:  # an empty step in its place: undo must meet the right ones
                self.notes.append(f"a step of the journal no longer fits and is left out ({error})")
                self.labels.apply(Change({"do": "none"}, self.labels.classes, self.labels.classes, {}))
        gone = [node for node in self.labels.marks if not self._unlabelled(node)]
        if gone:
            self.notes.append(
                f"{len(gone)} nodes that were labelled by hand are no longer in the graph, or have a label there now "
                f"({', '.join(gone[:3])}{', ...' if gone[3:] else ''}): they stay in the journal but are not used"
            )
        self.lost = frozenset(gone)

    def _unlabelled(self, node: str) -> bool:
        """Whether a node is in the graph and has no label there."""
        try:
            (at,) = find_nodes(self.graph, [node], "labels").tolist()
        except InputError:
            return False
        return int(self.graph.y[at]) < 0 or class_name(self.graph, int(self.graph.y[at])) not in self.labels.known

    def _start_from(self, examples: Examples | None) -> None:
        if not examples:
            return
        if self.labels.done or self.labels.undone:
            self.notes.append("the labels given before are taken up; the support table is not read again")
            return
        steps = []
        for name, nodes in examples.items():
            ids = find_nodes(self.graph, nodes, f"class {name!r}").tolist()
            steps.append({"do": "label", "nodes": [node_name(self.graph, i) for i in ids], "class": name})
        trial = copy.deepcopy(self.labels)
        for step in steps:  # all of it or nothing: half a table in the journal would hide the other half
            self._check_given(change := trial.change(step))
            trial.apply(change)
        for step in steps:
            self._step(step)

    def _learn(self) -> None:
        """Called after every step."""
        self.version += 1

    def _measured(self, entry: Mapping[str, Any]) -> None:
        """Called with every entry of the journal that is no step."""

    def do(self, step: Mapping[str, Any]) -> None:
        """Do one step; it is in the journal before anything else happens.

        Steps are ``{"do": "class", "name"}``, ``{"do": "label", "nodes", "class"}``, ``{"do": "take", "nodes"}``,
        ``{"do": "skip", "nodes"}``, ``{"do": "rename", "name", "to"}``, ``{"do": "merge", "name", "into"}`` and
        ``{"do": "remove", "name"}``; nodes are given by name. ``asked`` says which question a step answers.
        """
        with self.lock:
            self._step(step)
            self._learn()
        self._tell()

    def undo(self) -> None:
        """Take the last step back; as often as there are steps."""
        self._turn("undo")

    def redo(self) -> None:
        """Do the step again that was undone last."""
        self._turn("redo")

    def _step(self, step: Mapping[str, Any]) -> None:
        kept = {key: step[key] for key in KEPT if key in step}
        change = self.labels.change(kept)
        find_nodes(self.graph, list(change.nodes), "nodes")  # refuses unknown ones
        self._check_given(change)
        self._write(kept)
        self.labels.apply(change)

    def _check_given(self, change: Change) -> None:
        """A node that the graph labels already keeps that label."""
        ids = find_nodes(self.graph, [node for node, (_, new) in change.nodes.items() if new], "nodes")
        for i in ids[self.graph.y[ids] >= 0].tolist():
            if (own := class_name(self.graph, int(self.graph.y[i]))) in self.labels.known:
                name = node_name(self.graph, i)
                raise InputError(f"node {name!r} is labelled {own!r} in the graph; correct it there if it is wrong")

    def _turn(self, which: str) -> None:
        with self.lock:
            if not (self.labels.done if which == "undo" else self.labels.undone):
                raise InputError(f"there is nothing to {which}")
            self._write({"do": which})
            getattr(self.labels, which)()
            self._learn()
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

    def examples(self) -> dict[str, list[str]]:
        """The nodes of every class that has some, as ``adapt`` and a support table take them."""
        with self.lock:
            found = self.labels.examples()
            kept = {name: [node for node in nodes if node not in self.lost] for name, nodes in found.items()}
            return {name: nodes for name, nodes in kept.items() if nodes}

    def support_table(self) -> dict[str, list[str]]:
        """The columns id and label of a support table from which everything comes out the same."""
        pairs = [(node, name) for name, nodes in self.examples().items() for node in nodes]
        return {"id": [node for node, _ in pairs], "label": [name for _, name in pairs]}

    def checked(self) -> dict[str, tuple[int, int]]:
        """Of each class: how many answers to "sure" questions about it there were, and how many of these agreed."""
        found: dict[str, tuple[int, int]] = {}
        for change in self.labels.done:
            asked = str(change.step.get("asked") or "")
            if change.step["do"] == "label" and asked.startswith("sure "):
                n, right = found.get(asked[5:], (0, 0))
                found[asked[5:]] = (n + 1, right + (change.step["class"] == asked[5:]))
        return found

    def skipped(self) -> int:
        return sum(mark == SKIPPED for mark in self.labels.marks.values())


# --- A session of labelling: what was said, what the model makes of it now, and what to ask next.
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
            nodes = sorted_by_name(self.graph, self.classifier.unlabelled())
            return self.classifier.predict_proba(nodes).table()
