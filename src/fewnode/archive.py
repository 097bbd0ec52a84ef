"""The plain npz layout of a graph: which arrays it holds, and how they are read and written."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse as sp

if TYPE_CHECKING:
    from .graph import Graph


def graph_arguments(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The arguments of ``from_edges`` in the arrays of the plain npz layout."""
    x = arrays.get("x")
    if x is None and "x_shape" in arrays and arrays["x_shape"][1] > 0:
        parts = arrays["x_data"], arrays["x_indices"], arrays["x_indptr"]
        x = sp.csr_matrix(parts, shape=tuple(int(size) for size in arrays["x_shape"]))
    sizes = [len(arrays[key]) for key in ("y", "node_names") if key in arrays]
    names: dict[str, Any] = {
        key: arrays[key].tolist() for key in ("node_names", "class_names", "feature_names") if key in arrays
    }
    return {
        "edge_index": arrays["edge_index"],
        "x": x,
        "y": arrays.get("y"),
        "num_nodes": int(arrays["x_shape"][0]) if "x_shape" in arrays else sizes[0] if sizes else None,
        "directed": bool(arrays.get("directed", False)),
        **names,
    }


def graph_arrays(graph: "Graph") -> dict[str, np.ndarray]:
    """The arrays of a graph in the plain npz layout; an undirected edge is stored once."""
    target = np.repeat(np.arange(graph.num_nodes), graph.degree.cpu().numpy())
    source = graph.indices.cpu().numpy().astype(np.int64)
    once = slice(None) if graph.directed else source < target
    arrays = {"edge_index": np.stack([source[once], target[once]]), "y": graph.y.cpu().numpy()}
    features = graph.features_scipy()
    if isinstance(features, np.ndarray):
        arrays["x"] = features
    else:
        matrix = sp.csr_matrix((graph.num_nodes, 0), dtype=np.float32) if features is None else features
        arrays |= {
            "x_data": matrix.data,
            "x_indices": matrix.indices,
            "x_indptr": matrix.indptr.astype(np.int64),
        }
        arrays["x_shape"] = np.array(matrix.shape)
    for name in ("node_names", "class_names", "feature_names"):
        if (names := getattr(graph, name)) is not None:
            arrays[name] = np.array(names)
    return arrays | {"directed": np.array(graph.directed)}
