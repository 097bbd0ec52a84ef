"""The graph everything works on: validated once, when it is made, and frozen from then on."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from .. import storage
from ..errors import InputError
from .cache import CacheKey, GraphCache
from .convert import networkx_arguments, pyg_arguments, pyg_fields
from .csr import csr_parts, edges_to_csr, to_scipy, to_tensor
from .npz import graph_arguments, graph_arrays
from .spectral import structural_features
from .validation import checked_edges, checked_features, checked_labels, checked_names, count_nodes

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

STRUCTURE = CacheKey[Tensor]("structural features")
FINGERPRINT = CacheKey[str]("fingerprint")


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An attributed graph. Build it with one of the ``from_...`` constructors, which check everything.

    ``indptr [N + 1]`` and ``indices`` are the CSR adjacency: row ``v`` lists the nodes whose messages reach
    ``v``; symmetric unless built with ``directed=True``; sorted, no self-loops, no duplicates. ``features`` are
    as given (dense or sparse CSR, float32) or None; ``y [N]`` holds class ids, -1 where unknown.

    Example:
        >>> import fewnode
        >>> graph = fewnode.Graph.from_edges([[0, 1, 2], [1, 2, 0]], x=[[1.0], [0.0], [2.0]], y=[0, 0, 1])
        >>> graph
        Graph(3 nodes, 3 edges, features: 1, 2 classes, 3 labelled nodes)
        >>> graph.degree.tolist()
        [2, 2, 2]
    """

    indptr: Tensor
    indices: Tensor
    y: Tensor
    features: Tensor | None = None
    node_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    directed: bool = False
    self_loops: int = 0
    duplicates: int = 0
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
        return self.cache.get(STRUCTURE, lambda: structural_features(self.to_scipy()).to(self.device))

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

    def with_labels(self, y: Tensor) -> "Graph":
        """The same graph with other labels."""
        return replace(self, y=y)

    def with_features(self, features: Tensor | None, feature_names: tuple[str, ...] | None = None) -> "Graph":
        """The same nodes and edges with other features."""
        return replace(self, features=features, feature_names=feature_names, cache=GraphCache())

    def with_edges(self, indptr: Tensor, indices: Tensor, *, directed: bool | None = None) -> "Graph":
        """The same nodes and features with another CSR adjacency."""
        directed = self.directed if directed is None else directed
        return replace(self, indptr=indptr, indices=indices, directed=directed, cache=GraphCache())

    def fresh(self) -> "Graph":
        """The same graph with an empty cache."""
        return replace(self, cache=GraphCache())

    def to(self, device: torch.device | str) -> "Graph":
        if torch.device(device) == self.device:
            return self
        moved = {name: getattr(self, name).to(device) for name in ("indptr", "indices", "y")}
        features = None if self.features is None else self.features.to(device)
        return replace(self, **moved, features=features, cache=GraphCache())

    def subgraph(self, keep: Tensor) -> "Graph":
        """The graph induced on the nodes where the mask ``keep [N]`` is true, in the same order."""
        chosen = np.flatnonzero(keep.cpu().numpy())
        adjacency = self.to_scipy()[chosen][:, chosen].tocoo()
        names = self.node_names
        features = self.features_scipy()
        return Graph.from_edges(
            np.stack([adjacency.col, adjacency.row]),
            None if features is None else features[chosen],
            self.y.cpu().numpy()[chosen],
            num_nodes=len(chosen),
            node_names=None if names is None else [names[i] for i in chosen],
            class_names=self.class_names,
            feature_names=self.feature_names,
            directed=self.directed,
        ).to(self.device)

    def to_scipy(self) -> sp.csr_matrix:
        """The adjacency as a SciPy CSR matrix of float32 ones."""
        indptr, indices = self.indptr.cpu().numpy(), self.indices.cpu().numpy()
        return sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=(self.num_nodes,) * 2)

    def features_scipy(self) -> sp.csr_matrix | np.ndarray | None:
        """The given features as SciPy CSR (sparse) or NumPy (dense)."""
        if self.features is None:
            return None
        if self.features.layout == torch.sparse_csr:
            return to_scipy(self.features)
        return self.features.cpu().numpy()

    # --- ways in ----------------------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        edge_index: Any,
        x: Any = None,
        y: Any = None,
        *,
        num_nodes: int | None = None,
        node_names: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        directed: bool = False,
    ) -> "Graph":
        """A graph from arrays.

        Args:
            edge_index: node ids [2, E], sources above targets.
            x: features [N, F], of NumPy, torch (dense or sparse) or SciPy (sparse).
            y: class ids [N], -1 for unknown.
            num_nodes: how many nodes there are, where nothing else tells.
            node_names: a name for each node.
            class_names: a name for each class.
            feature_names: a name for each column of ``x``.
            directed: keep the direction of edges; otherwise they are made symmetric.
        """
        n = count_nodes(edge_index, x, y, num_nodes, node_names)
        edges = checked_edges(edge_index, n)
        indptr, indices, loops, duplicates = edges_to_csr(edges, n, directed)
        features = checked_features(x, n)
        return cls(
            indptr=torch.from_numpy(indptr),
            indices=torch.from_numpy(indices),
            y=torch.from_numpy(checked_labels(y, n, class_names)),
            features=features if features is None else to_tensor(features),
            node_names=checked_names("node", node_names, n),
            class_names=None if class_names is None else tuple(str(name) for name in class_names),
            feature_names=None if features is None else checked_names("feature", feature_names, features.shape[1]),
            directed=directed,
            self_loops=loops,
            duplicates=duplicates,
        )

    @classmethod
    def from_files(cls, edges: storage.PathLike, nodes: storage.PathLike | None = None, **options: Any) -> "Graph":
        """A graph from a user's own tables (CSV or Parquet); options as in ``io.graph_tables``."""
        from .. import io

        return cls.from_edges(**io.graph_tables(edges=edges, nodes=nodes, **options))

    @classmethod
    def from_npz(cls, path: storage.PathLike) -> "Graph":
        """A graph from one archive: ``edge_index``, ``y``, ``x`` or the CSR parts ``x_data, x_indices, x_indptr,
        x_shape`` (no columns = no features), and optional ``class_names``, ``node_names``, ``feature_names``."""
        try:
            return cls.from_edges(**graph_arguments(storage.read_npz(path)))
        except KeyError as error:
            raise InputError(f"{path} has no array {error}; it needs edge_index and y or x") from error
        except InputError as error:
            raise InputError(f"{path}: {error}") if str(path) not in str(error) else error from error

    @classmethod
    def from_pyg(cls, data: "Data") -> "Graph":
        """A graph from a PyTorch Geometric ``Data``."""
        return cls.from_edges(**pyg_arguments(data))

    @classmethod
    def from_networkx(cls, graph: "networkx.Graph", *, x: str | None = "x", y: str | None = "y") -> "Graph":
        """A graph from NetworkX; ``x`` and ``y`` name node attributes (a missing label is -1, features must be on
        all nodes or on none). Node names are the nodes as text; a directed graph stays directed."""
        return cls.from_edges(**networkx_arguments(graph, x, y))

    # --- ways out ---------------------------------------------------------------------------------------

    def to_pyg(self) -> "Data":
        """The graph as a PyTorch Geometric ``Data`` (every undirected edge as two arcs)."""
        from torch_geometric.data import Data

        return Data(**pyg_fields(self.indptr, self.indices, self.features, self.y))

    def save_npz(self, path: storage.PathLike) -> None:
        """Write the archive that ``from_npz`` reads."""
        source, target = self.indices.cpu().numpy(), np.repeat(np.arange(self.num_nodes), self.degree.cpu().numpy())
        names = {"node_names": self.node_names, "class_names": self.class_names, "feature_names": self.feature_names}
        arrays = graph_arrays(source, target, self.y.cpu().numpy(), self.features_scipy(), names, self.directed)
        storage.write_npz(path, arrays)
