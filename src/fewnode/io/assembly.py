"""A user's edge, node and feature files -> the arguments of ``Graph.from_edges``."""

from collections.abc import Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..storage import PathLike, read_npz
from .columns import Table, close_name, read_columns
from .text import word_counts

TRIPLES = {"feature", "value"}  # beside the id column: one row per non-zero feature


def graph_tables(
    edges: PathLike,
    nodes: PathLike | None = None,
    features: PathLike | None = None,
    *,
    id_column: str = "id",
    label_column: str | None = "label",
    text_column: str | None = None,
    vocabulary: Sequence[str] | None = None,
    source_column: str = "source",
    target_column: str = "target",
) -> dict[str, Any]:
    """Keyword arguments of ``Graph.from_edges`` from CSV or Parquet files with string ids.

    Features come from ``features`` if given, else from ``text_column`` of the nodes as counts of words, else from
    every other column of the nodes, which must then be numeric.

    Args:
        edges: one row per edge; other columns than the two ids are ignored.
        nodes: one row per node. Without it the nodes are those of the edges, then of ``features``.
        features: a table with an id and numeric columns, or of triples ``id, feature, value`` (missing = 0,
            repeated ones are added), or an .npz with CSR parts ``x_data, x_indices, x_indptr, x_shape`` whose
            rows are in the order of ``nodes``.
        vocabulary: words of the text column, where a model brings them; otherwise they are learned from the column.
        label_column: empty cells (and -1 among whole numbers) mean unknown; None for no labels.
    """
    edge_table = read_columns(edges)
    node_table = read_columns(nodes) if nodes is not None else None
    if node_table is None and text_column is not None:
        raise InputError(f"text_column={text_column!r} names a column of the node table, but none is given")
    feature_table = read_columns(features) if features is not None and not _is_npz(features) else None
    ends = {name: _ids(edge_table, name) for name in (source_column, target_column)}
    if node_table is not None:
        index = _node_index(node_table, id_column)
    else:
        more = _ids(feature_table, id_column) if feature_table else []
        index = {name: i for i, name in enumerate(dict.fromkeys(chain(*ends.values(), more)))}
    pairs = [_look_up(edge_table, name, column, index, node_table) for name, column in ends.items()]
    result: dict[str, Any] = {"edge_index": np.stack(pairs), "num_nodes": len(index), "node_names": tuple(index)}
    if node_table is not None and (found := _label_column(node_table, label_column)):
        result["y"], result["class_names"] = _labels(node_table.text(found, "labels"))
    if feature_table is not None:
        x, names = _feature_table(feature_table, index, id_column)
    elif features is not None:
        x, names = _csr_parts(Path(features), node_table), None
    elif node_table is not None and text_column is not None:
        x, names = _text_features(node_table, text_column, vocabulary)
    else:
        x, names = _numbers(node_table, {id_column, label_column}) if node_table is not None else (None, None)
    return {**result, "x": x, "feature_names": names}


def _is_npz(path: PathLike) -> bool:
    return Path(path).suffix.lower() == ".npz"


def _ids(table: Table, name: str) -> list[str]:
    ids = table.text(name, "node ids")
    if "" in ids:
        raise InputError(f"{table.place(ids.index(''), name)}: the node id is missing; fill it in or remove the row")
    return ids


def _node_index(table: Table, id_column: str) -> dict[str, int]:
    ids = _ids(table, id_column)
    index = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))  # the first of equal ids wins
    if len(index) < len(ids):
        again = next(i for i, name in enumerate(ids) if index[name] != i)
        raise InputError(
            f"{table.place(again, id_column)}: node id {ids[again]!r} is already used in row "
            f"{index[ids[again]] + 1} ({len(ids) - len(index):,} repeated). Every node needs its own id."
        )
    return {name: i for i, name in enumerate(ids)}


def _look_up(table: Table, name: str, column: list[str], index: dict[str, int], known: Table | None) -> np.ndarray:
    found = np.fromiter(map(index.get, column, repeat(-1)), dtype=np.int64, count=len(column))
    if (found >= 0).all():
        return found
    row = int((found < 0).argmax())
    close = close_name(column[row], list(index)) if len(index) < 10_000 else None
    where = known.path if known else "the node table"
    raise InputError(
        f"{table.place(row, name)}: {name} {column[row]!r} is not in {where}"
        f"{f' (nearest id: {close!r})' if close else ''}; {int((found < 0).sum()):,} such rows. "
        f"Add the node to {where} or remove the row."
    )


def _label_column(table: Table, name: str | None) -> str | None:
    """The label column to read. The default one may be absent, unless another looks like it misspelt."""
    if name is None or (name == "label" and name not in table.columns and not close_name(name, table.columns)):
        return None
    table.column(name, "labels (None if there are no labels)")
    return name


def _labels(values: list[str]) -> tuple[np.ndarray, tuple[str, ...] | None]:
    found = set(values) - {""}
    whole = all(value.removeprefix("-").isdecimal() for value in found)
    if whole:
        found -= {"-1"}
    names = sorted(found, key=(lambda value: (int(value), value)) if whole else None)
    index = {name: i for i, name in enumerate(names)}
    y = np.fromiter(map(index.get, values, repeat(-1)), dtype=np.int64, count=len(values))
    return y, tuple(names) or None


def _number_column(table: Table, name: str, remedy: str) -> np.ndarray:
    values = table.columns[name].tolist()
    try:
        numbers = np.fromiter(map(float, values), dtype=np.float64, count=len(values))
    except ValueError:
        row = next(i for i, value in enumerate(values) if not _is_number(value))
        what = f"{values[row]!r} is not a number" if str(values[row]).strip() else "the value is missing"
        raise InputError(f"{table.place(row, name)}: {what}. {remedy}") from None
    with np.errstate(over="ignore"):
        single = numbers.astype(np.float32)
    if not np.isfinite(single).all():
        row = int((~np.isfinite(single)).argmax())
        raise InputError(
            f"{table.place(row, name)}: {values[row]} is not a finite number (as float32); "
            "write a number, or leave the column out"
        )
    return single


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _numbers(table: Table, others: set[str | None]) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    names = tuple(name for name in table.columns if name not in others)
    if not names:
        return None, None
    remedy = (
        "Feature columns must be numeric in every row: fill it in, remove the column, or, if it is the text "
        "to learn from, name it as the text column"
    )
    return np.stack([_number_column(table, name, remedy) for name in names], axis=1), names


def _feature_table(table: Table, index: dict[str, int], id_column: str) -> tuple[Any, tuple[str, ...] | None]:
    rows = _look_up(table, id_column, _ids(table, id_column), index, None)
    if set(table.columns) == {id_column, *TRIPLES}:
        return _triples(table, rows, len(index))
    counts = np.bincount(rows, minlength=len(index))
    if (counts != 1).any():
        node = int((counts != 1).argmax())
        times = "no row" if counts[node] == 0 else f"{counts[node]} rows"
        raise InputError(f"{table.path}: node {list(index)[node]!r} has {times}; every node needs exactly one")
    values, names = _numbers(table, {id_column})
    return None if values is None else values[np.argsort(rows)], names


def _triples(table: Table, rows: np.ndarray, n: int) -> tuple[Any, tuple[str, ...]]:
    from scipy.sparse import csr_array

    features = table.text("feature", "feature names")
    names = sorted(set(features))
    index = {name: i for i, name in enumerate(names)}
    columns = np.fromiter(map(index.__getitem__, features), dtype=np.int64, count=len(features))
    values = _number_column(table, "value", "Every triple needs a numeric value")
    return csr_array((values, (rows, columns)), shape=(n, len(names)), dtype=np.float32), tuple(names)


def _csr_parts(path: Path, nodes: Table | None) -> Any:
    from scipy.sparse import csr_array

    if nodes is None:
        raise InputError(
            f"{path} gives features by row number, so a node table is needed to say which node is which row"
        )
    parts = read_npz(path)
    if missing := {"x_data", "x_indices", "x_indptr", "x_shape"} - set(parts):
        raise InputError(f"{path} lacks {', '.join(sorted(missing))}; it holds {', '.join(parts) or 'nothing'}")
    shape = tuple(int(side) for side in parts["x_shape"])
    if shape[0] != len(nodes):
        raise InputError(f"{path} has {shape[0]:,} feature rows, but {nodes.path} has {len(nodes):,} nodes")
    try:
        x = csr_array((parts["x_data"].astype(np.float32), parts["x_indices"], parts["x_indptr"]), shape=shape)
        x.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"{path}: the CSR parts do not fit together ({error})") from error
    if not np.isfinite(x.data).all():
        row = int(np.searchsorted(x.indptr, (~np.isfinite(x.data)).argmax(), side="right"))
        raise InputError(f"{path}, row {row}: a feature is NaN or infinite; write a number or leave it out")
    return x


def _text_features(table: Table, name: str, vocabulary: Sequence[str] | None) -> tuple[Any, tuple[str, ...]]:
    texts = table.text(name, "text")
    try:
        return word_counts(texts, vocabulary)
    except ValueError as error:
        raise InputError(f"{table.path}, column {name!r}: no usable words in {len(texts):,} texts ({error})") from error
