"""The edge tables of a graph: which nodes each row joins, how strongly, and of which type."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import PathLike
from . import names
from .columns import Table, read_columns, several
from .encode import number_column
from .features import node_ids
from .roles import FLAGS, SAID, SAMPLE, Role, doubt, flagged, kind_of, listed, sample, share_known

RARELY = 0.02  # distinct values in a sample, of which a column of node ids has more


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """One file of edges: what its columns are taken for, and the ids at both ends of each row."""

    table: Table
    roles: list[Role]
    ends: tuple[list[str], list[str]]

    def named(self, use: str) -> str | None:
        return next((role.column for role in self.roles if role.use == use), None)


def read_edges(paths: PathLike | Sequence[PathLike] | Table) -> list[Table]:
    """One table for each file."""
    return [paths] if isinstance(paths, Table) else [read_columns(path) for path in several(paths)]


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


def edge_values(tables: Sequence[EdgeTable], type_per_file: bool, decimal: str | None) -> dict[str, Any]:
    """``edge_weight``, ``edge_type`` and ``edge_type_names`` for ``Graph.from_edges``, where they are asked for."""
    found: dict[str, Any] = {}
    if any(table.named("weight") for table in tables):
        found["edge_weight"] = np.concatenate([_weights(table, decimal) for table in tables])
    if type_per_file or any(table.named("edge type") for table in tables):
        cells = [_types(table, type_per_file) for table in tables]
        names = sorted({cell for part in cells for cell in part})
        place = {name: i for i, name in enumerate(names)}
        found["edge_type"] = np.array([place[cell] for part in cells for cell in part], dtype=np.int64)
        found["edge_type_names"] = tuple(names)
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


def _types(edges: EdgeTable, per_file: bool) -> list[str]:
    file = edges.table.path.name.split(".")[0]
    name = edges.named("edge type")
    if name is None:
        return [file] * len(edges.table)
    cells = edges.table.text(name, "edge types")
    if "" in cells:
        raise InputError(
            f"{edges.table.place(cells.index(''), name)}: the edge type is missing; fill it in or do without "
            f"{FLAGS['edge type']}"
        )
    return [f"{file} {cell}" for cell in cells] if per_file else cells


def find_ends(table: Table, options: Mapping[str, Any], known: Collection[str]) -> tuple[str, str, str]:
    """The two columns of an edge table that name nodes, and why. ``known`` are the node ids, if a table has them."""
    source, target = flagged(options, "source"), flagged(options, "target")
    rest = [name for name in table.columns if name not in (*source, *target)]
    asked = (*flagged(options, "weight"), *flagged(options, "edge type"))
    for use, given in (("source", source), ("target", target)):
        if given:
            table.column(given[0], f"{use} of each edge", FLAGS[use])
    if source and target:
        return source[0], target[0], SAID
    if source or target:
        other = _other_end(table, (source or target)[0], rest, known, "target" if source else "source")
        return (source[0], other, SAID) if source else (other, target[0], SAID)
    if pair := _named_pair(table):
        return *pair, "its name"
    if known:
        found = [name for name in rest if share_known(sample(table, name), known) >= 0.5]
        if len(found) > 2:  # the few names of edge types may be names of nodes too
            found = [name for name in found if len(sample(table, name)) > RARELY * min(len(table), SAMPLE)] or found
        if len(found) == 1:  # a table of some of the nodes
            found = _with_partner(table, found[0], [name for name in rest if name not in asked])
        if len(found) == 2:
            return found[0], found[1], "holds node ids"
        if len(found) > 2:
            raise doubt(table, "source", found, f"node ids are in {listed(found)} (then also --target-column)")
    if len(rest) == 2 and not known:
        return rest[0], rest[1], "two columns"
    ids = [name for name in rest if names.is_id(name)]
    if len(ids) == 2:
        return ids[0], ids[1], "its name"
    raise InputError(
        f"{table.path} has no column 'source' and 'target' for the two ends of an edge, and no two others look like "
        f"them. Its first row names: {listed(table.columns)}. Say which they are with --source-column NAME and "
        "--target-column NAME; a file without column names needs a first row with them"
    )


def _with_partner(table: Table, one: str, rest: Sequence[str]) -> list[str]:
    """The column of ids and the only other one with as many different values of the same sort, if there is one."""
    numeric = kind_of(table, one) == "number"
    enough = RARELY * min(len(table), SAMPLE)
    others = [name for name in rest if name != one and len(sample(table, name)) > enough]
    others = [name for name in others if (kind_of(table, name) == "number") == numeric]
    return [name for name in table.columns if name == one or name in others] if len(others) == 1 else [one]


def _other_end(table: Table, one: str, rest: Sequence[str], known: Collection[str], use: str) -> str:
    usual = {a if use == "source" else b for a, b in names.PAIRS if names.end_name(one) in (a, b)}
    found = [name for name in rest if names.end_name(name) in usual]
    found = found or [name for name in rest if known and share_known(sample(table, name), known) >= 0.5]
    found = found or list(rest)
    if len(found) == 1:
        return found[0]
    raise doubt(table, use, found, f"the {use} of each edge may be in {listed(found)}")


def _named_pair(table: Table) -> tuple[str, str] | None:
    """Columns with the usual names; those that come first in the list of usual names, if there are several pairs."""
    for key in (names.plain, names.end_name):
        named = {key(name): name for name in reversed(list(table.columns))}
        found = [(named[a], named[b]) for a, b in names.PAIRS if a in named and b in named]
        usual = bool(found) and (names.plain(found[0][0]), names.plain(found[0][1])) == ("source", "target")
        if not usual and len({name for pair in found for name in pair}) > 3:
            raise doubt(table, "source", [a for a, _ in found], "several pairs of columns may be the ends of edges")
        if found:
            return found[0]
    return None


def end_samples(table: Table, options: Mapping[str, Any]) -> list[list[str]]:
    """Samples of the columns that may hold node ids: the two ends, if they are known already, else all."""
    given = [name for use in ("source", "target") for name in flagged(options, use) if name in table.columns]
    columns = given or _named_pair(table) or table.columns
    return [sample(table, name) for name in columns if table.columns[name].ndim == 1]


def edge_roles(table: Table, options: Mapping[str, Any], known: Collection[str]) -> list[Role]:
    """The two ends, and what else the user asked for; other columns are named with the flag that would use them."""
    source, target, why = find_ends(table, options, known)
    _check_header(table, source, target, known)
    file = table.path.name
    roles = [Role(file, source, "source", why, FLAGS["source"]), Role(file, target, "target", why, FLAGS["target"])]
    for use in ("weight", "edge type"):
        for name in flagged(options, use):
            table.column(name, f"{use} of each edge", FLAGS[use])
            roles.append(Role(file, name, use, SAID, FLAGS[use]))
    taken = {role.column for role in roles}
    for name in table.columns:
        if name not in taken:
            numeric = table.columns[name].dtype.kind in "iuf" or kind_of(table, name) in ("number", "empty")
            use = "weight" if numeric else "edge type"
            roles.append(Role(file, name, "", "not asked for", f"{FLAGS[use]} {name}"))
    return roles


def _check_header(table: Table, source: str, target: str, known: Collection[str]) -> None:
    """A file without column names would lose its first edge."""
    ids = known or {*sample(table, source), *sample(table, target)}
    if source in ids and target in ids:
        raise InputError(
            f"{table.path}: its first row, {listed(table.columns)}, names nodes, so it seems to have no column names. "
            "Write a first row with names, for example source,target"
        )
