"""What a user hands over: a graph in any form, its tables, the classes to learn from; brought into one order."""

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from .. import tables
from ..errors import InputError
from ..files import PathLike, unguarded
from ..graph import Graph
from ..graph.arrays import CacheKey
from ..graph.stored import open_store
from ..store import Engine, Store, StoredNames, absolute, is_store, is_url
from ..tables.columns import close_name, read_columns
from ..tables.frames import column_of, is_frame, is_series, table_of
from ..tables.labels import pair_roles
from ..tables.names import GROUPS, LABELS, is_id, plain
from ..tasks import ClassSplit
from .predictions import UNKNOWN

# --- A graph from tables in an order that does not depend on that of its rows, columns and classes, nor on names.
ROUNDS = 3  # of looking at neighbours
CELLS = 1 << 22  # values hashed at a time


def canonical(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges``, in an order that equal graphs share."""
    names: Sequence[str] | None = arguments.get("node_names")
    if names is None:
        return arguments
    n, edges = len(names), np.asarray(arguments["edge_index"])
    if edges.ndim != 2 or len(edges) != 2 or (edges.size and not 0 <= edges.min() <= edges.max() < n):
        return arguments  # it will be refused
    found = _columns_by_name(arguments)
    colour = _refined(_feature_hash(found.get("x"), found.get("feature_names"), n), edges)
    found = _classes_by_size(found, colour)
    order = _node_order(colour, found.get("y"), names)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    x, y = found.get("x"), found.get("y")
    return found | {
        "edge_index": place[edges],
        "node_names": [names[i] for i in order],
        "x": None if x is None else x[order],
        "y": None if y is None else np.asarray(y)[order],
    }


def natural_order(names: Iterable[str]) -> list[int]:
    """Positions of the names in the order a reader expects: n2 before n10."""
    keys = [[(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in _split(name)] for name in names]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _split(name: str) -> list[str]:
    return [part for part in re.split(r"([0-9]{1,18})", name) if part]


def _columns_by_name(arguments: dict[str, Any]) -> dict[str, Any]:
    names = arguments.get("feature_names")
    if names is None or arguments.get("x") is None or list(names) == sorted(names):
        return dict(arguments)
    order = sorted(range(len(names)), key=names.__getitem__)
    x = arguments["x"]
    moved = x[:, order] if isinstance(x, np.ndarray) else sp.csr_matrix(sp.csc_matrix(x)[:, order])
    return arguments | {"x": moved, "feature_names": tuple(names[i] for i in order)}


def _classes_by_size(arguments: dict[str, Any], colour: np.ndarray) -> dict[str, Any]:
    y, names = arguments.get("y"), arguments.get("class_names")
    if y is None or not names:
        return arguments
    y = np.asarray(y)
    sizes = np.bincount(y[y >= 0], minlength=len(names))
    hashes = _sums(colour, y, len(names))
    order = sorted(range(len(names)), key=lambda c: (-sizes[c], int(hashes[c]), names[c]))
    place = np.empty(len(names) + 1, np.int64)
    place[order], place[-1] = np.arange(len(names)), -1  # the last is looked up by the unknown class -1
    return arguments | {"y": place[y], "class_names": tuple(names[c] for c in order)}


def _node_order(colour: np.ndarray, y: Any, names: Sequence[str]) -> np.ndarray:
    """By colour; alike nodes by class (those without one last), then by name."""
    label = np.full(len(colour), -1) if y is None else np.asarray(y)
    label = np.where(label < 0, len(colour), label)
    order = np.lexsort((label, colour))
    same = (np.diff(colour[order]) == 0) & (np.diff(label[order]) == 0)
    if not same.any():
        return order
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return np.lexsort((rank, label, colour))


def _feature_hash(x: Any, names: Sequence[str] | None, n: int) -> np.ndarray:
    """A hash [n] of each row's values that are not zero, whatever the order of the columns."""
    total = np.zeros(n, np.uint64)
    if x is None:
        return total
    columns = np.array([_text_hash(str(i) if names is None else names[i]) for i in range(x.shape[1])], np.uint64)
    if sp.issparse(x):
        x = sp.csr_matrix(x)
        values = _mixed(_bits(x.data) ^ columns[x.indices])
        values[x.data == 0] = 0
        ends = np.concatenate([np.zeros(1, np.uint64), values.cumsum(dtype=np.uint64)])
        total += ends[x.indptr[1:]] - ends[x.indptr[:-1]]
        return total
    step = max(1, CELLS // max(1, x.shape[1]))
    for at in range(0, n, step):
        part = np.asarray(x[at : at + step], np.float32)
        total[at : at + step] = np.where(part == 0, np.uint64(0), _mixed(_bits(part) ^ columns)).sum(1, dtype=np.uint64)
    return total


def _refined(colour: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Colours after every node has seen its neighbours' a few times; direction and repetition of edges do not count."""
    n = len(colour)
    arcs = sp.csr_matrix((np.ones(edges.shape[1], bool), (edges[0], edges[1])), shape=(n, n))
    arcs = (arcs + arcs.T).tocsr()
    for _ in range(ROUNDS):
        ends = np.concatenate([np.zeros(1, np.uint64), _mixed(colour + 1)[arcs.indices].cumsum(dtype=np.uint64)])
        colour = _mixed(_mixed(colour) + ends[arcs.indptr[1:]] - ends[arcs.indptr[:-1]])
    return colour


def _sums(colour: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    total = np.zeros(classes + 1, np.uint64)
    np.add.at(total, y, _mixed(colour))  # -1, the unknown class, adds to the last
    return total


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)


def _text_hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: neighbouring numbers far apart."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


# --- The files a user's graph was read from, remembered with the model so that predicting needs no second naming.
Files = PathLike | Sequence[PathLike]
Names = str | list[str] | None


@dataclass(frozen=True)
class TableSource:
    """Paths of the tables and what their columns are taken for, as ``tables.read_graph`` takes them.

    ``options`` are its other options. ``memory`` is what was learned of the columns when the tables were read for the
    first time (``understood``); ``roles`` and ``notes`` say what was understood.
    """

    edges: Names = None
    nodes: Names = None
    features: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    labels: Names = None
    options: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] | None = None
    roles: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        edges: Files | None = None,
        nodes: Files | None = None,
        features: PathLike | None = None,
        *,
        labels: Files | None = None,
        options: dict[str, Any] | None = None,
        **columns: Any,
    ) -> "TableSource":
        """The tables in these files; ``columns`` and ``options`` are those of ``tables.read_graph``."""
        one = None if features is None else str(Path(features).absolute())
        return cls(_absolute(edges), _absolute(nodes), one, columns, _absolute(labels), options or {})

    def elsewhere(
        self, edges: Files | None = None, nodes: Files | None = None, features: PathLike | None = None
    ) -> "TableSource":
        """The same columns in other files; if any is given, files not given are none."""
        if edges is None and nodes is None and features is None:
            return self
        there = TableSource.of(edges or self.edges, nodes, features)
        return replace(self, edges=there.edges, nodes=there.nodes, features=there.features, labels=None)

    @property
    def stored(self) -> bool:
        """Whether the edges are a store, which holds a whole graph."""
        return isinstance(self.edges, str) and is_store(self.edges)

    def _opened(self, limit: int | None, engine: Engine | None, verify: bool) -> Graph:
        if self.nodes or self.features or self.labels:
            raise InputError(f"{self.edges} is a store, which holds nodes and features too: give --edges alone")
        return open_store(str(self.edges), limit, verify=verify, engine=engine)

    def read(
        self, vocabulary: Sequence[str] | None = None, limit: int | None = None, engine: Engine | None = None
    ) -> Graph:
        """The graph in the files; its texts get the words of ``vocabulary``, if that is given. A store stays on disk:
        ``limit`` bounds the memory that the work on it takes, which ``engine`` does."""
        if self.stored:
            return self._opened(limit, engine, verify=False)
        _check_stored(limit, engine)
        return Graph.from_edges(**canonical(self._read(vocabulary).arguments))

    def understood(self, limit: int | None = None, engine: Engine | None = None) -> tuple[Graph, "TableSource"]:
        """The graph in the files, and the source with all that was found out about them. The hashes of a store are
        compared."""
        if self.stored:
            for name in (*self.columns, *self.options):
                flag = f"--{name.replace('_', '-')}"
                raise InputError(f"{flag} is about tables, and {self.edges} is a store: say it to `fewnode import`")
            return self._opened(limit, engine, verify=True), replace(self, memory={})
        _check_stored(limit, engine)
        found = self._read(None)
        roles = [asdict(role) for role in found.roles]
        named = replace(self, columns=found.columns, memory=found.memory.to_json(), roles=roles, notes=found.notes)
        return Graph.from_edges(**canonical(found.arguments)), named

    def _read(self, vocabulary: Sequence[str] | None) -> tables.Understood:
        memory = None if self.memory is None else tables.Memory.from_json(self.memory)
        files: dict[str, Any] = {"nodes": self.nodes, "features": self.features, "labels": self.labels}
        return tables.read_graph(
            self.edges, **files, **self.columns, **self.options, memory=memory, vocabulary=vocabulary
        )

    def files(self) -> list[str]:
        """All files, in a fixed order."""
        parts = (self.edges, self.nodes, self.features, self.labels)
        return [path for part in parts for path in ([part] if isinstance(part, str) else part or [])]

    def digest(self) -> str:
        """SHA-256 of the files and of the names of their columns: tells whether anything was changed since.

        Of the inputs, because what is computed from them may differ in the last digit from one machine to another.
        """
        if self.stored:
            return Store(str(self.edges)).digest()
        sha = hashlib.sha256(repr(sorted(self.columns.items())).encode())
        sha.update(repr(sorted(self.options.items())).encode() if self.options else b"")
        for part in (self.edges, self.nodes, self.features, *([] if self.labels is None else [self.labels])):
            for path in [part] if part is None or isinstance(part, str) else part:
                sha.update(b"none" if path is None else hashlib.sha256(Path(path).read_bytes()).digest())
        return sha.hexdigest()

    def missing(self) -> str | None:
        """The first of the files that is not there."""
        return next((path for path in self.files() if not is_url(path) and not Path(path).exists()), None)

    @property
    def text_column(self) -> str | None:
        """The column of texts, the first if there are several."""
        given = self.columns.get("text_column")
        return given if given is None or isinstance(given, str) else given[0]

    @property
    def words(self) -> tuple[str, ...] | None:
        """The words of the texts that were learned from."""
        return tuple(self.memory["words"]) if self.memory and "words" in self.memory else None

    def to_json(self) -> dict[str, Any]:
        """All but the words, which a model keeps apart."""
        memory = None if self.memory is None else {name: part for name, part in self.memory.items() if name != "words"}
        return {**asdict(self), "memory": memory}


def _absolute(paths: Files | None) -> Names:
    if paths is None:
        return None
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    found = [absolute(one) for path in given for one in ([path] if "://" in str(path) else tables.several(path))]
    return found[0] if len(found) == 1 else found


def _check_stored(limit: int | None, engine: Engine | None) -> None:
    for flag, given in (("--memory bounds the", limit), ("--engine does", engine)):
        if given is not None:
            raise InputError(f"{flag} work on a store; make one of the tables with `fewnode import`")


# --- Which of a user's classes a model learns from: chosen by size, remembered by name.
def choose_split(graph: Graph, min_size: int) -> ClassSplit:
    """Base and validation classes among those with at least ``min_size`` labelled nodes.

    In order of size, every third class is kept for validation (every second, if there are only four or five), so
    that large and small ones are in both parts; fewer than four classes all become base.
    """
    if min_size < 2:
        raise InputError(f"min_size is {min_size}; a class needs at least 2 nodes: an example and one to test on")
    sizes = class_sizes(graph)
    large = [int(c) for c in np.argsort(-sizes, kind="stable") if sizes[c] >= min_size]
    held = max(2, len(large) // 3) if len(large) >= 4 else 0
    ranks = {round((i + 1) * len(large) / held) - 1 for i in range(held)}
    base = sorted(c for rank, c in enumerate(large) if rank not in ranks)
    return ClassSplit(base, sorted(large[rank] for rank in ranks))


def class_sizes(graph: Graph) -> np.ndarray:
    """Labelled nodes of each class, [classes]."""
    return torch.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes).cpu().numpy()


def class_name(graph: Graph, class_id: int) -> str:
    return graph.class_names[class_id] if graph.class_names else str(class_id)


@dataclass(frozen=True)
class KnownClasses:
    """Names of the classes a model was trained on (base) and selected on (validation).

    Names, not numbers: a table that gains a class numbers all of them anew.
    """

    base: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()

    @classmethod
    def of(cls, graph: Graph, split: ClassSplit) -> "KnownClasses":
        base, validation = (tuple(class_name(graph, c) for c in part) for part in (split.base, split.validation))
        return cls(base, validation)

    def names(self) -> set[str]:
        return {*self.base, *self.validation}

    def split(self, graph: Graph) -> ClassSplit:
        """The same classes as ids of ``graph``; those it has no labelled node of are left out."""
        sizes = class_sizes(graph)
        ids = {class_name(graph, c): c for c in np.flatnonzero(sizes).tolist()}
        base, validation = ([ids[name] for name in part if name in ids] for part in (self.base, self.validation))
        return ClassSplit(sorted(base), sorted(validation))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


# --- A user's examples of new classes: looked up, checked, and made the support of one task.
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


# --- What a user hands over in Python, as a graph and as examples.
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
    memory = None if source is None or source.memory is None else tables.Memory.from_json(source.memory)
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


def read_tables(
    edges: tables.Table, nodes: tables.Table | None, memory: tables.Memory | None, options: Any
) -> tables.Understood:
    """The graph in the tables; a misspelt option is the user's mistake, not a defect."""
    try:
        return tables.read_graph(edges, nodes, memory=memory, **options)
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


def _columns(table: tables.Table) -> tuple[str, str]:
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
