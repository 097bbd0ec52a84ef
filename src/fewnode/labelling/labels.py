"""What a person has said so far: classes, the nodes given to them, nodes skipped; every step can be undone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError, one_of
from ..own.predictions import UNKNOWN

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
                f"{name!r} has labels in the graph, but too few to be learned from; add yours to the table of nodes and "
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
