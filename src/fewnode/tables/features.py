"""Features in a file of their own: a table, vectors (.npy, .npz, Parquet) or a sparse matrix (.npz)."""

from collections.abc import Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse as sp

from ..errors import InputError
from ..files import PathLike, read_npz, readable
from .columns import Table, close_name, read_columns
from .encode import Block, number_column
from .roles import find_id

TRIPLES = {"feature", "value"}  # beside the id column: one row per non-zero feature
ARRAYS = (".npy", ".npz")
CSR = ("data", "indices", "indptr", "shape")


class FeatureFile:
    """A file of features. ``ids`` are the nodes of its rows; None, if these are in the order of the node table."""

    def __init__(self, path: PathLike, id_column: Sequence[str], ends: Sequence[Sequence[str]]) -> None:
        self.path = Path(path)
        self.names: tuple[str, ...] | None = None
        if self.path.suffix.lower() in ARRAYS:
            self.x, self.ids = _array(self.path)
            self.table, self.by = Table(self.path, {}), "ids"
            return
        self.table = read_columns(path)
        given = [name for name in id_column if name in self.table.columns]
        triples = [name for name in self.table.columns if name not in TRIPLES]
        self.by = triples[0] if len(triples) == 1 else find_id(self.table, given, ends)[0]
        self.ids = node_ids(self.table, self.by)
        if set(self.table.columns) != {self.by, *TRIPLES}:
            self.x, self.names = _columns(self.table, self.by)

    def block(self, index: Mapping[str, int], listed: int, nodes: Table | None) -> Block:
        """The features of all nodes of ``index``, of which the first ``listed`` must have some."""
        if self.ids is None:
            return _padded(self.x, self.names, self._in_order(listed, nodes), len(index))
        rows = look_up(self.table, self.by, self.ids, index, nodes)
        if set(self.table.columns) >= TRIPLES:
            return _triples(self.table, rows, len(index))
        counts = np.bincount(rows, minlength=len(index))
        counts[listed:] = np.maximum(counts[listed:], 1)  # nodes that only edges name need none
        if (counts != 1).any():
            node = int((counts != 1).argmax())
            times = "no row" if counts[node] == 0 else f"{counts[node]} rows"
            raise InputError(f"{self.path}: node {list(index)[node]!r} has {times}; every node needs exactly one")
        return _padded(self.x, self.names, rows, len(index))

    def _in_order(self, listed: int, nodes: Table | None) -> np.ndarray:
        if nodes is None:
            raise InputError(
                f"{self.path} gives features by row number, so a node table is needed to say which node is which row"
            )
        if self.x.shape[0] != listed:
            raise InputError(f"{self.path} has {self.x.shape[0]:,} feature rows, but {nodes.path} has {listed:,} nodes")
        return np.arange(listed)


def node_ids(table: Table, name: str) -> list[str]:
    """A column of node ids, none of which is missing."""
    ids = table.text(name, "node ids", "--id-column")
    if "" in ids:
        raise InputError(f"{table.place(ids.index(''), name)}: the node id is missing; fill it in or remove the row")
    return ids


def look_up(
    table: Table, name: str, column: Sequence[str], index: Mapping[str, int], known: Table | None
) -> np.ndarray:
    """The number of each node; a node that is not there is refused."""
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


def _padded(x: Any, names: tuple[str, ...] | None, rows: np.ndarray, n: int) -> Block:
    """Rows put where their nodes are; other nodes have the mean of dense features and none of sparse ones."""
    if sp.issparse(x):
        place = sp.csr_array((np.ones(len(rows), np.float32), (rows, np.arange(len(rows)))), shape=(n, len(rows)))
        ordered = np.array_equal(rows, np.arange(n))
        return Block("counts", x if ordered else sp.csr_array(place @ x), names)
    if len(rows) < n:
        whole = np.broadcast_to(
            np.sort(x, axis=0).mean(axis=0, dtype=np.float64).astype(np.float32), (n, x.shape[1])
        ).copy()
        whole[rows] = x
        return Block("vectors", whole, names)
    return Block("vectors", x[np.argsort(rows)], names)


def _columns(table: Table, id_column: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """All other columns of a table of features: numbers or vectors, none missing."""
    parts, names = [], []
    for name, column in table.columns.items():
        if name == id_column:
            continue
        if column.ndim == 2:
            parts.append(column)
            names += [f"{name} {i}" for i in range(column.shape[1])]
        else:
            parts.append(number_column(table, name)[:, None])
            names.append(name)
        if len(gap := np.flatnonzero(np.isnan(parts[-1]).any(axis=1))):
            raise InputError(
                f"{table.place(int(gap[0]), name)}: the value is missing. A file of features needs every value: fill "
                "it in, or put the column into the node table, where gaps are filled"
            )
    if not parts:
        raise InputError(f"{table.path} has no column beside {id_column!r}; it should hold the features")
    return np.concatenate(parts, axis=1).astype(np.float32), tuple(names)


def _triples(table: Table, rows: np.ndarray, n: int) -> Block:
    features = table.text("feature", "feature names")
    names = sorted(set(features))
    index = {name: i for i, name in enumerate(names)}
    columns = np.fromiter(map(index.__getitem__, features), dtype=np.int64, count=len(features))
    values = number_column(table, "value")
    if np.isnan(values).any():
        row = int(np.isnan(values).argmax())
        raise InputError(f"{table.place(row, 'value')}: the value is missing. Every triple needs a numeric value")
    x = sp.csr_array((values.astype(np.float32), (rows, columns)), shape=(n, len(names)), dtype=np.float32)
    return Block("counts", x, tuple(names))


def _array(path: Path) -> tuple[Any, list[str] | None]:
    """The matrix of a .npy or .npz, and the ids of its rows if there is an array ``ids``."""
    if path.suffix.lower() == ".npy":
        try:
            return _checked_dense(path, np.load(readable(path), allow_pickle=False)), None
        except (ValueError, EOFError, OSError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is not a readable .npy array ({error}); write it with numpy.save") from error
    parts = read_npz(path)
    ids = next((parts.pop(name) for name in ("ids", "id", "node_names") if name in parts), None)
    named = None if ids is None else [str(value).strip() for value in ids.tolist()]
    prefix = "x_" if "x_data" in parts or "x_indptr" in parts else ""
    if prefix or {"indptr", "indices"} & set(parts):
        return _csr(path, {name: parts.get(prefix + name) for name in CSR}, prefix, list(parts)), named
    matrices = [name for name, part in parts.items() if part.ndim == 2 and part.dtype.kind in "iufb"]
    if len(matrices) != 1:
        raise InputError(
            f"{path} holds {', '.join(parts) or 'nothing'}; features are one array of shape [nodes, columns], or CSR "
            "parts x_data, x_indices, x_indptr, x_shape (or as scipy.sparse.save_npz writes them)"
        )
    return _checked_dense(path, parts[matrices[0]]), named


def _checked_dense(path: Path, x: np.ndarray) -> np.ndarray:
    if x.ndim != 2 or x.dtype.kind not in "iufb":
        raise InputError(f"{path} holds {x.dtype} of shape {x.shape}; features are numbers [nodes, columns]")
    made = np.ascontiguousarray(x, dtype=np.float32)
    if len(wrong := np.flatnonzero(~np.isfinite(made).all(axis=1))):
        raise InputError(f"{path}, row {wrong[0] + 1}: a feature is NaN or infinite; write a number or leave it out")
    return made


def _csr(path: Path, parts: dict[str, Any], prefix: str, held: list[str]) -> Any:
    if missing := [prefix + name for name, part in parts.items() if part is None]:
        raise InputError(f"{path} lacks {', '.join(sorted(missing))}; it holds {', '.join(held) or 'nothing'}")
    try:
        shape = tuple(int(side) for side in parts["shape"])
        x = sp.csr_array((parts["data"].astype(np.float32), parts["indices"], parts["indptr"]), shape=shape)
        x.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"{path}: the CSR parts do not fit together ({error})") from error
    if not np.isfinite(x.data).all():
        row = int(np.searchsorted(x.indptr, (~np.isfinite(x.data)).argmax(), side="right"))
        raise InputError(f"{path}, row {row}: a feature is NaN or infinite; write a number or leave it out")
    return x
