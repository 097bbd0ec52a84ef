"""The graph everything works on: validated once, when it is made, and frozen from then on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .. import storage
from ..errors import InputError
from .arcs import edges_to_arcs
from .convert import networkx_arguments, pyg_arguments, pyg_fields
from .csr import to_tensor
from .frozen import FrozenGraph
from .npz import graph_arguments, graph_arrays
from .validation import (
    checked_edges,
    checked_features,
    checked_kinds,
    checked_labels,
    checked_names,
    checked_weights,
    count_nodes,
)

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False, repr=False)
class Graph(FrozenGraph):
    """An attributed graph. Build it with one of the ``from_...`` constructors, which check everything.

    ``indptr [N + 1]`` and ``indices`` are the CSR adjacency: row ``v`` lists the nodes whose messages reach
    ``v``; symmetric unless built with ``directed=True``; sorted, no self-loops, no duplicates. ``features`` are
    as given (dense or sparse CSR, float32) or None; ``y [N]`` holds class ids, -1 where unknown. ``weights [arcs]``
    belong to ``indices``, as do the ``kinds``; both are None where the graph has none.

    Example:
        >>> import fewnode
        >>> graph = fewnode.Graph.from_edges([[0, 1, 2], [1, 2, 0]], x=[[1.0], [0.0], [2.0]], y=[0, 0, 1])
        >>> graph
        Graph(3 nodes, 3 edges, features: 1, 2 classes, 3 labelled nodes)
        >>> graph.degree.tolist()
        [2, 2, 2]
    """

    def subgraph(self, keep: Tensor) -> "Graph":
        """The graph induced on the nodes where the mask ``keep [N]`` is true, in the same order."""
        chosen = np.flatnonzero(keep.cpu().numpy())
        place = np.full(self.num_nodes, -1)
        place[chosen] = np.arange(len(chosen))
        edges = self.edge_arrays()
        ends = place[edges.pop("edge_index")]
        inside = (ends >= 0).all(0)
        names = self.node_names
        features = self.features_scipy()
        return Graph.from_edges(
            ends[:, inside],
            None if features is None else features[chosen],
            self.y.cpu().numpy()[chosen],
            num_nodes=len(chosen),
            node_names=None if names is None else [names[int(i)] for i in chosen],
            class_names=self.class_names,
            feature_names=self.feature_names,
            directed=self.directed,
            kind_names=None if self.kinds is None else self.kinds.names,
            **{name: part[inside] for name, part in edges.items()},
        ).to(self.device)

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
        edge_weight: Any = None,
        edge_kind: Any = None,
        kind_names: Sequence[str] | None = None,
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
            edge_weight: a number above zero for each edge [E]; those of repeated edges are added.
            edge_kind: the kind of each edge [E], as an id from 0 or as text.
            kind_names: a name for each kind, where these are ids.
        """
        n = count_nodes(edge_index, x, y, num_nodes, node_names)
        edges = checked_edges(edge_index, n)
        weight = checked_weights(edge_weight, edges.shape[1])
        kind, kind_names = checked_kinds(edge_kind, kind_names, edges.shape[1])
        arcs = edges_to_arcs(edges, n, directed, weight, kind, kind_names)
        features = checked_features(x, n)
        return cls(
            indptr=torch.from_numpy(arcs.indptr),
            indices=torch.from_numpy(arcs.indices),
            y=torch.from_numpy(checked_labels(y, n, class_names)),
            features=features if features is None else to_tensor(features),
            node_names=checked_names("node", node_names, n),
            class_names=None if class_names is None else tuple(str(name) for name in class_names),
            feature_names=None if features is None else checked_names("feature", feature_names, features.shape[1]),
            directed=directed,
            self_loops=arcs.self_loops,
            duplicates=arcs.duplicates,
            weights=None if arcs.weight is None else torch.from_numpy(arcs.weight),
            kinds=arcs.kinds,
        )

    @classmethod
    def from_files(cls, edges: storage.PathLike, nodes: storage.PathLike | None = None, **options: Any) -> "Graph":
        """A graph from a user's own tables (CSV or Parquet); options as in ``io.graph_tables``."""
        from .. import io

        return cls.from_edges(**io.graph_tables(edges=edges, nodes=nodes, **options))

    @classmethod
    def from_npz(cls, path: storage.PathLike) -> "Graph":
        """A graph from one archive: ``edge_index``, ``y``, ``x`` or the CSR parts ``x_data, x_indices, x_indptr,
        x_shape`` (no columns = no features), and optional ``class_names``, ``node_names``, ``feature_names``,
        ``edge_weight``, ``edge_kind`` and ``kind_names``."""
        with storage.reading(path, "write it again"):
            arrays = storage.read_npz(path)
            if "edge_index" not in arrays:
                raise InputError(f"{path} has no array 'edge_index'; it needs edge_index and y or x")
            return cls.from_edges(**graph_arguments(arrays))

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
        kinds = None if self.kinds is None else self.kinds.names
        names = {name: getattr(self, name) for name in ("node_names", "class_names", "feature_names")}
        names |= {"kind_names": kinds}
        arrays = graph_arrays(self.edge_arrays(), self.y.cpu().numpy(), self.features_scipy(), names, self.directed)
        storage.write_npz(path, arrays)
