"""Tables of nodes that arrive later, read as those of the fitting were."""

from collections.abc import Sequence
from typing import Any

from ... import io
from ...errors import InputError
from ...graph import Graph
from ...io.frames import is_frame, table_of
from ..support import name_index
from ..tables import TableSource


def read_later(
    source: TableSource | None, vocabulary: Sequence[str] | None, graph: Graph, nodes: Any, edges: Any
) -> tuple[Graph, int]:
    """The graph in tables (files or DataFrames) of new nodes and of the edges that join them to ``graph`` and to each
    other. Only its first nodes, so many as the second result says, are new; the others are named by the edges.

    Columns have the names and the meaning of those of the ``source``; labels may be left out.
    """
    if source is None or source.memory is None or source.features is not None:
        raise InputError(
            "tables of new nodes are read as those of the fitting were, but this model was fitted on no table of nodes "
            "that holds their features. Give a graph of the new nodes, or name the whole tables (--edges, --nodes)"
        )
    table, joined = _table(nodes, "nodes"), _table(edges, "edges")
    columns: dict[str, Any] = dict(source.columns)
    if columns.get("label_column") not in table.columns:
        columns["label_column"] = ""
    options = {name: value for name, value in source.options.items() if name not in ("strict", "knn")}
    memory = io.Memory.from_json(source.memory)
    found = io.read_graph(joined, table, **columns, **options, memory=memory, vocabulary=vocabulary)
    new = Graph.from_edges(**found.arguments)
    assert new.node_names is not None
    index, listed = name_index(graph), len(table)
    if there := [name for name in new.node_names[:listed] if name in index]:
        raise InputError(
            f"{_place(table, there[0])}: node {there[0]!r} is in the graph already ({len(there):,} such rows); new "
            "nodes are those that are not. Leave it out"
        )
    if unknown := [name for name in new.node_names[listed:] if name not in index]:
        raise InputError(
            f"{_place(joined, unknown[0])}: node {unknown[0]!r} is neither in the graph nor among the new nodes "
            f"({len(unknown):,} such nodes). Add it to the new nodes or remove the edge"
        )
    return new, listed


def _table(given: Any, what: str) -> io.Table:
    return table_of(given, what) if is_frame(given) else io.read_columns(given)


def _place(table: io.Table, name: str) -> str:
    """Where the node stands in the table."""
    for column, values in table.columns.items():
        if values.ndim == 1 and name in (found := table.text(column, "nodes")):
            return table.place(found.index(name), column)
    return str(table.path)
