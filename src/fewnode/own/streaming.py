"""Predictions of a graph on disk, written as they are made: no table of all nodes is ever in memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from ..inference import NodeProgress
from ..io.streams import writing_columns
from ..storage import PathLike
from .classifier import FewShotClassifier
from .openworld.expectation import Expectation, Tally
from .openworld.question import OpenQuestion
from .predictions import UNKNOWN, Predictions

ROWS = 1 << 16  # nodes predicted at a time


@dataclass(frozen=True)
class Answered:
    """What was predicted, in all: how many ``rows``, how many of each class, the node with the smallest margin, and
    what is to be expected (None for the closed question)."""

    rows: int
    classes: tuple[str, ...]
    kinds: tuple[str, ...] | None
    counts: dict[str, int]
    least_sure: str
    expectation: Expectation | None

    @classmethod
    def of(
        cls,
        classifier: FewShotClassifier,
        found: Predictions,
        threshold: float,
        thresholds: Mapping[str, float] | None,
    ) -> "Answered":
        """Of predictions in memory."""
        table = found.table(threshold, thresholds)
        expected = None if classifier.question is None else classifier.expect(found, threshold, thresholds)
        closest = str(table["id"][int(table["margin"].argmin())])
        counts = found.counts(threshold, thresholds)
        return cls(len(found), found.classes, found.kinds, counts, closest, expected)


def write_predictions(
    classifier: FewShotClassifier,
    nodes: Tensor,
    out: PathLike,
    *,
    threshold: float = 0.0,
    thresholds: Mapping[str, float] | None = None,
    all_probabilities: bool = False,
    force: bool = False,
    raw_cells: bool = False,
    progress: NodeProgress | None = None,
) -> Answered:
    """Predict ``nodes [B]`` and write the table ``out``, some rows at a time."""
    graph, question = classifier.graph, classifier.question
    space = None if graph is None else graph.space
    parts = nodes.split(ROWS)
    how: dict[str, Any] = {"threshold": threshold, "thresholds": thresholds, "all_probabilities": all_probabilities}
    if question is None or space is None:
        done: Iterable[Part] = map(partial(Part.of, classifier.predict_proba, question, **how), parts)
    else:
        slim = _slim(question)
        ask = partial(_asked, slim, graph.node_names if graph is not None else None)
        done = space.results(partial(Part.of, ask, slim, **how), parts, "predictions, by chunks of rows")
    counts: Counter[str] = Counter()
    tally, closest, rows = None, (2.0, ""), 0
    with writing_columns(out, force, raw_cells) as write:
        for part in done:
            write(part.table)
            counts.update(part.counts)
            closest, rows = min(closest, part.closest), rows + len(part.table["id"])
            tally = part.tally if tally is None or part.tally is None else tally + part.tally
            if progress is not None:
                progress(rows, len(nodes))
    expected = None if question is None or tally is None else question.expectation(tally)
    classes, kinds = (classifier.classes_, None) if question is None else (question.classes, question.kinds)
    return Answered(
        len(nodes), classes, kinds, {name: counts[name] for name in (*classes, UNKNOWN)}, closest[1], expected
    )


@dataclass(frozen=True)
class Part:
    """The predictions of some nodes: the ``table``, and what is to be known of all of them in the end."""

    table: dict[str, Any]
    counts: Counter[str]
    closest: tuple[float, str]
    tally: Tally | None

    @classmethod
    def of(
        cls,
        ask: Callable[[Tensor], Predictions],
        question: OpenQuestion | None,
        nodes: Tensor,
        *,
        threshold: float,
        thresholds: Mapping[str, float] | None,
        all_probabilities: bool,
    ) -> "Part":
        found = ask(nodes)
        table = found.table(threshold, thresholds, all_probabilities=all_probabilities)
        at = int(table["margin"].argmin())
        closest = float(table["margin"][at]), str(table["id"][at])
        accepted = found.accepted(threshold, thresholds)
        tally = None if question is None else question.tally(found.probabilities, accepted)
        return cls(table, Counter(table["label"]), closest, tally)


def _slim(question: OpenQuestion) -> OpenQuestion:
    """The question without what answers do not need: it may be sent to other machines."""
    none = question.pool[:0].clone()
    return replace(question, model=replace(question.model, y=none, recipe=None, relay=None), pool=none)


def _asked(question: OpenQuestion, names: Sequence[str] | None, nodes: Tensor) -> Predictions:
    ids = nodes.tolist()
    called = [names[i] for i in ids] if names else list(map(str, ids))
    return Predictions(nodes, called, question.classes, question.probabilities(nodes), question.kinds)
