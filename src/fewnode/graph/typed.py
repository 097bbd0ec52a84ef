"""Graphs of PyTorch Geometric and DGL, of one type of node or of several, as the arguments of ``Graph.from_edges``."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp

from ..errors import InputError
from .validation import checked_features, to_numpy

FEATURES = ("x", "feat", "feature", "features")
LABELS = ("y", "label", "labels")
WEIGHTS = ("edge_weight", "weight", "w")
KINDS = ("edge_type", "etype", "rel_type")


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
    kind = _first(data, KINDS)
    node = _node_type(data.num_nodes, data)
    return {
        "edge_index": _ends(data, "the graph"),
        "x": node.x,
        "y": node.y,
        "num_nodes": node.size,
        "edge_weight": _weight(data, "the graph"),
        "edge_kind": None if kind is None else to_numpy(kind),
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
    kind = _first(graph.edata, KINDS)
    node = _node_type(graph.num_nodes(), graph.ndata)
    return {
        "edge_index": _stacked(graph.edges()),
        "x": node.x,
        "y": node.y,
        "num_nodes": node.size,
        "edge_weight": _weight(graph.edata, "the graph"),
        "edge_kind": None if kind is None else to_numpy(kind),
    }


def joined(nodes: Mapping[str, NodeType], edges: Sequence[EdgeType]) -> dict[str, Any]:
    """One graph of all types: the types of edges are its kinds, the type of a node is a category among its features,
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
        "edge_kind": np.repeat(np.arange(len(edges)), sizes),
        "kind_names": names,
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
    y = _first(held, LABELS)
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
        "edge, so it is left out; give weights as edge_weight and kinds as edge_type",
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
    """The fields of a PyTorch Geometric ``Data``; its names for weights and kinds are edge_weight and edge_type."""
    fields: dict[str, Any] = {"x": x, "edge_index": torch.from_numpy(edges["edge_index"]).to(y.device), "y": y}
    for name, own in (("edge_weight", "edge_weight"), ("edge_kind", "edge_type")):
        if name in edges:
            fields[own] = torch.from_numpy(edges[name]).to(y.device)
    return fields
