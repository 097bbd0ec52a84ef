"""A user's examples of new classes: looked up, checked, and made the support of one task."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..graph import Graph
from ..graph.cache import CacheKey
from ..io.columns import close_name, read_columns
from ..io.labels import pair_roles
from ..storage import PathLike
from ..storage.spreadsheet import unguarded
from ..store.names import StoredNames
from .classes import KnownClasses, class_name
from .predictions import UNKNOWN

Examples = Mapping[str, Iterable[Any]]
WHOLE_IDS = CacheKey[bool]("whether names are whole numbers")
NODE_INDEX = CacheKey[dict[str, int]]("nodes by name")


@dataclass(frozen=True, eq=False)
class Support:
    """Example nodes ``nodes [S]`` with their classes ``y [S]``, named by ``classes``; the first ``n_new`` are new.

    The others are known classes and "other", which the open question may be told nodes of.
    """

    nodes: Tensor
    y: Tensor
    classes: tuple[str, ...]
    n_new: int

    def examples(self) -> dict[str, Tensor]:
        """The nodes of each new class."""
        return {name: self.nodes[self.y == c] for c, name in enumerate(self.classes[: self.n_new])}

    def of(self, name: str) -> Tensor:
        """The examples of a class; none, if it has none."""
        return self.nodes[self.y == (self.classes.index(name) if name in self.classes else -1)]

    def shots(self) -> list[int]:
        """How many examples each class has."""
        counts: list[int] = torch.bincount(self.y, minlength=len(self.classes)).tolist()
        return counts

    def leave_one_out(self) -> tuple[Tensor, Tensor]:
        """The positions of the examples whose class has others, [B], and for each the positions of all the rest,
        [B, S - 1]."""
        shots = torch.tensor(self.shots(), device=self.y.device)
        out = (shots[self.y] > 1).nonzero().flatten()
        everyone = torch.arange(len(self.nodes), device=out.device)
        return out, everyone.expand(len(out), -1)[everyone != out[:, None]].view(len(out), len(everyone) - 1)


def read_examples(
    path: PathLike,
    *,
    columns: Mapping[str, Any] | None = None,
    nodes: Collection[str] = (),
    known: Collection[str] = (),
) -> dict[str, list[str]]:
    """Examples from a table of nodes and their classes, whatever its columns are called.

    A table with further columns is taken for a table of nodes: its rows without a label, or with one of the ``known``
    classes, are no examples. ``columns`` are those of the tables the model was fitted on, ``nodes`` the names of the
    graph's nodes, by which the column of ids is found.
    """
    table = read_columns(path)
    by, label = pair_roles(table, columns or {}, nodes, "Name the two columns id and label")
    ids, labels = table.text(by.column, "example nodes"), table.text(label.column, "classes of the examples")
    whole = len(table.columns) > 2
    found: dict[str, list[str]] = {}
    seen: dict[str, int] = {}
    for row, (node, name) in enumerate(zip(ids, labels, strict=True)):
        if whole and (not name or name in known):
            continue
        if not node or not name:
            missing = label.column if node else by.column
            raise InputError(f"{table.place(row, missing)}: it is empty; every example needs an id and a label")
        if node in seen:
            first = labels[seen[node]]
            what = "repeats" if first == name else f"gives class {name!r} to"
            raise InputError(
                f"{table.place(row)}: {what} node {node!r}, which row {seen[node] + 1} has in class {first!r}. "
                "Name each node once"
            )
        seen[node] = row
        found.setdefault(name, []).append(node)
    if not found:
        raise InputError(
            f"{path}: no row names a new class in column {label.column!r} (the model knows {len(known)}). Write "
            "the name of the new class beside a few nodes of it"
        )
    return found


def resolve(examples: Examples, graph: Graph, known: KnownClasses, least: int = 2, other: str | None = None) -> Support:
    """Check the examples of at least ``least`` classes and find their nodes.

    In the open question, where nodes of no class are called ``other``, some may also be said to be of a known class, or
    of none; without it known classes are refused.
    """
    names = _checked_names(examples, known, least, closed=other is None)
    found: dict[int, str] = {}
    nodes: list[Tensor] = []
    for key, name in zip(examples, names, strict=True):
        given = examples[key]
        if isinstance(given, str | int):
            raise InputError(f"class {name!r}: give a list of nodes, not {given!r}")
        ids = find_nodes(graph, given, f"class {name!r}")
        if not len(ids):
            raise InputError(f"class {name!r} has no examples; give it at least one node")
        for node in ids.tolist():
            _check_node(graph, node, name, found, known)
            found[node] = name
        nodes.append(ids.sort().values)  # the order in which they were given must not matter
    new = [i for i, name in enumerate(names) if other is None or name not in (*known.names(), other)]
    order = [*new, *(i for i in range(len(names)) if i not in new)]
    nodes = [nodes[i] for i in order]
    y = torch.repeat_interleave(torch.arange(len(nodes)), torch.tensor([len(ids) for ids in nodes], dtype=torch.long))
    ids = torch.cat([*nodes, torch.empty(0, dtype=torch.long, device=graph.device)])
    return Support(ids, y.to(graph.device), tuple(names[i] for i in order), len(new))


def _checked_names(examples: Examples, known: KnownClasses, least: int, closed: bool) -> list[str]:
    names = [str(name).strip() for name in examples]
    folded: dict[str, str] = {}
    for name in names:
        if not name:
            raise InputError("a class without a name; give every class one")
        if name == UNKNOWN:
            raise InputError(f"{UNKNOWN!r} is what nodes below the threshold are called; name the class otherwise")
        if (same := folded.setdefault(name.casefold(), name)) != name or names.count(name) > 1:
            raise InputError(f"class {same!r} is named twice (as {name!r}); write it one way")
        if closed and name in known.names():
            part = "trained" if name in known.base else "validated"
            raise InputError(
                f"{name!r} is no new class: the model was {part} on it. Leave its examples out and offer the "
                "known classes beside the new ones instead (among 'all')"
            )
    if not names and least == 1:
        raise InputError("the examples name no class; name at least one, with one node or more")
    if len(names) < least:
        what = f"only {names[0]!r}" if names else "none"
        raise InputError(
            f"choosing needs at least two classes, the examples name {what}; add one (for example 'other')"
        )
    return names


def _check_node(graph: Graph, node: int, name: str, found: dict[int, str], known: KnownClasses) -> None:
    if node in found:
        other = "twice" if found[node] == name else f"and of {found[node]!r}"
        raise InputError(f"node {node_name(graph, node)!r} is an example of {name!r} {other}; name it once")
    label = int(graph.y[node])
    if label >= 0 and (own := class_name(graph, label)) != name and own in known.names():
        raise InputError(
            f"node {node_name(graph, node)!r} is an example of {name!r}, but the graph labels it {own!r}, a class "
            "the model knows; choose another example or correct the label"
        )


def changed(support: Support, graph: Graph, add: Examples, remove: Examples) -> dict[str, Tensor]:
    """The examples with some more, and without some."""
    found = {name: support.nodes[support.y == c].tolist() for c, name in enumerate(support.classes)}
    for name, nodes in remove.items():
        if name not in found:
            raise InputError(f"there is no class {name!r} to take examples from; there are {', '.join(found)}")
        for node in find_nodes(graph, nodes, f"class {name!r}").tolist():
            if node not in found[name]:
                raise InputError(
                    f"node {node_name(graph, node)!r} is no example of {name!r}, so it cannot be taken back"
                )
            found[name].remove(node)
    for name, nodes in add.items():
        found.setdefault(str(name).strip(), []).extend(find_nodes(graph, nodes, f"class {name!r}").tolist())
    return {name: torch.tensor(nodes) for name, nodes in found.items() if nodes}


def find_nodes(graph: Graph, nodes: Any, where: str) -> Tensor:
    """Numbers [B] of nodes given by their ids of any kind, as text or not. A tensor holds numbers of nodes; so do whole
    numbers elsewhere, unless the ids of the graph are whole numbers themselves."""
    if hasattr(nodes, "columns") or isinstance(nodes, Mapping | str):
        raise InputError(f"{where}: give a list of nodes, not a {type(nodes).__name__}")
    try:
        values = nodes.tolist() if hasattr(nodes, "tolist") else list(nodes)
    except TypeError as error:
        raise InputError(f"{where}: give a list of nodes, not {nodes!r}") from error
    index = {} if isinstance(nodes, Tensor) else name_index(graph, values)
    if isinstance(nodes, Tensor) or not (graph.node_names and _whole_ids(graph)):
        ids = [value if _is_whole(value) else _numbered(index, str(value)) for value in values]
    else:
        ids = [_numbered(index, str(value)) for value in values]
    for value, node in zip(values, ids, strict=True):
        if not 0 <= node < graph.num_nodes:
            raise InputError(f"{where}: {unknown_node(graph, value)}")
    return torch.tensor(ids, dtype=torch.long, device=graph.device)


def _numbered(index: Mapping[str, int], name: str) -> int:
    """The node of that name, also as a table of predictions writes it (with an apostrophe before ``= + - @``)."""
    return index.get(name, index.get(unguarded(name), -1))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _whole_ids(graph: Graph) -> bool:
    return graph.cache.get(WHOLE_IDS, lambda: all(name.isdecimal() for name in graph.node_names or ()))


def unknown_node(graph: Graph, value: Any) -> str:
    """That there is no such node, and which one may have been meant."""
    if _is_whole(value) and not (graph.node_names and _whole_ids(graph)):
        return f"there is no node {value!r}; ids are 0..{graph.num_nodes - 1}" + (
            ", names are text" if graph.node_names else ""
        )
    close = None if isinstance(graph.node_names, StoredNames) else close_name(str(value), name_index(graph))
    return f"there is no node {value!r} in the graph" + (f"; did you mean {close!r}?" if close else "")


def name_index(graph: Graph, wanted: Sequence[Any] = ()) -> dict[str, int]:
    """The id of every node by its name; on disk, of those that are wanted."""
    if isinstance(graph.node_names, StoredNames):
        texts = [str(value) for value in wanted]
        return graph.node_names.find([*texts, *map(unguarded, texts)])

    def build() -> dict[str, int]:
        names = graph.node_names or map(str, range(graph.num_nodes))
        return {name: i for i, name in enumerate(names)}

    return graph.cache.get(NODE_INDEX, build)


def node_name(graph: Graph, node: int) -> str:
    return graph.node_names[node] if graph.node_names else str(node)
