"""The nodes of a graph: those of a table, and those that only edges name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import PathLike
from .columns import Table, close_name, read_columns
from .edges import EdgeTable
from .features import FeatureFile, look_up, node_ids
from .roles import FLAGS, Role, node_roles, share_known

Files = PathLike | Sequence[PathLike] | Table
FEW = 0.5  # if fewer of the ends of edges are among the node ids, these are not the ids the edges mean


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes by id, of which the first ``listed`` are the rows of a table (None without one)."""

    table: Table | None
    roles: list[Role]
    index: dict[str, int]
    listed: int

    def named(self, use: str) -> str | None:
        return next((role.column for role in self.roles if role.use == use), None)


def listed_nodes(
    nodes: Files | None, columns: Mapping[str, Any], samples: list[list[str]], apart: bool, labelled: bool, again: bool
) -> Nodes:
    """The rows of a table of nodes, if there is one; ``apart``, ``labelled`` and ``again`` as in ``node_roles``."""
    if nodes is None:
        return Nodes(None, [], {}, 0)
    table = read_columns(nodes)
    roles = node_roles(table, columns, samples, apart=apart, labelled=labelled, again=again)
    index = _node_index(table, next(role.column for role in roles if role.use == "id"))
    return Nodes(table, roles, index, len(index))


def _node_index(table: Table, id_column: str) -> dict[str, int]:
    ids = node_ids(table, id_column)
    index = {name: i for i, name in enumerate(ids)}
    if len(index) < len(ids):
        first = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))
        again = next(i for i, name in enumerate(ids) if first[name] != i)
        raise InputError(
            f"{table.place(again, id_column)}: node id {ids[again]!r} is already used in row "
            f"{first[ids[again]] + 1} ({len(ids) - len(index):,} repeated). Every node needs its own id; if another "
            f"column holds the ids, name it with {FLAGS['id']}"
        )
    return index


def all_nodes(
    listed: Nodes, joined: Sequence[EdgeTable], file: FeatureFile | None, strict: bool
) -> tuple[Nodes, np.ndarray, list[str]]:
    """All nodes: those of the table, then those that only edges (or, without a table, features) name; the edges
    ``[2, E]`` between them; and what to say about it."""
    if listed.table is None:
        more = file.ids or [] if file is not None else []
        names = dict.fromkeys(chain(*(end for table in joined for end in table.ends), more))
        listed = Nodes(None, [], {name: i for i, name in enumerate(names)}, len(names))
    if strict:
        for edges in joined:
            for role, end in zip(edges.roles, edges.ends, strict=False):
                look_up(edges.table, role.column, end, listed.index, listed.table)
    index = dict(listed.index)
    ends = [
        [end for table in joined for end in table.ends[side]] if len(joined) > 1 else joined[0].ends[side]
        for side in (0, 1)
        if joined
    ]
    pairs = [np.fromiter(map(index.get, end, repeat(-1)), dtype=np.int64, count=len(end)) for end in ends]
    for found, end in zip(pairs, ends, strict=True):
        for row in np.flatnonzero(found < 0).tolist():
            found[row] = index.setdefault(end[row], len(index))
    everyone = Nodes(listed.table, listed.roles, index, listed.listed)
    edge_index = np.stack(pairs) if pairs else np.empty((2, 0), dtype=np.int64)
    return everyone, edge_index, _said_of_new(listed, index, joined)


def _said_of_new(listed: Nodes, index: dict[str, int], joined: Sequence[EdgeTable]) -> list[str]:
    if listed.table is None or len(index) == listed.listed:
        return []
    _check_known(listed, joined)
    new = list(index)[listed.listed :]
    close = close_name(new[0], list(listed.index)) if listed.listed < 10_000 else None
    return [
        f"{len(new):,} nodes that only the edges name, not {listed.table.path.name}, were added (the first: {new[0]!r}"
        f"{f', nearest id: {close!r}' if close else ''}); --strict refuses them"
    ]


def _check_known(listed: Nodes, joined: Sequence[EdgeTable]) -> None:
    """Edges that name mostly other things than the nodes mean another column."""
    table = listed.table
    ends = dict.fromkeys(chain.from_iterable(end[:5000] for edges in joined for end in edges.ends))
    share = share_known(ends, listed.index)
    if table is None or share >= FEW:
        return
    used = listed.named("id")
    better = [
        name
        for name, column in table.columns.items()
        if name != used and column.ndim == 1 and share_known(ends, set(table.text(name, "ids"))) > max(share, 0.1)
    ]
    if better:
        raise InputError(
            f"{table.path}: the ids of the edges are in column {better[0]!r} rather than in {used!r} (where "
            f"{100 * share:.0f} % of them are); say which holds the node ids: {FLAGS['id']} {better[0]} or "
            f"{FLAGS['id']} {used}"
        )
    if share == 0:
        edges = joined[0]
        raise InputError(
            f"{edges.table.place(0, edges.roles[0].column)}: {edges.ends[0][0]!r} is not in column {used!r} of "
            f"{table.path}, nor is any other id of the edges. Name the right columns with {FLAGS['id']}, "
            f"{FLAGS['source']} and {FLAGS['target']}"
        )
