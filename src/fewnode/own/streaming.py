"""Predictions of a graph on disk, written as they are made: no table of all nodes is ever in memory."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from ..inference import NodeProgress
from ..io.streams import writing_columns
from ..storage import PathLike
from .classifier import FewShotClassifier
from .expectation import Expectation
from .predictions import Predictions

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
    question, space = classifier.question, classifier.graph.space if classifier.graph is not None else None
    counts: Counter[str] = Counter()
    tally, closest, done = None, (2.0, ""), 0
    with writing_columns(out, force, raw_cells) as write:
        for part in nodes.split(ROWS):
            found = classifier.predict_proba(part)
            table = found.table(threshold, thresholds, all_probabilities=all_probabilities)
            write(table)
            counts.update(table["label"])
            at = int(table["margin"].argmin())
            closest = min(closest, (float(table["margin"][at]), str(table["id"][at])))
            if question is not None:
                own = question.tally(found.probabilities, found.accepted(threshold, thresholds))
                tally = own if tally is None else tally + own
            done += len(part)
            if progress is not None:
                progress(done, len(nodes))
            if space is not None:
                space.release()
    expected = None if question is None or tally is None else question.expectation(tally)
    names = found.counts(threshold, thresholds)
    return Answered(
        len(nodes), found.classes, found.kinds, {name: counts[name] for name in names}, closest[1], expected
    )
