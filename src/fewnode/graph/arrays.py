"""Arrays of a graph: checked, sorted into CSR, derived from each other, cached."""

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from ..errors import InputError

# --- Checks on what comes into a graph. Each error names the place, the value and the remedy.
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


def checked_edge_types(
    edge_type: Any, edge_type_names: Sequence[str] | None, n_edges: int
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Edge types as int64 [E] and their names; types that are no integers are their own names."""
    if edge_type is None:
        if edge_type_names is not None:
            raise InputError("edge_type_names are given without edge_type; give the type of each edge as well")
        return None, ()
    ids = to_numpy(edge_type)
    if ids.shape != (n_edges,):
        raise InputError(f"edge_type has shape {ids.shape}; expected [{n_edges}], one type for each edge")
    if not np.issubdtype(ids.dtype, np.integer):
        if edge_type_names is not None:
            raise InputError(
                f"edge_type has dtype {ids.dtype}; with edge_type_names it holds ids 0..{len(edge_type_names) - 1}"
            )
        texts, ids = np.unique(ids.astype(str), return_inverse=True)
        return ids.astype(np.int64), tuple(texts.tolist())
    top = int(ids.max(initial=-1)) + 1 if edge_type_names is None else len(edge_type_names)
    wrong = np.flatnonzero((ids < 0) | (ids >= top))
    if len(wrong):
        there = f" (there are {top} type names)" if edge_type_names is not None else ""
        raise InputError(f"edge_type[{wrong[0]}] is {ids[wrong[0]]}; a type is 0..{max(top - 1, 0)}{there}")
    names = [str(i) for i in range(top)] if edge_type_names is None else edge_type_names
    return ids.astype(np.int64), checked_names("edge type", names, top) or ()


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


# --- Conversion between torch CSR tensors and SciPy matrices.
def csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A torch CSR tensor from its parts, taken as they are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=False)


def csr_parts(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row pointers, column indices and values of a torch CSR tensor."""
    return matrix.crow_indices(), matrix.col_indices(), matrix.values()


def gather_rows(indptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """All entries of the rows ``[B]`` of a CSR matrix: for each, its position in ``rows`` and among the entries."""
    start, end = indptr.index_select(0, rows), indptr.index_select(0, rows + 1)
    count = (end - start).long()
    owner = torch.repeat_interleave(count)
    shift = (end - count.cumsum(0)).index_select(0, owner)  # from the place in the list to that among all entries
    return owner, shift.add_(torch.arange(len(owner), device=rows.device))


def to_tensor(matrix: sp.csr_matrix | np.ndarray, device: torch.device | str = "cpu") -> Tensor:
    """Torch's form of a SciPy CSR matrix or a NumPy array, sharing memory where it can."""
    if isinstance(matrix, np.ndarray):
        return torch.from_numpy(matrix).to(device)
    indptr, indices, values = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    return csr_tensor(indptr, indices, values, matrix.shape).to(device)


def to_scipy(matrix: Tensor) -> sp.csr_matrix:
    """SciPy's form of a torch CSR tensor."""
    indptr, indices, values = (part.detach().cpu().numpy() for part in csr_parts(matrix))
    return sp.csr_matrix((values, indices, indptr), shape=tuple(matrix.shape))


def transposed(matrix: Tensor) -> Tensor:
    """The transpose, as CSR again."""
    return to_tensor(to_scipy(matrix).T.tocsr(), matrix.device)


# --- From a list of edges to sorted CSR arcs, with what is known of each: its weight and its types.
@dataclass(frozen=True)
class EdgeTypes:
    """The types of a graph's arcs. Two nodes may be joined by edges of several types, so this is a list of its own:
    the arc at position ``arc [M]`` (ascending) of the graph's ``indices`` is of the type ``ids [M]``, with the weight
    ``weight [M]`` or, if None, one."""

    names: tuple[str, ...]
    arc: Tensor
    ids: Tensor
    weight: Tensor | None = None

    def kept(self, keep: Tensor) -> "EdgeTypes":
        """The types of those arcs where the mask ``keep [arcs]`` is true."""
        chosen = keep[self.arc]
        place = keep.cumsum(0) - 1
        weight = None if self.weight is None else self.weight[chosen]
        return replace(self, arc=place[self.arc[chosen]], ids=self.ids[chosen], weight=weight)

    def to(self, device: torch.device | str) -> "EdgeTypes":
        weight = None if self.weight is None else self.weight.to(device)
        return replace(self, arc=self.arc.to(device), ids=self.ids.to(device), weight=weight)


@dataclass(frozen=True)
class Arcs:
    """CSR rows by target; weights and types where they were given; and how many edges were dropped."""

    indptr: np.ndarray
    indices: np.ndarray
    self_loops: int
    duplicates: int
    weight: np.ndarray | None = None
    edge_types: EdgeTypes | None = None


def edges_to_arcs(
    edges: np.ndarray,
    n: int,
    directed: bool,
    weight: np.ndarray | None = None,
    edge_type: np.ndarray | None = None,
    edge_type_names: tuple[str, ...] = (),
) -> Arcs:
    """Sorted arcs without self-loops and duplicates; the weights of duplicates (edges of the same type between the same
    nodes) are added, as are those of the types of a pair.

    Undirected edges become two arcs. A list that has each edge both ways already, with the same weight, stays as it
    is; in any other list the weights of both ways are added.
    """
    if weight is None and edge_type is None:
        return _plain(edges, n, directed)
    apart = edges[0] != edges[1]
    source, target = edges[:, apart]
    rows = _Rows(
        target,
        source,
        edge_type if edge_type is None else edge_type[apart],
        weight if weight is None else weight[apart],
    )
    once = rows.merged()
    both = once if directed or once.equals(back := once.turned().merged()) else once.joined(back).merged()
    first = np.flatnonzero(np.diff(both.target, prepend=-1) | np.diff(both.source, prepend=-1))
    indptr = np.searchsorted(both.target[first], np.arange(n + 1))
    dtype = np.int32 if max(len(first), n) < 2**31 else np.int64
    of_pair = None if both.weight is None else np.add.reduceat(both.weight, first) if len(first) else both.weight
    return Arcs(
        indptr.astype(dtype),
        both.source[first].astype(dtype),
        edges.shape[1] - len(source),
        len(source) - len(once.target),
        None if of_pair is None else of_pair.astype(np.float32),
        None if both.edge_type is None else _edge_types(both, first, edge_type_names),
    )


@dataclass(frozen=True)
class _Rows:
    """Arcs as columns of a table."""

    target: np.ndarray
    source: np.ndarray
    edge_type: np.ndarray | None
    weight: np.ndarray | None

    def merged(self) -> "_Rows":
        """Sorted by target, source and type; weights of equal rows added."""
        keys = [self.source, self.target] if self.edge_type is None else [self.edge_type, self.source, self.target]
        order = np.lexsort(keys)
        keys = [key[order] for key in keys]
        new = np.zeros(len(order), bool)
        for key in keys:
            new |= np.diff(key, prepend=-1) != 0
        first = np.flatnonzero(new)
        weight = self.weight if self.weight is None or not len(first) else np.add.reduceat(self.weight[order], first)
        edge_type = None if self.edge_type is None else keys[0][first]
        return _Rows(keys[-1][first], keys[-2][first], edge_type, weight)

    def turned(self) -> "_Rows":
        return replace(self, target=self.source, source=self.target)

    def joined(self, other: "_Rows") -> "_Rows":
        def both(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
            return None if a is None or b is None else np.concatenate([a, b])

        target, source = np.concatenate([self.target, other.target]), np.concatenate([self.source, other.source])
        return _Rows(target, source, both(self.edge_type, other.edge_type), both(self.weight, other.weight))

    def equals(self, other: "_Rows") -> bool:
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("target", "source", "edge_type", "weight"))
        return all(a is b or np.array_equal(a, b) for a, b in pairs)


def _edge_types(rows: _Rows, first: np.ndarray, names: tuple[str, ...]) -> EdgeTypes:
    counts = np.diff(first, append=len(rows.target))
    arc = torch.from_numpy(np.repeat(np.arange(len(first)), counts))
    weight = None if rows.weight is None else torch.from_numpy(rows.weight.astype(np.float32))
    return EdgeTypes(names, arc, torch.from_numpy(np.asarray(rows.edge_type, np.int64)), weight)


def _plain(edges: np.ndarray, n: int, directed: bool) -> Arcs:
    source, target = edges[:, edges[0] != edges[1]]
    loops = edges.shape[1] - len(source)
    arcs = sp.csr_matrix((np.ones(len(source), bool), (target, source)), shape=(n, n))  # repeated pairs fall together
    duplicates = len(source) - arcs.nnz  # a pair given both ways is one edge, not a duplicate
    if not directed:
        arcs = (arcs + arcs.T).tocsr()
    arcs.sort_indices()
    dtype = np.int32 if max(arcs.nnz, n) < 2**31 else np.int64
    return Arcs(arcs.indptr.astype(dtype), arcs.indices.astype(dtype), loops, duplicates)


# --- What has been computed of a graph already, under typed names.
T = TypeVar("T")


@dataclass(frozen=True)
class CacheKey(Generic[T]):
    """The name of a cached value of type ``T``; ``parameters`` tell apart values that options make different."""

    name: str
    parameters: tuple[Hashable, ...] = ()

    def of(self, *parameters: Hashable) -> "CacheKey[T]":
        """The key of the value for these parameters."""
        return CacheKey(self.name, parameters)


class GraphCache:
    """Values derived from one graph.

    A value depends on structure and features, never on labels, so graphs that differ in labels alone share a cache.
    A value made from a ``source`` tensor as well (a model's basis, say) holds for that very tensor until it is changed
    in place; the next request makes it anew and drops the old one. A graph with other edges or features starts with
    an empty cache.
    """

    def __init__(self) -> None:
        self._held: dict[CacheKey[Any], tuple[Tensor | None, int, Any]] = {}

    def get(self, key: CacheKey[T], make: Callable[[], T], source: Tensor | None = None) -> T:
        """The value under ``key``; ``make()`` computes it if it is not there or no longer holds."""
        version = 0 if source is None else source._version
        held = self._held.get(key)
        if held is None or held[0] is not source or held[1] != version:
            held = self._held[key] = (source, version, make())
        value: T = held[2]
        return value

    def names(self) -> list[str]:
        """The names of the values that are there, in order."""
        return sorted({key.name for key in self._held})

    def __len__(self) -> int:
        return len(self._held)


# --- Leading eigenvectors of large sparse matrices, and structural features for graphs without features.
STEPS = 6  # of the subspace iteration


def leading_eigenvectors(
    apply: Callable[[Tensor], Tensor], start: Tensor, rank: int, *, steps: int = STEPS
) -> tuple[Tensor, Tensor]:
    """The ``rank`` leading eigenvalues and eigenvectors [size, rank] of a symmetric matrix given as ``apply(v) = M v``.

    Subspace iteration from a random block ``start [size, at least rank]``: a handful of products with a thin block and
    a QR of that block, whatever the size of M.
    """
    block = start
    for _ in range(steps):
        block = torch.linalg.qr(apply(block)).Q
    values, vectors = torch.linalg.eigh(block.T @ apply(block))
    top = values.abs().argsort(descending=True)[:rank]
    return values[top], block @ vectors[:, top]


def random_block(size: int, rank: int, seed: int = 0) -> Tensor:
    """A start for ``rank`` eigenvectors: normal numbers, with a few columns to spare."""
    return torch.randn(size, min(rank + 16, size), generator=torch.Generator().manual_seed(seed))


def structural_bytes(nodes: int, arcs: int, rank: int = 128) -> int:
    """What ``structural_features`` takes in memory: five blocks of the iteration, and the ratios both ways."""
    return 20 * (rank + 16) * nodes + 40 * arcs


def structural_features(adjacency: sp.csr_matrix, rank: int = 128) -> Tensor:
    """Where a node sits in the graph, float32 [N, rank]; rows have length one, those of isolated nodes zero.

    The leading singular vectors of how much likelier each edge is than chance (a positive log ratio, as sparse as the
    graph), smoothed over two steps. After ProNE (Zhang et al., IJCAI 2019).
    """
    n = adjacency.shape[0]
    degree = np.maximum(np.asarray(adjacency.sum(1)).ravel(), 1)
    walk = (sp.diags_array(1 / degree) @ adjacency).tocsr()
    chance = np.asarray(walk.sum(0)).ravel() ** 0.75
    walk.data = np.maximum(np.log(walk.data * chance.sum() / chance[walk.indices]), 0)
    ratios = to_tensor(walk.astype("float32"))
    back = transposed(ratios)
    values, directions = leading_eigenvectors(lambda v: back @ (ratios @ v), random_block(n, rank), rank)
    features = (ratios @ directions) * values.clamp(min=1e-9) ** -0.25
    scale = sp.diags_array((1 + degree) ** -0.5)
    step = to_tensor((scale @ (adjacency + sp.identity(n)) @ scale).tocsr().astype("float32"))
    return torch.nn.functional.normalize(step @ (step @ features), dim=1)
