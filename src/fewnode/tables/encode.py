"""The columns of a node table as features: words, categories, numbers and vectors, each a block of columns.

A single block is left in its own units. Several are put side by side as one sparse matrix: each block gets the same
length on average, times its ``SHARE``, then each row the length one, so that no block outweighs the others. The
blocks are told apart by name, so that a method can look at vectors alone.

An encoder is fitted first; then rows are encoded, in batches or all at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse as sp

from ..errors import InputError
from ..files import cache_dir
from .cells import is_missing, numbers
from .names import option
from .read import Table
from .schema import Role
from .text import Encoder, encode_cached, find_encoder, told

HINT = (
    "texts are read as words only; a pretrained text encoder is worth 2 points of accuracy or more: pip install "
    "'fewnode[text]', then fewnode encoder get"
)
# By benchmarks/blocks.py
SHARE = {"text": 1.0, "counts": 1.0} | dict.fromkeys(("category", "number", "vectors", "meaning"), 0.25)


@dataclass(frozen=True)
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


class Block(NamedTuple):
    """Columns of one kind: a matrix ``x [N, F]``, sparse or dense, and the names of its columns."""

    kind: str
    x: Any
    names: tuple[str, ...] | None


def columns_by_use(roles: Sequence[Role]) -> dict[str, list[str]]:
    """The columns of each block, in the order of the blocks; dates are numbers."""
    found: dict[str, list[str]] = {"text": [], "category": [], "number": [], "vectors": []}
    for role in roles:
        found.get("number" if role.use == "date" else role.use, []).append(role.column)
    return {use: columns for use, columns in found.items() if columns}


def _choose_text_encoder(table: Table, columns: list[str], wanted: str) -> tuple[TableEncoder, list[str]]:
    """The ``wanted`` text encoder if the table has texts, and notes for the user: ``words`` for none, ``auto`` for the
    best that is installed, or a folder or name."""
    encoder = TableEncoder()
    if not columns or wanted == "words":
        return encoder, []
    found = find_encoder(wanted)
    if found is None:
        return encoder, [HINT]
    sample = _texts(table, columns, slice(0, min(len(table), 2_000)))
    warning = found.language_warning(sample)
    if warning is not None and wanted == "auto":
        return encoder, [f"{warning}. Words alone are used"]
    filled = [text for text in sample if text.strip()]
    if filled and not encode_cached(found, filled).any():
        told = f"knows no word of the first {len(filled):,} texts; give text_encoder= another one, or 'words'"
        raise InputError(f"the encoder {found.name} {told}")
    place = found.name if found.folder is None else str(found.folder)
    told = f"texts are read as words and by the encoder {found.name} ({found.dim} columns)"
    made = replace(encoder, text_encoder=(place, found.sha256))
    return made, [told, *([] if warning is None else [warning])]


def fit_encoder(
    table: Table, roles: Sequence[Role], given: TableEncoder | str, sample: int | None = None
) -> tuple[TableEncoder, list[str]]:
    """The encoder of a table, and notes for the user. ``given`` is the name of a pretrained text encoder (``words`` for
    none), or an encoder whose missing parts are fitted. Words are learned from ``sample`` to twice as many rows, None
    for all."""
    uses = columns_by_use(roles)
    encoder, notes = _choose_text_encoder(table, uses.get("text", []), given) if isinstance(given, str) else (given, [])
    if "text" in uses and encoder.words is None:
        encoder = _fit_words(table, uses["text"], encoder, sample)
    known = {name: encoder.categories.get(name) or _categories(table, name) for name in uses.get("category", ())}
    encoder = replace(encoder, categories=known)
    if "number" in uses and not encoder.fill:
        encoder = _fit_numbers(table, uses["number"], encoder)
    return encoder, notes


def _fit_words(table: Table, columns: list[str], encoder: TableEncoder, sample: int | None) -> TableEncoder:
    """The 20,000 most common words of about ``sample`` texts, and their inverse document frequencies."""
    from sklearn.feature_extraction.text import CountVectorizer

    rows = None if sample is None else slice(0, len(table), max(1, len(table) // sample))
    texts = _texts(table, columns, rows)
    rare = 2 if len(texts) >= 100 else 1  # a word of one node says nothing about another
    vectorizer = CountVectorizer(stop_words="english", dtype=np.float32, max_features=20_000, min_df=rare)
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError as error:  # no word is left
        told = f"no usable words in {len(texts):,} texts; leave it out with {option('ignore')}"
        raise InputError(f"{table.path}, column {', '.join(map(repr, columns))}: {told}") from error
    words = tuple(vectorizer.get_feature_names_out().tolist())
    if rows is None:  # encoded already
        table.cache["words", words] = counts
    known = np.bincount(counts.indices, minlength=len(words)).astype(np.float32)
    rarity = tuple((np.log(np.float32(len(texts) + 1) / (known + 1)) + 1).tolist())
    return replace(encoder, words=words, rarity=encoder.rarity | {"text": rarity})


def _texts(table: Table, columns: list[str], rows: slice | None) -> list[str]:
    parts = [table.text(name, rows=rows) for name in columns]
    return list(map(" ".join, zip(*parts, strict=True))) if len(parts) > 1 else parts[0]


def _categories(table: Table, name: str) -> tuple[str, ...]:
    cell = table.as_text(name)
    found = table.run(f"select distinct {cell} from {table.sql} where not {is_missing(cell)}").fetchall()
    return tuple(sorted(value for (value,) in found))


def _fit_numbers(table: Table, columns: list[str], encoder: TableEncoder) -> TableEncoder:
    """Medians, gaps, means and deviations; one column in memory at a time."""
    fill, gaps = dict[str, float](), list[str]()
    spread, of_gaps = [], []
    for name in columns:
        x = numbers(table, name)
        missing = np.isnan(x)
        fill[name] = float(np.median(x[~missing])) if not missing.all() else 0.0
        spread.append(_spread(np.where(missing, fill[name], x).astype(np.float32)))
        if missing.any():
            gaps.append(name)
            of_gaps.append(_spread(missing.astype(np.float32)))
    found = ({"number": tuple(float(pair[i]) for pair in spread + of_gaps)} for i in (0, 1))
    centre, scale = (known | new for known, new in zip((encoder.centre, encoder.scale), found, strict=True))
    return replace(encoder, fill=fill, gaps=tuple(gaps), centre=centre, scale=scale)


def _spread(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and inverse standard deviation of each column. Rows are sorted, so that their order does not matter."""
    ordered = np.sort(x, axis=0)
    deviation, centre = ordered.std(axis=0, dtype=np.float64), ordered.mean(axis=0, dtype=np.float64)
    constant = deviation <= 1e-6 * (1 + abs(centre))  # which says nothing
    return centre, np.where(constant, 0.0, 1 / np.where(constant, 1.0, deviation))


def encode(
    table: Table,
    roles: Sequence[Role],
    encoder: TableEncoder,
    rows: slice | None = None,
    apart: Sequence[Block] = (),
) -> tuple[Any, tuple[str, ...] | None, dict[str, int], TableEncoder]:
    """The features of all or some rows of a node table, beside blocks that come ``apart``; the names of their columns;
    how many are of each kind; and the encoder with the means of vectors, which stand for those that are missing."""
    blocks = []
    for use, columns in columns_by_use(roles).items():
        if use == "text":
            if (counts := table.cache.pop(("words", encoder.words), None)) is None:
                counts = _vectorizer(encoder.words).transform(_texts(table, columns, rows))
            blocks.append(Block("text", counts, encoder.words))
            if (found := encoder.load_text_encoder()) is not None:
                vectors = encode_cached(found, _texts(table, columns, rows), progress=told())
                blocks.append(Block("meaning", vectors, tuple(f"meaning {i:04}" for i in range(found.dim))))
        elif use == "category":
            blocks.append(_category_block(table, columns, encoder, rows))
        elif use == "number":
            blocks.append(_number_block(table, columns, encoder, rows))
        else:
            for name in columns:
                block, encoder = _vector_block(table.vectors(name), name, encoder)
                blocks.append(block)
    return combined(sorted([*blocks, *apart], key=lambda block: block.kind in ("vectors", "meaning")), encoder)


@lru_cache(maxsize=4)  # looking through a vocabulary takes longer than counting the words of a text
def _vectorizer(words: tuple[str, ...] | None) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(stop_words="english", vocabulary=words, dtype=np.float32)


def _category_block(table: Table, columns: list[str], encoder: TableEncoder, rows: slice | None) -> Block:
    parts, names = [], []
    for name in columns:
        known = encoder.categories[name]
        codes = table.codes(name, {value: i for i, value in enumerate(known)}, rows)
        indptr = np.concatenate([[0], np.cumsum(codes >= 0)])
        ones = np.ones(indptr[-1], np.float32)
        parts.append(sp.csr_array((ones, codes[codes >= 0], indptr), shape=(len(codes), len(known))))
        names += [f"{name}={value}" for value in known]
    return Block("category", sp.csr_array(sp.hstack(parts, "csr")), tuple(names))


def _number_block(table: Table, columns: list[str], encoder: TableEncoder, rows: slice | None) -> Block:
    """Numbers with their gaps filled, and a column of flags for each that had gaps when the encoder was fitted."""
    x = np.stack([numbers(table, name, rows) for name in columns], axis=1)
    gaps = np.isnan(x)
    flags = gaps[:, [columns.index(name) for name in encoder.gaps]].astype(np.float32)
    x = np.where(gaps, [encoder.fill.get(name, 0.0) for name in columns], x).astype(np.float32)
    names = (*columns, *(f"{name} missing" for name in encoder.gaps))
    return Block("number", np.concatenate([x, flags], axis=1), names)


def _vector_block(x: np.ndarray, name: str, encoder: TableEncoder) -> tuple[Block, TableEncoder]:
    """Vectors; a node without one gets their mean."""
    gaps = np.isnan(x).any(axis=1)
    key, centre = f"{name} of no node", dict(encoder.centre)
    if gaps.any():
        centre.setdefault(key, tuple(np.sort(x[~gaps], axis=0).mean(axis=0, dtype=np.float64).tolist()))
        x[gaps] = centre[key]
    names = tuple(f"{name} {i}" for i in range(x.shape[1]))
    return Block("vectors", x, names), replace(encoder, centre=centre)


def combined(
    blocks: Sequence[Block], encoder: TableEncoder
) -> tuple[Any, tuple[str, ...] | None, dict[str, int], TableEncoder]:
    """One matrix of features: a single block as it is, several scaled to one another. What the encoder does not know
    of a block is fitted to it."""
    if not blocks:
        return None, None, {}, encoder
    if len(blocks) == 1:
        return blocks[0].x, blocks[0].names, {}, encoder
    parts, widths = [], dict[str, int]()
    for place, block in enumerate(blocks):
        key = f"vectors {place}" if block.kind == "vectors" else block.kind
        name = key if block.kind in ("vectors", "meaning") else "table"
        widths[name] = widths.get(name, 0) + block.x.shape[1]
        x, encoder = _scaled(block, key, encoder)
        parts.append(SHARE[block.kind] * x)
    joined = sp.csr_array(sp.hstack(parts, "csr"), dtype=np.float32)
    lengths = np.sqrt(np.asarray(joined.power(2).sum(axis=1)).ravel())
    joined.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(joined.indptr)).astype(np.float32)
    return joined, _distinct(blocks), widths, encoder


def _scaled(block: Block, key: str, encoder: TableEncoder) -> tuple[Any, TableEncoder]:
    """A block whose rows have the length one, on average: words weighted by rarity, numbers in standard deviations."""
    if block.kind in ("text", "counts"):
        from sklearn.feature_extraction.text import TfidfTransformer

        weighting = TfidfTransformer(sublinear_tf=True)
        if key in encoder.rarity:
            weighting.idf_ = np.array(encoder.rarity[key])
        else:
            weighting.fit(block.x)
            encoder = replace(encoder, rarity=encoder.rarity | {key: tuple(weighting.idf_.tolist())})
        return weighting.transform(block.x), encoder
    if block.kind == "meaning":  # of length one already, and empty where the text is
        return sp.csr_array(block.x), encoder
    if block.kind == "category":
        return block.x / np.sqrt(len(encoder.categories)), encoder
    if key not in encoder.scale:
        centre, scale = (tuple(part.tolist()) for part in _spread(block.x))
        encoder = replace(encoder, centre=encoder.centre | {key: centre}, scale=encoder.scale | {key: scale})
    z = (block.x - np.array(encoder.centre[key], np.float32)) * np.array(encoder.scale[key], np.float32)
    return sp.csr_array(np.clip(z, -5, 5) / np.sqrt(max(1, z.shape[1]))), encoder  # far values count as 5 deviations


def _distinct(blocks: Sequence[Block]) -> tuple[str, ...] | None:
    """The names of all columns. A name that occurs twice gets the kind of its block."""
    seen: set[str] = set()
    found: list[str] = []
    for block in blocks:
        given = block.names or tuple(f"{block.kind} {i}" for i in range(block.x.shape[1]))
        found += [f"{name} ({block.kind})" if name in seen else name for name in given]
        seen |= set(given)
    return tuple(found)
