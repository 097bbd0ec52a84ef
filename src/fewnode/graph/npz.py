"""The plain npz layout of a graph: which arrays it holds, and how they are read and written."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse as sp


def graph_arguments(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The arguments of ``from_edges`` in the arrays of the plain npz layout."""
    x = arrays.get("x")
    if x is None and "x_shape" in arrays and arrays["x_shape"][1] > 0:
        parts = arrays["x_data"], arrays["x_indices"], arrays["x_indptr"]
        x = sp.csr_matrix(parts, shape=tuple(int(size) for size in arrays["x_shape"]))
    sizes = [len(arrays[key]) for key in ("y", "node_names") if key in arrays]
    kinds_of_names = ("node_names", "class_names", "feature_names", "kind_names")
    names: dict[str, Any] = {key: arrays[key].tolist() for key in kinds_of_names if key in arrays}
    return {
        "edge_index": arrays["edge_index"],
        "x": x,
        "y": arrays.get("y"),
        "num_nodes": int(arrays["x_shape"][0]) if "x_shape" in arrays else sizes[0] if sizes else None,
        "directed": bool(arrays.get("directed", False)),
        "edge_weight": arrays.get("edge_weight"),
        "edge_kind": arrays.get("edge_kind"),
        **names,
    }


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
