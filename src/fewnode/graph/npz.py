"""The plain npz layout of a graph: which arrays it holds, and how they are read and written."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse as sp

from ..errors import InputError

MOST_COLUMNS = 1 << 24  # of features


def graph_arguments(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The arguments of ``from_edges`` in the arrays of the plain npz layout."""
    x, rows = arrays.get("x"), None
    if "x_shape" in arrays:
        rows, columns = checked_shape(arrays["x_shape"], "x_shape")
        if x is None and columns > 0:
            x = checked_csr(arrays["x_data"], arrays["x_indices"], arrays["x_indptr"], (rows, columns), "x")
    sizes = [len(_row(arrays, key)) for key in ("y", "node_names") if key in arrays]
    kinds_of_names = ("node_names", "class_names", "feature_names", "kind_names")
    names: dict[str, Any] = {key: _row(arrays, key).tolist() for key in kinds_of_names if key in arrays}
    return {
        "edge_index": arrays["edge_index"],
        "x": x,
        "y": arrays.get("y"),
        "num_nodes": rows if rows is not None else sizes[0] if sizes else None,
        "directed": _flag(arrays, "directed"),
        "edge_weight": arrays.get("edge_weight"),
        "edge_kind": arrays.get("edge_kind"),
        **names,
    }


def _row(arrays: Mapping[str, np.ndarray], key: str) -> np.ndarray:
    if arrays[key].ndim != 1:
        raise InputError(f"{key} has shape {arrays[key].shape}; expected one row of values")
    return arrays[key]


def _flag(arrays: Mapping[str, np.ndarray], key: str) -> bool:
    value = arrays.get(key, np.array(False))
    if value.size != 1 or value.dtype.kind not in "bi" or value.item() not in (0, 1):
        raise InputError(f"{key} is {str(value)[:40]}; expected true or false")
    return bool(value.item())


def checked_shape(shape: np.ndarray, what: str) -> tuple[int, int]:
    """Rows and columns, if an array says them."""
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise InputError(f"{what} is {str(shape)[:40]}; expected the numbers of rows and columns")
    rows, columns = (int(size) for size in shape)
    if rows < 0 or not 0 <= columns <= MOST_COLUMNS:
        raise InputError(f"{what} is {rows:,} x {columns:,}; expected rows from 0 and at most {MOST_COLUMNS:,} columns")
    return rows, columns


def checked_csr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int], what: str
) -> sp.csr_matrix:
    """A sparse matrix whose parts fit together: no index leads outside. Nothing unchecked goes to compiled code."""
    for name, part, kinds in (("data", data, "biuf"), ("indices", indices, "iu"), ("indptr", indptr, "iu")):
        if part.ndim != 1 or part.dtype.kind not in kinds:
            raise InputError(f"{what}_{name} has dtype {part.dtype} and shape {part.shape}; expected a row of numbers")
    if len(indptr) != shape[0] + 1 or len(data) != len(indices):
        sizes = f"{len(indptr):,} row starts for {shape[0]:,} rows, {len(indices):,} indices, {len(data):,} values"
        raise InputError(f"the parts of {what} do not fit together: {sizes}")
    indices, indptr = indices.astype(np.int64), indptr.astype(np.int64)
    inside = not len(indices) or (int(indices.min()) >= 0 and int(indices.max()) < shape[1])
    if not inside or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise InputError(f"the parts of {what} do not fit together: an index or a row start leads outside")
    return sp.csr_matrix((data, indices, indptr), shape=shape)


def graph_arrays(
    edges: Mapping[str, np.ndarray],
    y: np.ndarray,
    features: sp.csr_matrix | np.ndarray | None,
    names: Mapping[str, Sequence[str] | None],
    directed: bool,
) -> dict[str, np.ndarray]:
    """The arrays of a graph in the plain npz layout; ``edges`` are ``edge_index`` and what is known of each edge."""
    arrays = {**edges, "y": y}
    if isinstance(features, np.ndarray):
        arrays["x"] = features
    else:
        matrix = sp.csr_matrix((len(y), 0), dtype=np.float32) if features is None else features
        arrays |= {"x_data": matrix.data, "x_indices": matrix.indices, "x_indptr": matrix.indptr.astype(np.int64)}
        arrays["x_shape"] = np.array(matrix.shape)
    arrays |= {name: np.array(values) for name, values in names.items() if values is not None}
    return arrays | {"directed": np.array(directed)}
