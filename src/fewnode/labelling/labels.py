"""The labels of a session: new classes, what each person answered about nodes; every step can be undone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec

from ..classifier.predictions import UNKNOWN
from ..errors import InputError, one_of

SKIPPED = ""  # the answer about a node that was skipped; no class has an empty name
SETTLED = "\n"  # stands for everybody, where answers differed; nobody has such a name
# Marks of right-to-left writing are not printable, but belong to names.
_DIRECTIONS = "\u200c\u200d\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person does, as the page sends it and the journal keeps it; ``do`` says which of the rest count.

    Nodes are given by name, or in ``ids`` by number; ``asked`` is the question that the step answers, ``who`` gave it.
    ``text`` is the comment on an answer, or the description of a class. An answer may be ``unsure``, or ``settle`` what
    others disagree about.
    """

    do: str = ""
    nodes: list[str] = []
    ids: list[int] = []
    label: str = msgspec.field(name="class", default="")
    name: str = ""
    to: str = ""
    into: str = ""
    asked: str | None = None
    who: str = ""
    text: str | None = None
    unsure: bool = False
    settle: bool = False

    def __str__(self) -> str:
        what = f"{len(self.nodes)} nodes" if len(self.nodes) > 1 else "".join(self.nodes) or self.name
        parts = ("as", self.label), ("to", self.to), ("into", self.into)
        return " ".join([self.do, what, *(f"{word} {name}" for word, name in parts if name)])

    @property
    def of_classes(self) -> bool:
        """Whether it is about whole classes."""
        return self.do in ("class", "rename", "merge", "remove", "describe")


class Answer(NamedTuple):
    """What one person said of a node: its class or ``SKIPPED``, whether they were unsure, and a comment."""

    label: str
    unsure: bool = False
    text: str = ""


@dataclass(frozen=True)
class Change:
    """What the step ``step`` makes of the labels: the new ``classes``, descriptions ``about`` classes, and ``answers``
    by node and person (None: no answer)."""

    step: Step
    classes: tuple[str, ...]
    about: Mapping[str, str]
    answers: Mapping[tuple[str, str], Answer | None]


@dataclass
class Labels:
    """New ``classes`` in the order they were named, what they are ``about``, and ``answers`` of people by node.

    Nodes can also be given to the ``known`` classes and to ``other``, but not to known classes that are too ``small``
    to be learned: ``fewnode predict`` would replace their labels by these examples. ``done`` holds the changes that
    take the steps back, ``undone`` the steps that can be done again.
    """

    known: tuple[str, ...] = ()
    other: str = "other"
    small: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    answers: dict[str, dict[str, Answer]] = field(default_factory=dict)
    done: list[Change] = field(default_factory=list)
    undone: list[Step] = field(default_factory=list)

    def change(self, step: Step) -> Change:
        """What a step would change; a wrong step is refused with the reason."""
        if step.do == "undo":
            return self._back(step.who)
        if step.do == "redo":
            step = _last([one for one in self.undone if one.who == step.who], "redo")
        made = self._outcome(step)
        changed = {key: answer for key, answer in made.answers.items() if self._answer(*key) != answer}
        if made.classes == self.classes and made.about == self.about and not changed:
            raise InputError("that changes nothing: it is so already")
        return replace(made, answers=changed)

    def _back(self, who: str) -> Change:
        """What takes the last step of a person back; what others have done since stays."""
        at = _last([i for i, change in enumerate(self.done) if change.step.who == who], "undo")
        back: Change = self.done[at]
        later = self.done[at + 1 :]
        if later and any(change.step.of_classes for change in (back, *later)):
            raise InputError(
                f"others have worked since ({later[-1].step}), and classes have changed: change them back instead"
            )
        return replace(back, classes=self.classes, about=self.about) if later else back

    def _answer(self, node: str, who: str) -> Answer | None:
        return self.answers.get(node, {}).get(who)

    def _outcome(self, step: Step) -> Change:
        """Classes, their descriptions and the answers that a step is about, after it."""
        one_of("step", step.do, ("class", "label", "take", "skip", "rename", "merge", "remove", "describe"))
        classes, about, text = self.classes, self.about, step.text
        if text is not None and len(text) > 4000:
            raise InputError(f"a text of {len(text):,} letters; write at most 4,000")
        if step.do == "class":
            name = self._fresh(step.name)
            return Change(step, (*classes, name), {**about, name: text} if text else about, {})
        if step.do == "describe":
            name = one_of("class", step.name.strip(), (*classes, *self.known, self.other))
            return Change(step, classes, {**about, name: text or ""}, {})
        if step.do in ("take", "skip", "label"):
            if not step.nodes:
                raise InputError("no node is selected; choose one or more first")
            keys = [(node, SETTLED if step.settle else step.who) for node in step.nodes]
            if step.do == "take":
                return Change(step, classes, about, dict.fromkeys([*keys, *((node, SETTLED) for node in step.nodes)]))
            if step.do == "skip":
                free = [key for key in keys if (former := self._answer(*key)) is None or not former.label]
                return Change(step, classes, about, dict.fromkeys(free, Answer(SKIPPED)))
            name = self._learnable(step.label.strip())
            if name not in (*classes, *self.known, self.other):
                classes = (*classes, self._fresh(name))
            texts = {key: (self._answer(*key) or Answer("")).text if text is None else text for key in keys}
            return Change(step, classes, about, {key: Answer(name, step.unsure, texts[key]) for key in keys})
        if not classes:
            raise InputError("there is no class of your own yet")
        name = one_of("class of your own", step.name.strip(), classes)
        members = {
            (node, who): answer
            for node, people in self.answers.items()
            for who, answer in people.items()
            if answer.label == name
        }
        rest, left = {key: value for key, value in about.items() if key != name}, tuple(c for c in classes if c != name)
        if step.do == "remove":
            return Change(step, left, rest, dict.fromkeys(members))
        if step.do == "rename":
            to = self._fresh(step.to, besides=name)
            left = tuple(to if c == name else c for c in classes)
            rest |= {to: about[name]} if name in about else {}
        else:
            to = self._learnable(one_of("class", step.into.strip(), (*left, *self.known, self.other)))
        return Change(step, left, rest, {key: answer._replace(label=to) for key, answer in members.items()})

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
        """Make the change of a step of this ``kind``; after any but "undo" and "redo" its person can redo nothing."""
        who, back = change.step.who, {key: self._answer(*key) for key in change.answers}
        former = Change(change.step, self.classes, self.about, back)
        self.classes, self.about = change.classes, change.about
        for (node, person), answer in change.answers.items():
            people = self.answers.setdefault(node, {})
            people.pop(person, None)
            if answer is not None:
                people[person] = answer
            elif not people:
                del self.answers[node]
        if kind == "undo":
            del self.done[max(i for i, one in enumerate(self.done) if one.step.who == who)]
            self.undone.append(change.step)
            return
        self.done.append(former)
        if kind == "redo":
            del self.undone[max(i for i, one in enumerate(self.undone) if one.who == who)]
        else:
            self.undone = [one for one in self.undone if one.who != who]

    @property
    def marks(self) -> dict[str, str | None]:
        """The class of each node that somebody has answered about, ``SKIPPED``, or None where that is open."""
        return {node: agreed(people) for node, people in self.answers.items()}

    def examples(self) -> dict[str, list[str]]:
        """The nodes of every class that has some: new ones in their order, then known ones, then other."""
        found: dict[str, list[str]] = {name: [] for name in (*self.classes, *self.known, self.other)}
        for node, mark in self.marks.items():
            if mark:
                found[mark].append(node)
        return {name: nodes for name, nodes in found.items() if nodes}

    def count_answers(self) -> int:
        """The number of steps that gave nodes to a class."""
        return sum(change.step.do == "label" for change in self.done)


def agreed(people: Mapping[str, Answer]) -> str | None:
    """The class that most people gave a node; None if there are several, or if those who answered are unsure."""
    if SETTLED in people:
        return people[SETTLED].label
    sure = Counter(answer.label for answer in people.values() if answer.label and not answer.unsure)
    if not sure:
        return None if any(answer.label for answer in people.values()) else SKIPPED
    (best, votes), *others = sure.most_common(2)
    return None if others and others[0][1] == votes else best


def _last(found: Sequence[Any], what: str) -> Any:
    if not found:
        raise InputError(f"there is nothing to {what}")
    return found[-1]
