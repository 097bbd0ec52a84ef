"""The columns of a node table as features: words, categories, numbers and vectors, each a block of columns.

A single block is left in its own units. Several are put side by side as one sparse matrix: each block gets the same
length on average, times its ``SHARE``, then each row the length one, so that no block outweighs the others. The
blocks are told apart by name, so that a method can look at vectors alone.

An encoder is fitted first; then rows are encoded, in batches or all at once."""

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse as sp

from ..errors import InputError, refused
from ..files import cache_dir
from .names import option
from .read import Table
from .schema import Role, is_missing, numbers
from .text import Encoder, encode_cached, find_encoder

HINT = (
    "texts are read as words only; a pretrained text encoder is worth 1 to 4 points of accuracy: pip install "
    "'fewnode[text]', then fewnode encoder get"
)
# By benchmarks/blocks.py
SHARE = {"text": 1.0, "counts": 1.0} | dict.fromkeys(("category", "number", "vectors", "meaning"), 0.25)


def few_nonzero(x: Any) -> bool:
    """Whether at most a third of the values of a dense or sparse matrix are not zero.

    Such features are kept sparse and read as words, others are kept dense and read as measurements: the reading does
    not depend on the format in which they were given.
    """
    count = x.count_nonzero() if sp.issparse(x) else np.count_nonzero(x)
    return bool(3 * count <= x.shape[0] * x.shape[1])


def in_format(x: Any, sparse: bool) -> Any:
    """A matrix as CSR, or as an array."""
    if sparse:
        return sp.csr_matrix(x)
    return x.toarray() if sp.issparse(x) else x


class Block(NamedTuple):
    """Columns of one kind: a matrix ``x [N, F]``, sparse or dense, and the names of its columns."""

    kind: str
    x: Any
    names: tuple[str, ...] | None


Encoded = tuple[Any, tuple[str, ...] | None, dict[str, int]]  # features, names of columns, how many of each kind


@dataclass
class TableEncoder:
    """What was fitted to the columns of a table, so that the next one is encoded in the same way.

    Args:
        words: of the texts.
        rarity: the inverse document frequency of each word, by block.
        categories: the values of each column of categories.
        fill: what stands for a missing number, the median of its column.
        gaps: the columns of numbers of which some were missing.
        centre: the mean of each column, by block.
        scale: one over the standard deviation of each column, by block.
        text_encoder: folder (or name) and SHA-256 of the pretrained encoder whose vectors stand beside the words.
    """

    words: tuple[str, ...] | None = None
    rarity: dict[str, tuple[float, ...]] = field(default_factory=dict)
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fill: dict[str, float] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    centre: dict[str, tuple[float, ...]] = field(default_factory=dict)
    scale: dict[str, tuple[float, ...]] = field(default_factory=dict)
    text_encoder: tuple[str, str] | None = None

    def copy(self) -> "TableEncoder":
        """A copy that learns without changing this one; they share the words, of which there are many."""
        return TableEncoder(**{name: copy(value) for name, value in vars(self).items()})

    def load_text_encoder(self) -> Encoder | None:
        """The encoder of the texts, if there is one; refused if it is another than when this was fitted."""
        if self.text_encoder is None:
            return None
        name, digest = self.text_encoder
        try:  # on another machine it may be in the cache
            found = find_encoder(name if Path(name).exists() else Path(name).name)
        except InputError as error:
            told = f"which is not here ({error}). Put its folder into {cache_dir() / 'encoders'}"
            raise InputError(f"the model was fitted with the text encoder {name}, {told}") from error
        if found is not None and found.sha256 != digest:
            told = f"(SHA-256 {found.sha256[:12]}..., then {digest[:12]}...): put that one back, or fit again"
            raise InputError(f"the text encoder {name} is not the one the model was fitted with {told}")
        return found

    def choose_text_encoder(self, table: Table, roles: Sequence[Role], wanted: str) -> list[str]:
        """Take the ``wanted`` text encoder if the table has texts, and return notes for the user: ``words`` for none,
        ``auto`` for the best that is installed, or a folder or name."""
        columns = columns_by_use(roles).get("text")
        if columns is None or wanted == "words":
            return []
        found = find_encoder(wanted)
        if found is None:
            return [HINT]
        sample = _texts(table, columns, slice(0, 2_000))
        notes = [f"texts are read as words and by the encoder {found.name} ({found.dim} columns)"]
        if (share := found.unknown_share(sample)) > 0.5:
            told = f"{100 * share:.0f} % of the letters of the texts are unknown to the encoder {found.name}"
            remedy = "Their words are better evidence; or choose a multilingual encoder"
            notes.append(f"{told}: it was not made for their language. {remedy}")
            if wanted == "auto":
                return [f"{notes[-1]}. Words alone are used"]
        if any(map(str.strip, sample)) and not encode_cached(found, sample).any():
            told = f"knows no word of the first {len(sample):,} texts; give text_encoder= another one, or 'words'"
            raise InputError(f"the encoder {found.name} {told}")
        self.text_encoder = found.name if found.folder is None else str(found.folder), found.sha256
        return notes

    def fit(self, table: Table, roles: Sequence[Role], sample: int | None = None) -> None:
        """Learn what is not known yet of the columns of a table; words from ``sample`` to twice as many rows, None for
        all."""
        uses = columns_by_use(roles)
        if "text" in uses and self.words is None:
            self._fit_words(table, uses["text"], sample)
        for name in uses.get("category", ()):
            if not self.categories.get(name):
                cell = table.as_text(name)
                found = table.run(f"select distinct {cell} from {table.sql} where not {is_missing(cell)}").fetchall()
                self.categories[name] = tuple(sorted(value for (value,) in found))
        if "number" in uses and not self.fill:
            self._fit_numbers(table, uses["number"])

    def _fit_words(self, table: Table, columns: list[str], sample: int | None) -> None:
        """The 20,000 most common words of about ``sample`` texts, and their inverse document frequencies."""
        from sklearn.feature_extraction.text import CountVectorizer

        rows = None if sample is None else slice(0, len(table), max(1, len(table) // sample))
        texts = _texts(table, columns, rows)
        rare = 2 if len(texts) >= 100 else 1  # a word of one node says nothing about another
        vectorizer = CountVectorizer(stop_words="english", dtype=np.float32, max_features=20_000, min_df=rare)
        told = f"{table.path}, column {', '.join(map(repr, columns))}: no usable words in {len(texts):,} texts"
        with refused(told, ValueError, remedy=f"leave it out with {option('ignore')}"):
            counts = vectorizer.fit_transform(texts)
        self.words = tuple(vectorizer.get_feature_names_out().tolist())
        if rows is None:  # encoded already
            table.cache["words", self.words] = counts
        known = np.bincount(counts.indices, minlength=len(self.words)).astype(np.float32)
        self.rarity["text"] = tuple((np.log(np.float32(len(texts) + 1) / (known + 1)) + 1).tolist())

    def _fit_numbers(self, table: Table, columns: list[str]) -> None:
        """Medians, gaps, means and deviations; one column in memory at a time."""
        spread, of_gaps = [], []
        for name in columns:
            x = numbers(table, name)
            missing = np.isnan(x)
            self.fill[name] = float(np.median(x[~missing])) if not missing.all() else 0.0
            spread.append(_spread(np.where(missing, self.fill[name], x).astype(np.float32)))
            if missing.any():
                self.gaps += (name,)
                of_gaps.append(_spread(missing.astype(np.float32)))
        means, scales = zip(*spread, *of_gaps, strict=True)
        self.centre["number"], self.scale["number"] = tuple(map(float, means)), tuple(map(float, scales))

    def encode(
        self, table: Table, roles: Sequence[Role], rows: slice | None = None, apart: Sequence[Block] = ()
    ) -> Encoded:
        """The features of all or some rows of a node table, beside blocks that come ``apart``. The means of vectors,
        which stand for those that are missing, are learned from the first table."""
        blocks = []
        for use, columns in columns_by_use(roles).items():
            if use == "text":
                if (counts := table.cache.pop(("words", self.words), None)) is None:
                    counts = _vectorizer(self.words).transform(_texts(table, columns, rows))
                blocks.append(Block("text", counts, self.words))
                if (found := self.load_text_encoder()) is not None:
                    vectors = encode_cached(found, _texts(table, columns, rows))
                    blocks.append(Block("meaning", vectors, tuple(f"meaning {i:04}" for i in range(found.dim))))
            elif use == "category":
                blocks.append(self._category_block(table, columns, rows))
            elif use == "number":
                blocks.append(self._number_block(table, columns, rows))
            else:
                blocks += [self._vector_block(table.vectors(name), name) for name in columns]
        return self.combine(sorted([*blocks, *apart], key=lambda block: block.kind in ("vectors", "meaning")))

    def _category_block(self, table: Table, columns: list[str], rows: slice | None) -> Block:
        parts, names = [], []
        for name in columns:
            known = self.categories[name]
            codes = table.codes(name, {value: i for i, value in enumerate(known)}, rows)
            parts.append(sp.eye_array(len(known) + 1, len(known), dtype=np.float32, format="csr")[codes])  # -1: zeros
            names += [f"{name}={value}" for value in known]
        return Block("category", sp.csr_array(sp.hstack(parts, "csr")), tuple(names))

    def _number_block(self, table: Table, columns: list[str], rows: slice | None) -> Block:
        """Numbers with their gaps filled, and a column of flags for each that had gaps when the encoder was fitted."""
        x = np.stack([numbers(table, name, rows) for name in columns], axis=1)
        gaps = np.isnan(x)
        flags = gaps[:, [columns.index(name) for name in self.gaps]].astype(np.float32)
        x = np.where(gaps, [self.fill.get(name, 0.0) for name in columns], x).astype(np.float32)
        names = (*columns, *(f"{name} missing" for name in self.gaps))
        return Block("number", np.concatenate([x, flags], axis=1), names)

    def _vector_block(self, x: np.ndarray, name: str) -> Block:
        """Vectors; a node without one gets their mean."""
        gaps = np.isnan(x).any(axis=1)
        if gaps.any():
            mean = np.sort(x[~gaps], axis=0).mean(axis=0, dtype=np.float64)
            x[gaps] = self.centre.setdefault(f"{name} of no node", tuple(mean.tolist()))
        return Block("vectors", x, tuple(f"{name} {i}" for i in range(x.shape[1])))

    def combine(self, blocks: Sequence[Block]) -> Encoded:
        """One matrix of features: a single block as it is, several scaled to one another. What the encoder does not
        know of a block is fitted to it."""
        if not blocks:
            return None, None, {}
        if len(blocks) == 1:
            return blocks[0].x, blocks[0].names, {}
        parts, widths = [], Counter[str]()
        for place, block in enumerate(blocks):
            key = f"vectors {place}" if block.kind == "vectors" else block.kind
            widths[key if block.kind in ("vectors", "meaning") else "table"] += block.x.shape[1]
            parts.append(SHARE[block.kind] * self._scaled(block, key))
        joined = sp.csr_array(sp.hstack(parts, "csr"), dtype=np.float32)
        lengths = np.sqrt(np.asarray(joined.power(2).sum(axis=1)).ravel())
        joined.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(joined.indptr)).astype(np.float32)
        return joined, _distinct(blocks), dict(widths)

    def _scaled(self, block: Block, key: str) -> Any:
        """A block whose rows have the length one, on average: words weighted by rarity, numbers in standard
        deviations."""
        if block.kind in ("text", "counts"):
            from sklearn.feature_extraction.text import TfidfTransformer

            weighting = TfidfTransformer(sublinear_tf=True)
            if key not in self.rarity:
                self.rarity[key] = tuple(weighting.fit(block.x).idf_.tolist())
            weighting.idf_ = np.array(self.rarity[key])
            return weighting.transform(block.x)
        if block.kind == "meaning":  # of length one already, and empty where the text is
            return sp.csr_array(block.x)
        if block.kind == "category":
            return block.x / np.sqrt(len(self.categories))
        if key not in self.scale:
            self.centre[key], self.scale[key] = (tuple(part.tolist()) for part in _spread(block.x))
        z = (block.x - np.array(self.centre[key], np.float32)) * np.array(self.scale[key], np.float32)
        return sp.csr_array(np.clip(z, -5, 5) / np.sqrt(max(1, z.shape[1])))  # far values count as 5 deviations


def columns_by_use(roles: Sequence[Role]) -> dict[str, list[str]]:
    """The columns of each block, in the order of the blocks; dates are numbers."""
    kinds = {"text": ("text",), "category": ("category",), "number": ("number", "date"), "vectors": ("vectors",)}
    found = {kind: [role.column for role in roles if role.use in uses] for kind, uses in kinds.items()}
    return {kind: columns for kind, columns in found.items() if columns}


def _texts(table: Table, columns: list[str], rows: slice | None) -> list[str]:
    return list(table.fetch(" || ' ' || ".join(map(table.as_text, columns)), rows))


def _spread(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and inverse standard deviation of each column. Rows are sorted, so that their order does not matter."""
    ordered = np.sort(x, axis=0)
    deviation, centre = ordered.std(axis=0, dtype=np.float64), ordered.mean(axis=0, dtype=np.float64)
    constant = deviation <= 1e-6 * (1 + abs(centre))  # which says nothing
    return centre, np.where(constant, 0.0, 1 / np.where(constant, 1.0, deviation))


@lru_cache(maxsize=4)  # looking through a vocabulary takes longer than counting the words of a text
def _vectorizer(words: tuple[str, ...] | None) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(stop_words="english", vocabulary=words, dtype=np.float32)


def _distinct(blocks: Sequence[Block]) -> tuple[str, ...] | None:
    """The names of all columns. A name that occurs twice gets the kind of its block."""
    seen: set[str] = set()
    found: list[str] = []
    for block in blocks:
        given = block.names or tuple(f"{block.kind} {i}" for i in range(block.x.shape[1]))
        found += [f"{name} ({block.kind})" if name in seen else name for name in given]
        seen |= set(given)
    return tuple(found)
