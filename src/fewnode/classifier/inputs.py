"""The user's input: tables or a graph in any form, the classes to learn from, and examples of new classes."""

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
from ..files import PathLike, convert, unguarded
from ..graph import Graph
from ..graph.arrays import hash_ranks
from ..graph.stored import open_store
from ..store import Store, StoredNames, is_store
from ..tables.read import close_name, is_frame, is_series, read_columns
from ..tables.schema import MISSING, pair_roles
from ..tasks import ClassSplit
from .predictions import UNKNOWN

Files = PathLike | Sequence[PathLike]
Names = str | list[str] | None
Examples = Mapping[str, Iterable[Any]]


# --- tables and graphs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableSource:
    """The tables of a graph (paths, or tables in memory) and the use of their columns, as arguments of
    ``tables.read_graph``.

    ``options`` are its other options. ``encoder`` is what ``infer`` fitted to the columns; ``roles`` and ``notes``
    describe what it found. ``table`` is the table of nodes, or the copy of it that a model keeps.
    """

    edges: Names = None
    nodes: Names = None
    features: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    labels: Names = None
    options: dict[str, Any] = field(default_factory=dict)
    encoder: tables.TableEncoder | None = None
    roles: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    table: Any = None

    @classmethod
    def of(
        cls,
        edges: Any = None,
        nodes: Any = None,
        features: PathLike | None = None,
        *,
        labels: Any = None,
        **options: Any,
    ) -> "TableSource":
        """The tables in these files or DataFrames; the options are those of ``tables.read_graph``."""
        columns = {name: options.pop(name) for name in list(options) if name.endswith("_column")}
        given = {"edges": edges, "nodes": nodes, "features": features, "labels": labels}
        return cls(**{what: _table(value, what) for what, value in given.items()}, columns=columns, options=options)

    @property
    def stored(self) -> bool:
        """Whether the edges are a store, which holds a whole graph."""
        return isinstance(self.edges, str) and is_store(self.edges)

    def infer(self, memory: int | None = None) -> tuple[Graph, "TableSource"]:
        """The graph in the tables, and the source with everything that was learned from them.

        A store stays on disk; ``memory`` limits the work on it.
        """
        if self.stored:
            if self.nodes or self.features or self.labels:
                raise InputError(f"{self.edges} is a store, which holds nodes and features too: give edges= alone")
            if self.encoder is None and (told := [*self.columns, *self.options]):
                raise InputError(f"{told[0]}= is about tables, and {self.edges} is a store: say it to `fewnode import`")
            graph, facts = open_store(str(self.edges), memory), Store(str(self.edges)).facts
            return graph, replace(
                self, encoder=convert(facts.encoder, tables.TableEncoder, "store"), columns=facts.columns
            )
        if memory is not None:
            raise InputError("memory= bounds the work on a store; make one of the tables with `fewnode import`")
        options: dict[str, Any] = {"text_encoder": "auto", **self.options, **self.columns, "encoder": self.encoder}
        found = tables.read_graph(self.edges, self.nodes, self.features, labels=self.labels, **options)
        learned: dict[str, Any] = {name: getattr(found, name) for name in ("columns", "encoder", "notes", "table")}
        learned["roles"] = [asdict(role) for role in found.roles]
        return Graph.from_edges(**canonical(found.arguments)), replace(self, **learned)

    def kept(self) -> "TableSource":
        """The part that a saved model keeps: all but the paths of the tables, unless they are a store."""
        return replace(self, edges=self.edges if self.stored else None, nodes=None, labels=None, table=None)

    def node_columns(self, names: Sequence[str], columns: Collection[str] = ()) -> dict[str, list[str]]:
        """The ``columns`` of the node table (by default all but the ids) as texts, in the order of ``names``.

        The result is empty without a table.
        """
        if self.table is None:
            return {}
        table, key = read_columns(self.table), self.columns["id_column"]
        row = {name: i for i, name in enumerate(table.text(key, "ids"))}
        order = [row.get(name, -1) for name in names]
        plain = [name for name, content in table.columns.items() if name != key and content != "vectors"]
        texts = {name: [*table.text(name, "columns"), ""] for name in columns or plain}  # the last: no row
        return {name: [values[i] for i in order] for name, values in texts.items()}


def _table(given: Any, what: str) -> Any:
    """A DataFrame as it is; absolute paths of files."""
    if given is None:
        return None
    found = [str(one.absolute()) if isinstance(one, Path) else one for one in tables.several(given, what)]
    return found[0] if len(found) == 1 else found


def graph_of(
    given: Any, edges: Any, nodes: Any, source: TableSource | None = None, *, columns: Any = None, **more: Any
) -> tuple[Graph, TableSource | None]:
    """The graph given to ``fit`` or ``attach``, and the source of its tables, if it was given as tables.

    With the ``source`` of a fitted model, tables are read with the columns, words and categories that it knows.
    ``more`` are arrays, ``features``, and the memory for a store.
    """
    known = {name: value for name, value in more.items() if value is not None}
    if (given is None) == (edges is None):
        raise InputError("a graph needs its edges: give either a graph or edges=, not both or none")
    given = edges if given is None else given
    if not (is_frame(given) or (_are_files(edges) and not known.keys() & {"x", "y"})):
        if named := [name for name in columns or {} if name.endswith("_column")]:
            raise InputError(f"{named[0]}= names a column of a table; label= names an attribute of the nodes")
        return Graph.of(given, nodes, **known, **(columns or {})), None
    if wrong := known.keys() & {"x", "y"}:
        raise InputError(
            f"{min(wrong)}= belongs to arrays of edges; beside a table of edges, labels and features are columns of "
            "nodes= (label_column= says which holds the labels)"
        )
    if nodes is not None and not is_frame(nodes) and not _are_files(nodes):
        raise InputError(f"nodes is a {type(nodes).__name__}; beside a table of edges it is a file or a DataFrame")
    here = TableSource.of(given, nodes, known.pop("features", None), **(columns or {}))
    if source is not None:
        here = replace(source, edges=here.edges, nodes=here.nodes, features=here.features, labels=None)
    return here.infer(**known)


def _are_files(given: Any) -> bool:
    several = given if isinstance(given, list | tuple) else [given]
    return bool(several) and all(isinstance(one, str | os.PathLike) for one in several)


# --- an order of nodes, columns and classes that does not depend on that of the tables --------------------------------


def canonical(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` for tables, in a canonical order.

    The order does not depend on the order of rows and columns or on the names of classes: nodes are sorted by a hash of
    their names, classes by size, columns by name.
    """
    found = dict(arguments)
    names, x, columns = found["node_names"], found.get("x"), found.get("feature_names")
    if x is not None and columns is not None:
        widths = found.get("blocks") or {"": len(columns)}
        kind = np.repeat(np.arange(len(widths)), list(widths.values()))  # columns stay in their block
        order = np.lexsort((np.array(columns, dtype=str), kind)).tolist()
        found["feature_names"] = tuple(columns[i] for i in order)
        x = x[:, order] if isinstance(x, np.ndarray) else sp.csr_matrix(sp.csc_matrix(x)[:, order])
    ranks, y = hash_ranks(names).numpy(), found.get("y")
    nodes = np.argsort(ranks)
    if y is not None:
        classes = found["class_names"] or ()
        first = np.full(len(classes) + 1, len(names))
        np.minimum.at(first, y, ranks)  # -1, the unknown class, is the last
        sizes = np.bincount(y[y >= 0], minlength=len(classes))
        order = sorted(range(len(classes)), key=lambda c: (-sizes[c], first[c]))
        found["class_names"], y = tuple(classes[c] for c in order), np.append(np.argsort(order), -1)[y][nodes]
    if titles := found.get("node_titles"):
        found["node_titles"] = [titles[i] for i in nodes]
    if found.get("unlisted") is not None:
        found["unlisted"] = found["unlisted"][nodes]
    return found | {
        "edge_index": ranks[found["edge_index"]],
        "node_names": [names[i] for i in nodes],
        "x": None if x is None else x[nodes],
        "y": y,
    }


# --- classes ----------------------------------------------------------------------------------------------------------


def choose_split(graph: Graph, min_size: int) -> ClassSplit:
    """Base and validation classes among those with at least ``min_size`` labelled nodes.

    In order of size, every third class is used for validation (every second, if there are only four or five), so both
    parts have large and small classes. With fewer than four classes, all are base classes.
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
    """The number of labelled nodes of each class, [classes]."""
    return torch.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes).cpu().numpy()


def class_name(graph: Graph, class_id: int) -> str:
    return graph.class_names[class_id] if graph.class_names else str(class_id)


@dataclass(frozen=True)
class KnownClasses:
    """Names of the classes on which a model was trained (base) and selected (validation).

    Names are stored instead of numbers, because the numbers change if a table gains a class.
    """

    base: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()

    @classmethod
    def of(cls, graph: Graph, split: ClassSplit) -> "KnownClasses":
        base, validation = (tuple(class_name(graph, c) for c in part) for part in (split.base, split.validation))
        return cls(base, validation)

    def names(self) -> set[str]:
        return {*self.base, *self.validation}

    def new(self, names: Iterable[Any], other: str) -> list[str]:
        """The names that are neither those of known classes nor ``other``."""
        return [name for name in map(str, names) if name not in self.names() and name != other]

    def split(self, graph: Graph) -> ClassSplit:
        """The same classes as ids of ``graph``; classes without a labelled node are left out."""
        ids = {class_name(graph, c): c for c in np.flatnonzero(class_sizes(graph)).tolist()}
        base, validation = ([ids[name] for name in part if name in ids] for part in (self.base, self.validation))
        return ClassSplit(sorted(base), sorted(validation))


# --- nodes ------------------------------------------------------------------------------------------------------------


def node_name(graph: Graph, node: int) -> str:
    return graph.node_names[node] if graph.node_names else str(node)


def node_title(graph: Graph, node: int) -> str:
    """The title of a node in one line; "" if there is none."""
    return " ".join(graph.node_titles[node].split()) if graph.node_titles else ""


def names_and_titles(graph: Graph, nodes: Tensor) -> tuple[list[str], list[str] | None]:
    """The names of ``nodes [B]``, and their titles; None if the graph has none."""
    ids = nodes.tolist()
    titles = [node_title(graph, i) for i in ids] if graph.node_titles else None
    return [node_name(graph, i) for i in ids], titles


def natural_order(names: Iterable[str]) -> list[int]:
    """Positions of the names in natural order: n2 before n10."""

    def key(name: str) -> list[tuple[bool, int, str]]:
        parts = filter(None, re.split(r"([0-9]{1,18})", name))
        return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]

    keys = [key(name) for name in names]
    return sorted(range(len(keys)), key=keys.__getitem__)


def sorted_by_name(graph: Graph, nodes: Tensor) -> Tensor:
    """Nodes ``[B]`` in the natural order of their names."""
    return nodes[natural_order(node_name(graph, i) for i in nodes.tolist())]


def find_nodes(graph: Graph, nodes: Any, where: str) -> Tensor:
    """Numbers [B] of nodes given by ids of any type or by a mask.

    A tensor holds numbers of nodes. Integers elsewhere are numbers of nodes, unless the ids of the graph are integers.
    """
    if is_frame(nodes):  # the column that holds the ids
        columns = [read_columns(nodes, name=where).text(name) for name in nodes.columns]
        held = [values for values in columns if {*values} <= name_index(graph, values).keys()]
        nodes = held[0] if len(held) == 1 else nodes
    if hasattr(nodes, "columns") or isinstance(nodes, Mapping | str):
        raise InputError(f"{where}: give a list of nodes, not a {type(nodes).__name__}")
    if isinstance(nodes, Tensor) and nodes.dtype in (torch.long, torch.int):
        wrong = nodes[(nodes < 0) | (nodes >= graph.num_nodes)]
        if len(wrong):
            raise InputError(f"{where}: there is no node {int(wrong[0])}; ids are 0..{graph.num_nodes - 1}")
        return nodes.to(graph.device, torch.long)
    try:
        values = nodes.tolist() if hasattr(nodes, "tolist") else list(nodes)
    except TypeError as error:
        raise InputError(f"{where}: give a list of nodes, not {nodes!r}") from error
    index, by_number = name_index(graph, values), not _whole_ids(graph)
    if by_number and len(values) == graph.num_nodes and all(isinstance(value, bool) for value in values):
        return torch.tensor(values, device=graph.device).nonzero().flatten()  # a mask
    ids = []
    for value in values:
        if by_number and _is_whole(value):
            ids.append(value if 0 <= value < graph.num_nodes else -1)
        else:  # also as a table of predictions writes it, with an apostrophe before = + - @
            ids.append(index.get(str(value), index.get(unguarded(str(value)), -1)))
        if ids[-1] < 0:
            raise InputError(f"{where}: {unknown_node(graph, value)}")
    return torch.tensor(ids, dtype=torch.long, device=graph.device)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _whole_ids(graph: Graph) -> bool:
    """Whether whole numbers can only be ids: those of the graph are, or its classifier decided so."""
    names = graph.node_names
    return bool(names) and graph.cache.get("numbers are ids", lambda: all(name.isdecimal() for name in names or ()))


def unknown_node(graph: Graph, value: Any) -> str:
    """The error for an unknown node, with the most similar id."""
    if _is_whole(value) and not _whole_ids(graph):
        return f"there is no node {value!r}; ids are 0..{graph.num_nodes - 1}" + (
            ", names are text" if graph.node_names else ""
        )
    names = graph.node_names or map(str, range(graph.num_nodes))
    close = None if graph.space.on_disk else close_name(str(value), names)
    return f"there is no node {value!r} in the graph" + (f"; did you mean {close!r}?" if close else "")


def name_index(graph: Graph, wanted: Sequence[Any] = ()) -> dict[str, int]:
    """The numbers of the ``wanted`` nodes by name; of all nodes, if the names are in memory."""
    if isinstance(graph.node_names, StoredNames):
        texts = [str(value) for value in wanted]
        return graph.node_names.find([*texts, *map(unguarded, texts)])
    names = graph.node_names or map(str, range(graph.num_nodes))
    return graph.cache.get("nodes by name", lambda: {name: i for i, name in enumerate(names)})


# --- examples ---------------------------------------------------------------------------------------------------------


def read_examples(
    given: Any,
    *,
    graph: Graph | None = None,
    columns: Mapping[str, Any] | None = None,
    known: Collection[str] = (),
    said: dict[str, str] | None = None,
) -> Examples:
    """Examples ``{class: nodes}``, given as such or in another form.

    Other forms are a table of nodes and classes (a file or a DataFrame) with any column names, a series of classes
    whose index names the nodes, and a series of lists of nodes whose index names the classes.

    A table with further columns is read as a table of nodes: its rows without a label, or with one of the ``known``
    classes, are no examples. ``columns`` are those of the tables of the fit; the column of ids is also found by the
    names of the nodes of ``graph``. Descriptions of classes in a third column ``description`` are added to ``said``; a
    row with a description needs no id.
    """
    if isinstance(given, Mapping):
        return given
    if is_series(given) and hasattr(given, "index") and not callable(given.index):
        if any(isinstance(nodes, list | tuple | set | np.ndarray) for nodes in given):  # of grouped rows
            return dict(zip(map(str, given.index), given, strict=True))
        given = given.rename("label").rename_axis("id").reset_index()
    if not is_frame(given) and not isinstance(given, str | os.PathLike):
        raise InputError(
            f"examples are {{class: [nodes]}}, or a table with the columns id and label; not {type(given).__name__}"
        )
    table = read_columns(given, name="examples")

    def known_share(values: Sequence[str]) -> float:
        nodes = {} if graph is None else name_index(graph, values)
        return sum(value in nodes for value in values) / max(1, len(values))

    by, label = pair_roles(table, columns or {}, known_share, "Name the two columns id and label")
    ids, labels = table.text(by.column, "example nodes"), table.text(label.column, "classes of the examples")
    described = said is not None and len(table.columns) == 3 and "description" in table.columns
    texts = table.text("description") if described else [""] * len(ids)
    seen, found = dict[str, int](), dict[str, list[Any]]()
    for row, (node, name) in enumerate(zip(ids, labels, strict=True)):
        missing = name.casefold() in MISSING and name not in known
        if len(table.columns) > 2 and (missing or name in known):
            continue
        if said is not None and texts[row] and not missing:
            said[name] = f"{said[name]} {texts[row]}" if name in said else texts[row]
            found.setdefault(name, [])
            if not node:
                continue
        if not node or missing:
            where = table.place(row, label.column if node else by.column)
            what = f"{name!r} is a missing value" if node and name else "it is empty"
            raise InputError(f"{where}: {what}; every example needs an id and a label")
        if node in seen:
            told = f"node {node!r} of class {name!r} is in row {seen[node] + 1} already, of {labels[seen[node]]!r}"
            raise InputError(f"{table.place(row)}: {told}. Name each node once")
        seen[node] = row
        found.setdefault(name, []).append(node)
    if not found:
        raise InputError(
            f"{table.path}: no row names a new class in column {label.column!r} (the model knows {len(known)}). Write "
            "the name of the new class beside a few nodes of it"
        )
    return found


def resolve(
    examples: Examples,
    graph: Graph,
    known: KnownClasses,
    other: str | None = None,
    described: Collection[str] = (),
) -> dict[str, Tensor]:
    """The example nodes of every class after checks, new classes first. Classes that are ``described`` need none.

    In open-set classification, in which nodes of no class are called ``other``, known classes and ``other`` may have
    examples. In closed-set classification at least two new classes are needed, and known classes are refused.
    """
    old = known.names() | {other}
    if wrong := [name for name in described if name in old]:
        raise InputError(f"{wrong[0]!r} is no new class, so it cannot be described; describe a class to be found")
    class_of: dict[int, str] = {}
    spelt: dict[str, str] = {}
    found: dict[str, Tensor] = {}
    for key, given in {**dict.fromkeys(described, ()), **examples}.items():
        if (name := str(key).strip()) in ("", UNKNOWN):
            raise InputError(f"a class is called {name!r}; name it otherwise ({UNKNOWN!r}: nodes below the threshold)")
        if name in found or spelt.setdefault(name.casefold(), name) != name:
            raise InputError(f"class {spelt[name.casefold()]!r} is named twice (as {name!r}); write it one way")
        if other is None and name in old:
            raise InputError(
                f"{name!r} is no new class: the model learned it. Leave its examples out and offer the known classes "
                "beside the new ones instead (among 'all')"
            )
        ids = find_nodes(graph, given, f"class {name!r}")
        if not len(ids) and name not in described:
            raise InputError(f"class {name!r} has no examples; give it at least one node, or a description")
        for node, label in zip(ids.tolist(), graph.y[ids].tolist(), strict=True):
            what = f"node {node_name(graph, node)!r} is an example of {name!r}"
            if node in class_of:
                raise InputError(f"{what} and of {class_of[node]!r}; name it once")
            if label >= 0 and (own := class_name(graph, label)) != name and own in known.names():
                raise InputError(
                    f"{what}, but the graph labels it {own!r}, a class the model knows; choose another example or "
                    "correct the label"
                )
            class_of[node] = name
        found[name] = ids.sort().values  # the order in which they were given must not matter
    if other is None and len(found) < 2:
        raise InputError(
            f"closed-set classification needs at least two classes, the examples name {len(found)}; add another one"
        )
    return {name: found[name] for name in sorted(found, key=old.__contains__)}


def changed_examples(support: Mapping[str, Tensor], graph: Graph, add: Examples, remove: Examples) -> dict[str, Tensor]:
    """The examples with some added and some removed."""
    found, none = dict(support), graph.y.new_empty(0)
    for name, nodes in remove.items():
        ids, there = find_nodes(graph, nodes, f"class {name!r}"), found.get(name, none)
        if len(wrong := ids[~torch.isin(ids, there)]):
            told = f"node {node_name(graph, int(wrong[0]))!r} is no example of {name!r}"
            raise InputError(f"{told}, so it cannot be taken back; there are examples of {', '.join(found)}")
        found[name] = there[~torch.isin(there, ids)]
    for name, nodes in ((str(name).strip(), nodes) for name, nodes in add.items()):
        found[name] = torch.cat([found.get(name, none), find_nodes(graph, nodes, f"class {name!r}")])
    return {name: nodes for name, nodes in found.items() if len(nodes)}
