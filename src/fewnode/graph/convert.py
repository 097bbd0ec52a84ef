"""Graphs of other libraries and plain files as the arguments of ``Graph.from_edges``, and back.

Graphs are recognised by their interface, without importing their library; igraph is read through NetworkX.
"""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse as sp

from .. import tables
from ..errors import InputError, refused
from ..files import PathLike, atomic_write, checked_csr, readable
from ..tables.read import Table, is_frame
from .arrays import checked_features, flat, to_numpy, to_scipy

if TYPE_CHECKING:
    from .graph import Graph

FEATURES = ("text", "category", "number", "date", "vectors")
ARGUMENTS = (  # of ``from_edges``, which an archive may hold
    *("edge_index", "x", "y", "unlisted", "directed", "edge_weight", "edge_type", "edge_type_names"),
    *("node_names", "node_titles", "class_names", "feature_names", "blocks"),
)


def arguments_of(given: Any, nodes: Any = None, **options: Any) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` from any supported object; ``nodes`` is a table beside one of edges."""
    if is_frame(given) or isinstance(given, str | os.PathLike):
        return tables.read_graph(given, nodes, **options).arguments
    kind = f"a value of type {type(given).__name__}"
    if nodes is not None:
        raise InputError(f"nodes= belongs to a table of edges; {kind} has its own nodes")
    attributes = {name: options.pop(name) for name in ("label", "weight", "edge_type") if name in options}
    if hasattr(given, "node_types") or hasattr(given, "edge_index"):
        found = pyg_arguments(given, **attributes)
    elif hasattr(given, "vs") and hasattr(given, "es"):
        found = igraph_arguments(given, **attributes)
    elif hasattr(given, "nodes") and hasattr(given, "edges") and hasattr(given, "is_directed"):
        found = networkx_arguments(given, **attributes)
    elif attributes:
        raise InputError(f"{next(iter(attributes))}= names an attribute; {kind} has none")
    elif sp.issparse(given):
        found = scipy_arguments(given)
    elif isinstance(given, np.ndarray | torch.Tensor | list | tuple):
        found = _array_arguments(given)
    else:
        known = "DataFrames, files, a graph of NetworkX, igraph or PyTorch Geometric, an adjacency or edges [2, E]"
        raise InputError(f"{kind} is not a supported graph; give a Graph, {known}")
    return found | {name: value for name, value in options.items() if value is not None}


def _array_arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, torch.Tensor) and given.layout != torch.strided:
        return scipy_arguments(to_scipy(given.to_sparse_csr()))
    array = to_numpy(given)
    if array.ndim == 2 and array.shape[0] == array.shape[1] > 2:
        return scipy_arguments(array)
    if array.ndim == 2 and array.shape[0] == 2 and np.issubdtype(array.dtype, np.integer):
        return {"edge_index": array}
    what = f"an array of shape {array.shape} and type {array.dtype}"
    raise InputError(f"{what} is neither edges [2, E] (whole numbers) nor a square adjacency; give one of them")


def scipy_arguments(adjacency: Any) -> dict[str, Any]:
    """Arguments from an adjacency whose entry (i, j) is an edge from i to j; entries other than one are weights."""
    matrix = sp.coo_array(adjacency)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"an adjacency is square, this matrix has shape {matrix.shape}; give features as x")
    there = matrix.data != 0
    weights = matrix.data[there]
    found = {"edge_index": np.stack(matrix.coords)[:, there].astype(np.int64), "num_nodes": matrix.shape[0]}
    return found if weights.dtype == bool or bool((weights == 1).all()) else {**found, "edge_weight": weights}


# --- NetworkX, igraph and GraphML: nodes have names, labels and features as attributes, edges weights and types.


def networkx_arguments(
    graph: Any,
    *,
    x: str | None = "x",
    label: str | None = None,
    weight: str | None = "weight",
    edge_type: str | None = "edge_type",
) -> dict[str, Any]:
    """Arguments from a NetworkX graph.

    Labels are the attribute ``label``, by default ``y``, ``label`` or ``class``. Features are the vector ``x``, or
    without it all other attributes, read as the columns of a table; none, if ``x`` is None. Unless the label is named,
    a warning lists the attributes used as labels and features. The default weight is one; either all edges have a type
    or none has.
    """
    nodes, edges = list(graph.nodes), list(graph.edges(data=True))
    place = {node: i for i, node in enumerate(nodes)}
    columns, carried = _columns([graph.nodes[node] for node in nodes]), _columns([held for *_, held in edges])
    ends = np.array([(place[a], place[b]) for a, b, _ in edges], dtype=np.int64).reshape(-1, 2)
    given = next((name for name in ("y", "label", "class") if name in columns), "") if label is None else label
    if given and given not in columns:
        there = ", ".join(map(repr, columns)) or "no attributes"
        raise InputError(f"label={given!r} is no attribute of the nodes; they have {there}")
    names = [str(node) for node in nodes]
    found: dict[str, Any] = {"edge_index": ends.T, "y": columns.get(given), "node_names": names}
    found["directed"] = bool(graph.is_directed())
    rest, used = {name: values for name, values in columns.items() if name != given}, list[str]()
    if x is not None and x in columns:
        found["x"], used = _vectors(nodes, columns[x], x), [x]
    elif x is not None and rest and nodes:
        table = Table.of("the node attributes", {"id": names, **rest})
        read = tables.GraphTables(None, table, id_column="id", label_column="")
        used = [role.column for role in read.roles if role.use in FEATURES]
        found |= dict(zip(("x", "feature_names", "blocks"), read.encode(), strict=True))
        found["node_titles"] = read.texts().get("title")
    if label is None and rest and (not given or x not in columns):
        labels = (
            f"the attribute {given!r} holds the labels" if given else "no attribute is y, label or class: no labels"
        )
        parts = {"features": used, "not used": [name for name in rest if name not in used]}
        told = [f"{part}: {', '.join(map(repr, some))}" for part, some in parts.items() if some]
        warnings.warn(f"{'; '.join([labels, *told])}. Name the labels with label=", stacklevel=2)
    weights, types = (carried.get(name or "", []) for name in (weight, edge_type))
    if any(value is not None for value in weights):
        found["edge_weight"] = np.array([1.0 if value is None else value for value in weights])
    if any(value is not None for value in types):
        if None in types:
            edge = edges[types.index(None)][:2]
            raise InputError(f"the edge {edge} has no edge type but others have; give one to all edges or to none")
        found["edge_type"] = np.array([str(value) for value in types])
    return found


def igraph_arguments(graph: Any, **attributes: str | None) -> dict[str, Any]:
    """Arguments from an igraph graph, through NetworkX."""
    found = graph.to_networkx()
    for held in found.nodes.values():
        held.pop("_igraph_index", None)
    return networkx_arguments(_named(found), **attributes)


def graphml_arguments(path: PathLike, **attributes: str | None) -> dict[str, Any]:
    """Arguments from a GraphML file; the attribute ``name`` of its nodes, if there is one, names them."""
    with refused("GraphML needs networkx", ImportError, remedy="pip install networkx"):
        import networkx
    graph = _named(networkx.read_graphml(readable(path)))
    label = "label" if networkx.get_node_attributes(graph, "label") else ""  # y is a coordinate
    return networkx_arguments(graph, **{"label": label, **attributes})


def _named(graph: Any) -> Any:
    """A NetworkX graph whose nodes are their attribute ``name``, if all have one and names differ."""
    import networkx

    names = networkx.get_node_attributes(graph, "name")
    if len(names) != len(graph) or len(set(names.values())) < len(graph):
        return graph
    for held in graph.nodes.values():
        del held["name"]
    return networkx.relabel_nodes(graph, names)


def _columns(rows: Sequence[Mapping[Any, Any]]) -> dict[str, list[Any]]:
    """Attributes by name, with None where a row lacks one."""
    return {str(name): [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}


def _vectors(nodes: Sequence[Any], rows: Sequence[Any], name: str) -> np.ndarray:
    missing = [node for node, row in zip(nodes, rows, strict=True) if row is None]
    if missing:
        raise InputError(f"node {missing[0]!r} has no attribute {name!r} but others have; give it to all or to none")
    with refused(f"the node attribute {name!r} does not hold vectors of numbers of one length", ValueError, TypeError):
        matrix = np.array([np.asarray(row) for row in rows], dtype=np.float32)
    return matrix[:, None] if matrix.ndim == 1 else matrix


def networkx_graph(graph: "Graph", names: Iterable[Any], columns: Mapping[str, Sequence[Any]]) -> Any:
    """The graph in NetworkX, with ``columns`` as attributes of its nodes where they are not None."""
    import networkx

    kind = ("Di" if graph.directed else "") + "Graph"
    made = getattr(networkx, kind if graph.edge_types is None else f"Multi{kind}")()
    nodes = list(names)
    for at, node in enumerate(nodes):
        made.add_node(node, **{name: values[at] for name, values in columns.items() if values[at] is not None})
    arrays = graph.edge_arrays()
    carried: dict[str, list[Any]] = {}
    if "edge_weight" in arrays:
        carried["weight"] = arrays["edge_weight"].astype(float).tolist()
    if graph.edge_types is not None:
        carried["edge_type"] = [graph.edge_types.names[i] for i in arrays["edge_type"].tolist()]
    for at, (a, b) in enumerate(arrays["edge_index"].T.tolist()):
        made.add_edge(nodes[a], nodes[b], **{name: values[at] for name, values in carried.items()})
    return made


def node_labels(graph: "Graph") -> list[Any]:
    """The label of each node, as a name if classes have names; None where unknown."""
    names = graph.class_names
    return [None if y < 0 else names[y] if names else y for y in graph.y.tolist()]


def write_graphml(graph: "Graph", path: PathLike, predictions: Any, attributes: Mapping[str, Sequence[Any]]) -> None:
    """See ``Graph.to_graphml``."""
    import networkx

    columns: dict[str, Any] = {"name": graph.node_names or [str(i) for i in range(graph.num_nodes)]}
    columns |= {"title": graph.node_titles} if graph.node_titles else {}
    columns |= {"label": node_labels(graph)} if bool((graph.y >= 0).any()) else {}
    for name, values in ({} if predictions is None else predictions.table()).items():
        if name not in ("id", "title"):
            place = dict(zip(predictions.nodes.tolist(), values, strict=True))
            columns["predicted" if name == "label" else name] = [place.get(i) for i in range(graph.num_nodes)]
    for name, values in attributes.items():
        if len(values) != graph.num_nodes:
            raise InputError(f"the attribute {name!r} has {len(values):,} values for {graph.num_nodes:,} nodes")
    written = {name: [_written(value) for value in values] for name, values in (columns | {**attributes}).items()}
    made = networkx_graph(graph, (f"n{i}" for i in range(graph.num_nodes)), written)
    with atomic_write(path) as file:
        networkx.write_graphml(made, file)


def _written(value: Any) -> Any:
    """A value of a GraphML type; XML has no control characters."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float):
        return value
    return "".join(mark for mark in str(value) if mark >= " " or mark in "\t\n\r")


# --- PyTorch Geometric: graphs of one type of node and edge, or of several.


def pyg_arguments(data: Any, label: str | None = None) -> dict[str, Any]:
    """Arguments from a ``Data`` or ``HeteroData``; ``label`` is the attribute of the labels, by default ``y``.

    Several types of nodes become one graph: edges keep their types, the type of a node is a category among its
    features, and the features of the types stand side by side.
    """
    several = hasattr(data, "node_types")
    nodes = {name: data[name] for name in data.node_types} if several else {"": data}
    edges = {ends: data[ends] for ends in data.edge_types} if several else {("", "", ""): data}
    if any(held.num_nodes is None for held in nodes.values()):
        raise InputError("the number of nodes of a node type is unknown; set num_nodes")
    sizes = {name: int(held.num_nodes) for name, held in nodes.items()}
    features = {name: getattr(held, "x", None) for name, held in nodes.items()}
    known = ("train_mask", "val_mask", "test_mask")
    if masks := [mask for mask in known if any(mask in held for held in nodes.values())]:
        told = "divide nodes, not classes, and are not used; set y to -1 where a label must not be seen"
        warnings.warn(f"{', '.join(masks)} {told}", stacklevel=2)
    given = {name: getattr(held, label or "y", None) for name, held in nodes.items()}
    labels = {name: None if y is None else flat(y) for name, y in given.items()}
    if all(y is None for y in labels.values()):
        there = ", ".join(dict.fromkeys(repr(name) for held in nodes.values() for name in held.to_dict()))
        if label:
            raise InputError(f"label={label!r} is no attribute of the nodes; they have {there}")
        warnings.warn(f"there is no attribute y: no labels, of {there}. Name the labels with label=", stacklevel=2)
    indices = {ends: _edge_index(ends, held) for ends, held in edges.items()}
    weights = {ends: _weight(held, ends) for ends, held in edges.items()}
    if len(nodes) == len(edges) == 1:
        (name,), ((ends, held),) = nodes, edges.items()
        return {
            "edge_index": indices[ends],
            "x": features[name],
            "y": labels[name],
            "num_nodes": sizes[name],
            "edge_weight": weights[ends],
            "edge_type": getattr(held, "edge_type", None),
        }
    start = dict(zip(nodes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    shifted = [index + np.array([[start[ends[0]]], [start[ends[2]]]]) for ends, index in indices.items()]
    counts = [index.shape[1] for index in indices.values()]
    short = [relation for _, relation, _ in edges]
    each = [np.ones(count) if w is None else w for w, count in zip(weights.values(), counts, strict=True)]
    return {
        "edge_index": np.concatenate(shifted, 1) if shifted else np.zeros((2, 0), np.int64),
        "node_names": [f"{name}:{i}" for name, size in sizes.items() for i in range(size)],
        "x": _side_by_side(sizes, features),
        "blocks": {},
        **_joined_labels(sizes, labels),
        "edge_weight": np.concatenate(each) if any(w is not None for w in weights.values()) else None,
        "edge_type": np.repeat(np.arange(len(edges)), counts),
        "edge_type_names": [ends[1] if short.count(ends[1]) == 1 else " ".join(ends) for ends in edges],
    }


def _side_by_side(sizes: Mapping[str, int], features: Mapping[str, Any]) -> Any:
    """The features of each type in separate columns, zero for other types, then a one-hot node type. Dense columns are
    standardised within their type, so that zero is not an extreme value."""
    blocks: list[Any] = []
    for name, size in sizes.items():
        block = checked_features(features[name], by_density=True)
        if isinstance(block, np.ndarray):
            spread = block.std(0)
            block = (block - block.mean(0)) / np.where(spread > 1e-6, spread, 1)
        blocks.append(np.zeros((size, 0), np.float32) if block is None else block)
    types = np.repeat(np.eye(len(sizes), dtype=np.float32), list(sizes.values()), axis=0)
    together = sp.hstack([sp.block_diag(blocks), types], format="csr", dtype=np.float32)
    return together if any(sp.issparse(block) for block in blocks) else together.toarray()


def _joined_labels(sizes: Mapping[str, int], labels: Mapping[str, Any]) -> dict[str, Any]:
    """Labels of all nodes; if several types have labels, class names include the type."""
    several = sum(y is not None for y in labels.values()) > 1
    parts: list[np.ndarray] = []
    names: list[str] = []
    for name, size in sizes.items():
        own = np.full(size, -1) if labels[name] is None else labels[name]
        parts.append(np.where(own >= 0, own + len(names), -1))
        names += [f"{name} {i}" if several else str(i) for i in range(int(own.max(initial=-1)) + 1)]
    return {"y": np.concatenate(parts), "class_names": names} if names else {}


def _edge_index(ends: tuple[str, str, str], held: Any) -> np.ndarray:
    if (index := getattr(held, "edge_index", None)) is None:
        where = ends if any(ends) else "the graph"
        raise InputError(f"{where} has no edge_index (an adj_t is not read); give the edges as edge_index [2, E]")
    return to_numpy(index)


def _weight(held: Any, ends: tuple[str, str, str]) -> np.ndarray | None:
    """Edge weights: ``edge_weight``, otherwise ``edge_attr`` if it is one positive number per edge."""
    weight, carried = (getattr(held, name, None) for name in ("edge_weight", "edge_attr"))
    if weight is not None or carried is None:
        return None if weight is None else to_numpy(weight)
    values = flat(carried)
    if values.ndim == 1 and values.dtype.kind == "f" and bool((values > 0).all()):
        return values
    what = f"edge_attr of {ends if any(ends) else 'the graph'} (shape {values.shape}, {values.dtype})"
    told = "is not one positive weight per edge and not used; give weights as edge_weight and types as edge_type"
    warnings.warn(f"{what} {told}", stacklevel=2)
    return None


# --- The plain npz layout of a graph.


def graph_arguments(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Arguments of ``from_edges`` from the arrays of the plain npz layout."""
    if "edge_index" not in arrays:
        raise InputError("there is no array 'edge_index'; it needs edge_index and y or x")
    former = {"edge_kind": "edge_type", "kind_names": "edge_type_names"}  # names in published archives
    found: dict[str, Any] = {former.get(name, name): part for name, part in arrays.items()}
    if "x_shape" in arrays and "x" not in arrays:
        found["x"] = checked_csr(arrays, "x")
    if "block_names" in arrays and "block_widths" in arrays:
        found["blocks"] = dict(zip(arrays["block_names"].tolist(), arrays["block_widths"].tolist(), strict=False))
    found["directed"] = "directed" in arrays and bool(arrays["directed"].item())
    return {name: found[name] for name in ARGUMENTS if name in found}


def graph_arrays(arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of the plain npz layout from arguments of ``from_edges``."""
    found = dict(arguments)
    if (blocks := found.pop("blocks", None)) is not None:
        found |= {"block_names": np.array(list(blocks), str), "block_widths": np.array(list(blocks.values()), int)}
    if sp.issparse(x := found["x"]):
        parts = {"data": x.data, "indices": x.indices, "indptr": x.indptr.astype(np.int64), "shape": x.shape}
        found |= {"x": None, **{f"x_{name}": part for name, part in parts.items()}}
    return {key: np.asarray(value) for key, value in found.items() if value is not None}
