"""Arrays of a graph: checks, sorting into CSR, conversion between NumPy, SciPy and torch, a cache."""

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from ..errors import InputError, refused
from ..store import StoredNames, name_hashes, one_thread
from ..tables import few_nonzero, in_format

# --- Checks of the input. Each error names the place, the value and the remedy.


def checked_edges(
    edge_index: Any, x: Any, y: Any, num_nodes: int | None, node_names: Sequence[str] | None
) -> tuple[np.ndarray, int]:
    """``edge_index`` as int64 [2, E], and the number of nodes, on which all arguments must agree."""
    sizes = {} if num_nodes is None else {"num_nodes": num_nodes}
    for what, value in (("rows of x", x), ("length of y", y), ("length of node_names", node_names)):
        if getattr(value, "shape", None) == ():
            raise InputError(f"{what[-1]} is a single value; expected one for each node")
        if value is not None:
            sizes[what] = value.shape[0] if hasattr(value, "shape") else len(value)
    if len(set(sizes.values())) > 1:
        raise InputError(f"lengths do not match: {', '.join(f'{what} = {size:,}' for what, size in sizes.items())}")
    ids = to_numpy(edge_index)
    last = int(ids.max()) if ids.size and np.issubdtype(ids.dtype, np.integer) else -1
    n = int(next(iter(sizes.values()), last + 1))
    if n > 10_000_000 + 10 * ids.size and sizes.keys() <= {"num_nodes"}:  # one wrong id would fill the memory
        edges = ids.size // 2
        raise InputError(f"there would be {n:,} nodes for {edges:,} edges; number them without gaps, or give x or y")
    if n <= 0:
        raise InputError("the graph is empty: it has no nodes. Give edges, num_nodes, x or y")
    rule = (
        f"the columns are edges and the nodes are 0..{n - 1}. Transpose edge_index if its rows are edges; give "
        "num_nodes, x or y for all nodes, or drop the edge"
    )
    return checked("edge_index", ids, (2, "E"), "iu", (0, n - 1), rule).astype(np.int64), n


def checked(
    name: str,
    values: np.ndarray,
    shape: tuple[int | str, ...],
    kinds: str,
    bounds: tuple[float, float],
    rule: str,
    place: Callable[[Any], Iterable[int]] = tuple,
) -> np.ndarray:
    """The ``values``, after a check that they have the ``shape`` (a text stands for any length), a dtype of one of the
    ``kinds``, and lie within the ``bounds``. Errors name the first ``place`` and the ``rule``."""
    sizes = zip(shape, values.shape, strict=False)
    if values.ndim != len(shape) or any(size != there and isinstance(size, int) for size, there in sizes):
        raise InputError(f"{name} has shape {values.shape}; expected [{', '.join(map(str, shape))}]: {rule}")
    if values.size and values.dtype.kind not in kinds:
        expected = "numbers" if "f" in kinds else "integers"
        raise InputError(f"{name} has dtype {values.dtype}; expected {expected}: {rule}")
    wrong = np.argwhere(~((values >= bounds[0]) & (values <= bounds[1])))
    if len(wrong):
        at = ", ".join(map(str, place(wrong[0])))
        value = values[tuple(wrong[0])]
        raise InputError(f"{name}[{at}] is {value:.15g}; {rule} ({len(wrong):,} such values)")
    return values


def checked_features(x: Any, *, by_density: bool) -> sp.csr_matrix | np.ndarray | None:
    """Features as float32 with finite values, sparse if they were given so or ``by_density``; None if there are no
    columns."""
    if x is None:
        return None
    most, rule = float(np.finfo(np.float32).max), "features [N, F] are finite numbers, one row for each node"
    if isinstance(x, Tensor) and x.layout != torch.strided:
        x = to_scipy(x.detach().cpu().to_sparse_csr())
    if sp.issparse(x):
        given = sp.csr_matrix(x)
        with refused("the sparse features are damaged", ValueError):
            given.check_format(full_check=True)
        parts = given.data, given.indices, given.indptr  # copied: the caller's matrix is not changed
        found = sp.csr_matrix(parts, shape=given.shape, dtype=np.float32, copy=True)
        found.sum_duplicates()

        def place(at: np.ndarray) -> Iterable[int]:
            return np.stack(sp.coo_array(found).coords)[:, at[0]]

        checked("x", found.data, ("entries",), "f", (-most, most), rule, place)
    else:
        found = checked("x", to_numpy(x), ("N", "F"), "biuf", (-most, most), rule)
        found = np.ascontiguousarray(found, dtype=np.float32)
    if by_density:
        found = in_format(found, few_nonzero(found))
    return found if found.shape[1] else None


def checked_labels(y: Any, n: int, class_names: Sequence[str] | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Labels as int64 [n], -1 where unknown, and the names of the classes.

    Text labels are numbered in the order of their names; None, NaN and "" are unknown.
    """
    labels = np.full(n, -1) if y is None else to_numpy(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if class_names is None and labels.dtype.kind in "OUS":
        labels, class_names = _numbered(labels)
    top = 1 << 20 if class_names is None else len(class_names)  # some lists are as long as the highest class id
    there = "" if class_names is None else f" (there are {top} class names)"
    rule = f"a class id is 0..{top - 1}{there}, or -1 for unknown"
    labels = checked("y", labels, (n,), "iu", (-1, top - 1), rule).astype(np.int64)
    return labels, checked_names("class", class_names, top, unique=False)


def _numbered(values: np.ndarray) -> tuple[np.ndarray, list[str] | None]:
    cells = [None if cell is None or cell != cell or str(cell) in ("", "<NA>") else cell for cell in values.tolist()]
    known = {cell for cell in cells if cell is not None}
    if all(isinstance(cell, int) and not isinstance(cell, bool) for cell in known):  # ids, with gaps
        return np.array([-1 if cell is None else cell for cell in cells], dtype=np.int64), None
    names = sorted({str(cell) for cell in known})
    place = {name: i for i, name in enumerate(names)}
    return np.array([-1 if cell is None else place[str(cell)] for cell in cells], dtype=np.int64), names


def checked_weights(weight: Any, n_edges: int) -> np.ndarray | None:
    """Edge weights as float64 [E], from 1e-15 to 1e15: their sums and quotients fit single precision."""
    if weight is None:
        return None
    rule = "a weight is a number above zero, from 1e-15 to 1e15: scale them, drop such edges, or leave the weights out"
    return checked("edge_weight", flat(weight), (n_edges,), "biuf", (1e-15, 1e15), rule).astype(np.float64)


def checked_edge_types(
    edge_type: Any, names: Sequence[str] | None, n_edges: int
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Edge types as int64 [E] and their names; types that are not integers name themselves."""
    if edge_type is None:
        if names is not None:
            raise InputError("edge_type_names needs edge_type, the type of each edge")
        return None, ()
    ids, there = to_numpy(edge_type), "" if names is None else f" (there are {len(names)} type names)"
    if names is None and ids.dtype.kind not in "iu":
        texts, ids = np.unique(ids.astype(str), return_inverse=True)
        names = texts.tolist()
    names = [str(i) for i in range(int(ids.max(initial=-1)) + 1)] if names is None else names
    rule = f"a type is 0..{max(len(names) - 1, 0)}{there}"
    ids = checked("edge_type", ids, (n_edges,), "iu", (0, len(names) - 1), rule)
    return ids.astype(np.int64), checked_names("edge type", names, len(names)) or ()


def checked_names(what: str, names: Sequence[str] | None, n: int, unique: bool = True) -> tuple[str, ...] | None:
    """One name each, as text; ``unique`` names must differ."""
    if names is None:
        return None
    texts = tuple(map(str, names))
    if len(texts) != n:
        raise InputError(f"{len(texts):,} {what} names for {n:,} {what}s; give one for each")
    if unique and len(set(texts)) < n:
        text = Counter(texts).most_common(1)[0][0]
        at = texts.index(text)
        again = texts.index(text, at + 1)
        raise InputError(f"{what} name {text!r} is at {at} and again at {again}; names must differ")
    return texts


def checked_mask(name: str, mask: Any, n: int) -> Tensor | None:
    """A mask of nodes, [n]."""
    if mask is None:
        return None
    return torch.from_numpy(checked(name, to_numpy(mask), (n,), "biu", (0, 1), "true or false for each node") != 0)


def checked_blocks(blocks: Mapping[str, int] | None, width: int) -> dict[str, int]:
    """Blocks that cover all feature columns; {} if there is only one."""
    found = {str(name): int(columns) for name, columns in (blocks or {}).items()}
    if found and (sum(found.values()) != width or min(found.values()) < 1):
        raise InputError(f"the blocks are {found}; each needs one or more columns, {width:,} together")
    return found if len(found) > 1 else {}


def to_numpy(value: Any) -> np.ndarray:
    """A tensor, array or list as an array."""
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    with refused("rows of unequal length cannot be an array", ValueError):
        return np.asarray(value)


def flat(value: Any) -> np.ndarray:
    """The same; a single column becomes one-dimensional."""
    values = to_numpy(value)
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


# --- Conversion between torch CSR tensors and SciPy matrices.


def csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A torch CSR tensor from its parts, without checks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=False)


def csr_parts(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row pointers, column indices and values of a torch CSR tensor."""
    return matrix.crow_indices(), matrix.col_indices(), matrix.values()


def gather_rows(indptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The entries of some ``rows [B]`` of a CSR matrix: for each its position in ``rows`` and its index among all."""
    start, end = indptr.index_select(0, rows), indptr.index_select(0, rows + 1)
    count = (end - start).long()
    owner = torch.repeat_interleave(count)
    shift = (end - count.cumsum(0)).index_select(0, owner)  # from the position in the list to that among all entries
    return owner, shift.add_(torch.arange(len(owner), device=rows.device))


def to_tensor(matrix: sp.csr_matrix | np.ndarray, device: torch.device | str = "cpu") -> Tensor:
    """A SciPy CSR matrix or NumPy array as a tensor that shares its memory where possible."""
    if isinstance(matrix, np.ndarray):
        return torch.from_numpy(matrix).to(device)
    indptr, indices, values = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    return csr_tensor(indptr, indices, values, matrix.shape).to(device)


def to_scipy(matrix: Tensor) -> sp.csr_matrix:
    """A torch CSR tensor as a SciPy matrix."""
    indptr, indices, values = (part.detach().cpu().numpy() for part in csr_parts(matrix))
    return sp.csr_matrix((values, indices, indptr), shape=tuple(matrix.shape))


def transposed(matrix: Tensor) -> Tensor:
    """The transpose, as CSR."""
    return to_tensor(to_scipy(matrix).T.tocsr(), matrix.device)


# --- From a list of edges to sorted CSR arcs, with the weight and the types of each.


@dataclass(frozen=True)
class EdgeTypes:
    """The types of a graph's arcs. Two nodes may be joined by edges of several types, so this is a separate list: the
    arc at position ``arc [M]`` (ascending) of the graph's ``indices`` has the type ``ids [M]`` and the weight
    ``weight [M]`` (one, if None)."""

    names: tuple[str, ...]
    arc: Tensor
    ids: Tensor
    weight: Tensor | None = None

    def kept(self, keep: Tensor) -> "EdgeTypes":
        """The types of the arcs where the mask ``keep [arcs]`` is true."""
        chosen = keep[self.arc]
        arc = (keep.cumsum(0) - 1)[self.arc[chosen]]
        return replace(self, arc=arc, ids=self.ids[chosen], weight=None if self.weight is None else self.weight[chosen])

    def to(self, device: torch.device | str) -> "EdgeTypes":
        parts: dict[str, Any] = {k: part.to(device) for k, part in vars(self).items() if isinstance(part, Tensor)}
        return replace(self, **parts)


def sorted_arcs(
    edges: np.ndarray, n: int, directed: bool, weight: np.ndarray | None, ids: np.ndarray | None, names: tuple[str, ...]
) -> dict[str, Any]:
    """The fields ``indptr``, ``indices``, ``weights``, ``edge_types``, ``self_loops`` and ``duplicates`` of a graph.

    Self-loops are dropped. Weights of duplicates (edges of one type between the same nodes) are added, and so are the
    weights of the types of a pair. Undirected edges become two arcs. If the list already has every edge both ways with
    the same weight, it is used as it is; otherwise the weights of both directions are added.
    """
    apart = edges[0] != edges[1]
    source, target = edges[:, apart]
    types = max(len(names), 1)
    values = np.ones(len(source), bool) if weight is None else weight[apart]

    def matrix(rows: np.ndarray, columns: np.ndarray) -> sp.csr_matrix:
        """One row per node, one column per node and type; equal entries are added."""
        columns = columns if ids is None else columns * types + ids[apart]
        return sp.csr_matrix((values, (rows, columns)), shape=(n, n * types))

    arcs = matrix(target, source)
    duplicates = len(source) - arcs.nnz  # a pair in both directions is one edge, not a duplicate
    if not directed:
        back = arcs.T.tocsr() if ids is None else matrix(source, target)
        if weight is None or (arcs != back).nnz:
            arcs = arcs + back
    arcs.sort_indices()
    edge_types = None
    if ids is not None:
        pair = np.repeat(np.arange(n), np.diff(arcs.indptr)) * n + arcs.indices // types
        arc, type_ids = np.cumsum(np.diff(pair, prepend=-1) != 0) - 1, (arcs.indices % types).astype(np.int64)
        each = None if weight is None else torch.from_numpy(arcs.data.astype(np.float32))
        edge_types = EdgeTypes(names, torch.from_numpy(arc), torch.from_numpy(type_ids), each)
        arcs = sp.csr_matrix((arcs.data, arcs.indices // types, arcs.indptr), shape=(n, n))
        arcs.sum_duplicates()
    dtype = np.int32 if max(arcs.nnz, n) < 2**31 else np.int64
    return {
        "indptr": torch.from_numpy(arcs.indptr.astype(dtype)),
        "indices": torch.from_numpy(arcs.indices.astype(dtype)),
        "weights": None if weight is None else torch.from_numpy(arcs.data.astype(np.float32)),
        "edge_types": edge_types,
        "self_loops": edges.shape[1] - len(source),
        "duplicates": duplicates,
    }


# --- Values computed from a graph.
T = TypeVar("T")


class GraphCache:
    """Values derived from one graph.

    A value depends on structure and features, never on labels, so graphs that differ only in labels share a cache.
    A value that also depends on a ``source`` tensor, such as a model's basis, is valid for that tensor until it is
    changed in place; the next request computes it again. A graph with other edges or features has an empty cache.
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, tuple[Tensor | None, int, Any]] = {}

    def get(self, key: Hashable, make: Callable[[], T], source: Tensor | None = None) -> T:
        """The value under ``key``, a name or a tuple of a name and parameters; ``make()`` computes it if it is missing
        or no longer valid."""
        version = 0 if source is None else source._version
        held = self._held.get(key)
        if held is None or held[0] is not source or held[1] != version:
            held = self._held[key] = (source, version, make())
        value: T = held[2]
        return value

    def names(self) -> list[str]:
        """The names of all values, sorted."""
        return sorted({str(key[0] if isinstance(key, tuple) else key) for key in self._held})


# --- Leading eigenvectors of large sparse matrices, and structural features for graphs without features.


def leading_eigenvectors(apply: Callable[[Tensor], Tensor], start: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The ``rank`` leading eigenvalues and eigenvectors [size, rank] of a symmetric matrix given as ``apply(v) = M v``.

    Subspace iteration from a random block ``start [size, rank or more]``: a few products with a thin block, each
    followed by a QR decomposition. The largest entry of each eigenvector is positive.
    """
    block = start
    for _ in range(6):
        block = torch.linalg.qr(apply(block)).Q
    values, vectors = torch.linalg.eigh(block.T @ apply(block))
    top = values.abs().argsort(descending=True)[:rank]
    found = block @ vectors[:, top]
    return values[top], found * found.gather(0, found.abs().argmax(0, keepdim=True)).sign()


def random_block(ranks: Tensor, rank: int) -> Tensor:
    """A start for ``rank`` eigenvectors: normal numbers for rows with these ``ranks``, and 16 more columns."""
    shape = len(ranks), min(rank + 16, len(ranks))
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))[ranks]


def structural_bytes(nodes: int, arcs: int, rank: int = 128) -> int:
    """The memory of ``structural_features``: five blocks of the iteration, and the ratios with their transpose."""
    return 20 * (rank + 16) * nodes + 40 * arcs


def hash_ranks(names: Iterable[str]) -> Tensor:
    """Ranks of names in the order of their hashes: random, but the same in every process."""
    order = names.by_hash[0] if isinstance(names, StoredNames) else np.argsort(name_hashes(names), kind="stable")
    return torch.from_numpy(np.argsort(order))


@one_thread
def structural_features(adjacency: sp.csr_matrix, ranks: Tensor, rank: int = 128) -> Tensor:
    """Features of a node's position in the graph, float32 [N, rank]; rows have length one, of isolated nodes zero.

    The leading singular vectors of the positive log ratio between each edge's probability and chance (as sparse as the
    graph), smoothed over two steps. After ProNE (Zhang et al., IJCAI 2019).
    """
    n = adjacency.shape[0]
    degree = np.maximum(np.asarray(adjacency.sum(1)).ravel(), 1)
    walk = (sp.diags_array(1 / degree) @ adjacency).tocsr()
    chance = np.asarray(walk.sum(0)).ravel() ** 0.75
    walk.data = np.maximum(np.log(walk.data * chance.sum() / chance[walk.indices]), 0)
    ratios = to_tensor(walk.astype("float32"))
    back = transposed(ratios)
    values, directions = leading_eigenvectors(lambda v: back @ (ratios @ v), random_block(ranks, rank), rank)
    features = (ratios @ directions) * values.clamp(min=1e-9) ** -0.25
    scale = sp.diags_array((1 + degree) ** -0.5)
    step = to_tensor((scale @ (adjacency + sp.identity(n)) @ scale).tocsr().astype("float32"))
    return torch.nn.functional.normalize(step @ (step @ features), dim=1)
