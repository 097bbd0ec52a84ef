"""A graph for other programs: NetworkX, and GraphML for Gephi and the like."""

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from ..errors import InputError
from ..storage import PathLike, atomic_write
from .frozen import FrozenGraph

TYPES = {"i": "long", "u": "long", "f": "double", "b": "boolean"}


def edge_columns(graph: FrozenGraph) -> tuple[np.ndarray, dict[str, list[Any]]]:
    """The edges ``[2, E]``, each undirected one once, and what they carry: ``weight`` and ``kind``."""
    arrays = graph.edge_arrays()
    carried: dict[str, list[Any]] = {}
    if "edge_weight" in arrays:
        carried["weight"] = arrays["edge_weight"].astype(float).tolist()
    if graph.kinds is not None:
        carried["kind"] = [graph.kinds.names[kind] for kind in arrays["edge_kind"].tolist()]
    return arrays["edge_index"], carried


def node_labels(graph: FrozenGraph) -> list[Any]:
    """The label of each node, as a name if the classes have names; None where it is unknown."""
    names = graph.class_names
    return [None if y < 0 else names[y] if names else y for y in graph.y.tolist()]


def to_networkx(graph: FrozenGraph, features: bool) -> Any:
    """See ``Graph.to_networkx``."""
    try:
        import networkx
    except ImportError as error:
        raise InputError("NetworkX is not installed; pip install networkx") from error
    several = "MultiDiGraph" if graph.directed else "MultiGraph"
    plain = "DiGraph" if graph.directed else "Graph"
    made = getattr(networkx, plain if graph.kinds is None else several)()
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


def prediction_columns(graph: FrozenGraph, predictions: Any) -> dict[str, list[Any]]:
    """The columns of a table of predictions for all nodes, with None for those that were not asked about."""
    table, nodes = predictions.table(), predictions.nodes.tolist()
    found: dict[str, list[Any]] = {}
    for name in (column for column in table if column != "id"):
        column: list[Any] = [None] * graph.num_nodes
        for node, value in zip(nodes, table[name], strict=True):
            column[node] = value
        found["predicted" if name == "label" else name] = column
    return found


def write_graphml(graph: FrozenGraph, path: PathLike, attributes: Mapping[str, Sequence[Any]]) -> None:
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
