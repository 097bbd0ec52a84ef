"""From a list of edges to sorted CSR arcs, with what is known of each: its weight and its kinds."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor


@dataclass(frozen=True)
class EdgeKinds:
    """The kinds of a graph's arcs. Two nodes may be joined by edges of several kinds, so this is a list of its own:
    the arc at position ``arc [M]`` (ascending) of the graph's ``indices`` is of the kind ``kind [M]``, with the weight
    ``weight [M]`` or, if None, one."""

    names: tuple[str, ...]
    arc: Tensor
    kind: Tensor
    weight: Tensor | None = None

    def kept(self, keep: Tensor) -> "EdgeKinds":
        """The kinds of those arcs where the mask ``keep [arcs]`` is true."""
        chosen = keep[self.arc]
        place = keep.cumsum(0) - 1
        weight = None if self.weight is None else self.weight[chosen]
        return replace(self, arc=place[self.arc[chosen]], kind=self.kind[chosen], weight=weight)

    def to(self, device: torch.device | str) -> "EdgeKinds":
        weight = None if self.weight is None else self.weight.to(device)
        return replace(self, arc=self.arc.to(device), kind=self.kind.to(device), weight=weight)


@dataclass(frozen=True)
class Arcs:
    """CSR rows by target; weights and kinds where they were given; and how many edges were dropped."""

    indptr: np.ndarray
    indices: np.ndarray
    self_loops: int
    duplicates: int
    weight: np.ndarray | None = None
    kinds: EdgeKinds | None = None


def edges_to_arcs(
    edges: np.ndarray,
    n: int,
    directed: bool,
    weight: np.ndarray | None = None,
    kind: np.ndarray | None = None,
    kind_names: tuple[str, ...] = (),
) -> Arcs:
    """Sorted arcs without self-loops and duplicates; the weights of duplicates (edges of the same kind between the same
    nodes) are added, as are those of the kinds of a pair.

    Undirected edges become two arcs. A list that has each edge both ways already, with the same weight, stays as it
    is; in any other list the weights of both ways are added.
    """
    if weight is None and kind is None:
        return _plain(edges, n, directed)
    apart = edges[0] != edges[1]
    source, target = edges[:, apart]
    rows = _Rows(target, source, kind if kind is None else kind[apart], weight if weight is None else weight[apart])
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
        None if both.kind is None else _kinds(both, first, kind_names),
    )


@dataclass(frozen=True)
class _Rows:
    """Arcs as columns of a table."""

    target: np.ndarray
    source: np.ndarray
    kind: np.ndarray | None
    weight: np.ndarray | None

    def merged(self) -> "_Rows":
        """Sorted by target, source and kind; weights of equal rows added."""
        keys = [self.source, self.target] if self.kind is None else [self.kind, self.source, self.target]
        order = np.lexsort(keys)
        keys = [key[order] for key in keys]
        new = np.zeros(len(order), bool)
        for key in keys:
            new |= np.diff(key, prepend=-1) != 0
        first = np.flatnonzero(new)
        weight = self.weight if self.weight is None or not len(first) else np.add.reduceat(self.weight[order], first)
        kind = None if self.kind is None else keys[0][first]
        return _Rows(keys[-1][first], keys[-2][first], kind, weight)

    def turned(self) -> "_Rows":
        return replace(self, target=self.source, source=self.target)

    def joined(self, other: "_Rows") -> "_Rows":
        def both(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
            return None if a is None or b is None else np.concatenate([a, b])

        target, source = np.concatenate([self.target, other.target]), np.concatenate([self.source, other.source])
        return _Rows(target, source, both(self.kind, other.kind), both(self.weight, other.weight))

    def equals(self, other: "_Rows") -> bool:
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("target", "source", "kind", "weight"))
        return all(a is b or np.array_equal(a, b) for a, b in pairs)


def _kinds(rows: _Rows, first: np.ndarray, names: tuple[str, ...]) -> EdgeKinds:
    counts = np.diff(first, append=len(rows.target))
    arc = torch.from_numpy(np.repeat(np.arange(len(first)), counts))
    weight = None if rows.weight is None else torch.from_numpy(rows.weight.astype(np.float32))
    return EdgeKinds(names, arc, torch.from_numpy(np.asarray(rows.kind, np.int64)), weight)


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
