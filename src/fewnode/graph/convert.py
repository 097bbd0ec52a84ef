"""Graphs of NetworkX, igraph and SciPy as the arguments of ``Graph.from_edges``; none of them is imported."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse as sp

from ..errors import InputError
from ..storage import PathLike, readable
from .attributes import attribute_arguments, node_columns


def networkx_arguments(
    graph: Any, x: str | None, y: str | None, weight: str | None, kind: str | None
) -> dict[str, Any]:
    """The arguments in a NetworkX graph; the names are those of node and edge attributes."""
    nodes = list(graph.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    arcs = list(graph.edges(data=True))
    edges = np.array([(position[a], position[b]) for a, b, _ in arcs], dtype=np.int64).reshape(-1, 2).T
    ends = [(a, b) for a, b, _ in arcs]
    carried = {name: [held.get(name) for *_, held in arcs] for name in (weight, kind) if name is not None}
    columns = node_columns(nodes, [graph.nodes[node] for node in nodes])
    return {
        "edge_index": edges,
        **attribute_arguments(nodes, columns, x, y),
        **edge_arguments(ends, carried.get(weight or "", []), carried.get(kind or "", [])),
        "directed": bool(graph.is_directed()),
    }


def igraph_arguments(graph: Any, x: str | None, y: str | None, weight: str | None, kind: str | None) -> dict[str, Any]:
    """The arguments in an igraph graph; the attribute ``name`` of its vertices, if there is one, names the nodes."""
    columns = {name: list(graph.vs[name]) for name in graph.vs.attributes()}
    nodes = columns.pop("name", None) or list(range(graph.vcount()))
    ends = graph.get_edgelist()
    carried = {name: list(graph.es[name]) for name in (weight, kind) if name in graph.es.attributes()}
    return {
        "edge_index": np.array(ends, dtype=np.int64).reshape(-1, 2).T,
        **attribute_arguments(nodes, columns, x, y),
        **edge_arguments(ends, carried.get(weight, []), carried.get(kind, [])),
        "directed": bool(graph.is_directed()),
    }


def edge_arguments(ends: Sequence[Any], weights: Sequence[Any], kinds: Sequence[Any]) -> dict[str, Any]:
    """``edge_weight`` and ``edge_kind`` from what each edge carries: an edge without a weight weighs one, and either
    all edges have a kind or none has."""
    found: dict[str, Any] = {}
    if any(weight is not None for weight in weights):
        for pair, weight in zip(ends, weights, strict=True):
            if weight is not None and not isinstance(weight, int | float | np.number):
                raise InputError(f"the weight of the edge {pair} is {weight!r}; a weight is a number above zero")
        found["edge_weight"] = np.array([1.0 if weight is None else weight for weight in weights], dtype=float)
    if any(kind is not None for kind in kinds):
        missing = [pair for pair, kind in zip(ends, kinds, strict=True) if kind is None]
        if missing:
            raise InputError(f"the edge {missing[0]} has no kind but others have; give one to all edges or to none")
        found["edge_kind"] = np.array([str(kind) for kind in kinds])
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
    usual: dict[str, str | None] = {"x": "x", "y": "label", "weight": "weight", "kind": "kind"}
    return networkx_arguments(graph, **{**usual, **attributes})
