"""The columns of a node table longer than memory as features: words, categories and numbers, as ``io.blocks`` makes
them of a table in memory. What has to be known of all rows is learned in a first pass, then rows are made."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse as sp

from ..errors import InputError
from . import values
from .columns import Table
from .encode import Memory, combined, node_blocks, number_column
from .growing import Growing
from .roles import Role, node_roles
from .streams import Stream
from .text import MAX_WORDS

MOST_WORDS = 1 << 21  # different words that are counted; beyond that, those seen once are forgotten
NUMBERS = "numbers.npy"
CHUNK = 1 << 16  # rows


@dataclass(frozen=True, eq=False)
class Batch(Table):
    """Some rows of a stream; errors name the row of the whole."""

    stream: Stream | None = None
    first: int = 0

    def place(self, row: int, column: str | None = None) -> str:
        return super().place(row, column) if self.stream is None else self.stream.place(self.first + row, column)


def batches(stream: Stream, columns: Sequence[str]) -> Iterator[Batch]:
    """All rows with some columns as text."""
    for first, batch in stream.batches(list(columns), []):
        cells = {name: [(cell or "").strip() for cell in batch.column(name).to_pylist()] for name in columns}
        arrays = {name: np.array(part, dtype=object) for name, part in cells.items()}
        yield Batch(stream.path, arrays, stream=stream, first=first)


def first_rows(stream: Stream) -> Batch | None:
    """The start of a table, as text, without the columns that hold vectors; None if there are no rows."""
    return next(batches(stream, [name for name in stream.names if name not in stream.vectors]), None)


def feature_roles(stream: Stream, ids: str, label: str | None, given: dict[str, Any]) -> list[Role]:
    """What the columns other than ids and labels are taken for, by the first rows; ``given`` are options as those of
    ``io.read_graph``."""
    ignored = given.get("ignore_column", [])
    if vectors := [name for name in stream.vectors if name not in ignored]:
        raise InputError(
            f"{stream.path}, column {vectors[0]!r}: holds vectors; save them as an array (numpy.save) and give it "
            f"as --features, or leave them out with --ignore-column {vectors[0]}"
        )
    start = first_rows(stream)
    if start is None:
        return []
    given = {**given, "ignore_column": [name for name in ignored if name not in stream.vectors]}
    roles = node_roles(start, {"id_column": ids, "label_column": label or "", **given}, [])
    return [role for role in roles if role.use not in ("id", "label")]


@dataclass
class Learner:
    """What all rows tell: the words, the categories, and the numbers, which are kept in a folder for the time being."""

    roles: Sequence[Role]
    folder: Path
    decimal: str | None = None
    rows: int = 0
    documents: Counter[str] = field(default_factory=Counter)  # in how many rows a word is
    words: Counter[str] = field(default_factory=Counter)  # how often it is there

    def __post_init__(self) -> None:
        self.texts, self.categories = self._named("text"), {name: set[str]() for name in self._named("category")}
        self.numbers = self._named("number", "date")
        self.file = Growing(self.folder / NUMBERS, np.float64, (len(self.numbers),))

    def _named(self, *uses: str) -> list[str]:
        return [role.column for role in self.roles if role.use in uses]

    def add(self, table: Table) -> None:
        if self.texts:
            self._count([" ".join(cells) for cells in zip(*(table.columns[name] for name in self.texts), strict=True)])
        for name, seen in self.categories.items():
            seen.update(table.columns[name].tolist())
        if self.numbers:
            self.file.append(np.stack([number_column(table, name, self.decimal) for name in self.numbers], 1))
        self.rows += len(table)

    def _count(self, texts: list[str]) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        vectorizer = CountVectorizer(stop_words="english", dtype=np.float32)
        try:
            counts = vectorizer.fit_transform(texts)
        except ValueError:  # no word in any of them
            return
        found = vectorizer.get_feature_names_out().tolist()
        rows = np.bincount(counts.indices, minlength=len(found)).tolist()
        self.documents.update(dict(zip(found, rows, strict=True)))
        self.words.update(dict(zip(found, counts.sum(0).A1.astype(int).tolist(), strict=True)))
        if len(self.documents) > MOST_WORDS:
            self.documents = Counter({word: n for word, n in self.documents.items() if n > 1})
            self.words = Counter({word: self.words[word] for word in self.documents})

    def memory(self) -> Memory:
        """As if all rows had been read at once."""
        self.file.close()
        learned = Memory(categories={name: _categories(seen) for name, seen in self.categories.items()})
        kinds = [kind for kind in ("texts", "categories", "numbers") if getattr(self, kind)]
        found: dict[str, Any] = {"categories": learned.categories}
        if self.texts:
            found["words"] = self._commonest()
            known = np.array([self.documents[word] for word in found["words"]])
            found["rarity"] = {str(kinds.index("texts")): tuple((np.log((1 + self.rows) / (1 + known)) + 1).tolist())}
        if self.numbers:
            found["fill"], found["gaps"] = self._fill()
            centre, scale = self._spread(found["fill"], found["gaps"])
            key = str(kinds.index("numbers"))
            found |= {"centre": {key: centre}, "scale": {key: scale}}
        return Memory(**found)

    def _commonest(self) -> tuple[str, ...]:
        rare = 2 if self.rows >= 100 else 1  # as in ``word_counts``
        words = sorted(word for word, rows in self.documents.items() if rows >= rare)
        if not words:
            where = ", ".join(map(repr, self.texts))
            raise InputError(
                f"column {where}: no usable words in {self.rows:,} texts; leave it out with --ignore-column"
            )
        counts = np.array([self.words[word] for word in words], np.float32)
        kept = np.sort((-counts).argsort()[:MAX_WORDS])
        return tuple(words[i] for i in kept)

    def _fill(self) -> tuple[dict[str, float], tuple[str, ...]]:
        """What stands for a missing number, the median of its column; and the columns that have gaps."""
        x = np.load(self.folder / NUMBERS, mmap_mode="r")
        fill, gaps = {}, []
        for at, name in enumerate(self.numbers):
            missing = np.isnan(column := np.array(x[:, at]))
            fill[name] = float(np.median(column[~missing])) if not missing.all() else 0.0
            gaps += [name] if missing.any() else []
        return fill, tuple(gaps)

    def _spread(self, fill: dict[str, float], gaps: tuple[str, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The mean of each column of numbers and of gaps, and one over its standard deviation, as in ``io.blocks``."""
        x = np.load(self.folder / NUMBERS, mmap_mode="r")
        flagged, instead = [self.numbers.index(name) for name in gaps], [fill[name] for name in self.numbers]

        def rows(at: int) -> np.ndarray:
            missing = np.isnan(part := x[at : at + CHUNK])
            filled = np.where(missing, instead, part).astype(np.float32)
            return np.concatenate([filled, missing[:, flagged]], 1).astype(np.float64)

        starts = range(0, len(x), CHUNK)
        centre = np.sum([rows(at).sum(0) for at in starts], 0) / len(x)
        spread = np.sqrt(np.sum([np.square(rows(at) - centre).sum(0) for at in starts], 0) / len(x))
        scale = np.where(spread > 1e-6 * (1 + abs(centre)), 1 / np.maximum(spread, 1e-300), 0.0)
        return tuple(centre.tolist()), tuple(scale.tolist())


def _categories(seen: set[str]) -> tuple[str, ...]:
    return tuple(sorted(cell for cell in seen if not values.missing(cell)))


class FeatureFiles:
    """Rows of features that are appended to the arrays of a store, dense or sparse."""

    def __init__(self, folder: Path, roles: Sequence[Role], learned: Memory, decimal: str | None) -> None:
        self.folder, self.roles, self.learned, self.decimal = folder, roles, learned, decimal
        self.names: tuple[str, ...] | None = None
        self.width: int | None = None  # of sparse rows
        self.files: dict[str, Growing] = {}

    def append(self, table: Table) -> None:
        blocks, _ = node_blocks(table, self.roles, len(table), self.learned, self.decimal)
        x, self.names, _ = combined(blocks, self.learned)
        if not sp.issparse(x):
            self._file("features", np.float32, (x.shape[1],)).append(x)
            return
        if not self.files:
            self._file("x_indptr", np.int64).append(np.zeros(1))
        self.width = x.shape[1]
        done = self._file("x_indices", np.int64)
        self.files["x_indptr"].append(done.rows + x.indptr[1:].astype(np.int64))
        done.append(x.indices)
        self._file("x_values", np.float32).append(x.data)

    def _file(self, name: str, dtype: Any, width: tuple[int, ...] = ()) -> Growing:
        if name not in self.files:
            self.files[name] = Growing(self.folder / f"{name}.npy", dtype, width)
        return self.files[name]

    def close(self) -> None:
        for file in self.files.values():
            file.close()
