"""The graph: validated once, when it is made, and frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse as sp
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from .. import tables
from ..files import PathLike, read_npz, reading, write_npz
from ..store import MEMORY, Space, digest
from . import arrays, convert
from .arrays import EdgeTypes, GraphCache

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data, HeteroData

STRUCTURE = "structural features"
FINGERPRINT = "fingerprint"


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An attributed graph. Use one of the ``from_...`` constructors, which check their arguments.

    Args:
        indptr, indices: the CSR adjacency; row ``v`` lists the nodes whose messages reach ``v``. It is symmetric unless
            the graph is directed, sorted, and has no self-loops and no duplicates.
        y: class ids [N], -1 where unknown.
        features: float32 [N, F], dense or sparse CSR; or None.
        node_names: unique names of the nodes, or None.
        node_titles: names for people, which may repeat; "" for a node without a title.
        unlisted: a mask [N] of the nodes that occur only in edges.
        class_names: a name for each class.
        feature_names: a name for each feature column.
        directed: whether edges have a direction.
        self_loops, duplicates: how many were dropped.
        weights: a weight for each entry of ``indices``, or None.
        edge_types: the types of the entries of ``indices``, or None.
        blocks: the number of feature columns of each kind, in their order (``{"words": 5000, "vectors": 256}``); empty
            if all are of one kind.
        space: where a graph on disk stores computed arrays.
        cache: arrays computed from the graph.

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
    node_names: Sequence[str] | None = None
    node_titles: Sequence[str] | None = None
    unlisted: Tensor | None = None
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    directed: bool = False
    self_loops: int = 0
    duplicates: int = 0
    weights: Tensor | None = None
    edge_types: EdgeTypes | None = None
    blocks: Mapping[str, int] = field(default_factory=dict)
    space: Space = MEMORY
    cache: GraphCache = field(default_factory=GraphCache)

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """The number of undirected edges, or of arcs if the graph is directed."""
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
        """The features. A graph without features has structural ones (``arrays.structural_features``)."""
        return self.cache.get(STRUCTURE, self._structural) if self.features is None else self.features

    @property
    def degree(self) -> Tensor:
        return (self.indptr[1:] - self.indptr[:-1]).long()

    @property
    def device(self) -> torch.device:
        return self.indptr.device

    @property
    def listed(self) -> Tensor:
        """A mask [N] of the nodes in the node table; the others occur only in edges."""
        return torch.ones_like(self.y, dtype=torch.bool) if self.unlisted is None else ~self.unlisted

    @property
    def ranks(self) -> Tensor:
        """Ranks [N] of the nodes by a hash of their names, or of their numbers if they have no names.

        Random draws use these ranks, so they do not depend on the numbering of nodes.
        """
        names = self.node_names or map(str, range(self.num_nodes))
        return self.cache.get("ranks of the nodes", lambda: arrays.hash_ranks(names).to(self.device))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of structure and features, without labels. It identifies the graph on which a model was fitted."""

        def make() -> str:
            types, x = self.edge_types, self.features
            features = (x,) if x is None or x.layout != torch.sparse_csr else arrays.csr_parts(x)
            typed = () if types is None else (types.arc, types.ids, types.weight)
            parts = [part for part in (self.indptr, self.indices, *features, self.weights, *typed) if part is not None]
            told = (told for part in parts for told in (f"{part.dtype}{tuple(part.shape)}", part))
            return digest(repr(tuple(self.blocks.values())) if self.blocks else "", *told)

        return self.cache.get(FINGERPRINT, make)

    def __repr__(self) -> str:
        features = "none given" if self.features is None else f"{self.num_features:,}"
        return (
            f"Graph({self.num_nodes:,} nodes, {self.num_edges:,} edges, features: {features}, "
            f"{self.num_classes} classes, {int((self.y >= 0).sum()):,} labelled nodes)"
        )

    # --- derived graphs and arrays --------------------------------------------------------------------

    def with_labels(self, y: Tensor) -> "Graph":
        """The same graph with other labels."""
        return replace(self, y=y)

    def with_features(
        self,
        features: Tensor | None,
        feature_names: tuple[str, ...] | None = None,
        blocks: Mapping[str, int] | None = None,
    ) -> "Graph":
        """The same nodes and edges with other features."""
        blocks = arrays.checked_blocks(blocks, 0 if features is None else features.shape[1])
        return replace(self, features=features, feature_names=feature_names, blocks=blocks, cache=GraphCache())

    def with_arcs(self, keep: Tensor) -> "Graph":
        """The same nodes and features, with only the arcs selected by the mask ``keep [arcs]``."""
        ends = torch.cat([keep.new_zeros(1, dtype=torch.long), keep.cumsum(0)])[self.indptr.long()]
        return replace(
            self,
            indptr=ends.to(self.indptr.dtype),
            indices=self.indices[keep],
            weights=None if self.weights is None else self.weights[keep],
            edge_types=None if self.edge_types is None else self.edge_types.kept(keep),
            cache=GraphCache(),
        )

    def fresh(self) -> "Graph":
        """The same graph with an empty cache."""
        return replace(self, cache=GraphCache())

    def to(self, device: torch.device | str) -> "Graph":
        if torch.device(device) == self.device:
            return self
        held = {name: part for name, part in vars(self).items() if isinstance(part, Tensor | EdgeTypes)}
        moved: dict[str, Any] = {name: part.to(device) for name, part in held.items()}
        return replace(self, **moved, cache=GraphCache())

    def to_scipy(self, *, scaled: bool = False) -> sp.csr_matrix:
        """The adjacency as a SciPy CSR matrix of float32: the weights, or ones.

        ``scaled`` weights have mean one. Smoothing gives a self-loop the weight one, so it does not depend on their
        unit.
        """
        indptr, indices = self.indptr.cpu().numpy(), self.indices.cpu().numpy()
        values = np.ones(len(indices), np.float32) if self.weights is None else self.weights.cpu().numpy()
        if scaled and self.weights is not None and len(values):
            values = (values / values.mean(dtype=np.float64)).astype(np.float32)
        return sp.csr_matrix((values, indices, indptr), shape=(self.num_nodes,) * 2)

    def features_scipy(self) -> sp.csr_matrix | np.ndarray | None:
        """The given features as SciPy CSR (sparse) or NumPy (dense)."""
        x = self.features
        if x is None:
            return None
        return arrays.to_scipy(x) if x.layout == torch.sparse_csr else x.cpu().numpy()

    def edge_arrays(self, *, both_ways: bool = False) -> dict[str, np.ndarray]:
        """``edge_index [2, E]``, and ``edge_weight`` and ``edge_type`` if there are any, as arguments of
        ``Graph.from_edges``.

        Undirected edges are listed once, or twice with ``both_ways``. Edges of several types are listed once per type.
        """
        types = self.edge_types
        arc = slice(None) if types is None else types.arc.cpu().numpy()
        target = np.repeat(np.arange(self.num_nodes), self.degree.cpu().numpy())[arc]
        source = self.indices.cpu().numpy()[arc].astype(np.int64)
        once = slice(None) if self.directed or both_ways else source < target
        weight, ids = (self.weights, None) if types is None else (types.weight, types.ids)
        known = {"edge_weight": weight, "edge_type": ids}
        found = {name: part.cpu().numpy()[once] for name, part in known.items() if part is not None}
        return {"edge_index": np.stack([source[once], target[once]]), **found}

    def arguments(self) -> dict[str, Any]:
        """Arguments of ``from_edges`` that create the same graph."""
        return {
            "x": self.features_scipy(),
            "y": self.y.cpu().numpy(),
            "unlisted": None if self.unlisted is None else self.unlisted.cpu().numpy(),
            "directed": self.directed,
            **{
                name: getattr(self, name)
                for name in ("node_names", "node_titles", "class_names", "feature_names", "blocks")
            },
            "edge_type_names": None if self.edge_types is None else self.edge_types.names,
            **self.edge_arrays(),
        }

    def subgraph(self, keep: Tensor) -> "Graph":
        """The subgraph induced by the nodes of the mask ``keep [N]``, in the same order."""
        chosen = np.flatnonzero(keep.cpu().numpy())
        place = np.full(self.num_nodes, -1)
        place[chosen] = np.arange(len(chosen))
        known = self.arguments()
        ends = place[known["edge_index"]]
        inside = (ends >= 0).all(0)
        known |= {name: known[name][inside] for name in ("edge_weight", "edge_type") if name in known}
        known |= {name: known[name][chosen] for name in ("x", "y", "unlisted") if known[name] is not None}
        for name in ("node_names", "node_titles"):
            if known[name] is not None:
                known[name] = [known[name][int(i)] for i in chosen]
        return Graph.from_edges(**{**known, "edge_index": ends[:, inside]}).to(self.device)

    def _structural(self) -> Tensor:
        adjacency = self.to_scipy(scaled=True)
        if self.directed:
            adjacency = (adjacency + adjacency.T).tocsr()
            if self.weights is None:  # edges in both directions are one edge, as in the undirected graph
                adjacency.data[:] = 1
        return arrays.structural_features(adjacency, self.ranks.cpu()).to(self.device)

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
        node_titles: Sequence[str] | None = None,
        unlisted: Any = None,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        directed: bool = False,
        edge_weight: Any = None,
        edge_type: Any = None,
        edge_type_names: Sequence[str] | None = None,
        blocks: Mapping[str, int] | None = None,
    ) -> "Graph":
        """Create a graph from arrays.

        Args:
            edge_index: node ids [2, E]; the first row holds the sources, the second the targets.
            x: features [N, F], of NumPy, torch or SciPy, dense or sparse. If at most a third of the values are not
                zero, they are kept sparse and read as words, otherwise they are kept dense and read as measurements.
            y: class ids [N], -1 for unknown; or the names of the classes, None or "" for unknown.
            num_nodes: number of nodes, if no other argument determines it.
            node_names: a name for each node.
            node_titles: names for people, such as the titles of papers; they may repeat.
            class_names: a name for each class.
            feature_names: a name for each column of ``x``.
            directed: keep the direction of edges; otherwise they are made symmetric.
            edge_weight: a positive number for each edge [E]; weights of repeated edges are added.
            edge_type: the type of each edge [E], as an id from 0 or as text.
            edge_type_names: a name for each type, if types are ids.
            unlisted: a mask [N] of the nodes that occur only in edges, so that nothing else is known about them.
            blocks: number of columns of ``x`` of each kind, in their order; each block gets its own views. If they are
                given, even as ``{}``, ``x`` stays dense or sparse as it is.

        Returns:
            The graph, without self-loops and repeated edges.

        Example:
            >>> import fewnode
            >>> fewnode.Graph.from_edges([[0, 1], [1, 2]], y=["a", "b", None]).class_names
            ('a', 'b')
        """
        edges, n = arrays.checked_edges(edge_index, x, y, num_nodes, node_names)
        weight = arrays.checked_weights(edge_weight, edges.shape[1])
        types, type_names = arrays.checked_edge_types(edge_type, edge_type_names, edges.shape[1])
        features = arrays.checked_features(x, by_density=blocks is None)
        labels, class_names = arrays.checked_labels(y, n, class_names)
        width = 0 if features is None else features.shape[1]
        return cls(
            **arrays.sorted_arcs(edges, n, directed, weight, types, type_names),
            y=torch.from_numpy(labels),
            features=None if features is None else arrays.to_tensor(features),
            node_names=arrays.checked_names("node", node_names, n),
            node_titles=arrays.checked_names("node", node_titles, n, unique=False),
            unlisted=arrays.checked_mask("unlisted", unlisted, n),
            class_names=class_names,
            feature_names=arrays.checked_names("feature", feature_names if width else None, width),
            directed=directed,
            blocks=arrays.checked_blocks(blocks, width),
        )

    @classmethod
    def from_files(cls, edges: Any, nodes: Any = None, **options: Any) -> "Graph":
        """Create a graph from a user's own tables, such as CSV or Parquet files.

        Args:
            edges: a table with a row for each edge.
            nodes: a table with a row for each node, if there is one.
            options: options of ``tables.read_graph``, such as ``label_column``.

        Returns:
            The graph; its nodes are named by their ids.
        """
        return cls.from_edges(**tables.read_graph(edges=edges, nodes=nodes, **options).arguments)

    @classmethod
    def from_npz(cls, path: PathLike) -> "Graph":
        """Create a graph from an archive that ``save_npz`` wrote.

        The archive holds ``edge_index``, ``y``, ``x`` or the CSR parts ``x_data, x_indices, x_indptr, x_shape`` (no
        columns if there are no features), and optionally ``class_names``, ``node_names``, ``node_titles``,
        ``feature_names``, ``edge_weight``, ``edge_type``, ``edge_type_names``, ``block_names`` and ``block_widths``.
        """
        with reading(path, "write it again"):
            return cls.from_edges(**convert.graph_arguments(read_npz(path)))

    @classmethod
    def of(cls, given: Any, nodes: Any = None, **options: Any) -> "Graph":
        """Create a graph from any supported object.

        Args:
            given: a table of edges (a DataFrame or a file), a graph of NetworkX, igraph or PyTorch Geometric, an
                adjacency, or edges [2, E].
            nodes: a table of nodes, if ``given`` is a table of edges.
            options: those of ``from_files`` for tables, otherwise those of ``from_edges``, such as ``x``, ``y`` and
                ``directed``. ``label`` names the attribute of the labels in a graph of another library.

        Returns:
            The graph.

        Example:
            >>> import fewnode, scipy.sparse
            >>> fewnode.Graph.of(scipy.sparse.csr_array([[0, 1], [0, 0]]), y=[0, 1]).num_edges
            1
        """
        if isinstance(given, Graph) and nodes is None and not options:
            return given
        return cls.from_edges(**convert.arguments_of(given, nodes, **options))

    @classmethod
    def from_frames(cls, edges: Any, nodes: Any = None, **options: Any) -> "Graph":
        """Create a graph from DataFrames of pandas or polars; the options are those of ``from_files``."""
        return cls.from_files(edges, nodes, **options)

    @classmethod
    def from_pyg(cls, data: "Data | HeteroData", *, label: str | None = None, directed: bool = False) -> "Graph":
        """Create a graph from a PyTorch Geometric ``Data`` or ``HeteroData``.

        ``edge_weight`` (or an ``edge_attr`` of one positive number) holds weights, and ``edge_type`` holds edge types.
        Other edge attributes are left out, and a warning names them. Several node types become one graph: edge types
        are kept, and the type of a node is a feature beside those of its type.

        Args:
            data: the graph in PyTorch Geometric.
            label: the attribute of the labels, by default ``y``.
            directed: keep the direction of edges.

        Returns:
            The graph.
        """
        return cls.from_edges(**convert.pyg_arguments(data, label), directed=directed)

    @classmethod
    def from_networkx(cls, graph: "networkx.Graph", **attributes: str | None) -> "Graph":
        """Create a graph from NetworkX; a directed graph stays directed. Nodes are named by their text.

        Args:
            graph: the graph in NetworkX.
            attributes: the names of the attributes that are read. ``x``: a feature vector of every node; by default all
                other attributes are features, and None means no features. ``label``: the labels of nodes, by default
                ``y``, ``label`` or ``class``. ``weight``: of edges, one if missing. ``edge_type``: of edges.

        Returns:
            The graph.
        """
        return cls.from_edges(**convert.networkx_arguments(graph, **attributes))

    @classmethod
    def from_igraph(cls, graph: Any, **attributes: str | None) -> "Graph":
        """Create a graph from igraph. Attributes are as in ``from_networkx``; the attribute ``name`` names the
        nodes."""
        return cls.from_edges(**convert.igraph_arguments(graph, **attributes))

    @classmethod
    def from_scipy(cls, adjacency: Any, x: Any = None, y: Any = None, **options: Any) -> "Graph":
        """Create a graph from a sparse adjacency whose entry (i, j) is an edge from i to j; options as in
        ``from_edges``."""
        return cls.from_edges(**convert.scipy_arguments(adjacency), x=x, y=y, **options)

    @classmethod
    def from_graphml(cls, path: PathLike, **attributes: str | None) -> "Graph":
        """Create a graph from a GraphML file, through NetworkX; attributes as in ``from_networkx``."""
        with reading(path, "write it again as GraphML"):
            return cls.from_edges(**convert.graphml_arguments(path, **attributes))

    # --- ways out ---------------------------------------------------------------------------------------

    def to_pyg(self) -> "Data":
        """The graph as a PyTorch Geometric ``Data``; each undirected edge becomes two arcs, and ``edge_type`` holds
        types."""
        from torch_geometric.data import Data

        arcs = self.edge_arrays(both_ways=True)
        edges = {name: torch.as_tensor(part, device=self.device) for name, part in arcs.items()}
        return Data(x=self.features, y=self.y, **edges)

    def to_networkx(self) -> "networkx.Graph":
        """The graph in NetworkX, in the form that ``from_networkx`` reads; edges of several types are parallel."""
        columns: dict[str, Any] = {"y": convert.node_labels(self)}
        if self.features is not None:
            columns["x"] = self.features.to_dense().cpu().numpy()
        return convert.networkx_graph(self, self.node_names or range(self.num_nodes), columns)

    def to_graphml(
        self, path: PathLike, predictions: Any = None, attributes: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        """Write a GraphML file with names, labels, weights and edge types, for example for Gephi.

        Args:
            path: the file.
            predictions: the result of ``FewShotClassifier.predict_proba``, written as attributes of the nodes.
            attributes: further attributes by name, with a value for each node.
        """
        convert.write_graphml(self, path, predictions, attributes or {})

    def save_npz(self, path: PathLike) -> None:
        """Write the archive that ``from_npz`` reads."""
        write_npz(path, convert.graph_arrays(self.arguments()))


def summary(graph: Graph, split: Mapping[str, Sequence[int]] | None = None, components: bool = True) -> dict[str, Any]:
    """Counts of a graph as plain numbers: size, connected components, dropped edges and class sizes.

    Args:
        graph: the graph.
        split: the classes of each part (``asdict`` of a ``ClassSplit``), which are then listed.
        components: count connected components, which needs all edges in memory.
    """
    parts = {part: list(ids) for part, ids in (split or {}).items()}
    part_of = {class_id: part for part, ids in parts.items() for class_id in ids}
    names = graph.class_names or [str(i) for i in range(graph.num_classes)]
    sizes = torch.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes).tolist()
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "labelled": int((graph.y >= 0).sum()),
        "isolated": int((graph.degree == 0).sum()),
        "components": connected_components(graph.to_scipy(), directed=False)[0] if components else None,
        "max_degree": int(graph.degree.max()),
        "self_loops": graph.self_loops,
        "duplicates": graph.duplicates,
        "features": graph.num_features,
        "has_features": graph.has_features,
        "split": parts,
        "classes": [{"id": i, "name": names[i], "nodes": size, "part": part_of.get(i)} for i, size in enumerate(sizes)],
    }
