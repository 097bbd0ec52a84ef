"""What a graph is: its arrays, frozen, and what can be derived from them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from ..store.space import Space
from .arcs import EdgeKinds
from .cache import CacheKey, GraphCache
from .csr import csr_parts, to_scipy
from .spectral import structural_features

STRUCTURE = CacheKey[Tensor]("structural features")
FINGERPRINT = CacheKey[str]("fingerprint")


@dataclass(frozen=True, eq=False, repr=False)
class FrozenGraph:
    """What ``Graph`` holds; that is the class to use."""

    indptr: Tensor
    indices: Tensor
    y: Tensor
    features: Tensor | None = None
    node_names: Sequence[str] | None = None
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    directed: bool = False
    self_loops: int = 0
    duplicates: int = 0
    weights: Tensor | None = None
    kinds: EdgeKinds | None = None
    space: Space | None = None
    cache: GraphCache = field(default_factory=GraphCache)

    # --- what it is -------------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Undirected edges (arcs, if the graph is directed)."""
        return len(self.indices) if self.directed else len(self.indices) // 2

    @property
    def num_classes(self) -> int:
        named = len(self.class_names) if self.class_names else 0
        return max(named, int(self.y.max()) + 1)

    @property
    def num_features(self) -> int:
        return int(self.x.shape[1])

    @property
    def has_features(self) -> bool:
        return self.features is not None

    @property
    def x(self) -> Tensor:
        """The features; for a graph without any, structural ones (``spectral.structural_features``), computed once."""
        if self.features is not None:
            return self.features
        return self.cache.get(STRUCTURE, self._structural)

    @property
    def degree(self) -> Tensor:
        return (self.indptr[1:] - self.indptr[:-1]).long()

    @property
    def device(self) -> torch.device:
        return self.indptr.device

    @property
    def fingerprint(self) -> str:
        """SHA-256 of structure and features (not of labels): tells whether a model has seen this graph."""

        def digest() -> str:
            sha = hashlib.sha256()
            parts = [self.indptr, self.indices]
            if self.features is not None:
                parts += csr_parts(self.features) if self.features.layout == torch.sparse_csr else (self.features,)
            parts += [part for part in (self.weights, *self._kind_parts()) if part is not None]
            for part in parts:
                sha.update(f"{part.dtype}{tuple(part.shape)}".encode())
                sha.update(part.cpu().contiguous().numpy().data)
            return sha.hexdigest()

        return self.cache.get(FINGERPRINT, digest)

    def __repr__(self) -> str:
        kind = "none given" if self.features is None else f"{self.num_features:,}"
        return (
            f"Graph({self.num_nodes:,} nodes, {self.num_edges:,} edges, features: {kind}, "
            f"{self.num_classes} classes, {int((self.y >= 0).sum()):,} labelled nodes)"
        )

    # --- what can be derived from it --------------------------------------------------------------------

    def with_labels(self, y: Tensor) -> Self:
        """The same graph with other labels."""
        return replace(self, y=y)

    def with_features(self, features: Tensor | None, feature_names: tuple[str, ...] | None = None) -> Self:
        """The same nodes and edges with other features."""
        return replace(self, features=features, feature_names=feature_names, cache=GraphCache())

    def with_arcs(self, keep: Tensor, *, directed: bool | None = None) -> Self:
        """The same nodes and features with only those arcs where the mask ``keep [arcs]`` is true."""
        ends = torch.cat([keep.new_zeros(1, dtype=torch.long), keep.cumsum(0)])[self.indptr.long()]
        return replace(
            self,
            indptr=ends.to(self.indptr.dtype),
            indices=self.indices[keep],
            weights=None if self.weights is None else self.weights[keep],
            kinds=None if self.kinds is None else self.kinds.kept(keep),
            directed=self.directed if directed is None else directed,
            cache=GraphCache(),
        )

    def without_weights(self) -> Self:
        """The same graph with every edge counting one."""
        kinds = None if self.kinds is None else replace(self.kinds, weight=None)
        return self if self.weights is None else replace(self, weights=None, kinds=kinds, cache=GraphCache())

    def reversed(self) -> Self:
        """The same graph with every arc turned round; kinds are left out."""
        if not self.directed:
            return self
        turned = self.to_scipy().T.tocsr()
        turned.sort_indices()
        indptr, indices, weights = (torch.from_numpy(part) for part in (turned.indptr, turned.indices, turned.data))
        return replace(
            self,
            indptr=indptr.to(self.indptr),
            indices=indices.to(self.indices),
            weights=None if self.weights is None else weights.to(self.weights),
            kinds=None,
            features=self.x,
            cache=GraphCache(),
        )

    def fresh(self) -> Self:
        """The same graph with an empty cache."""
        return replace(self, cache=GraphCache())

    def to(self, device: torch.device | str) -> Self:
        if torch.device(device) == self.device:
            return self
        moved = {name: getattr(self, name).to(device) for name in ("indptr", "indices", "y")}
        features = None if self.features is None else self.features.to(device)
        weights = None if self.weights is None else self.weights.to(device)
        kinds = None if self.kinds is None else self.kinds.to(device)
        return replace(self, **moved, features=features, weights=weights, kinds=kinds, cache=GraphCache())

    def to_scipy(self, *, scaled: bool = False) -> sp.csr_matrix:
        """The adjacency as a SciPy CSR matrix of float32: the weights, or ones. ``scaled`` weights have the mean one,
        so that smoothing, which counts a node itself as a neighbour of weight one, does not depend on their unit."""
        indptr, indices = self.indptr.cpu().numpy(), self.indices.cpu().numpy()
        values = np.ones(len(indices), np.float32) if self.weights is None else self.weights.cpu().numpy()
        if scaled and self.weights is not None and len(values):
            values = (values / values.mean(dtype=np.float64)).astype(np.float32)
        return sp.csr_matrix((values, indices, indptr), shape=(self.num_nodes,) * 2)

    def features_scipy(self) -> sp.csr_matrix | np.ndarray | None:
        """The given features as SciPy CSR (sparse) or NumPy (dense)."""
        if self.features is None:
            return None
        if self.features.layout == torch.sparse_csr:
            return to_scipy(self.features)
        return self.features.cpu().numpy()

    def edge_arrays(self, *, both_ways: bool = False) -> dict[str, np.ndarray]:
        """``edge_index [2, E]``, and ``edge_weight`` and ``edge_kind`` where there are any: as ``Graph.from_edges``
        takes them. An undirected edge is there once, unless wanted ``both_ways``; one for each of its kinds."""
        arc = slice(None) if self.kinds is None else self.kinds.arc.cpu().numpy()
        target = np.repeat(np.arange(self.num_nodes), self.degree.cpu().numpy())[arc]
        source = self.indices.cpu().numpy()[arc].astype(np.int64)
        once = slice(None) if self.directed or both_ways else source < target
        known = {
            "edge_weight": self.weights if self.kinds is None else self.kinds.weight,
            "edge_kind": None if self.kinds is None else self.kinds.kind,
        }
        arrays = {name: part.cpu().numpy()[once] for name, part in known.items() if part is not None}
        return {"edge_index": np.stack([source[once], target[once]]), **arrays}

    def _structural(self) -> Tensor:
        arcs = self.to_scipy(scaled=True)
        if self.directed:
            arcs = (arcs + arcs.T).tocsr()
            if self.weights is None:  # an edge both ways is one edge, as in the graph without directions
                arcs.data[:] = 1
        return structural_features(arcs).to(self.device)

    def _kind_parts(self) -> tuple[Tensor | None, ...]:
        return () if self.kinds is None else (self.kinds.arc, self.kinds.kind, self.kinds.weight)
