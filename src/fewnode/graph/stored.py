"""A graph in a store on disk: written from one in memory, and opened again without reading it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..files import PathLike, reading, whole_folder
from ..store import REMEDY, Engine, Facts, Progress, Space, Store, StoredNames, default_memory, name_arrays
from .arrays import EdgeTypes, GraphCache, csr_parts, csr_tensor
from .graph import FINGERPRINT, Graph


def open_store(
    path: PathLike,
    memory: int | None = None,
    *,
    progress: Progress = lambda what, part: None,
    engine: Engine | None = None,
) -> Graph:
    """The graph of a store, with arrays that are read from disk as they are used. Their hashes are compared first.

    Args:
        path: the folder that ``save_store`` or ``fewnode import`` wrote; or the URL of a copy in object storage.
        memory: bytes that the program may take to work on it; half of what is free, if not given.
        progress: told what is being done, and which part of it is done.
        engine: does pieces of the work, such as ``fewnode.cluster.RayPieces``; else they are done here.
    """
    store = Store(path)
    if memory is None:
        memory = default_memory() if engine is None else engine.memory
    arrays, space = store.arrays, Space(store.folder, memory, progress, engine)
    with reading(store.folder, REMEDY):
        parts = {name: space.mapped(array) for name, array in arrays.items()}
    _check(store.folder, parts, store.facts, space)
    features = parts.get("features")
    if store.facts.width is not None:
        shape = (len(parts["y"]), store.facts.width)
        features = csr_tensor(parts["x_indptr"], parts["x_indices"], parts["x_values"], shape)
    names, titles = (
        StoredNames(arrays[f"{what}_ends"], arrays[f"{what}_letters"]) if f"{what}_ends" in parts else None
        for what in ("name", "title")
    )
    types, facts = None, store.facts
    if "type_arc" in parts:
        types = EdgeTypes(facts.edge_type_names, parts["type_arc"], parts["type_ids"], parts.get("type_weight"))
    graph = Graph(
        indptr=parts["indptr"],
        indices=parts["indices"],
        y=parts["y"].clone(),
        features=features,
        node_names=names,
        node_titles=titles,
        unlisted=parts["unlisted"].bool() if "unlisted" in parts else None,
        weights=parts.get("weights"),
        edge_types=types,
        space=space,
        **{name: getattr(facts, name) for name in _FACTS},
    )
    graph.cache.get(FINGERPRINT, lambda: store.digest())
    return graph


FLOATS = ("features", "x_values", "weights", "type_weight")


def _check(folder: Path, parts: Mapping[str, Tensor], facts: Facts, space: Space) -> None:
    """Refuse arrays that are not there, do not fit together or lead outside, before any kernel follows them."""
    sizes = {name: len(part) if part.ndim else 0 for name, part in parts.items()}
    n, classes = sizes.get("y", 0), 1 << 20 if facts.class_names is None else len(facts.class_names)
    rows = dict.fromkeys(("y", "features", "unlisted"), n) | {
        name: n + 1 for name in parts if name.endswith(("_ends", "indptr"))
    }
    inside: dict[str, tuple[float, float]] = {
        "y": (-1, classes - 1),
        "unlisted": (0, 1),
        "indices": (0, n - 1),
        "x_indices": (0, (facts.width or 0) - 1),
    }
    inside |= {"weights": (1e-16, 1e30), "type_weight": (1e-16, 1e30)}
    inside |= {"type_arc": (0, sizes.get("indices", 0) - 1), "type_ids": (0, len(facts.edge_type_names) - 1)}
    lists = {"indptr": ("indices", "weights"), "name_ends": ("name_letters",), "title_ends": ("title_letters",)}
    lists |= {"x_indptr": ("x_indices", "x_values"), "type_arc": ("type_ids", "type_weight")}
    needed = {"y", "indptr", "indices"} | ({"x_indptr", "x_indices", "x_values"} if facts.width is not None else set())
    needed |= {name.replace("_ends", "_letters") for name in parts if name.endswith("_ends")}
    wrong = sorted(needed - parts.keys()) + ["y"] * (n == 0) + ["x_indices"] * (not 0 <= (facts.width or 0) <= 1 << 24)
    for name, part in parts.items():
        kinds = (torch.float32,) if name in FLOATS else (torch.uint8, torch.int32, torch.int64)
        good = part.ndim == 1 + (name == "features") and part.dtype in kinds
        good = good and sizes[name] == rows.get(name, sizes[name])
        low, high = inside.get(name, (-3e38, 3e38))
        for some in space.rows(len(part), 8 * max(part.numel() // max(n, 1), 1)) if good else ():
            least, most = part[some].aminmax() if part[some].numel() else (low, low)
            good = good and low <= float(least) <= float(most) <= high  # not of NaN
        total = len(part) if name == "type_arc" else None
        if good and name in rows and name not in ("y", "features", "unlisted"):
            good, total = int(part[0]) == 0 and bool((part[1:] >= part[:-1]).all()), int(part[-1])
        lengths = [sizes[other] for other in lists.get(name, ()) if other in parts]
        wrong += [name] * (not good or any(length != total for length in lengths))
    if wrong:
        raise InputError(
            f"{folder}: the array {wrong[0]} is missing, does not fit the others or leads outside; {REMEDY}"
        )


def save_store(graph: Graph, path: PathLike) -> None:
    """Write a graph as a store, whole or not at all."""
    target = Path(path)
    if target.exists():
        raise InputError(f"{target} exists already; choose another name or remove it")
    if graph.directed or graph.edge_types is not None:
        raise InputError(
            "the edges of a store have no directions and types: work on this graph in memory, or on its union "
            "(fewnode.graph.edge_types.union)"
        )
    with whole_folder(target) as fresh:
        write_graph(graph, fresh)


def write_graph(graph: Graph, folder: Path) -> None:
    """Write the arrays of a graph into a folder, and what is known of it beside them."""
    for name, array in _arrays(graph).items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    sparse = graph.features is not None and graph.features.layout == torch.sparse_csr
    facts = {"width": graph.num_features if sparse else None, **{name: getattr(graph, name) for name in _FACTS}}
    Facts.write(folder, facts | ({} if graph.edge_types is None else {"edge_type_names": graph.edge_types.names}))


def read_graph(folder: Path) -> Graph:
    """The graph that ``write_graph`` left in a folder, to be worked on in memory. Its arrays are mapped: processes that
    read the same folder share them."""
    graph = open_store(folder)
    names, titles = (None if part is None else tuple(part) for part in (graph.node_names, graph.node_titles))
    return replace(graph, node_names=names, node_titles=titles, space=None, cache=GraphCache())


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
