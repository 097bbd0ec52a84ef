"""What nodes of other libraries' graphs carry, as features and labels."""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import io
from ..errors import InputError
from ..io.columns import Table

LABELS = ("y", "label", "class")


def node_columns(nodes: Sequence[Hashable], rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The attributes of all nodes by name, with None where a node lacks one."""
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def attribute_arguments(
    nodes: Sequence[Hashable], columns: Mapping[str, Sequence[Any]], x: str | None, y: str | None
) -> dict[str, Any]:
    """The arguments ``x``, ``y``, ``node_names`` and so on from the attributes of nodes: the vector ``x``, or where
    there is none all other attributes, read as the columns of a table; nothing, if ``x`` is None."""
    found: dict[str, Any] = {"num_nodes": len(nodes), "node_names": [str(node) for node in nodes]}
    label = y if y in columns or y != LABELS[0] else next((name for name in LABELS if name in columns), None)
    if label is not None and label in columns:
        found["y"] = columns[label]
    if x is None:
        return found
    if x in columns:
        return found | {"x": _vectors(nodes, columns[x], x)}
    rest = {name: values for name, values in columns.items() if name != label}
    return found | (_table_features(found["node_names"], rest) if rest and nodes else {})


def _vectors(nodes: Sequence[Hashable], rows: Sequence[Any], name: str) -> np.ndarray:
    missing = [node for node, row in zip(nodes, rows, strict=True) if row is None]
    if missing:
        raise InputError(f"node {missing[0]!r} has no attribute {name!r} but others have; give it to all or to none")
    try:
        matrix = np.array([np.asarray(row) for row in rows], dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise InputError(f"the node attribute {name!r} does not hold vectors of numbers of one length") from error
    return matrix[:, None] if matrix.ndim == 1 else matrix


def _table_features(ids: Sequence[str], columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Attributes read as a table of nodes would be: numbers, categories and texts."""
    held = {name: _column(values) for name, values in columns.items()}
    nodes = Table(Path("the node attributes"), {"id": np.array(ids, dtype=object), **held})
    ends = np.array([ids[0], ids[0]], dtype=object)
    edges = Table(Path("the edges"), {"source": ends[:1], "target": ends[1:]})
    known = io.graph_tables(edges, nodes, id_column="id", label_column="")
    return {name: known[name] for name in ("x", "feature_names")}


def _column(values: Sequence[Any]) -> np.ndarray:
    if all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values):
        return np.array(values, dtype=float)
    return np.array(["" if value is None or value != value else str(value) for value in values], dtype=object)
