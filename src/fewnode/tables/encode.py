"""The columns of a node table as features: words, categories, numbers and vectors, each a block of columns.

A single block is left in its own units. Several are put side by side as one sparse matrix: each block gets the same
length on average, times its ``SHARE``, then each row the length one, so that no block outshouts the others."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import repeat
from typing import Any

import numpy as np
from scipy import sparse as sp

from ..errors import InputError
from . import values
from .columns import Table
from .roles import FLAGS, Role
from .text import word_counts

SHARE = {"text": 1.0, "counts": 1.0, "category": 0.25, "number": 0.25, "vectors": 0.25}  # by benchmarks/blocks.py
FAR = 5.0  # standard deviations: beside other blocks, what is further off counts as that far


@dataclass(frozen=True)
class Memory:
    """What was learned of the columns of a table, so that the next one is read in the same way."""

    words: tuple[str, ...] | None = None
    rarity: dict[str, tuple[float, ...]] = field(default_factory=dict)
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fill: dict[str, float] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    centre: dict[str, tuple[float, ...]] = field(default_factory=dict)
    scale: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in (None, (), {})}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Memory":
        def frozen(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: frozen(part) for key, part in value.items()}
            return tuple(value) if isinstance(value, list) else value

        return cls(**{name: frozen(value) for name, value in document.items()})


@dataclass(frozen=True, eq=False)
class Block:
    """Columns of one kind: a matrix ``x [N, F]``, sparse or dense, and the names of its columns."""

    kind: str
    x: Any
    names: tuple[str, ...] | None


def node_blocks(
    table: Table, roles: Sequence[Role], n: int, learned: Memory, decimal: str | None
) -> tuple[list[Block], Memory]:
    """The blocks of a node table for ``n`` nodes, of which the first are its rows; the others have no values."""
    more = [""] * (n - len(table))
    by_use: dict[str, list[str]] = {}
    for role in roles:
        by_use.setdefault("number" if role.use == "date" else role.use, []).append(role.column)
    blocks = []
    if columns := by_use.get("text"):
        block, learned = _text_block(table, columns, more, learned)
        blocks.append(block)
    if columns := by_use.get("category"):
        block, learned = _category_block(table, columns, more, learned)
        blocks.append(block)
    if columns := by_use.get("number"):
        block, learned = _number_block(table, columns, n, learned, decimal)
        blocks.append(block)
    for name in by_use.get("vectors", ()):
        block, learned = vector_block(table.columns[name], n, name, learned)
        blocks.append(block)
    return blocks, learned


def _text_block(table: Table, columns: list[str], more: list[str], learned: Memory) -> tuple[Block, Memory]:
    parts = [table.text(name, "text") for name in columns]
    texts = [*(map(" ".join, zip(*parts, strict=True)) if len(parts) > 1 else parts[0]), *more]
    try:
        counts, words = word_counts(texts, learned.words)
    except ValueError as error:
        where = ", ".join(map(repr, columns))
        raise InputError(
            f"{table.path}, column {where}: no usable words in {len(texts):,} texts ({error}); "
            f"leave it out with {FLAGS['ignore']}"
        ) from error
    return Block("text", counts, words), replace(learned, words=words)


def _category_block(table: Table, columns: list[str], more: list[str], learned: Memory) -> tuple[Block, Memory]:
    parts, names, known = [], [], dict(learned.categories)
    for name in columns:
        cells = [*table.text(name, "categories"), *more]
        if name not in known:
            known[name] = tuple(sorted(cell for cell in set(cells) if not values.missing(cell)))
        place = {value: i for i, value in enumerate(known[name])}
        at = np.fromiter(map(place.get, cells, repeat(-1)), dtype=np.int64, count=len(cells))
        given = at >= 0
        indptr = np.concatenate([[0], np.cumsum(given)])
        ones = np.ones(indptr[-1], np.float32)
        parts.append(sp.csr_array((ones, at[given], indptr), shape=(len(cells), len(place))))
        names += [f"{name}={value}" for value in known[name]]
    return Block("category", sp.csr_array(sp.hstack(parts, "csr")), tuple(names)), replace(learned, categories=known)


def _number_block(
    table: Table, columns: list[str], n: int, learned: Memory, decimal: str | None
) -> tuple[Block, Memory]:
    """Numbers with their gaps filled by the median, and a column of flags for each that has gaps in the first table."""
    x = np.full((n, len(columns)), np.nan)
    for at, name in enumerate(columns):
        x[: len(table), at] = number_column(table, name, decimal)
    gaps = np.isnan(x)
    first = not learned.fill
    fill = dict(learned.fill)
    if first:
        fill |= {name: _median(x[:, at]) for at, name in enumerate(columns)}
    flagged = tuple(name for at, name in enumerate(columns) if gaps[:, at].any()) if first else learned.gaps
    flags = gaps[:, [columns.index(name) for name in flagged]].astype(np.float32)
    x = np.where(gaps, [fill.get(name, 0.0) for name in columns], x).astype(np.float32)
    names = (*columns, *(f"{name} missing" for name in flagged))
    return Block("number", np.concatenate([x, flags], axis=1), names), replace(learned, fill=fill, gaps=flagged)


def _median(column: np.ndarray) -> float:
    given = column[~np.isnan(column)]
    return float(np.median(given)) if len(given) else 0.0


def number_column(table: Table, name: str, decimal: str | None = None) -> np.ndarray:
    """A column of numbers or dates as float64, nan where it is missing; every other value is refused."""
    column = table.columns[name]
    if column.dtype.kind in "iufb":
        found = column.astype(np.float64)
    else:
        cells = table.text(name, "numbers")
        found = _read_numbers(table, name, cells, decimal)
    with np.errstate(over="ignore"):
        wrong = np.flatnonzero(np.isinf(found.astype(np.float32)))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"{table.place(row, name)}: {column[row]} is not a finite number (as float32); write a number, or leave "
            f"the column out ({FLAGS['ignore']} {name})"
        )
    return found


def _read_numbers(table: Table, name: str, cells: list[str], decimal: str | None) -> np.ndarray:
    try:
        return values.numbers(cells, decimal)
    except values.DecimalDoubt as error:
        raise InputError(
            f"{table.place(error.row, name)}: {cells[error.row]!r} may be a number with a decimal comma or with its "
            "thousands grouped; say which with --decimal , or --decimal ."
        ) from None
    except values.NotANumber as error:
        if (years := values.dates(cells)) is not None:
            return years
        raise InputError(
            f"{table.place(error.row, name)}: {cells[error.row]!r} is not a number, as most values of this column are. "
            f"Write a number or leave the cell empty; or take the column for something else ({FLAGS['category']} "
            f"{name}, {FLAGS['text']} {name}, {FLAGS['ignore']} {name})"
        ) from None


def vector_block(x: np.ndarray, n: int, name: str, learned: Memory) -> tuple[Block, Memory]:
    """Vectors of the first nodes; a node without one gets their mean."""
    gaps = np.isnan(x).any(axis=1)
    fill = dict(learned.centre)
    key = f"{name} of no node"
    if gaps.any() or len(x) < n:
        fill.setdefault(key, tuple(np.sort(x[~gaps], axis=0).mean(axis=0, dtype=np.float64).tolist()))
        whole = np.broadcast_to(np.array(fill[key], np.float32), (n, x.shape[1])).copy()
        whole[: len(x)][~gaps] = x[~gaps]
        x = whole
    names = tuple(f"{name} {i}" for i in range(x.shape[1]))
    return Block("vectors", np.asarray(x, np.float32), names), replace(learned, centre=fill)


def combined(blocks: Sequence[Block], learned: Memory) -> tuple[Any, tuple[str, ...] | None, Memory]:
    """One matrix of features: a single block as it is, several scaled to one another."""
    if not blocks:
        return None, None, learned
    if len(blocks) == 1:
        return blocks[0].x, blocks[0].names, learned
    parts = []
    for place, block in enumerate(blocks):
        x, learned = _of_length_one(block, f"{place}", learned)
        parts.append(SHARE[block.kind] * x)
    joined = sp.csr_array(sp.hstack(parts, "csr"), dtype=np.float32)
    lengths = np.sqrt(np.asarray(joined.power(2).sum(axis=1)).ravel())
    joined.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(joined.indptr)).astype(np.float32)
    return joined, _distinct(blocks), learned


def _of_length_one(block: Block, key: str, learned: Memory) -> tuple[Any, Memory]:
    """A block whose rows have the length one, on average: words weighted by rarity, numbers in standard deviations."""
    if block.kind in ("text", "counts"):
        from sklearn.feature_extraction.text import TfidfTransformer

        weighting = TfidfTransformer(sublinear_tf=True)
        if key in learned.rarity:
            weighting.idf_ = np.array(learned.rarity[key])
        else:
            weighting.fit(block.x)
            learned = replace(learned, rarity=learned.rarity | {key: tuple(weighting.idf_.tolist())})
        return weighting.transform(block.x), learned
    if block.kind == "category":
        return block.x / np.sqrt(len(learned.categories)), learned
    if key not in learned.scale:
        ordered = np.sort(block.x, axis=0)  # so that the last digit does not depend on the order of the rows
        spread, centre = ordered.std(axis=0, dtype=np.float64), ordered.mean(axis=0, dtype=np.float64)
        spread = np.where(spread > 1e-6 * (1 + abs(centre)), spread, np.inf)  # a constant column says nothing
        centres, scales = (
            learned.centre | {key: tuple(centre.tolist())},
            learned.scale | {key: tuple((1 / spread).tolist())},
        )
        learned = replace(learned, centre=centres, scale=scales)
    z = (block.x - np.array(learned.centre[key], np.float32)) * np.array(learned.scale[key], np.float32)
    return sp.csr_array(np.clip(z, -FAR, FAR) / np.sqrt(max(1, z.shape[1]))), learned


def _distinct(blocks: Sequence[Block]) -> tuple[str, ...] | None:
    """The names of all columns; what is called like a word is told apart from it."""
    seen: set[str] = set()
    found: list[str] = []
    for block in blocks:
        given = block.names or tuple(f"{block.kind} {i}" for i in range(block.x.shape[1]))
        found += [f"{name} ({block.kind})" if name in seen else name for name in given]
        seen |= set(given)
    return tuple(found)
