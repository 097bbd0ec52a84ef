"""The labels of a session: new classes, what each person answered about nodes, and how far people agree (Cohen 1960,
Fleiss 1971). Every step can be undone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..classifier.predictions import UNKNOWN
from ..errors import InputError, one_of
from ..files import Count

SKIPPED = ""  # the answer about a node that was skipped; no class has an empty name
SETTLED = "\n"  # stands for everybody, where answers differed; nobody has such a name
# Marks of right-to-left writing are not printable, but belong to names.
_DIRECTIONS = "\u200c\u200d\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step of a person, as the page sends it and the journal stores it; ``do`` defines which other fields are used.

    Nodes are given by name, or in ``ids`` by number. ``asked`` is the question that the step answers, and ``who`` the
    person. ``text`` is the comment on an answer, or the description of a class. An answer may be ``unsure``, or
    ``settle`` a disagreement.
    """

    do: str = ""
    nodes: list[str] = []
    ids: list[Count] = []
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


MISSING = Step("none")  # stands for a step that no longer fits: undo must meet its own


class Answer(NamedTuple):
    """The answer of one person about a node: its class or ``SKIPPED``, whether the person was unsure, and a comment."""

    label: str
    unsure: bool = False
    text: str = ""


Answers = dict[str, dict[str, Answer]]  # by node and person
Given = Mapping[tuple[str, str], Answer | None]  # by node and person; None takes an answer back


@dataclass(frozen=True)
class Labels:
    """New ``classes`` in the order of their definition, their descriptions ``about``, and ``answers`` of people by
    node.

    Nodes can also be assigned to the ``known`` classes and to ``other``, but not to known classes that are too
    ``small`` to be learned: ``fewnode predict`` would replace their labels by these examples. ``done`` are the steps
    that led from ``start`` (classes, descriptions, answers) to this state, and ``undone`` those that can be repeated.
    """

    known: tuple[str, ...] = ()
    other: str = "other"
    small: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)
    done: tuple[Step, ...] = ()
    undone: tuple[Step, ...] = ()
    start: tuple[tuple[str, ...], Mapping[str, str], Answers] = ((), {}, {})

    def begun(self) -> "Labels":
        """The same labels as a new start: earlier steps cannot be undone any more."""
        return replace(self, start=(self.classes, self.about, self.answers), done=(), undone=())

    def after(self, step: Step) -> "Labels":
        """The labels after a step. An invalid step is refused with the reason."""
        rest = tuple(one for one in self.undone if one.who != step.who)
        if step.do in ("undo", "redo"):
            turned = self.done if step.do == "undo" else self.undone
            at = max((i for i, one in enumerate(turned) if one.who == step.who), default=None)
            if at is None:
                raise InputError(f"there is nothing to {step.do}")
            rest = turned[:at] + turned[at + 1 :]
            if step.do == "undo":
                return self._without(turned[at], rest)
            step = turned[at]
        return replace(self._changed(step), done=(*self.done, step), undone=rest)

    def _without(self, step: Step, others: tuple[Step, ...]) -> "Labels":
        """The labels after the ``others``, and without a step."""
        classes, about, answers = self.start
        made = replace(self, classes=classes, about=about, answers=answers)
        for one in others:
            try:
                made = made._changed(one, again=True)
            except InputError as error:
                raise InputError(f"others have worked with it since ({one}); change that back instead") from error
        return replace(made, done=others, undone=(*self.undone, step))

    def _changed(self, step: Step, again: bool = False) -> "Labels":
        """With classes and answers as a step says; one that is taken ``again`` may change nothing."""
        classes, about, given = self._outcome(step)
        changed = {key: answer for key, answer in given.items() if self._answer(*key) != answer}
        if (classes, about) == (self.classes, self.about) and not changed and not again:
            raise InputError("that changes nothing: it is already so")
        answers = {**self.answers}  # those of each node are replaced, never changed
        for (node, person), answer in changed.items():
            answers[node] = {who: one for who, one in answers.get(node, {}).items() if who != person}
            answers[node] |= {} if answer is None else {person: answer}
            if not answers[node]:
                del answers[node]
        return replace(self, classes=classes, about=about, answers=answers)

    def _answer(self, node: str, who: str) -> Answer | None:
        return self.answers.get(node, {}).get(who)

    def _outcome(self, step: Step) -> tuple[tuple[str, ...], Mapping[str, str], Given]:
        """Classes, their descriptions and the answers that a step is about, after it."""
        classes, about, text = self.classes, self.about, step.text
        if step == MISSING:
            return classes, about, {}
        one_of("step", step.do, ("class", "label", "take", "skip", "rename", "merge", "remove", "describe"))
        if text is not None and len(text) > 4000:
            raise InputError(f"a text of {len(text):,} letters; write at most 4,000")
        if step.do == "class":
            name = self._fresh(step.name)
            return ((*classes, name), {**about, name: text} if text else about, {})
        if step.do == "describe":
            name = one_of("class", step.name.strip(), (*classes, *self.known, self.other))
            return (classes, {**about, name: text or ""}, {})
        if step.do in ("take", "skip", "label"):
            if not step.nodes:
                raise InputError("no node is selected; choose one or more first")
            keys = [(node, SETTLED if step.settle else step.who) for node in step.nodes]
            if step.do == "take":
                return (classes, about, dict.fromkeys([*keys, *((node, SETTLED) for node in step.nodes)]))
            if step.do == "skip":
                free = [key for key in keys if (former := self._answer(*key)) is None or not former.label]
                return (classes, about, dict.fromkeys(free, Answer(SKIPPED)))
            name = self._learnable(step.label.strip())
            if name not in (*classes, *self.known, self.other):
                classes = (*classes, self._fresh(name))
            texts = {key: (self._answer(*key) or Answer("")).text if text is None else text for key in keys}
            return (classes, about, {key: Answer(name, step.unsure, texts[key]) for key in keys})
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
            return (left, rest, dict.fromkeys(members))
        if step.do == "rename":
            to = self._fresh(step.to, besides=name)
            left = tuple(to if c == name else c for c in classes)
            rest |= {to: about[name]} if name in about else {}
        else:
            to = self._learnable(one_of("class", step.into.strip(), (*left, *self.known, self.other)))
        return (left, rest, {key: answer._replace(label=to) for key, answer in members.items()})

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

    @property
    def marks(self) -> dict[str, str | None]:
        """The class of each node with an answer, ``SKIPPED``, or None if people disagree or are unsure."""
        return {node: agreed(people) for node, people in self.answers.items()}

    def examples(self) -> dict[str, list[str]]:
        """The nodes of every class with examples: new classes in their order, then known ones, then other."""
        found: dict[str, list[str]] = {name: [] for name in (*self.classes, *self.known, self.other)}
        for node, mark in self.marks.items():
            if mark:
                found[mark].append(node)
        return {name: nodes for name, nodes in found.items() if nodes}

    def count_answers(self) -> int:
        """The number of steps that assigned nodes to a class."""
        return sum(step.do == "label" for step in self.done)


def agreed(people: Mapping[str, Answer]) -> str | None:
    """The class that most people gave a node; None if there are several, or if those who answered are unsure."""
    if SETTLED in people:
        return people[SETTLED].label
    sure = Counter(answer.label for answer in people.values() if answer.label and not answer.unsure)
    if not sure:
        return None if any(answer.label for answer in people.values()) else SKIPPED
    (best, votes), *others = sure.most_common(2)
    return None if others and others[0][1] == votes else best


def agreement(answers: Iterable[Mapping[str, Answer]]) -> dict[str, Any]:
    """Of the nodes that several people gave a class: their number, ``fleiss`` of all classes and of each, and ``pairs``
    of people with the nodes both answered, the share they agree on, and ``cohen`` of all classes and of each.

    Kappa is 1 for full agreement and 0 for that of chance; None where it is not defined, as with a single class.
    """
    said = [{who: one.label for who, one in people.items() if one.label and who != SETTLED} for people in answers]
    said = [people for people in said if len(people) > 1]
    pairs = []
    for who, other in sorted({pair for people in said for pair in combinations(sorted(people), 2)}):
        both = [{who: one[who], other: one[other]} for one in said if who in one and other in one]
        share = sum(one[who] == one[other] for one in both) / len(both)
        a, b = ([one[name] for one in both] for name in (who, other))
        classes = sorted({*a, *b})
        each = {c: cohen_kappa([x == c for x in a], [x == c for x in b]) for c in classes}
        pairs.append(
            {"people": [who, other], "nodes": len(both), "share": share, "cohen": cohen_kappa(a, b), "classes": each}
        )
    whole, each = fleiss_kappa([list(people.values()) for people in said])
    return {"nodes": len(said), "fleiss": whole, "classes": each, "pairs": pairs}


def cohen_kappa(a: Sequence[Any], b: Sequence[Any]) -> float | None:
    """Cohen's kappa of two people's answers about the same nodes."""
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(a, b)) if len({*a, *b}) > 1 else None


def fleiss_kappa(answers: Sequence[Sequence[str]]) -> tuple[float | None, dict[str, float | None]]:
    """Fleiss' kappa of all classes and of each; ``answers`` are those about each node, two or more."""
    classes = sorted({label for some in answers for label in some})
    counts = np.array([[some.count(c) for c in classes] for some in answers], dtype=float).reshape(
        len(answers), len(classes)
    )
    people, share = counts.sum(1, keepdims=True), counts.sum(0) / max(counts.sum(), 1)
    differing = (counts * (people - counts)).sum(0)
    by_chance = (people * (people - 1)).sum() * share * (1 - share)
    whole = 1 - float(differing.sum() / by_chance.sum()) if by_chance.any() else None
    return whole, {c: 1 - float(d / e) if e else None for c, d, e in zip(classes, differing, by_chance, strict=True)}
