"""What a person says to a session: steps that are kept before they count, can be undone, and are taken up again."""

import copy
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import InputError
from ..graph import Graph
from ..own.classes import class_name
from ..own.support import Examples, find_nodes, node_name
from .journal import Journal
from .labels import SKIPPED, Change, Labels

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
