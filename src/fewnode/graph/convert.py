"""Graphs of other libraries, as the arguments of ``Graph.from_edges``, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


def pyg_arguments(data: "Data") -> dict[str, Any]:
    """The arguments in a PyTorch Geometric ``Data``."""
    return {"edge_index": data.edge_index, "x": data.x, "y": data.y, "num_nodes": data.num_nodes}


def pyg_fields(indptr: Tensor, indices: Tensor, x: Tensor | None, y: Tensor) -> dict[str, Tensor | None]:
    """The fields of a PyTorch Geometric ``Data``, from a CSR adjacency whose rows are the targets."""
    nodes = torch.arange(len(indptr) - 1, device=indptr.device)
    target = torch.repeat_interleave(nodes, (indptr[1:] - indptr[:-1]).long())
    return {"x": x, "edge_index": torch.stack([indices.long(), target]), "y": y}


def networkx_arguments(graph: "networkx.Graph", x: str | None, y: str | None) -> dict[str, Any]:
    """The arguments in a NetworkX graph whose node attributes ``x`` and ``y`` hold features and labels."""
    nodes = list(graph.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    edges = np.array([(position[a], position[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2).T
    rows = [graph.nodes[node].get(x) for node in nodes]
    missing = [node for node, row in zip(nodes, rows, strict=True) if row is None]
    if missing and len(missing) < len(nodes):
        raise InputError(f"node {missing[0]!r} has no attribute {x!r} but others have; give it to all or to none")
    labels = [graph.nodes[node].get(y, -1) for node in nodes]
    return {
        "edge_index": edges,
        "x": None if missing or not nodes else np.array(rows, dtype=np.float32),
        "y": np.array(labels) if labels else None,
        "num_nodes": len(nodes),
        "node_names": [str(node) for node in nodes],
        "directed": graph.is_directed(),
    }
