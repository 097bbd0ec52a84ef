"""A labelling session: the labels given so far, the predictions with them, and the next questions."""

import copy
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from ..classifier import open_set as opening
from ..classifier.classifier import FewShotClassifier, Growth
from ..classifier.commands import Say, load_attached
from ..classifier.explain import Explanation
from ..classifier.inputs import find_nodes, name_index, natural_order, node_name, sorted_by_name
from ..classifier.open_set import MEANING
from ..classifier.predictions import OTHER, Predictions
from ..classifier.suggest import SURE, Suggestions, suggest
from ..errors import InputError
from ..files import PathLike, convert
from ..store import STORE
from ..training.progress import Shown
from . import exchange
from .journal import Journal
from .labels import MISSING, Labels, Step


@dataclass(frozen=True)
class Point:
    """The state after a number of ``answers``.

    ``expected`` is the expected accuracy, ``sure`` the share of unlabelled nodes with a certain prediction, and
    ``changed`` the share of nodes whose class changed with the last step.
    """

    answers: int
    expected: float
    sure: float
    changed: float


class LabelSession:
    """Labels given to nodes of the graph of a ``classifier``, and its predictions with them.

    Classification is open-set if the graph has labels. Otherwise it is closed-set and starts when two classes have
    examples.

    Args:
        classifier: a fitted classifier with a graph.
        journal: stores every step before it takes effect; the steps in it are repeated first.
        steps: initial steps, if the journal has none.
        twice: the share of questions that two people are asked, so that their agreement can be measured.

    ``notes`` lists the steps of the journal that had to be left out.

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
        self,
        classifier: FewShotClassifier,
        journal: Journal | None = None,
        steps: Sequence[Step] = (),
        twice: float = 0.1,
    ) -> None:
        self.journal = journal or Journal(None)
        self.notes = list(self.journal.notes)
        self.version, self.lock, self.twice = 0, threading.RLock(), twice
        self.handed: dict[str, tuple[float, list[str]]] = {}  # the questions of each person, and when they were asked
        known = self._set_classifier(classifier)
        self.labels = Labels(other=opening.other_name(known) if self.open else OTHER)
        self._replay(known)
        if steps and (self.labels.done or self.labels.undone):
            self.notes.append("the labels given before are taken up; the support table is not read again")
            steps = ()
        self.do(*steps)

    def _set_classifier(self, classifier: FewShotClassifier) -> tuple[str, ...]:
        """Take the classifier, of which nothing has been asked yet; the names of its known classes."""
        if classifier.graph is None:
            raise InputError("no graph is attached: call attach(graph) first")
        self.classifier, self.graph, n = classifier, classifier.graph, classifier.graph.num_nodes
        # Coordinates and edges of a store stay on disk, the rest does not. Bytes: name, words, place on the map, class
        # and confidence; the probability of each class, twice while it is made.
        needed = n * (1024 + 12 * self.graph.num_classes)
        self.graph.space.check(needed, n, "the page, with names and probabilities (`fewnode find` needs no page),")
        self.open = bool((self.graph.y >= 0).any())
        self.described = self.open and MEANING in self.graph.blocks  # texts can be compared with descriptions
        self.points: list[Point] = []
        self.relearned = 0.0, 0  # how long it took to learn the known classes again, with how many answers
        self.known_issues: dict[str, tuple[str, str]] | None = None
        y, known = classifier.known_labels() if self.open else (torch.full_like(self.graph.y, -1), ())
        self.known_y = y.cpu()
        return known

    def _replay(self, known: tuple[str, ...]) -> None:
        """Do the steps of the journal again. A class that has grown known is a new one until the step that says so."""
        entries = self.journal.entries
        grown = {name for entry in entries if entry.get("do") == "grow" for name in entry.get("names", ())}
        self._know(tuple(name for name in known if name not in grown))
        for entry in entries:
            try:
                if "do" not in entry:
                    self._keep_point(Point(**entry))
                elif entry["do"] == "grow":
                    self._know((*self.labels.known, *(name for name in known if name in entry["names"])))
                    self.labels, self.points = self.labels.begun(), []
                else:
                    self.labels = self.labels.after(convert(entry, Step, "the step"))
            except (InputError, TypeError, KeyError) as error:
                self.notes.append(f"a step of the journal no longer fits and is left out ({error})")
                self.labels = replace(self.labels, done=(*self.labels.done, MISSING))
        self._know(known)
        there = self.answered_nodes()
        if gone := [node for node in self.labels.answers if node not in there]:
            self.notes.append(
                f"{len(gone)} nodes that were labelled by hand are no longer in the graph "
                f"({', '.join(gone[:3])}{', ...' if gone[3:] else ''}): they stay in the journal but are not used"
            )

    def _know(self, known: tuple[str, ...]) -> None:
        """These classes are the known ones; none of them is new."""
        named = self.classifier.known.names() if self.classifier.named_classes else known
        small = tuple(name for name in known if name not in named)
        classes = tuple(name for name in self.labels.classes if name not in known)
        self.labels = replace(self.labels, known=known, small=small, classes=classes)

    def _unlabelled(self, nodes: Iterable[str]) -> list[str]:
        """Those of the nodes that are in the graph and have no label of a known class there."""
        place = name_index(self.graph, given := list(nodes))
        return [node for node in given if node in place and self.known_y[place[node]] < 0]

    # --- steps ------------------------------------------------------------------------------------------

    def do(self, *given: Mapping[str, Any] | Step) -> None:
        """Do steps, all of them or none. They are written to the journal first.

        Steps are ``{"do": "class", "name"}``, ``{"do": "label", "nodes", "class"}``, ``{"do": "take", "nodes"}``,
        ``{"do": "skip", "nodes"}``, ``{"do": "rename", "name", "to"}``, ``{"do": "merge", "name", "into"}``, ``{"do":
        "remove", "name"}``, ``{"do": "describe", "name", "text"}``, ``{"do": "undo"}`` and ``{"do": "redo"}``. Nodes
        are given by name, and ``who`` is the person. A label can be ``unsure``, have a comment ``text``, or ``settle``
        a disagreement between people or with the graph; ``asked`` names the question that it answers.
        """
        steps = [convert(one, Step, "the step") for one in given]
        with self.lock:
            labels = self.labels
            for step in steps:
                labels = self._after(step, labels)
            for step in steps:
                self.journal.append(msgspec.to_builtins(step))
            self.labels = labels
            self._learn()

    def undo(self) -> None:
        """Undo the last step; further calls undo earlier steps."""
        self.do({"do": "undo"})

    def redo(self) -> None:
        """Repeat the step that was undone last."""
        self.do({"do": "redo"})

    def _after(self, step: Step, labels: Labels) -> Labels:
        """The labels after a step, which may only be about nodes of the graph."""
        after = labels.after(step)
        if self.described and step.text and step.do in ("class", "describe"):
            self.classifier.encode_texts([step.text])  # refuses what could not be learned
        ids = find_nodes(self.graph, step.nodes, "nodes").cpu()  # refuses unknown ones
        labelled = ids[self.known_y[ids] >= 0]
        if step.do == "label" and not step.settle and len(labelled):
            name, given = node_name(self.graph, int(labelled[0])), labels.known[int(self.known_y[labelled[0]])]
            raise InputError(f"node {name!r} is labelled {given!r} in the graph; to correct that, say settle")
        return after

    # --- what was said ----------------------------------------------------------------------------------

    def answered_nodes(self) -> dict[str, int]:
        """The nodes with an answer, by name."""
        place = name_index(self.graph, list(self.labels.answers))
        return {node: place[node] for node in self.labels.answers if node in place}

    def examples(self) -> dict[str, list[str]]:
        """The nodes of every class with examples, in the form of ``adapt`` and of a support table."""
        with self.lock:
            kept = {name: self._unlabelled(nodes) for name, nodes in self.labels.examples().items()}
            return {name: nodes for name, nodes in kept.items() if nodes}

    def descriptions(self) -> dict[str, str]:
        """The descriptions of new classes, if a text encoder can compare them with the texts of the graph."""
        about = self.labels.about if self.described else {}
        return {name: about[name].strip() for name in self.labels.classes if about.get(name, "").strip()}

    def checked(self) -> dict[str, tuple[int, int]]:
        """For each class, the number of answers to "sure" questions about it, and the number of these that agreed."""
        found: dict[str, tuple[int, int]] = {}
        for step in self.labels.done:
            question, _, name = (step.asked or "").partition(" ")
            if step.do == "label" and question == "sure":
                n, right = found.get(name, (0, 0))
                found[name] = (n + 1, right + (step.label == name))
        return found

    def labels_table(self) -> dict[str, list[str]]:
        """The columns id and label of all labels: those of the graph, with corrections and additions by the answers."""
        with self.lock:
            y, known = self.known_y, self.labels.known
            found = {node_name(self.graph, i): known[int(y[i])] for i in (y >= 0).nonzero().flatten().tolist()}
            found |= {node: name for name, nodes in self.answered().items() for node in nodes}
            ids = list(found)
            ids = [ids[i] for i in natural_order(ids)]
            return {"id": ids, "label": [found[node] for node in ids]}

    def support_table(self) -> dict[str, list[str]]:
        """The columns id, label and (if there are any) description of a support table that gives the same
        predictions."""
        told = self.descriptions()
        rows = [("", name, text) for name, text in told.items()]
        rows += [(node, name, "") for name, nodes in self.examples().items() for node in nodes]
        columns = ("id", "label", "description") if told else ("id", "label")
        return {column: [row[i] for row in rows] for i, column in enumerate(columns)}

    # --- growing ----------------------------------------------------------------------------------------

    def answered(self) -> dict[str, list[str]]:
        """The nodes of every class on which people agree, including nodes that have another label in the graph."""
        there, found = self.answered_nodes(), self.labels.examples()
        found.pop(self.labels.other, None)
        return {name: [node for node in nodes if node in there] for name, nodes in found.items()}

    def grow(self) -> Growth:
        """Learn the answers permanently: classes with enough answers become known, and corrected labels replace the old
        ones.

        The model is saved in its folder. Earlier steps cannot be undone any more.
        """
        with self.lock:
            labels, classifier = self.answered(), copy.copy(self.classifier)
        found = classifier.grow(labels, progress=None)  # takes long: nobody waits for it
        with self.lock:
            if (folder := classifier.folder) is not None:
                save_grown(classifier, found, folder, self.journal)
                classifier = load_attached(folder)
            self._know(self._set_classifier(classifier))
            self.labels = self.labels.begun()
            self._learn()
        return found

    # --- predictions ------------------------------------------------------------------------------------

    def _learn(self, fully: bool = False) -> None:
        """Predict all nodes anew. Known classes are learned again with every answer about them as long as that takes
        less than a second; then only ``fully``, or when there are a fifth more answers."""
        before, started = getattr(self, "choice", None), time.monotonic()
        examples, classifier = self.examples(), self.classifier
        about_known = sum(len(nodes) for name, nodes in examples.items() if name in self.labels.known)
        relearn = fully or self.relearned[0] < 1 or about_known > 1.2 * self.relearned[1]
        self.found: Predictions | None = None
        if self.open or len(examples) >= 2:
            told = self.descriptions()
            how: dict[str, Any] = {"among": "all" if self.open else "new", "descriptions": told, "relearn": relearn}
            task = classifier.adapt(examples, **how).task
            assert task is not None
            self.relearned = (time.monotonic() - started, about_known) if relearn else self.relearned
            ids = torch.arange(self.graph.num_nodes, device=self.graph.device)
            p = task.probabilities(ids).cpu()
            self.found = Predictions(ids.cpu(), [], task.classes, p, task.kinds)  # names would take longer
        else:
            classifier.support = classifier.task = None
        named = {"new": self.labels.classes, "known": self.labels.known, "other": (self.labels.other,)}
        self.classes = [(name, kind) for kind, names in named.items() for name in names]
        self._score(examples)
        self.version += 1
        self._measure(before, any(name in self.labels.classes for name in examples))

    def _score(self, examples: Mapping[str, list[str]]) -> None:
        place = {name: i for i, (name, _) in enumerate(self.classes)}
        n = self.graph.num_nodes
        self.choice, self.confidence = torch.full((n,), -1, dtype=torch.int16), torch.zeros(n)
        if self.found is not None:
            number = torch.tensor([place[name] for name in self.found.classes], dtype=torch.int16)
            self.confidence, column = self.found.probabilities.max(1)
            self.choice = number[column]
        known = self.known_y >= 0
        self.label = known.to(torch.uint8)
        self.choice[known] = (self.known_y[known] + len(self.labels.classes)).to(torch.int16)
        for name, nodes in examples.items():
            ids = find_nodes(self.graph, nodes, "examples").cpu()
            self.choice[ids], self.label[ids] = place[name], 2
        self.confidence[self.label > 0] = 1.0

    def _measure(self, before: Tensor | None, learned: bool) -> None:
        """Keep a point of the learning curve, if there is an example of a new class."""
        free, found = self._free()
        if found is None or not len(free) or not learned:
            return
        p = self.confidence[free]
        right = (self.classifier.expect(found).right.value if self.open else None) or float(p.mean())
        changed = 1.0 if before is None else float((before != self.choice)[free].float().mean())
        point = Point(self.labels.count_answers(), right, float((p >= SURE).float().mean()), changed)
        there = bool(self.points) and self.points[-1].answers == point.answers
        if before is None and there:
            return  # opened again: the journal has it
        if not there:
            self.journal.append(asdict(point), sync=False)
        self._keep_point(point)

    def _free(self, among: Tensor | None = None) -> tuple[Tensor, Predictions | None]:
        """The nodes without a label (``among`` some), and their predictions, if there are any: without names, which
        take long."""
        free, found = ((self.label == 0) & self.graph.listed.cpu()).nonzero().flatten(), self.found
        free = free if among is None else free[torch.isin(free, among)]
        if found is not None:
            found = Predictions(free, [""] * len(free), found.classes, found.probabilities[free], found.kinds)
        return free, found

    def _keep_point(self, point: Point) -> None:
        self.points = [one for one in self.points if one.answers < point.answers] + [point]

    def settled(self, patience: int = 10, flat: float = 0.005) -> bool:
        """Whether the last ``patience`` answers changed expected accuracy and classes by less than ``flat``."""
        late = [one for one in self.points if one.answers > self.labels.count_answers() - patience]
        if len(late) < patience:
            return False
        gain = abs(late[-1].expected - late[0].expected)
        return gain < flat and sum(one.changed for one in late) / len(late) < flat

    def scores(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The class, confidence and label of every node.

        The class is a position in ``classes`` (-1: none yet), the confidence lies between 0 and 255, and the label is 0
        for none, 1 for a label of the graph and 2 for an answer.
        """
        with self.lock:
            confidence = (self.confidence * 255).round().to(torch.uint8)
            return self.choice.numpy(), confidence.numpy(), self.label.numpy()

    def counts(self) -> list[dict[str, Any]]:
        """Every class with its kind, its examples, its labels in the graph, and the number of nodes predicted as this
        class."""
        with self.lock:
            called = (self.label == 0) & (self.choice >= 0) & self.graph.listed.cpu()  # as predict counts them
            chosen = {
                "labelled": self.choice[self.label == 1],
                "predicted": self.choice[called],
                "sure": self.choice[called & (self.confidence >= SURE)],
            }
            n, examples = len(self.classes), self.examples()
            tally = {key: torch.bincount(which.long(), minlength=n).tolist() for key, which in chosen.items()}
            return [
                {"name": name, "kind": kind, "examples": examples.get(name, [])} | {key: tally[key][i] for key in tally}
                for i, (name, kind) in enumerate(self.classes)
            ]

    def predictions_table(self) -> dict[str, Any]:
        """The columns that ``fewnode predict`` writes with the support table."""
        with self.lock:
            if self.found is None or not (self.examples() or self.descriptions()):
                raise InputError("there is nothing to predict from yet: give a node to a class first")
            self._learn(fully=True)
            nodes = sorted_by_name(self.graph, self.classifier.unlabelled())
            return self.classifier.predict_proba(nodes).table()

    # --- questions --------------------------------------------------------------------------------------

    def suggest(
        self,
        n: int = 10,
        by: str = "teach",
        label: str | None = None,
        among: Tensor | None = None,
        told: Iterable[str] = (),
    ) -> Suggestions:
        """The nodes to label next, as in ``FewShotClassifier.suggest``; skipped nodes are left out."""
        with self.lock:
            free, found = self._free(among)
            done = self._unlabelled({*self.labels.answers, *told})
            shots = {name: len(nodes) for name, nodes in self.examples().items()}
            x = self.classifier.coordinates()
        how: dict[str, Any] = {"n": n, "by": by, "label": label, "told": done, "seed": self.version}
        return suggest(self.graph, x, free.to(self.graph.device), found, shots, **how)

    def questions(
        self, n: int = 10, by: str = "teach", label: str | None = None, who: str = "", among: Tensor | None = None
    ) -> list[str]:
        """The next nodes to ask a person about. Nobody else is asked about them for ten minutes.

        ``by`` is as in ``suggest``, or "open" (people disagree or are unsure) or "issues" (the label in the graph is
        doubtful). A share ``twice`` of the nodes is asked of two people.
        """
        doubtful = self.issues() if by == "issues" else {}  # takes long the first time: nobody waits for it
        with self.lock:
            answers, now = self.labels.answers, time.monotonic()
            recent = [(other, nodes) for other, (then, nodes) in self.handed.items() if now - then < 600]
            taken = {
                node for other, nodes in recent for node in nodes if other != who and other not in answers.get(node, {})
            }
            if by == "open":
                found = [node for node, mark in self.labels.marks.items() if mark is None]
            elif by == "issues":
                found = [node for node in doubtful if node not in answers]
            else:
                once = [node for node, people in answers.items() if len(people) == 1 and who not in people]
                found = [node for node in self._unlabelled(once) if zlib.crc32(node.encode()) < self.twice * 2**32]
                found += self.suggest(n, by, label, among, taken).names
            found = [node for node in found if node not in taken][:n]
            self.handed[who] = now, found
            return found

    def issues(self) -> dict[str, tuple[str, str]]:
        """Nodes whose label in the graph is probably wrong, the most doubtful first, each with a suggested class and
        the reason.

        They are computed once.
        """
        if self.known_issues is None:
            table = self.classifier.find_label_issues().table() if self.open else {"id": [], "suggested": [], "why": []}
            self.known_issues = dict(zip(table["id"], zip(table["suggested"], table["why"], strict=True), strict=True))
        return self.known_issues

    def why(self, node: str) -> Explanation | None:
        """The explanation of the prediction of a node; None if nothing can be predicted yet."""
        with self.lock:
            now = copy.copy(self.classifier)  # steps taken meanwhile change the original
        return None if self.found is None else now.explain(node)

    def more(self, label: str, n: int = 20) -> list[str]:
        """The ``n`` unlabelled nodes that most likely belong to a class."""
        with self.lock:
            return [] if self.found is None else self.classifier.find(label, n).names

    def like(self, nodes: Iterable[str], n: int = 20) -> list[str]:
        """The ``n`` unlabelled nodes that are most similar to the given ones."""
        with self.lock:
            x, free = self.classifier.coordinates(), self._free()[0]
        ids = find_nodes(self.graph, nodes, "nodes")
        free = free[~torch.isin(free, ids.cpu())].to(x.device)
        centre = x[:: max(len(x) // 20_000, 1)].float().mean(0)

        def directions(nodes: Tensor) -> Tensor:
            return torch.nn.functional.normalize(x[nodes].float() - centre, dim=1)

        wanted = directions(ids).mean(0)
        parts = [directions(part) @ wanted for part in free.split(1 << 14)]
        best = torch.cat(parts).topk(min(n, len(free))).indices
        return [node_name(self.graph, i) for i in free[best].tolist()]


def save_grown(
    classifier: FewShotClassifier, found: Growth, folder: PathLike, journal: Journal, progress: Shown = None
) -> None:
    """Save a classifier that has grown. The step is written to the ``journal`` first.

    A kill in between leaves the former model, in which its classes are still new.
    """
    journal.append({"do": "grow", "names": list(found.promoted)})
    kept = classifier.manifest is not None and STORE in classifier.manifest
    classifier.save(folder, force=True, data=kept, progress=progress)


def grow_folder(
    folder: PathLike,
    labels: Any = None,
    out: PathLike | None = None,
    *,
    progress: Shown = None,
    say: Say = lambda _: None,
    **where: Any,
) -> Growth:
    """Let the model in ``folder`` learn a table of ``labels``, or the answers in its journal, permanently.

    The model is saved in the same folder, or in the new folder ``out``. ``where`` is as in ``load_attached``.
    """
    if out is not None and Path(out).exists():
        raise InputError(f"{out} exists already; name a new folder with out=, or leave it out to replace {folder}")
    classifier = load_attached(folder, say=say, **where)
    assert classifier.graph is not None
    place, mark = Path(folder), classifier.graph.fingerprint
    with closing(Journal(place, mark, read_only=out is not None, wait=5.0)) as journal:  # refuses beside the page
        if labels is None:
            labels = LabelSession(copy.copy(classifier), journal).answered()
    found = classifier.grow(labels, progress=progress)
    with closing(Journal(place, mark, read_only=out is not None, wait=5.0)) as journal:
        save_grown(classifier, found, out or folder, journal, progress)
    return found


def open_session(
    classifier: FewShotClassifier | PathLike,
    support: PathLike | None = None,
    say: Say = lambda _: None,
    memory: int | None = None,
    twice: float = 0.1,
) -> LabelSession:
    """A session with a classifier, or with the saved classifier in a folder.

    The steps are stored in the folder of the classifier, if there is one. A new session starts from the examples or
    answers in the file ``support``. ``memory`` limits the work on a store, and ``twice`` is as in ``LabelSession``.
    """
    if not isinstance(classifier, FewShotClassifier):
        classifier = load_attached(classifier, say=say, memory=memory)
    if classifier.graph is None:
        raise InputError("no graph is attached: call attach(graph) first")
    steps: list[Step] = []
    if support is not None and Path(support).suffix.lower() in (".json", ".jsonl"):
        steps = exchange.read(support, classifier.graph)
    elif support is not None:
        told: dict[str, str] = {}
        for name, given in classifier.read_examples(support, told).items():
            ids = find_nodes(classifier.graph, given, f"{support}, class {name!r}").tolist()
            nodes = [node_name(classifier.graph, i) for i in ids]
            steps.append(Step("label", nodes, label=name) if nodes else Step("class", name=name))
        steps += [Step("describe", name=name, text=text) for name, text in told.items()]
    journal = Journal(classifier.folder, classifier.graph.fingerprint)
    try:
        return LabelSession(classifier, journal, steps, twice)
    except BaseException as error:
        journal.close()
        if support is not None and isinstance(error, InputError):
            raise InputError(f"{support}: {error}") from error
        raise
