"""Which columns of tables longer than memory are the ids, the labels and the ends of edges: found in their first rows,
by the rules for tables in memory."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ..errors import InputError
from .columns import Table
from .edges import edge_roles, end_samples
from .node_columns import first_rows
from .node_table import Tables
from .roles import FLAGS, Role, node_roles
from .streams import Stream

NAMED = ("id_column", "label_column", "source_column", "target_column")


def with_columns(tables: Tables) -> tuple[Tables, list[str]]:
    """The tables with every column that the user left open, and what was found beside its usual name, in words."""
    if all(getattr(tables, name) is not None for name in NAMED):
        return tables, []
    stream = Stream(tables.nodes)
    nodes, edges = _start(stream), _start(Stream(tables.edges))
    options: dict[str, Any] = {name: getattr(tables, name) for name in NAMED if getattr(tables, name) is not None}
    options |= tables.given() | ({} if tables.weight_column is None else {"weight_column": tables.weight_column})
    options["ignore_column"] = [name for name in tables.ignore_column if name not in stream.vectors]
    roles = node_roles(nodes, options, end_samples(edges, options), apart=tables.features is not None)
    ids, label = (next((role for role in roles if role.use == use), None) for use in ("id", "label"))
    assert ids is not None
    found = _edge_roles(edges, options, set(nodes.text(ids.column, "node ids")))
    source, target = found[:2]
    taken = [role for role in (ids, label, source, target) if role is not None and role.column != role.use]
    notes = [
        f"{role.table}: column {role.column!r} is taken for the {role.use} ({role.why})"
        for role in taken
        if f"{role.use}_column" not in options
    ]
    notes += [_unused(role) for role in found if not role.use and not tables.apart]
    named = replace(tables, id_column=ids.column, label_column="" if label is None else label.column)
    return replace(named, source_column=source.column, target_column=target.column), notes


def _edge_roles(edges: Table, options: dict[str, Any], known: Collection[str]) -> list[Role]:
    try:
        return edge_roles(edges, options, known)
    except InputError as error:
        try:  # the first edges need not be those of the first nodes
            return edge_roles(edges, options, ())
        except InputError:
            raise error from None


def _unused(role: Role) -> str:
    how = f"; {role.change}" if FLAGS["weight"] in role.change else ": a store keeps no edge types"
    return f"{role.table}: column {role.column!r} is not used{how}"


def _start(stream: Stream) -> Table:
    start = first_rows(stream)
    if start is None:
        raise InputError(f"{stream.path} has column names but no rows below them")
    return start
