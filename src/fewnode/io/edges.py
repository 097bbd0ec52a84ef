"""The edge tables of a graph: which nodes each row joins, how strongly, and as what kind of edge."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..storage import PathLike
from .apart import node_ids
from .blocks import number_column
from .columns import Table, read_columns, several
from .roles import FLAGS, Role, edge_roles


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """One file of edges: what its columns are taken for, and the ids at both ends of each row."""

    table: Table
    roles: list[Role]
    ends: tuple[list[str], list[str]]

    def named(self, use: str) -> str | None:
        return next((role.column for role in self.roles if role.use == use), None)


def read_edges(paths: PathLike | Sequence[PathLike]) -> list[Table]:
    """One table for each file."""
    return [read_columns(path) for path in several(paths)]


def understood_edges(tables: Sequence[Table], options: Mapping[str, Any], known: Collection[str]) -> list[EdgeTable]:
    """What the columns are taken for; files with the same columns are taken in the same way."""
    found: dict[tuple[str, ...], list[Role]] = {}
    made = []
    for table in tables:
        key = tuple(table.columns)
        if key not in found:
            found[key] = edge_roles(table, options, known)
        source, target = (node_ids(table, role.column) for role in found[key][:2])
        made.append(EdgeTable(table, found[key], (source, target)))
    return made


def edge_values(tables: Sequence[EdgeTable], kind_per_file: bool, decimal: str | None) -> dict[str, Any]:
    """``edge_weight``, ``edge_kind`` and ``kind_names`` for ``Graph.from_edges``, where they are asked for."""
    found: dict[str, Any] = {}
    if any(table.named("weight") for table in tables):
        found["edge_weight"] = np.concatenate([_weights(table, decimal) for table in tables])
    if kind_per_file or any(table.named("kind") for table in tables):
        cells = [_kinds(table, kind_per_file) for table in tables]
        names = sorted({cell for part in cells for cell in part})
        place = {name: i for i, name in enumerate(names)}
        found["edge_kind"] = np.array([place[cell] for part in cells for cell in part], dtype=np.int64)
        found["kind_names"] = tuple(names)
    return found


def _weights(edges: EdgeTable, decimal: str | None) -> np.ndarray:
    """Numbers above zero; the edges of a file without any count one each."""
    name = edges.named("weight")
    if name is None:
        return np.ones(len(edges.table))
    weights = number_column(edges.table, name, decimal)
    if len(wrong := np.flatnonzero(~(weights > 0))):
        row = int(wrong[0])
        cell = edges.table.columns[name][row]
        what = "the weight is missing" if np.isnan(weights[row]) else f"the weight is {cell}"
        raise InputError(
            f"{edges.table.place(row, name)}: {what}; a weight is a number above zero ({len(wrong):,} such rows). "
            f"Write one, remove the row, or do without {FLAGS['weight']}"
        )
    return weights


def _kinds(edges: EdgeTable, per_file: bool) -> list[str]:
    file = edges.table.path.name.split(".")[0]
    name = edges.named("kind")
    if name is None:
        return [file] * len(edges.table)
    cells = edges.table.text(name, "kinds of edges")
    if "" in cells:
        raise InputError(
            f"{edges.table.place(cells.index(''), name)}: the kind of edge is missing; fill it in or do without "
            f"{FLAGS['kind']}"
        )
    return [f"{file} {cell}" for cell in cells] if per_file else cells
