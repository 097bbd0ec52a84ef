"""What a user hands over in Python, as a graph and as examples."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from .. import io
from ..errors import InputError
from ..graph import Graph
from ..io.frames import column_of, is_frame, is_series, table_of
from ..io.names import GROUPS, LABELS, is_id, plain
from .support import Examples
from .tables import TableSource


def graph_of(
    given: Any,
    edges: Any,
    nodes: Any,
    source: TableSource | None = None,
    *,
    columns: Mapping[str, Any] | None = None,
    **arrays: Any,
) -> tuple[Graph, TableSource | None]:
    """The graph in what was handed over, and what was understood of its tables, if it was tables.

    With the ``source`` of a fitted model, DataFrames are read with the columns, words and categories it knows.
    """
    if (given is None) == (edges is None):
        raise InputError("give either a graph or edges=, not both or none")
    given = edges if given is None else given
    known = {name: value for name, value in arrays.items() if value is not None}
    if not is_frame(given):
        return Graph.of(given, nodes, **known, **(columns or {})), None
    if known:
        raise InputError(f"{next(iter(known))}= belongs to arrays; beside a DataFrame of edges give nodes=")
    if nodes is not None and not is_frame(nodes):
        raise InputError(f"nodes is a {type(nodes).__name__}; beside a DataFrame of edges it is a DataFrame too")
    of_edges, of_nodes = table_of(given, "edges"), None if nodes is None else table_of(nodes, "nodes")
    memory = None if source is None or source.memory is None else io.Memory.from_json(source.memory)
    options = dict(columns or {}) if source is None else {**source.options, **source.columns}
    found = read_tables(of_edges, of_nodes, memory, options)
    understood = TableSource(
        columns=found.columns,
        options={name: value for name, value in options.items() if name not in found.columns and "column" not in name},
        memory=found.memory.to_json(),
        roles=[asdict(role) for role in found.roles],
        notes=found.notes,
    )
    return Graph.from_edges(**found.arguments), understood


def read_tables(edges: io.Table, nodes: io.Table | None, memory: io.Memory | None, options: Any) -> io.Understood:
    """The graph in the tables; a misspelt option is the user's mistake, not a defect."""
    try:
        return io.read_graph(edges, nodes, memory=memory, **options)
    except TypeError as error:
        raise InputError(str(error)) from error


def examples_of(given: Any) -> Examples:
    """Examples ``{class: nodes}``, also from a DataFrame with a column of nodes and one of classes, or from a series of
    classes whose index names the nodes."""
    if is_series(given) and hasattr(given, "index") and not callable(given.index):
        return _grouped(list(given.index), column_of(given).tolist())
    if is_frame(given):
        table = table_of(given, "examples")
        node, label = _columns(table)
        return _grouped(table.text(node, "example nodes"), table.text(label, "classes of the examples"))
    if not isinstance(given, Mapping):
        raise InputError(
            f"examples are {{class: [nodes]}}, or a DataFrame with the columns id and label; not {type(given).__name__}"
        )
    return given


def _columns(table: io.Table) -> tuple[str, str]:
    """The columns of nodes and of classes, by their usual names."""
    ids = [name for name in table.columns if is_id(name)]
    labels = [name for name in table.columns if plain(name) in (*LABELS, *GROUPS)]
    if len(table.columns) == 2 and len(ids) == 1:
        labels = [name for name in table.columns if name not in ids]
    if len(ids) != 1 or len(labels) != 1:
        raise InputError(
            f"the examples have the columns {', '.join(map(repr, table.columns))}; call that of the nodes 'id' and "
            "that of the classes 'label'"
        )
    return ids[0], labels[0]


def _grouped(nodes: Iterable[Any], labels: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for node, label in zip(nodes, labels, strict=True):
        if label == "":
            raise InputError(f"the example {node!r} has no class; fill it in or remove the row")
        found.setdefault(str(label), []).append(node)
    return found
