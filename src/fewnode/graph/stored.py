"""A graph in a store on disk: written from one in memory, and opened again without reading it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..files import PathLike, whole_folder
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
    if engine is not None:
        engine.check(str(store.folder))
    arrays, space = store.arrays, Space(store.folder, memory, progress, engine)
    parts = {name: space.mapped(array) for name, array in arrays.items()}
    _check(store.folder, parts, store.facts.width, space)
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
        unlisted=parts.get("unlisted"),
        weights=parts.get("weights"),
        edge_types=types,
        space=space,
        **{name: getattr(facts, name) for name in _FACTS},
    )
    graph.cache.get(FINGERPRINT, lambda: store.digest())
    return graph


def _check(folder: Path, parts: Mapping[str, Tensor], width: int | None, space: Space) -> None:
    """Refuse arrays that do not fit together, before any kernel follows their pointers."""
    sparse = [] if width is None else [("x_indptr", "x_indices", "x_values", width)]
    for indptr, indices, values, columns in (("indptr", "indices", "weights", len(parts.get("y", ()))), *sparse):
        try:
            rows, ids = parts[indptr], parts[indices]
            whole = len(rows) == len(parts["y"]) + 1 and len(parts.get(values, ids)) == len(ids) == int(rows[-1])
            whole = whole and int(rows[0]) == 0 and bool((rows[1:] >= rows[:-1]).all())
            for some in space.rows(len(ids), 8) if whole else ():
                low, high = ids[some].aminmax()
                whole = whole and int(low) >= 0 and int(high) < columns
            whole = whole and not rows.is_floating_point() and not ids.is_floating_point()
        except (KeyError, IndexError, RuntimeError, TypeError, ValueError):  # not there, or of another shape
            whole = False
        if not whole:
            raise InputError(
                f"{folder}: {indptr}, {indices} and {values} do not fit together or lead outside; {REMEDY}"
            )
    if len(parts.get("features", parts["y"])) != len(parts["y"]) or parts["y"].ndim != 1:
        raise InputError(f"{folder}: features and y are not of {len(parts['indptr']) - 1:,} nodes; {REMEDY}")


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
    found: dict[str, Any] = {name: getattr(graph, name) for name in ("indptr", "indices", "y", "unlisted", "weights")}
    found |= {f"type_{name}": getattr(graph.edge_types, name, None) for name in ("arc", "ids", "weight")}
    if graph.features is not None and graph.features.layout == torch.sparse_csr:
        found |= dict(zip(("x_indptr", "x_indices", "x_values"), csr_parts(graph.features), strict=True))
    elif graph.features is not None:
        found["features"] = graph.features
    arrays = {name: part.numpy() for name, part in found.items() if part is not None}
    for what, names in (("name", graph.node_names), ("title", graph.node_titles)):
        arrays |= {} if names is None else name_arrays(names, what)
    return arrays
