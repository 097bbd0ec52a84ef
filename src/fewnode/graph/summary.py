"""A graph in numbers: what ``fewnode info`` shows."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from scipy.sparse.csgraph import connected_components

from .graph import Graph


def summary(graph: Graph, split: Mapping[str, Sequence[int]] | None = None) -> dict[str, Any]:
    """Counts of a graph as plain numbers: size, parts, what was dropped on reading, class sizes; ``split`` names the
    classes of each part (``asdict`` of a ``ClassSplit``)."""
    parts = {part: list(ids) for part, ids in (split or {}).items()}
    part_of = {class_id: part for part, ids in parts.items() for class_id in ids}
    names = graph.class_names or [str(i) for i in range(graph.num_classes)]
    sizes = torch.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes).tolist()
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "labelled": int((graph.y >= 0).sum()),
        "isolated": int((graph.degree == 0).sum()),
        "components": int(connected_components(graph.to_scipy(), directed=False, return_labels=False)),
        "max_degree": int(graph.degree.max()),
        "self_loops": graph.self_loops,
        "duplicates": graph.duplicates,
        "features": graph.num_features,
        "has_features": graph.has_features,
        "split": parts,
        "classes": [{"id": i, "name": names[i], "nodes": size, "part": part_of.get(i)} for i, size in enumerate(sizes)],
    }
