"""Other libraries' graphs and plain files as the arguments of ``Graph.from_edges``, and back."""

import os
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import torch
from scipy import sparse as sp

from .. import tables
from ..errors import InputError
from ..files import PathLike, atomic_write, readable
from ..tables.read import Table, is_frame, table_of
from .arrays import checked_features, to_numpy

if TYPE_CHECKING:
    from .graph import FrozenGraph

# --- What nodes of other libraries' graphs carry, as features and labels.
LABELS = ("y", "label", "class")


def node_columns(nodes: Sequence[Hashable], rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The attributes of all nodes by name, with None where a node lacks one."""
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def attribute_arguments(
    nodes: Sequence[Hashable], columns: Mapping[str, Sequence[Any]], x: str | None, y: str | None
) -> dict[str, Any]:
    """The arguments ``x``, ``y``, ``node_names`` and so on from the attributes of nodes: the vector ``x``, or where
    there is none all other attributes, read as the columns of a table; nothing, if ``x`` is None."""
    found: dict[str, Any] = {"num_nodes": len(nodes), "node_names": [str(node) for node in nodes]}
    label = y if y in columns or y != LABELS[0] else next((name for name in LABELS if name in columns), None)
    if label is not None and label in columns:
        found["y"] = columns[label]
    if x is None:
        return found
    if x in columns:
        return found | {"x": _vectors(nodes, columns[x], x)}
    rest = {name: values for name, values in columns.items() if name != label}
    return found | (_table_features(found["node_names"], rest) if rest and nodes else {})


def _vectors(nodes: Sequence[Hashable], rows: Sequence[Any], name: str) -> np.ndarray:
    missing = [node for node, row in zip(nodes, rows, strict=True) if row is None]
    if missing:
        raise InputError(f"node {missing[0]!r} has no attribute {name!r} but others have; give it to all or to none")
    try:
        matrix = np.array([np.asarray(row) for row in rows], dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise InputError(f"the node attribute {name!r} does not hold vectors of numbers of one length") from error
    return matrix[:, None] if matrix.ndim == 1 else matrix


def _table_features(ids: Sequence[str], columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Attributes read as a table of nodes would be: numbers, categories and texts."""
    held = {name: _column(values) for name, values in columns.items()}
    nodes = Table.of("the node attributes", {"id": np.array(ids, dtype=object), **held})
    ends = np.array([ids[0], ids[0]], dtype=object)
    edges = Table.of("the edges", {"source": ends[:1], "target": ends[1:]})
    known = tables.graph_tables(edges, nodes, id_column="id", label_column="")
    return {name: known[name] for name in ("x", "feature_names")}


def _column(values: Sequence[Any]) -> np.ndarray:
    if all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values):
        return np.array(values, dtype=float)
    return np.array(["" if value is None or value != value else str(value) for value in values], dtype=object)


# --- Graphs of NetworkX, igraph and SciPy as the arguments of ``Graph.from_edges``; none of them is imported.
def networkx_arguments(
    graph: Any, x: str | None, y: str | None, weight: str | None, edge_type: str | None
) -> dict[str, Any]:
    """The arguments in a NetworkX graph; the names are those of node and edge attributes."""
    nodes = list(graph.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    arcs = list(graph.edges(data=True))
    edges = np.array([(position[a], position[b]) for a, b, _ in arcs], dtype=np.int64).reshape(-1, 2).T
    ends = [(a, b) for a, b, _ in arcs]
    carried = {name: [held.get(name) for *_, held in arcs] for name in (weight, edge_type) if name is not None}
    columns = node_columns(nodes, [graph.nodes[node] for node in nodes])
    return {
        "edge_index": edges,
        **attribute_arguments(nodes, columns, x, y),
        **edge_arguments(ends, carried.get(weight or "", []), carried.get(edge_type or "", [])),
        "directed": bool(graph.is_directed()),
    }


def igraph_arguments(
    graph: Any, x: str | None, y: str | None, weight: str | None, edge_type: str | None
) -> dict[str, Any]:
    """The arguments in an igraph graph; the attribute ``name`` of its vertices, if there is one, names the nodes."""
    columns = {name: list(graph.vs[name]) for name in graph.vs.attributes()}
    nodes = columns.pop("name", None) or list(range(graph.vcount()))
    ends = graph.get_edgelist()
    carried = {name: list(graph.es[name]) for name in (weight, edge_type) if name in graph.es.attributes()}
    return {
        "edge_index": np.array(ends, dtype=np.int64).reshape(-1, 2).T,
        **attribute_arguments(nodes, columns, x, y),
        **edge_arguments(ends, carried.get(weight, []), carried.get(edge_type, [])),
        "directed": bool(graph.is_directed()),
    }


def edge_arguments(ends: Sequence[Any], weights: Sequence[Any], types: Sequence[Any]) -> dict[str, Any]:
    """``edge_weight`` and ``edge_type`` from what each edge carries: an edge without a weight weighs one, and either
    all edges have a type or none has."""
    found: dict[str, Any] = {}
    if any(weight is not None for weight in weights):
        for pair, weight in zip(ends, weights, strict=True):
            if weight is not None and not isinstance(weight, int | float | np.number):
                raise InputError(f"the weight of the edge {pair} is {weight!r}; a weight is a number above zero")
        found["edge_weight"] = np.array([1.0 if weight is None else weight for weight in weights], dtype=float)
    if any(name is not None for name in types):
        missing = [pair for pair, name in zip(ends, types, strict=True) if name is None]
        if missing:
            raise InputError(
                f"the edge {missing[0]} has no edge type but others have; give one to all edges or to none"
            )
        found["edge_type"] = np.array([str(name) for name in types])
    return found


def scipy_arguments(adjacency: Any) -> dict[str, Any]:
    """The arguments in a sparse adjacency whose entry (i, j) is an edge from i to j; entries other than one are
    weights."""
    matrix = sp.coo_array(adjacency)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"an adjacency is square, this matrix has shape {matrix.shape}; features go in as x")
    there = matrix.data != 0
    weights = matrix.data[there]
    plain = weights.dtype == bool or bool((weights == 1).all())
    return {
        "edge_index": np.stack([matrix.coords[0][there], matrix.coords[1][there]]).astype(np.int64),
        "num_nodes": matrix.shape[0],
        **({} if plain else {"edge_weight": weights}),
    }


def graphml_arguments(path: PathLike, **attributes: str | None) -> dict[str, Any]:
    """The arguments in a GraphML file; the attribute ``name`` of its nodes, if there is one, names them."""
    try:
        import networkx
    except ImportError as error:
        raise InputError("GraphML is read by NetworkX, which is not installed; pip install networkx") from error
    file = readable(path)
    try:
        graph = networkx.read_graphml(file)
    except (networkx.NetworkXException, SyntaxError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is no GraphML that can be read: {error}") from error
    names = networkx.get_node_attributes(graph, "name")
    if len(names) == len(graph) == len(set(names.values())):
        for held in graph.nodes.values():
            del held["name"]
        graph = networkx.relabel_nodes(graph, names)
    usual: dict[str, str | None] = {"x": "x", "y": "label", "weight": "weight", "edge_type": "edge_type"}
    return networkx_arguments(graph, **{**usual, **attributes})


# --- Graphs of PyTorch Geometric and DGL, of one type of node or of several, as the arguments of ``Graph.from_edges``.
FEATURES = ("x", "feat", "feature", "features")
TYPED_LABELS = ("y", "label", "labels")
WEIGHTS = ("edge_weight", "weight", "w")
EDGE_TYPES = ("edge_type", "etype", "rel_type")


@dataclass(frozen=True)
class NodeType:
    """All nodes of one type."""

    size: int
    x: Any = None
    y: Any = None


@dataclass(frozen=True)
class EdgeType:
    """All edges of one type, by their numbers among the nodes of their types."""

    ends: tuple[str, str, str]
    edge_index: np.ndarray
    weight: Any = None


def pyg_arguments(data: Any) -> dict[str, Any]:
    """The arguments in a ``Data`` or ``HeteroData``."""
    if hasattr(data, "edge_types"):
        nodes = {name: _node_type(data[name].num_nodes, data[name]) for name in data.node_types}
        edges = [EdgeType(ends, _ends(data[ends], ends), _weight(data[ends], ends)) for ends in data.edge_types]
        return joined(nodes, edges)
    edge_type = _first(data, EDGE_TYPES)
    node = _node_type(data.num_nodes, data)
    return {
        "edge_index": _ends(data, "the graph"),
        "x": node.x,
        "y": node.y,
        "num_nodes": node.size,
        "edge_weight": _weight(data, "the graph"),
        "edge_type": None if edge_type is None else to_numpy(edge_type),
    }


def dgl_arguments(graph: Any) -> dict[str, Any]:
    """The arguments in a DGL graph."""
    if len(graph.ntypes) > 1 or len(graph.canonical_etypes) > 1:
        nodes = {name: _node_type(graph.num_nodes(name), graph.nodes[name].data) for name in graph.ntypes}
        edges = [
            EdgeType(ends, _stacked(graph.edges(etype=ends)), _weight(graph.edges[ends].data, ends))
            for ends in graph.canonical_etypes
        ]
        return joined(nodes, edges)
    edge_type = _first(graph.edata, EDGE_TYPES)
    node = _node_type(graph.num_nodes(), graph.ndata)
    return {
        "edge_index": _stacked(graph.edges()),
        "x": node.x,
        "y": node.y,
        "num_nodes": node.size,
        "edge_weight": _weight(graph.edata, "the graph"),
        "edge_type": None if edge_type is None else to_numpy(edge_type),
    }


def joined(nodes: Mapping[str, NodeType], edges: Sequence[EdgeType]) -> dict[str, Any]:
    """One graph of all types: edges keep their types, the type of a node is a category among its features,
    and the features of the types stand side by side."""
    start = dict(zip(nodes, np.cumsum([0, *(node.size for node in nodes.values())]).tolist(), strict=False))
    short = [ends[1] for ends in (edge.ends for edge in edges)]
    names = [edge.ends[1] if short.count(edge.ends[1]) == 1 else " ".join(edge.ends) for edge in edges]
    shifted = [e.edge_index + np.array([[start[e.ends[0]]], [start[e.ends[2]]]]) for e in edges]
    known = {"x": _side_by_side(nodes), **_labels(nodes)}
    weighted = any(edge.weight is not None for edge in edges)
    sizes = [edge.edge_index.shape[1] for edge in edges]
    weights = [np.ones(n) if e.weight is None else to_numpy(e.weight) for e, n in zip(edges, sizes, strict=True)]
    return {
        "edge_index": np.concatenate(shifted, 1) if shifted else np.zeros((2, 0), np.int64),
        "num_nodes": sum(node.size for node in nodes.values()),
        "node_names": [f"{name}:{i}" for name, node in nodes.items() for i in range(node.size)],
        "edge_weight": np.concatenate(weights) if weighted else None,
        "edge_type": np.repeat(np.arange(len(edges)), sizes),
        "edge_type_names": names,
        **known,
    }


def _side_by_side(nodes: Mapping[str, NodeType]) -> Any:
    """Each type's features in columns of their own, zero elsewhere, then which type a node is of. Dense columns are
    measured in standard deviations from the mean of their type, so that zero is no extreme value."""
    blocks = [None if node.x is None else checked_features(node.x, node.size) for node in nodes.values()]
    dense = not any(sp.issparse(block) for block in blocks)
    parts = []
    for number, (node, block) in enumerate(zip(nodes.values(), blocks, strict=True)):
        if isinstance(block, np.ndarray):
            spread = block.std(0)
            block = (block - block.mean(0)) / np.where(spread > 1e-6, spread, 1)
        of_type = np.zeros((node.size, len(nodes)), np.float32)
        of_type[:, number] = 1
        parts.append((sp.csr_matrix((node.size, 0)) if block is None else sp.csr_matrix(block), sp.csr_matrix(of_type)))
    features = sp.block_diag([part for part, _ in parts], format="csr", dtype=np.float32)
    together = sp.hstack([features, sp.vstack([part for _, part in parts])], format="csr", dtype=np.float32)
    return together.toarray() if dense else together


def _labels(nodes: Mapping[str, NodeType]) -> dict[str, Any]:
    """Labels of all nodes; where several types have some, the name of a class tells which type it is of."""
    with_labels = [name for name, node in nodes.items() if node.y is not None]
    parts: list[np.ndarray] = []
    names: list[str] = []
    for name, node in nodes.items():
        own = np.full(node.size, -1) if node.y is None else to_numpy(node.y)
        top = int(own.max(initial=-1)) + 1
        parts.append(np.where(own >= 0, own + len(names), -1))
        names += [f"{name} {i}" if len(with_labels) > 1 else str(i) for i in range(top)]
    return {"y": np.concatenate(parts), "class_names": names} if with_labels else {}


def _node_type(size: int | None, held: Any) -> NodeType:
    if size is None:
        raise InputError("a type of nodes does not tell how many there are; set num_nodes")
    y = _first(held, TYPED_LABELS)
    if y is not None and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    return NodeType(int(size), _first(held, FEATURES), y)


def _ends(held: Any, where: Any) -> np.ndarray:
    edges = _first(held, ("edge_index",))
    if edges is None:
        raise InputError(f"{where} has no edge_index (an adj_t is not read); give the edges as edge_index [2, E]")
    return to_numpy(edges)


def _stacked(ends: tuple[Any, Any]) -> np.ndarray:
    return np.stack([to_numpy(ends[0]), to_numpy(ends[1])])


def _weight(held: Any, where: Any) -> Any:
    """The weights of edges: those that are called so, else ``edge_attr`` if it is one positive number for each edge.
    What else edges carry is said to be left out."""
    weight = _first(held, WEIGHTS)
    if weight is not None:
        return to_numpy(weight)
    carried = _first(held, ("edge_attr",))
    if carried is None:
        return None
    values = to_numpy(carried)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim == 1 and np.issubdtype(values.dtype, np.floating) and bool((values > 0).all()):
        return values
    warnings.warn(
        f"edge_attr of {where} (shape {tuple(to_numpy(carried).shape)}, {values.dtype}) is no positive weight for each "
        "edge, so it is left out; give weights as edge_weight and types as edge_type",
        stacklevel=2,
    )
    return None


def _first(held: Any, names: Sequence[str]) -> Any:
    """The first of these fields that is there: of a mapping, or of an object with attributes."""
    for name in names:
        found = held.get(name) if isinstance(held, Mapping) else getattr(held, name, None)
        if found is not None:
            return found
    return None


def pyg_fields(edges: Mapping[str, np.ndarray], x: torch.Tensor | None, y: torch.Tensor) -> dict[str, Any]:
    """The fields of a PyTorch Geometric ``Data``; its names for weights and types are edge_weight and edge_type."""
    fields: dict[str, Any] = {"x": x, "edge_index": torch.from_numpy(edges["edge_index"]).to(y.device), "y": y}
    for name, own in (("edge_weight", "edge_weight"), ("edge_type", "edge_type")):
        if name in edges:
            fields[own] = torch.from_numpy(edges[name]).to(y.device)
    return fields


# --- What a user has in hand, told by what it can do, as the arguments of ``Graph.from_edges``.
TAKEN = (
    "a Graph, DataFrames or files of edges (and nodes), a graph of NetworkX, igraph, PyTorch Geometric or DGL, a "
    "sparse or square adjacency, or edges [2, E]"
)


def arguments_of(given: Any, nodes: Any = None, **options: Any) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` in whatever holds a graph; ``nodes`` is a table beside one of edges."""
    if is_frame(given) or isinstance(given, str | os.PathLike):
        return frame_arguments(given, nodes, **options)
    if nodes is not None:
        raise InputError(f"nodes= belongs to a table of edges; {_type(given)} brings its own nodes")
    return _foreign_arguments(given) | {name: value for name, value in options.items() if value is not None}


def frame_arguments(edges: Any, nodes: Any = None, **options: Any) -> dict[str, Any]:
    """The arguments in tables of edges and nodes, as DataFrames or files."""
    given_tables = [
        table_of(given, f"the table of {name}") if is_frame(given) else given
        for name, given in (("edges", edges), ("nodes", nodes))
    ]
    for name, given in zip(("edges", "nodes"), given_tables, strict=True):
        if not (given is None or isinstance(given, str | os.PathLike | tables.Table)):
            raise InputError(f"{name} is {_type(given)}; give a DataFrame or a file")
    return tables.graph_tables(*given_tables, **options)


def _foreign_arguments(given: Any) -> dict[str, Any]:
    if hasattr(given, "canonical_etypes"):
        return dgl_arguments(given)
    if hasattr(given, "edge_types") or hasattr(given, "edge_index"):
        return pyg_arguments(given)
    if hasattr(given, "vs") and hasattr(given, "es"):
        return igraph_arguments(given, "x", "y", "weight", "edge_type")
    if hasattr(given, "nodes") and hasattr(given, "edges") and hasattr(given, "is_directed"):
        return networkx_arguments(given, "x", "y", "weight", "edge_type")
    if sp.issparse(given):
        return scipy_arguments(given)
    if isinstance(given, np.ndarray | torch.Tensor | list | tuple):
        return _array_arguments(given)
    raise InputError(f"{_type(given)} is no graph that is known here; give {TAKEN}")


def _array_arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, torch.Tensor) and given.layout != torch.strided:
        given = given.to_sparse_coo().coalesce()
        return scipy_arguments(
            sp.coo_array((given.values().numpy(), given.indices().numpy()), shape=tuple(given.shape))
        )
    try:
        array = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
    except ValueError:
        array = np.empty(0)
    if array.ndim == 2 and array.shape[0] == array.shape[1] > 2:
        return scipy_arguments(sp.coo_array(array))
    if array.ndim == 2 and array.shape[0] == 2 and np.issubdtype(array.dtype, np.integer):
        return {"edge_index": array}
    raise InputError(
        f"an array of shape {array.shape} and type {array.dtype} is neither edges [2, E] (whole numbers) nor a square "
        f"adjacency; give {TAKEN}"
    )


def _type(given: Any) -> str:
    kind = type(given)
    home = kind.__module__.split(".")[0]
    return f"a value of type {kind.__name__}" + ("" if home in ("builtins", "__main__") else f" (of {home})")


# --- The plain npz layout of a graph: which arrays it holds, and how they are read and written.
MOST_COLUMNS = 1 << 24  # of features


def graph_arguments(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The arguments of ``from_edges`` in the arrays of the plain npz layout."""
    x, rows = arrays.get("x"), None
    if "x_shape" in arrays:
        rows, columns = checked_shape(arrays["x_shape"], "x_shape")
        if x is None and columns > 0:
            x = checked_csr(arrays["x_data"], arrays["x_indices"], arrays["x_indptr"], (rows, columns), "x")
    sizes = [len(_row(arrays, key)) for key in ("y", "node_names") if key in arrays]
    for key, former in (("edge_type", "edge_kind"), ("edge_type_names", "kind_names")):  # as in published archives
        arrays = {key: arrays[former], **arrays} if former in arrays else arrays
    name_keys = ("node_names", "class_names", "feature_names", "edge_type_names")
    names: dict[str, Any] = {key: _row(arrays, key).tolist() for key in name_keys if key in arrays}
    return {
        "edge_index": arrays["edge_index"],
        "x": x,
        "y": arrays.get("y"),
        "num_nodes": rows if rows is not None else sizes[0] if sizes else None,
        "directed": _flag(arrays, "directed"),
        "edge_weight": arrays.get("edge_weight"),
        "edge_type": arrays.get("edge_type"),
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


# --- A graph for other programs: NetworkX, and GraphML for Gephi and the like.
TYPES = {"i": "long", "u": "long", "f": "double", "b": "boolean"}


def edge_columns(graph: "FrozenGraph") -> tuple[np.ndarray, dict[str, list[Any]]]:
    """The edges ``[2, E]``, each undirected one once, and what they carry: ``weight`` and ``edge_type``."""
    arrays = graph.edge_arrays()
    carried: dict[str, list[Any]] = {}
    if "edge_weight" in arrays:
        carried["weight"] = arrays["edge_weight"].astype(float).tolist()
    if graph.edge_types is not None:
        carried["edge_type"] = [graph.edge_types.names[i] for i in arrays["edge_type"].tolist()]
    return arrays["edge_index"], carried


def node_labels(graph: "FrozenGraph") -> list[Any]:
    """The label of each node, as a name if the classes have names; None where it is unknown."""
    names = graph.class_names
    return [None if y < 0 else names[y] if names else y for y in graph.y.tolist()]


def to_networkx(graph: "FrozenGraph", features: bool) -> Any:
    """See ``Graph.to_networkx``."""
    try:
        import networkx
    except ImportError as error:
        raise InputError("NetworkX is not installed; pip install networkx") from error
    several = "MultiDiGraph" if graph.directed else "MultiGraph"
    plain = "DiGraph" if graph.directed else "Graph"
    made = getattr(networkx, plain if graph.edge_types is None else several)()
    names: Sequence[Any] = graph.node_names or range(graph.num_nodes)
    made.add_nodes_from(names)
    for name, label in zip(names, node_labels(graph), strict=True):
        if label is not None:
            made.nodes[name]["y"] = label
    x: Any = graph.features_scipy() if features else None
    for at, name in enumerate(names if x is not None else ()):
        made.nodes[name]["x"] = x[at] if isinstance(x, np.ndarray) else x[[at]].toarray()[0]
    ends, carried = edge_columns(graph)
    for at, (a, b) in enumerate(ends.T.tolist()):
        made.add_edge(names[a], names[b], **{key: values[at] for key, values in carried.items()})
    return made


def prediction_columns(graph: "FrozenGraph", predictions: Any) -> dict[str, list[Any]]:
    """The columns of a table of predictions for all nodes, with None for those that were not asked about."""
    table, nodes = predictions.table(), predictions.nodes.tolist()
    found: dict[str, list[Any]] = {}
    for name in (column for column in table if column != "id"):
        column: list[Any] = [None] * graph.num_nodes
        for node, value in zip(nodes, table[name], strict=True):
            column[node] = value
        found["predicted" if name == "label" else name] = column
    return found


def write_graphml(graph: "FrozenGraph", path: PathLike, attributes: Mapping[str, Sequence[Any]]) -> None:
    """See ``Graph.to_graphml``. Values are written as text, whole numbers, numbers or truth values."""
    for name, values in attributes.items():
        if len(values) != graph.num_nodes:
            raise InputError(f"the attribute {name!r} has {len(values):,} values for {graph.num_nodes:,} nodes")
    ends, carried = edge_columns(graph)
    names = graph.node_names or [str(i) for i in range(graph.num_nodes)]
    of_nodes = {"name": list(names), **({"label": node_labels(graph)} if bool((graph.y >= 0).any()) else {})}
    of_nodes |= {name: list(values) for name, values in attributes.items()}
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
    lines += _keys("node", of_nodes) + _keys("edge", carried)
    lines.append(f'<graph edgedefault="{"directed" if graph.directed else "undirected"}">')
    with atomic_write(path) as file:
        file.write("\n".join(lines).encode())
        for at in range(graph.num_nodes):
            file.write(f'\n<node id="n{at}">{_data("node", of_nodes, at)}</node>'.encode())
        for at, (a, b) in enumerate(ends.T.tolist()):
            file.write(f'\n<edge source="n{a}" target="n{b}">{_data("edge", carried, at)}</edge>'.encode())
        file.write(b"\n</graph>\n</graphml>\n")


def _keys(what: str, columns: Mapping[str, Sequence[Any]]) -> list[str]:
    found = []
    for number, (name, values) in enumerate(columns.items()):
        given = np.array([value for value in values if value is not None])
        kind = TYPES.get(given.dtype.kind, "string")
        found.append(f'<key id="{what}{number}" for="{what}" attr.name={quoteattr(name)} attr.type="{kind}"/>')
    return found


def _data(what: str, columns: Mapping[str, Sequence[Any]], at: int) -> str:
    return "".join(
        f'<data key="{what}{number}">{_text(values[at])}</data>'
        for number, values in enumerate(columns.values())
        if values[at] is not None
    )


def _text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool | np.bool_) else str(value)
    return escape("".join(mark for mark in text if mark >= " " or mark in "\t\n\r"))  # XML has no control characters
