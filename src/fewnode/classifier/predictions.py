"""Predictions: the probabilities of nodes, and tables of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, refused

UNKNOWN = "unknown"  # the label of a node whose best class is below the confidence asked for
OTHER, NONE_OF_THESE = "other", "none of these"  # a node of no class; the second, where a class is called "other"


class Rows:
    """Nodes with their ``names`` (ids, or numbers if they have none), their ``titles`` if the graph has any, and a
    ``table``.

    The table holds columns by name. Notebooks show its first rows and shorten long texts.
    """

    nodes: Tensor
    names: list[str]
    titles: list[str] | None

    def __len__(self) -> int:
        return len(self.nodes)

    def ids(self) -> dict[str, Any]:
        """The column ``id``, and ``title`` if there are titles."""
        return {"id": self.names} | ({} if self.titles is None else {"title": self.titles})

    def table(self) -> dict[str, Any]:
        raise NotImplementedError

    def to_frame(self, *args: Any, **options: Any) -> Any:
        """The ``table`` as a pandas DataFrame with the ids as its index. Takes the arguments of ``table``."""
        remedy = "pip install pandas; table() gives the same columns"
        with refused("a DataFrame needs pandas", ImportError, remedy=remedy):
            import pandas  # type: ignore[import-untyped,unused-ignore]
        return pandas.DataFrame(self.table(*args, **options)).set_index("id")

    def _first(self, rows: int) -> tuple[int, list[list[str]]]:
        """How many rows there are; the names of the columns and the first rows."""
        columns = self.table()
        cells = islice(zip(*columns.values(), strict=True), rows)
        texts = ([text if len(text) <= 40 else f"{text[:37]}..." for text in map(str, row)] for row in cells)
        return len(columns["id"]), [list(columns), *texts]

    def __repr__(self) -> str:
        count, rows = self._first(5)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([f"{type(self).__name__} of {count:,} nodes", *lines, *(["..."] if count > 5 else [])])

    def _repr_html_(self) -> str:
        count, rows = self._first(10)
        lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
        table = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<p>{type(self).__name__} of {count:,} nodes</p><table>{table}</table>"


@dataclass(frozen=True, eq=False, repr=False)
class Predictions(Rows):
    """The ``probabilities [B, N]`` of the ``classes`` for ``nodes [B]``.

    ``names`` are the ids of the nodes (or their numbers), and ``titles`` their titles, if the graph has any. ``kinds``
    says for each class whether it is known, new or other; it is None in closed-set classification.
    """

    nodes: Tensor
    names: list[str]
    classes: tuple[str, ...]
    probabilities: Tensor
    kinds: tuple[str, ...] | None = None
    titles: list[str] | None = None

    @classmethod
    def concatenate(cls, parts: Sequence["Predictions"]) -> "Predictions":
        """The rows of several predictions of the same classes, in this order."""
        names = [name for part in parts for name in part.names]
        nodes, rows = torch.cat([part.nodes for part in parts]), torch.cat([part.probabilities for part in parts])
        titles = None if parts[0].titles is None else [title for part in parts for title in part.titles or ()]
        return cls(nodes, names, parts[0].classes, rows, parts[0].kinds, titles)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.probabilities.numpy().astype(dtype or np.float32)

    def __getitem__(self, at: Any) -> Any:
        """Probabilities as of an array: ``found[0]``, ``found[:, 1]``."""
        return np.asarray(self)[at]

    def accepted(self, threshold: float = 0.0, thresholds: Mapping[str, float] | None = None) -> Tensor:
        """A mask [B] of the nodes whose highest probability reaches the threshold.

        ``thresholds`` holds thresholds of single classes; ``threshold`` applies to the others.
        """
        limits = torch.full((len(self.classes),), _probability("threshold", threshold))
        for name, limit in (thresholds or {}).items():
            if name not in self.classes:
                raise InputError(f"a threshold for {name!r}; the classes are {', '.join(map(repr, self.classes))}")
            limits[self.classes.index(name)] = _probability(f"the threshold of {name!r}", limit)
        best, choice = self.probabilities.max(1)
        return best >= limits[choice]

    def labels(self, threshold: float = 0.0, thresholds: Mapping[str, float] | None = None) -> list[str]:
        """The likeliest class of each node, or "unknown" if its probability is below the threshold."""
        sure, choice = self.accepted(threshold, thresholds).tolist(), self.probabilities.argmax(1).tolist()
        return [self.classes[c] if ok else UNKNOWN for c, ok in zip(choice, sure, strict=True)]

    def table(
        self,
        threshold: float = 0.0,
        thresholds: Mapping[str, float] | None = None,
        *,
        all_probabilities: bool = False,
    ) -> dict[str, Any]:
        """Columns ``id, label, probability, runner_up, margin``; the margin is the difference to the runner-up.

        ``title`` follows the id if the graph has titles. In open-set classification, ``kind`` says whether the label is
        known, new, other or unknown. ``all_probabilities`` adds a column ``p(class)`` for each class.
        """
        best, choice = self.probabilities.max(1)
        second, runner_up = self.probabilities.scatter(1, choice[:, None], -1.0).max(1)  # another class also of equals
        labels = self.labels(threshold, thresholds)
        found: dict[str, Any] = {
            **self.ids(),
            "label": labels,
            "probability": rounded(best),
            "runner_up": [self.classes[c] for c in runner_up.tolist()],
            "margin": rounded(best - second),
        }
        if self.kinds is not None:
            kind = dict(zip(self.classes, self.kinds, strict=True)) | {UNKNOWN: UNKNOWN}
            found["kind"] = [kind[label] for label in labels]
        if all_probabilities:
            found |= {f"p({name})": rounded(self.probabilities[:, i]) for i, name in enumerate(self.classes)}
        return found

    def counts(self, threshold: float = 0.0, thresholds: Mapping[str, float] | None = None) -> dict[str, int]:
        """The number of nodes of each class, and of unknown ones."""
        counted = Counter(self.labels(threshold, thresholds))
        return {name: counted[name] for name in (*self.classes, UNKNOWN)}


@dataclass(frozen=True, eq=False, repr=False)
class Candidates(Rows):
    """Nodes that may belong to a class, the likeliest first.

    ``nodes [B]`` have ``names``, ``titles`` (if the graph has any) and ``probabilities`` of the class.
    """

    label: str
    nodes: Tensor
    names: list[str]
    probabilities: Tensor
    titles: list[str] | None = None

    def expected(self, first: int) -> float:
        """The expected number of correct nodes among the ``first`` ones."""
        if not 1 <= first <= len(self):
            raise InputError(f"the first {first}; there are {len(self)} candidates")
        return float(self.probabilities[:first].sum())

    def table(self) -> dict[str, Any]:
        """Columns ``rank, id, probability, expected``; the last is the expected number of correct nodes up to this row.

        ``title`` follows the id if the graph has titles.
        """
        return {
            "rank": np.arange(1, len(self) + 1),
            **self.ids(),
            "probability": rounded(self.probabilities),
            "expected": self.probabilities.double().cumsum(0).numpy().round(2),
        }


def _probability(what: str, value: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise InputError(f"{what} is {value}; it is a probability, from 0 to 1")
    return float(value)


def rounded(values: Tensor) -> np.ndarray:
    """Values rounded for a table."""
    found: np.ndarray = values.double().numpy().round(6)
    return found
