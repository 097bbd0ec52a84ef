"""Checks on what comes into a graph. Each error names the place, the value and the remedy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp

from ..errors import InputError

MOST_CLASSES = 1 << 20  # class ids; lists as long as the highest are made
FEW_NODES, MOST_PER_END = 10_000_000, 10  # nodes that edges alone may call for: so many, and so many for each end


def count_nodes(edge_index: Any, x: Any, y: Any, num_nodes: int | None, node_names: Sequence[str] | None) -> int:
    """The number of nodes, on which everything that tells it must agree."""
    for what, value in (("y", y), ("x", x)):
        if value is not None and hasattr(value, "shape") and not value.shape:
            raise InputError(f"{what} is a single value; expected one for each node")
    told = {
        "num_nodes": num_nodes,
        "rows of x": None if x is None else _rows(x),
        "length of y": None if y is None else len(y),
        "length of node_names": None if node_names is None else len(node_names),
    }
    sizes = {what: int(size) for what, size in told.items() if size is not None}
    if len(set(sizes.values())) > 1:
        raise InputError(f"lengths do not match: {', '.join(f'{what} = {size:,}' for what, size in sizes.items())}")
    ids = to_numpy(edge_index)
    n = next(iter(sizes.values()), None)
    if n is None:
        n = int(ids.max()) + 1 if ids.size and np.issubdtype(ids.dtype, np.integer) else 0
    if n > FEW_NODES + MOST_PER_END * ids.size and sizes.keys() <= {"num_nodes"}:
        raise InputError(
            f"there would be {n:,} nodes, but only {ids.size // 2:,} edges and nothing else name any; number the nodes "
            "from 0 without gaps, or give x or y"
        )
    if n <= 0:
        raise InputError("the graph is empty: it has no nodes. Give edges, num_nodes, x or y")
    return n


def checked_edges(edge_index: Any, n: int) -> np.ndarray:
    """``edge_index`` as int64 [2, E] with every id in 0..n-1."""
    edges = to_numpy(edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        hint = " Transpose it." if edges.ndim == 2 and edges.shape[1] == 2 else ""
        raise InputError(f"edge_index has shape {edges.shape}; expected [2, E], sources above targets.{hint}")
    if edges.size and not np.issubdtype(edges.dtype, np.integer):
        raise InputError(f"edge_index has dtype {edges.dtype}; expected integers (node ids 0..{n - 1})")
    if edges.dtype == np.uint64:
        edges = np.minimum(edges, np.uint64(2**63 - 1))  # beyond that they would turn negative; both are refused
    edges = edges.astype(np.int64)
    wrong = np.flatnonzero(((edges < 0) | (edges >= n)).any(axis=0))
    if len(wrong):
        at = int(wrong[0])
        source, target = edges[:, at].tolist()
        bad = source if not 0 <= source < n else target
        remedy = "node ids cannot be negative" if bad < 0 else "give num_nodes, x or y for all nodes, or drop the edge"
        raise InputError(
            f"edge {at} ({source} -> {target}) names node {bad}, but the nodes are 0..{n - 1}; {remedy}"
            + (f" ({len(wrong):,} such edges)" if len(wrong) > 1 else "")
        )
    return edges


def checked_features(x: Any, n: int) -> sp.csr_matrix | np.ndarray | None:
    """Features as float32, sparse if they came sparse; every value finite. No columns at all means none given."""
    if x is None:
        return None
    matrix = _sparse(x)
    if matrix is None:
        dense = to_numpy(x)
        if dense.ndim != 2:
            raise InputError(f"x has shape {dense.shape}; expected [N, F], one row of features for each node")
        if not (np.issubdtype(dense.dtype, np.number) or dense.dtype == bool):
            raise InputError(f"x has dtype {dense.dtype}; expected numbers. Are all rows of the same length?")
        values = np.ascontiguousarray(dense, dtype=np.float32)
        _check_finite(values, lambda at: divmod(at, dense.shape[1]))
        return values if dense.shape[1] else None
    return _checked_sparse(matrix, n)


def _checked_sparse(matrix: sp.csr_matrix, n: int) -> sp.csr_matrix | None:
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"the sparse features are damaged: {error}") from error
    matrix = matrix.astype(np.float32)  # also a copy: the caller's matrix is left as it was
    matrix.sum_duplicates()
    _check_finite(matrix.data, lambda at: (np.searchsorted(matrix.indptr, at, "right") - 1, matrix.indices[at]))
    if matrix.shape[1] and max(matrix.nnz, *matrix.shape) < 2**31:
        matrix.indptr, matrix.indices = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    return matrix if matrix.shape[1] else None


def _check_finite(values: np.ndarray, place: Any) -> None:
    flat = values.reshape(-1)
    wrong = np.flatnonzero(~np.isfinite(flat))
    if len(wrong):
        row, column = (int(part) for part in place(int(wrong[0])))
        raise InputError(
            f"x[{row}, {column}] is {flat[wrong[0]]}: node {row} needs a finite number there "
            f"({len(wrong):,} such values; fill or drop them)"
        )


def checked_labels(y: Any, n: int, class_names: Sequence[str] | None) -> np.ndarray:
    """Labels as int64 [n], -1 = unknown, below the number of class names where there are any."""
    if y is None:
        return np.full(n, -1, np.int64)
    labels = to_numpy(y)
    if labels.ndim != 1:
        raise InputError(f"y has shape {labels.shape}; expected [N], one class id for each node")
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"y has dtype {labels.dtype}; expected integers: class ids from 0, and -1 for unknown")
    if labels.dtype == np.uint64 and labels.size and int(labels.max()) >= 2**63:
        raise InputError(f"y[{int(labels.argmax())}] is {int(labels.max())}; a class id is below {MOST_CLASSES:,}")
    labels = labels.astype(np.int64)
    top = len(class_names) if class_names is not None else None
    wrong = np.flatnonzero((labels < -1) | (labels >= (n_max := top if top is not None else MOST_CLASSES)))
    if len(wrong):
        at = int(wrong[0])
        names = f" (there are {top} class names)" if top is not None else ""
        raise InputError(f"y[{at}] is {labels[at]}; a class id is 0..{n_max - 1}{names}, or -1 for unknown")
    return labels


def named_labels(y: Any, class_names: Sequence[str] | None) -> tuple[Any, Sequence[str] | None]:
    """Labels as class ids: names of classes are numbered in their order, None, NaN and "" are unknown. Numbers stay."""
    if y is None or class_names is not None or isinstance(y, torch.Tensor):
        return y, class_names
    values = y.to_numpy() if hasattr(y, "to_numpy") else to_numpy(y)
    if values.ndim != 1 or values.dtype.kind not in "OUS":
        return values, None
    cells = [None if cell is None or cell != cell or str(cell) in ("", "<NA>") else cell for cell in values.tolist()]
    known = [cell for cell in cells if cell is not None]
    if all(isinstance(cell, int) and not isinstance(cell, bool) for cell in known):  # ids, with gaps
        return np.array([-1 if cell is None else cell for cell in cells], dtype=np.int64), None
    names = sorted({str(cell) for cell in known})
    place = {name: i for i, name in enumerate(names)}
    return np.array([-1 if cell is None else place[str(cell)] for cell in cells], dtype=np.int64), names


def checked_weights(weight: Any, n_edges: int) -> np.ndarray | None:
    """Edge weights as float64 [E], each finite and above zero."""
    if weight is None:
        return None
    values = to_numpy(weight)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (n_edges,):
        raise InputError(f"edge_weight has shape {values.shape}; expected [{n_edges}], one number for each edge")
    if not (np.issubdtype(values.dtype, np.number) or values.dtype == bool):
        raise InputError(f"edge_weight has dtype {values.dtype}; expected numbers above zero")
    values = values.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(wrong):
        raise InputError(
            f"edge_weight[{wrong[0]}] is {values[wrong[0]]:g}; a weight is finite and above zero: drop such edges, or "
            f"leave the weights out ({len(wrong):,} such weights)"
        )
    return values


def checked_kinds(
    kind: Any, kind_names: Sequence[str] | None, n_edges: int
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Edge kinds as int64 [E] and their names; kinds that are no integers are their own names."""
    if kind is None:
        if kind_names is not None:
            raise InputError("kind_names are given without edge_kind; give the kind of each edge as well")
        return None, ()
    ids = to_numpy(kind)
    if ids.shape != (n_edges,):
        raise InputError(f"edge_kind has shape {ids.shape}; expected [{n_edges}], one kind for each edge")
    if not np.issubdtype(ids.dtype, np.integer):
        if kind_names is not None:
            raise InputError(f"edge_kind has dtype {ids.dtype}; with kind_names it holds ids 0..{len(kind_names) - 1}")
        texts, ids = np.unique(ids.astype(str), return_inverse=True)
        return ids.astype(np.int64), tuple(texts.tolist())
    top = int(ids.max(initial=-1)) + 1 if kind_names is None else len(kind_names)
    wrong = np.flatnonzero((ids < 0) | (ids >= top))
    if len(wrong):
        there = f" (there are {top} kind names)" if kind_names is not None else ""
        raise InputError(f"edge_kind[{wrong[0]}] is {ids[wrong[0]]}; a kind is 0..{max(top - 1, 0)}{there}")
    names = [str(i) for i in range(top)] if kind_names is None else kind_names
    return ids.astype(np.int64), checked_names("edge kind", names, top) or ()


def checked_names(kind: str, names: Sequence[str] | None, n: int) -> tuple[str, ...] | None:
    """Names as text, one each and none twice."""
    if names is None:
        return None
    texts = tuple(str(name) for name in names)
    if len(texts) != n:
        raise InputError(f"{len(texts):,} {kind} names for {n:,} {kind}s; give one for each")
    if len(set(texts)) < n:
        first: dict[str, int] = {}
        for at, text in enumerate(texts):
            if text in first:
                raise InputError(f"{kind} name {text!r} stands at {first[text]} and again at {at}; names must differ")
            first[text] = at
    return texts


def _sparse(x: Any) -> sp.csr_matrix | None:
    if sp.issparse(x):
        return sp.csr_matrix(x)
    if isinstance(x, torch.Tensor) and x.layout != torch.strided:
        csr = x.detach().cpu().to_sparse_csr()
        parts = csr.values().numpy(), csr.col_indices().numpy(), csr.crow_indices().numpy()
        return sp.csr_matrix(parts, shape=tuple(csr.shape))
    return None


def _rows(x: Any) -> int:
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def to_numpy(value: Any) -> np.ndarray:
    """A tensor, array or list as an array."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    try:
        return np.asarray(value)
    except ValueError as error:  # NumPy's word for rows of unequal length
        raise InputError(f"rows of unequal length cannot be an array ({error})") from error
