"""The labels of a session: new classes, the nodes given to them and the nodes skipped; every step can be undone."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from ..classifier.predictions import UNKNOWN
from ..errors import InputError, one_of

SKIPPED = ""  # the mark of a node that was skipped; no class has an empty name
# Marks of right-to-left writing are not printable, but belong to names.
_DIRECTIONS = "\u200c\u200d\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person does, as the page sends it and the journal keeps it; ``do`` says which of the rest count.

    Nodes are given by name, or in ``ids`` by number; ``asked`` is the question that the step answers.
    """

    do: str = ""
    nodes: list[str] = []
    ids: list[int] = []
    label: str = msgspec.field(name="class", default="")
    name: str = ""
    to: str = ""
    into: str = ""
    asked: str | None = None

    def __str__(self) -> str:
        what = f"{len(self.nodes)} nodes" if len(self.nodes) > 1 else "".join(self.nodes) or self.name
        return " ".join(part for part in (self.do, what, self.label or self.to or self.into) if part)


@dataclass(frozen=True)
class Change:
    """What the step ``step`` makes of the labels: the new ``classes``, and the ``marks`` of nodes (None: no mark)."""

    step: Step
    classes: tuple[str, ...]
    marks: Mapping[str, str | None]


@dataclass
class Labels:
    """New ``classes`` in the order they were named, and ``marks`` of nodes: their class, or ``SKIPPED``.

    Nodes can also be given to the ``known`` classes and to ``other``, but not to known classes that are too ``small``
    to be learned: ``fewnode predict`` would replace their labels by these examples. ``done`` holds the changes that
    take the steps back, ``undone`` those that do them again.
    """

    known: tuple[str, ...] = ()
    other: str = "other"
    small: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    marks: dict[str, str] = field(default_factory=dict)
    done: list[Change] = field(default_factory=list)
    undone: list[Change] = field(default_factory=list)

    def change(self, step: Step) -> Change:
        """What a step would change; a wrong step is refused with the reason."""
        if step.do in ("undo", "redo"):
            changes = self.done if step.do == "undo" else self.undone
            if not changes:
                raise InputError(f"there is nothing to {step.do}")
            return changes[-1]
        classes, marks = self._outcome(step)
        changed = {node: mark for node, mark in marks.items() if self.marks.get(node) != mark}
        if classes == self.classes and not changed:
            raise InputError("that changes nothing: it is so already")
        return Change(step, classes, changed)

    def _outcome(self, step: Step) -> tuple[tuple[str, ...], Mapping[str, str | None]]:
        """Classes and marks after a step."""
        one_of("step", step.do, ("class", "label", "take", "skip", "rename", "merge", "remove"))
        if step.do == "class":
            return (*self.classes, self._fresh(step.name)), {}
        if step.do in ("take", "skip", "label"):
            if not step.nodes:
                raise InputError("no node is selected; choose one or more first")
            if step.do == "take":
                return self.classes, dict.fromkeys(node for node in step.nodes if node in self.marks)
            if step.do == "skip":
                return self.classes, {node: SKIPPED for node in step.nodes if not self.marks.get(node)}
            name = self._learnable(step.label.strip())
            new = name not in (*self.classes, *self.known, self.other)
            return (*self.classes, self._fresh(name)) if new else self.classes, dict.fromkeys(step.nodes, name)
        if not self.classes:
            raise InputError("there is no class of your own yet")
        name = one_of("class of your own", step.name.strip(), self.classes)
        members = [node for node, mark in self.marks.items() if mark == name]
        if step.do == "rename":
            to = self._fresh(step.to, besides=name)
            return tuple(to if c == name else c for c in self.classes), dict.fromkeys(members, to)
        left = tuple(c for c in self.classes if c != name)
        if step.do == "remove":
            return left, dict.fromkeys(members)
        into = one_of("class", step.into.strip(), (*left, *self.known, self.other))
        return left, dict.fromkeys(members, self._learnable(into))

    def _learnable(self, name: str) -> str:
        if name in self.small:
            raise InputError(
                f"{name!r} has labels in the graph, but too few to learn from; add yours to the table of nodes and "
                "fit again, or give the nodes to a class of another name"
            )
        return name

    def _fresh(self, given: str, besides: str = "") -> str:
        """A name that no other class has."""
        name = given.strip()
        if not name:
            raise InputError("a class without a name; give it one")
        if len(name) > 200 or not all(letter.isprintable() or letter in _DIRECTIONS for letter in name):
            raise InputError("a class is named in one line of at most 200 letters")
        taken = {c.casefold(): c for c in (*self.classes, *self.known, self.other, UNKNOWN) if c != besides}
        if (same := taken.get(name.casefold())) is not None:
            raise InputError(f"there is a class {same!r} already; choose another name, or merge the two")
        return name

    def apply(self, change: Change, kind: str = "") -> None:
        """Make the change of a step of this ``kind``; only after "undo" and "redo" there is something left to redo."""
        back = Change(change.step, self.classes, {node: self.marks.get(node) for node in change.marks})
        self.classes = change.classes
        self.marks = {node: mark for node, mark in {**self.marks, **change.marks}.items() if mark is not None}
        if kind == "undo":
            self.done.pop()
            self.undone.append(back)
            return
        self.done.append(back)
        self.undone = self.undone[:-1] if kind == "redo" else []

    def examples(self) -> dict[str, list[str]]:
        """The nodes of every class that has some: new ones in their order, then known ones, then other."""
        found: dict[str, list[str]] = {name: [] for name in (*self.classes, *self.known, self.other)}
        for node, mark in self.marks.items():
            if mark != SKIPPED:
                found[mark].append(node)
        return {name: nodes for name, nodes in found.items() if nodes}

    def answers(self) -> int:
        """The number of steps that gave nodes to a class."""
        return sum(change.step.do == "label" for change in self.done)
