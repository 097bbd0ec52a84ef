"""A graph in a store on disk: written from memory, and opened with mapped arrays."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..files import Manifest, PathLike, reading, whole_folder
from ..store import (
    MEMORY,
    REMEDY,
    Facts,
    Space,
    Store,
    StoredNames,
    default_memory,
    name_arrays,
    write_name_index,
)
from .arrays import EdgeTypes, GraphCache, csr_parts, csr_tensor
from .graph import FINGERPRINT, Graph


def open_store(path: PathLike, memory: int | None = None, *, manifest: Manifest | None = None) -> Graph:
    """The graph of a store. Its arrays are mapped, after a check of their hashes.

    Args:
        path: the folder that ``save_store`` or ``fewnode import`` wrote.
        memory: bytes that the program may take; by default half of the available memory.
        manifest: the manifest of the folder, if it was read before.
    """
    store = Store(path, manifest)
    memory = default_memory() if memory is None else memory
    arrays, facts, space = store.arrays, store.facts, Space(store.folder, memory)
    with reading(store.folder, REMEDY):
        parts = {name: space.mapped(array) for name, array in arrays.items()}
    _check(store.folder, parts, facts, space)
    features, types = parts.get("features"), None
    if facts.width is not None:
        shape = (len(parts["y"]), facts.width)
        features = csr_tensor(parts["x_indptr"], parts["x_indices"], parts["x_values"], shape)
    if "type_arc" in parts:
        types = EdgeTypes(facts.edge_type_names, parts["type_arc"], parts["type_ids"], parts.get("type_weight"))
    graph = Graph(
        indptr=parts["indptr"],
        indices=parts["indices"],
        y=parts["y"].clone(),
        features=features,
        node_names=StoredNames.of(arrays, "name"),
        node_titles=StoredNames.of(arrays, "title"),
        unlisted=parts["unlisted"].bool() if "unlisted" in parts else None,
        weights=parts.get("weights"),
        edge_types=types,
        space=space,
        **{name: getattr(facts, name) for name in _FACTS},
    )
    graph.cache.get(FINGERPRINT, lambda: store.digest())
    return graph


def _check(folder: Path, parts: Mapping[str, Tensor], facts: Facts, space: Space) -> None:
    """Refuse arrays that are missing, do not fit together or hold indices out of range, before a kernel uses them."""
    size = Counter({name: len(part) for name, part in parts.items() if part.ndim})
    n, arcs, entries, typed, width = size["y"], size["indices"], size["x_indices"], size["type_arc"], facts.width or 0
    classes = 1 << 20 if facts.class_names is None else len(facts.class_names)
    bounds: dict[str, tuple[int, float, float]] = {  # length, least and largest value of each array
        "y": (n, -1, classes - 1),
        "unlisted": (n, 0, 1),
        "indptr": (n + 1, 0, arcs),
        "indices": (arcs, 0, n - 1),
        "weights": (arcs, 1e-16, 1e30),
        "features": (n, -3e38, 3e38),
        "x_indptr": (n + 1, 0, entries),
        "x_indices": (entries, 0, width - 1),
        "x_values": (entries, -3e38, 3e38),
        "type_arc": (typed, 0, arcs - 1),
        "type_ids": (typed, 0, len(facts.edge_type_names) - 1),
        "type_weight": (typed, 1e-16, 1e30),
        "name_order": (n, 0, n - 1),
        "name_hashes": (n, 0, 2**63),
    }
    for what in ("name", "title"):
        letters = size[f"{what}_letters"]
        bounds |= {f"{what}_ends": (n + 1, 0, letters), f"{what}_letters": (letters, 0, 255)}
    needed = {"y", "indptr", "indices"} | ({"x_indptr", "x_indices", "x_values"} if facts.width is not None else set())
    needed |= {name.replace("_ends", "_letters") for name in parts if name.endswith("_ends")}
    wrong = sorted(needed - parts.keys()) + ["y"] * (n == 0) + ["x_indices"] * (not 0 <= width <= 1 << 24)
    for name in bounds.keys() & parts.keys():
        part, (length, low, high) = parts[name], bounds[name]
        real = name in ("features", "x_values", "weights", "type_weight")
        kinds = (torch.float32,) if real else (torch.uint8, torch.int32, torch.int64)
        good = part.ndim == 1 + (name == "features") and part.dtype in kinds and len(part) == length
        for some in space.rows(length, 8 * max(part.numel() // max(n, 1), 1)) if good else ():
            least, most = part[some].aminmax() if part[some].numel() else (low, low)
            good = good and low <= float(least) <= float(most) <= high  # not of NaN
        if good and name.endswith(("indptr", "_ends")):
            good = int(part[0]) == 0 and int(part[-1]) == high and bool((part[1:] >= part[:-1]).all())
        wrong += [] if good else [name]
    if wrong:
        raise InputError(f"{folder}: the array {wrong[0]} is missing, does not fit or is out of range; {REMEDY}")


def save_store(graph: Graph, path: PathLike) -> None:
    """Write a graph as a store, completely or not at all."""
    if graph.directed or graph.edge_types is not None:
        raise InputError("a store keeps no edge directions and types; store fewnode.graph.edge_types.union(graph)")
    with whole_folder(Path(path), new=True) as fresh:
        write_graph(graph, fresh)


def write_graph(graph: Graph, folder: Path) -> None:
    """Write the arrays and the facts of a graph into a folder."""
    for name, array in _arrays(graph).items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    if graph.node_names is not None:
        write_name_index(folder)
    sparse = graph.features is not None and graph.features.layout == torch.sparse_csr
    facts = {"width": graph.num_features if sparse else None, **{name: getattr(graph, name) for name in _FACTS}}
    Facts.write(folder, facts | ({} if graph.edge_types is None else {"edge_type_names": graph.edge_types.names}))


def read_graph(folder: Path, manifest: Manifest | None = None) -> Graph:
    """The graph that ``write_graph`` wrote, for work in memory. Its arrays are mapped, so that processes share them."""
    return replace(open_store(folder, manifest=manifest), space=MEMORY, cache=GraphCache())


_FACTS = ("self_loops", "duplicates", "class_names", "feature_names", "blocks", "directed")


def _arrays(graph: Graph) -> dict[str, np.ndarray]:
    graph = graph.to("cpu")
    found: dict[str, Any] = {name: getattr(graph, name) for name in ("indptr", "indices", "y", "weights")}
    found["unlisted"] = None if graph.unlisted is None else graph.unlisted.byte()
    found |= {f"type_{name}": getattr(graph.edge_types, name, None) for name in ("arc", "ids", "weight")}
    if graph.features is not None and graph.features.layout == torch.sparse_csr:
        found |= dict(zip(("x_indptr", "x_indices", "x_values"), csr_parts(graph.features), strict=True))
    elif graph.features is not None:
        found["features"] = graph.features
    arrays = {name: part.numpy() for name, part in found.items() if part is not None}
    for what, names in (("name", graph.node_names), ("title", graph.node_titles)):
        arrays |= {} if names is None else name_arrays(names, what)
    return arrays
