"""Convert edge, node, label and feature tables to the arguments of ``Graph.from_edges``."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse as sp

from ..errors import InputError, one_of
from ..files import PathLike, checked_csr, read_npz, readable, reading
from . import schema
from .encode import Block, Encoded, TableEncoder, few_nonzero, in_format
from .names import USES, option, option_name
from .read import Files, Table, close_name, literal, read_columns, several
from .schema import Role, find_id, flagged, known_roles, node_roles, number_sql, numbers

MultiLabel = Literal["first", "none", "one"]


class GraphTables:
    """A graph in tables, ready to be encoded: columns have roles, nodes have numbers, and the encoder is fitted.

    Args:
        edges, nodes, features, labels, strict, multi_label, decimal, max_classes, encoder, text_encoder, columns: as in
            ``read_graph``.
        sample: learn the vocabulary of texts from so many rows; None for all.
        database: where the tables are kept; in memory, if it is not given.
        folder: where packed files are unpacked.

    Attributes:
        edges: the tables of edges, and the roles of their columns.
        node_roles: the roles of the columns of the node table.
        columns: the roles as options, to read the next table in the same way.
        nodes: the table with a row for each node.
        listed: the number of nodes that are in the node table; the others are only named by edges.
        y: the class of each node, -1 if it has none; None if there is no column of labels.
        roles: the role of each column.
        notes: messages for the user.
        encoder: what was fitted to the columns.
        table: the node table, with a row for each node; None without one.
        arguments: those of ``Graph.from_edges``, which ``read_graph`` fills in.
    """

    def __init__(
        self,
        edges: Files | None,
        nodes: Files | None,
        features: PathLike | None = None,
        *,
        labels: Files | None = None,
        strict: bool = False,
        multi_label: Any = None,
        decimal: str | None = None,
        max_classes: int = 1000,
        encoder: TableEncoder | None = None,
        text_encoder: str = "words",
        sample: int | None = None,
        database: Any = None,
        folder: Path | None = None,
        **columns: Any,
    ) -> None:
        for name in columns:
            one_of("option", name, map(option_name, USES))
        given = [] if edges is None else several(edges, "edges")
        tables = [read_columns(one, database, folder, name="edges") for one in given]
        node_table = None if nodes is None else read_columns(nodes, database, folder, name="nodes")
        for table in (*tables, *([] if node_table is None else [node_table])):
            table.decimal = decimal
        how = None if encoder else {"separate": features is not None, "labelled": labels is not None}
        self._infer(tables, node_table, columns, how)
        by = named(self.node_roles, "id") or ""
        ids = [] if node_table is None else [(node_table, by)]
        self.features = None if features is None else FeatureFile.read(features, flagged(columns, "id"), ids)
        known = Nodes.of(node_table, by)
        for table, name in (ends := self.ends()):
            check_given(table, name)
            if strict:
                known.check_known(table, name)
        if node_table is None and self.features is not None and self.features.table is not None:
            ends.append((self.features.table, self.features.by))  # its rows are nodes as well
        self.nodes = known.extended(ends)
        everyone = self.nodes.table
        self.table = None if node_table is None else everyone
        self.listed = len(everyone) if node_table is None else len(known.table)
        self.notes = [note for table in (*tables, known.table) for note in table.notes]
        if node_table is not None:
            self._tell_changes(known, len(node_table))
        label_table, label_roles, rows = everyone, list[Role](), np.arange(len(everyone))
        label = named(self.node_roles, "label")
        if labels is not None:
            label_table = read_columns(labels, database, folder, name="labels")
            label_roles = [*schema.pair_roles(label_table, columns, partial(everyone.share, self.nodes.by))]
            by, label = (role.column for role in label_roles)
            rows = self.nodes.look_up(label_table, by, "A node has one label; give each node one row")
        self.y, self.class_names = None, None
        if label is not None:  # nodes without a row have none
            self.y = np.full(len(everyone), -1)
            self.y[rows], self.class_names = class_numbers(label_table, label, self.notes, multi_label, max_classes)
        self.roles = [*self.node_roles, *label_roles, *dict.fromkeys(role for _, roles in self.edges for role in roles)]
        self.columns, self.arguments = self._options(), dict[str, Any]()
        self.encoder = TableEncoder() if encoder is None else encoder.copy()
        if encoder is None:  # of the other nodes there is nothing to learn from
            self.notes += self.encoder.choose_text_encoder(known.table, self.node_roles, text_encoder)
        self.encoder.fit(known.table, self.node_roles, sample)

    def _infer(
        self, edges: Sequence[Table], nodes: Table | None, columns: Mapping[str, Any], how: Mapping[str, bool] | None
    ) -> None:
        """Infer the roles from ``columns`` (options of ``read_graph``), names and contents. The columns must be those
        of an earlier table, unless it is said ``how`` to look for them (see ``node_roles``). Edge tables with equal
        columns get equal roles."""
        try:
            self.node_roles, known = list[Role](), None
            if nodes is not None:
                self.node_roles = node_roles(nodes, columns, edges[:1], **how) if how else known_roles(nodes, columns)
                known = partial(nodes.share, named(self.node_roles, "id") or "")
            self.edges = list[tuple[Table, list[Role]]]()
            for table in edges:
                alike = next((roles for other, roles in self.edges if [*other.columns] == [*table.columns]), None)
                self.edges.append((table, alike or schema.edge_roles(table, columns, known)))
        except InputError:
            if nodes is not None and edges:
                schema.check_swapped(edges[0], nodes, columns)
            raise
        if nodes is not None and edges:
            self._check_ids(nodes, columns)

    def _check_ids(self, table: Table, columns: Mapping[str, Any]) -> None:
        """Raise an error if most ends of edges are not ids of nodes: a wrong column or the wrong table is used."""
        (edges, source), used = self.ends()[0], named(self.node_roles, "id") or ""
        ends = [one.sample(name) for one, name in self.ends()]
        if all(table.share(used, values) >= 0.5 for values in ends):
            return
        schema.check_swapped(edges, table, columns)
        values = list({value for end in ends for value in end})
        share = table.share(used, values)
        rest = [name for name, content in table.columns.items() if name != used and content != "vectors"]
        better = [name for name in rest if table.share(name, values) > max(share, 0.1)] if share < 0.5 else []
        if better:
            remedy = f"say which holds the node ids: {option('id', better[0])} or {option('id', used)}"
            told = f"column {better[0]!r} rather than in {used!r} (where {100 * share:.0f} % of them are)"
            raise InputError(f"{table.path}: the ids of the edges are in {told}; {remedy}")
        if share == 0:
            (first,), remedy = edges.text(source, rows=slice(0, 1)), ", ".join(map(option, ("id", "source", "target")))
            near = Nodes(table, used).nearest(first)
            told = f"{first!r} is not in column {used!r} of {table.path}{near}, nor is any other id of the edges"
            raise InputError(f"{edges.place(0, source)}: {told}. Name the right columns with {remedy}")

    def _tell_changes(self, known: "Nodes", rows: int) -> None:
        """Note what was left out of the ``rows`` of the node table, whose nodes are ``known``, and what was added."""
        name = known.table.path.name
        if repeated := rows - self.listed:
            self.notes.append(f"{name}: {repeated:,} repeated rows were left out")
        if added := len(self.nodes.table) - self.listed:
            (first,) = self.nodes.names(slice(self.listed, self.listed + 1))
            told = f"{added:,} nodes that only the edges name, not {name}, were added, the first: {first!r}"
            how = "include_unlisted=True predicts them too, strict=True refuses them"
            self.notes.append(f"{told}{known.nearest(first)}; {how}")

    def _options(self) -> dict[str, Any]:
        """The roles as options, to read the next table in the same way."""
        found: dict[str, Any] = {}
        for role in (*self.node_roles, *(role for _, roles in self.edges for role in roles if role.use)):
            option = option_name(role.use)
            if role.use in ("id", "label", "title", "source", "target", "weight", "edge type"):
                found.setdefault(option, role.column)
            elif role.use != "vectors" and role.column not in found.setdefault(option, []):
                found[option].append(role.column)
        return found

    def ends(self) -> list[tuple[Table, str]]:
        """The columns of edges that name nodes."""
        return [(table, role.column) for table, roles in self.edges for role in roles[:2]]

    def edges_sql(self, type_per_file: bool = False) -> str:
        """SQL for all edges: the place ``p`` of their table and their row ``r``, the numbers ``s`` and ``t`` of their
        nodes, their weight ``w`` and their type ``k``."""
        found = []
        for place, (table, roles) in enumerate(self.edges):
            source, target = (table.as_text(role.column) for role in roles[:2])
            weight, kind = "1", type_sql(table, named(roles, "edge type"), type_per_file)  # an edge counts one
            if (name := named(roles, "weight")) is not None:
                weight = f"({number_sql(table, name)})::double"
                problem = "the weight is {cell}; a weight is a number above zero, from 1e-15 to 1e15 ({count:,} rows)"
                remedy = f". Write one, remove the row, or do without {option('weight')}"
                table.refuse(name, f"not coalesce({weight} between 1e-15 and 1e15, false)", problem, remedy)
            rows = f"(select rowid r, {source} x, {target} y, {weight} w, {kind} k from {table.sql})"
            joins = f"join {self.nodes.sql} a on a.id = x join {self.nodes.sql} b on b.id = y"
            found.append(f"select {place} p, r, a.node s, b.node t, w, k from {rows} {joins}")
        return f"({' union all '.join(found)})"

    def edge_arrays(self, type_per_file: bool) -> dict[str, Any]:
        """``edge_index`` and, where they are asked for, ``edge_weight``, ``edge_type`` and ``edge_type_names``."""
        uses = {role.use for _, roles in self.edges for role in roles} | ({"edge type"} if type_per_file else set())
        wanted = "s, t, w, k" if "edge type" in uses else "s, t, w"
        query = f"select {wanted} from {self.edges_sql(type_per_file)} order by p, r"
        whole = self.nodes.table.run(query).fetchnumpy()
        found: dict[str, Any] = {"edge_index": np.stack([whole["s"], whole["t"]]).astype(np.int64)}
        if "weight" in uses:
            found["edge_weight"] = whole["w"].astype(np.float64)
        if "edge type" in uses:
            names, found["edge_type"] = np.unique(whole["k"].astype(object), return_inverse=True)
            found["edge_type_names"] = tuple(names.tolist())
        return found

    def encode(self, rows: slice | None = None) -> Encoded:
        """The features of all or some nodes, the names of their columns, and how many columns are of each kind."""
        apart = [] if self.features is None else [self.features.block(self.nodes, self.listed, rows)]
        return self.encoder.encode(self.nodes.table, self.node_roles, rows, apart)

    def texts(self, rows: slice | None = None) -> dict[str, list[str]]:
        """The ``name`` and, if there is a column of them, the ``title`` of all or some nodes."""
        title, table = named(self.node_roles, "title"), self.nodes.table
        return {"name": self.nodes.names(rows)} | ({"title": table.text(title, "titles", rows=rows)} if title else {})


def read_graph(
    edges: Files | None = None,
    nodes: Files | None = None,
    features: PathLike | None = None,
    *,
    knn: int | None = None,
    directed: bool = False,
    type_per_file: bool = False,
    **options: Any,
) -> GraphTables:
    """Read a graph from CSV, Parquet, Excel, JSON-lines or .duckdb files, or from SQL queries.

    Args:
        edges: one row per edge, in one file or several.
        nodes: one row per node. Without it the nodes are those of the edges, then of ``features``.
        features: a separate file of features: a table with an id and numeric columns (or vectors); or an array
            [nodes, columns] (.npy, .npz) or CSR parts (.npz) in the order of ``nodes``.
        knn: connect each node to this many most similar nodes; instead of ``edges``.
        directed: keep the direction of edges.
        type_per_file: make the edges of each file a separate edge type.
        options: the options below.

    Options:
        labels: a table of ids and labels, if these are not in ``nodes``.
        strict: refuse edges to nodes that are not in ``nodes``; by default these nodes are added.
        multi_label: the meaning of cells such as ``a|b``: "first", "none" (no label) or "one" (a class of that name).
        decimal: the decimal mark, if it is ambiguous.
        max_classes: refuse a column of labels with more distinct values (1000).
        encoder: the encoder of another table, to read this one in the same way.
        text_encoder: a pretrained encoder that reads texts beside their words: a folder or name, "auto" for the best
            that is installed, or "words" for none.
        columns: ``id_column``, ``label_column`` and ``title_column`` ('' for none), ``text_column``,
            ``category_column``, ``number_column``, ``ignore_column`` (one name or several), ``source_column``,
            ``target_column``, ``weight_column``, ``edge_type_column``; others are found by name and by content.
    """
    if edges is None and (nodes is None or knn is None):
        remedy = "give their table as edges=, or only nodes= and knn=10 to link each node to the 10 most like it"
        raise InputError(f"there are no edges: {remedy}")
    if edges is not None and knn is not None:
        raise InputError("knn= makes edges from the columns, but edges= are given; say one of them")
    for name in ("text_column", "category_column", "number_column"):
        if nodes is None and options.get(name):
            raise InputError(f"{name}={options[name]!r} names a column of the node table, but none is given")
    found = GraphTables(edges, nodes, features, **options)
    arguments = found.arguments
    arguments |= {f"node_{what}s": tuple(texts) for what, texts in found.texts().items()} | {"directed": directed}
    if found.listed < len(found.nodes.table):
        arguments["unlisted"] = np.arange(len(found.nodes.table)) >= found.listed
    if found.y is not None:
        arguments |= {"y": found.y, "class_names": found.class_names}
    x, names, blocks = found.encode()
    if knn is not None:
        arguments["edge_index"] = _nearest_edges(x, knn, found.nodes.table.path)
    else:
        arguments |= found.edge_arrays(type_per_file)
    arguments |= {"x": x, "feature_names": names, "blocks": blocks}
    found.edges.clear()  # they are arrays now
    return found


def named(roles: Sequence[Role], use: str) -> str | None:
    """The column for one use."""
    return next((role.column for role in roles if role.use == use), None)


class Nodes(NamedTuple):
    """A table with a row for each node, whose number is the ``rowid``; the column ``by`` holds the ids."""

    table: Table
    by: str

    @classmethod
    def of(cls, table: Table | None, by: str) -> "Nodes":
        """The nodes of a node table, each of which needs an id of its own. Rows that are repeated are left out."""
        if table is None:
            return cls(Table.of("the edges", {"id": np.array([], dtype=str)}), "id")
        check_given(table, by)
        if not table.unique(by):
            table = table.distinct()
            remedy = f"Every node needs its own id; if another column holds the ids, name it with {option('id')}"
            check_once(table, by, remedy)
        return cls(table, by)

    @property
    def sql(self) -> str:
        """SQL for a table of each ``node`` and its ``id``."""
        number = "integer" if len(self.table) < 2**31 else "bigint"
        return f"(select rowid::{number} node, {self.table.as_text(self.by)} id from {self.table.sql})"

    def names(self, rows: slice | None = None) -> list[str]:
        """The ids of nodes."""
        return self.table.text(self.by, rows=rows)

    def look_up(self, table: Table, name: str, remedy: str) -> np.ndarray:
        """The number of the node in each row ``[rows]`` of another table; one that is not there, or is there twice
        (which has a ``remedy``), is refused."""
        check_once(table, name, remedy)
        self.check_known(table, name)
        rows = f"(select rowid r, {table.as_text(name)} v from {table.sql})"
        found = table.run(f"select node from {rows} join {self.sql} on id = v order by r").fetchnumpy()["node"]
        return np.asarray(found, np.int64)

    def check_known(self, table: Table, name: str) -> None:
        """Refuse a column of node ids that names a node that is not there."""

        def told(value: str) -> str:
            return f"{name} {value!r} is not in {self.table.path}{self.nearest(value)}"

        unknown = f"{table.as_text(name)} not in (select id from {self.sql})"
        remedy = f". Add the node to {self.table.path} or remove the row."
        table.refuse(name, unknown, "{told}; {count:,} such rows", remedy, told)

    def nearest(self, value: str) -> str:
        """What to say of an id that is nearly ``value``."""
        close = close_name(value, self.names()) if len(self.table) < 10_000 else None
        return f" (nearest id: {close!r})" if close else ""

    def extended(self, columns: Sequence[tuple[Table, str]]) -> "Nodes":
        """With a row for each node that only these columns of other tables name, in the order in which they do."""
        if not columns:
            return self
        parts = (
            f"select {table.as_text(name)} v, {place} * 1000000000000 + rowid r from {table.sql}"
            for place, (table, name) in enumerate(columns)
        )
        fresh = self.table.run(
            f"select v from ({' union all '.join(parts)}) where v not in (select id from {self.sql}) "
            "group by v order by min(r)"
        ).fetchnumpy()["v"]
        return Nodes(self.table.with_rows(self.by, fresh), self.by) if len(fresh) else self


def type_sql(table: Table, name: str | None, per_file: bool) -> str:
    """SQL for the type of each edge of a table: what the column ``name`` says, or the file, or both."""
    file = table.path.name.split(".")[0]
    if name is None:
        return literal(file)
    cell, remedy = table.as_text(name, "edge types"), f"; fill it in or do without {option('edge type')}"
    table.refuse(name, f"{cell} = ''", "the edge type is missing", remedy)
    return f"{literal(f'{file} ')} || {cell}" if per_file else cell


def check_given(table: Table, name: str) -> None:
    """Raise an error if node ids are missing in a column."""
    missing = f"{table.as_text(name, 'node ids')} = ''"
    table.refuse(name, missing, "the node id is missing", "; fill it in or remove the row")


def check_once(table: Table, name: str, remedy: str) -> None:
    """Raise an error if node ids are missing in a column, or are there twice."""
    check_given(table, name)
    text = table.as_text(name)

    def first(value: str) -> str:
        return str(table.run(f"select min(rowid) + 1 from {table.sql} where {text} = ?", [value]).fetchone()[0])

    again = f"rowid not in (select min(rowid) from {table.sql} group by {text})"
    problem = "node id {cell!r} is already used in row {told} ({count:,} repeated)"
    table.refuse(name, again, problem, f". {remedy}", first)


def _nearest_edges(x: Any, k: int, path: Path) -> np.ndarray:
    """Edges ``[2, N k]`` from each node to the ``k`` nodes of the highest cosine in at most 64 dimensions."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.neighbors import kneighbors_graph
    from sklearn.preprocessing import StandardScaler

    if x is None:
        raise InputError(f"{path}: knn= compares nodes by their columns, but none is used")
    n = x.shape[0]
    if not 1 <= k < n:
        raise InputError(f"knn={k}: each of the {n:,} nodes has {n - 1:,} others; ask for 1 to {n - 1}")
    if sp.issparse(x):
        whole = TfidfTransformer(sublinear_tf=True).fit_transform(x) if (x.data == np.round(x.data)).all() else x
    else:
        whole = StandardScaler().fit_transform(x)
    if x.shape[1] > 64:
        whole = TruncatedSVD(64, random_state=0).fit_transform(whole)
    return np.stack(kneighbors_graph(whole, k, metric="cosine").nonzero()).astype(np.int64)


def class_numbers(
    table: Table, name: str, notes: list[str], multi: MultiLabel | None, max_classes: int
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """The class of each row, and the class names. Empty cells have no class, nor has -1 if labels are integers."""
    text = table.as_text(name, "labels")
    cells = dict(table.run(f"select {text} x, count(*) from {table.sql} group by x").fetchall())
    label = dict(zip(cells, _single(table, name, list(cells), multi), strict=True))
    found = set(label.values()) - {"", "nan", "NaN", "null", "NULL", "N/A", "n/a", "#N/A", "<NA>", "?"}
    whole = all(value.removeprefix("-").isdecimal() for value in found)
    if whole:
        found -= {"-1"}
    labelled = sum(count for cell, count in cells.items() if label[cell] in found)
    told = f"{table.path}, column {name!r}: {len(found):,} different labels of {labelled:,} nodes"
    other = f"if another column holds the classes, name it with {option('label')}"
    if len(found) > max_classes:
        raise InputError(f"{told} are too many to be classes; {other}, else say max_classes={len(found)}")
    if labelled >= 20 and len(found) > labelled / 2:
        notes.append(f"{told}, but a class has several nodes; {other}")
    classes = sorted(found, key=(lambda value: (int(value), value)) if whole else None)
    notes += [
        f"label {odd!r} is taken for a class; leave the cells empty if it means unknown"
        for odd in ("NA", "None", "none", "unknown", "Unknown", "other", "-")
        if odd in found
    ]
    spelt = Counter(map(str.lower, classes))
    if twins := [name for name in classes if spelt[name.lower()] > 1]:
        notes.append(f"labels {schema.listed(twins)} differ only in case, and are taken for different classes")
    number = {name: i for i, name in enumerate(classes)}
    of_cell = {cell: number[value] for cell, value in label.items() if value in number}
    return table.codes(name, of_cell), tuple(classes) or None


def _single(table: Table, name: str, cells: Sequence[str], multi: MultiLabel | None) -> Sequence[str]:
    """One label for each cell; what cells with several mean is for the user to say. A mark separates several labels if
    each of those in a cell is also seen alone or in another cell."""
    if multi is not None:
        one_of("multi_label=", multi, ("first", "none", "one"))
    for mark in "" if multi == "one" else "|;,":
        split = {cell: [part.strip(" []\"'") for part in cell.split(mark)] for cell in cells if mark in cell}
        counts = Counter(part for parts in split.values() for part in set(parts)) + Counter({*cells} - split.keys())
        if not any(all(counts[part] > 1 and part for part in parts) for parts in split.values()):
            continue
        if multi is None:
            remedy = ". Say multi_label='first', multi_label='none' (no label) or multi_label='one' (it is a class)"
            problem = "{cell!r} seems to name several classes ({count:,} such rows)"
            table.refuse(name, f"contains({table.as_text(name)}, '{mark}')", problem, remedy)
        return [(split[cell][0] if multi == "first" else "") if mark in cell else cell for cell in cells]
    return cells


class FeatureFile(NamedTuple):
    """Features ``x`` in a file of their own: a table, or a dense or sparse matrix (.npy, .npz), which is read as
    ``sparse`` if few of its values are not zero. The column ``by`` of ``table`` holds the nodes of its rows; without a
    table these are in the order of the node table."""

    path: Path
    x: Any
    names: tuple[str, ...] | None = None
    table: Table | None = None
    by: str = "ids"
    sparse: bool = False

    @classmethod
    def read(cls, path: PathLike, id_column: Sequence[str], nodes: Sequence[tuple[Table, str]]) -> "FeatureFile":
        """A file; ``nodes`` are the node table and its column of ids, if there is one."""
        file = Path(path)
        if file.suffix.lower() in (".npy", ".npz"):
            x, ids = (load_array(file), None) if file.suffix.lower() == ".npy" else _read_npz(file)
            if ids is None and not nodes:
                raise InputError(f"{file} has no ids; give it with a node table, in whose order its rows are")
            found = None if ids is None else Table.of(file, {"ids": ids})
            return cls(file, x, table=found, sparse=few_nonzero(x))
        table = read_columns(path)
        given = [name for name in id_column if name in table.columns]
        by, _ = find_id(table, given, nodes)
        parts = {name: _matrix(table, name) for name in table.columns if name != by}
        if not parts:
            raise InputError(f"{table.path} has no column beside {by!r}; it should hold the features")
        wide = {name: part.shape[1] for name, part in parts.items() if table.columns[name] == "vectors"}
        names = [[f"{name} {i}" for i in range(wide[name])] if name in wide else [name] for name in parts]
        return cls(file, np.concatenate(list(parts.values()), axis=1), tuple(chain(*names)), table, by)

    def block(self, nodes: Nodes, listed: int, rows: slice | None = None) -> Block:
        """The features of all nodes. The first ``listed`` must have a row; the others get the mean of dense features
        and zeros of sparse ones. Or those of some ``rows``, if the file has one row for each node, in order."""
        known = f"{nodes.table.path} has {listed:,} nodes" if self.table is None else f"{len(self.table):,} ids"
        if self.x.shape[0] != (listed if self.table is None else len(self.table)):
            told = f"{self.x.shape[0]:,} feature rows, but {known}"
            raise InputError(f"{self.path} has {told}; give one row for each node, in the same order")
        if rows is not None:
            x = finite_rows(self.path, self.x[rows], rows.start)
            return Block("vectors", in_format(x, self.sparse), self.names)
        n, x, place = len(nodes.table), in_format(finite_rows(self.path, self.x), self.sparse), np.arange(listed)
        if self.table is not None:
            place = nodes.look_up(self.table, self.by, "Give each node one row")
            if len(lost := np.setdiff1d(np.arange(listed), place)):
                (name,) = nodes.names(slice(lost[0], lost[0] + 1))
                raise InputError(f"{self.path}: node {name!r} has no row; every node needs one")
        if sp.issparse(x):
            at = sp.csr_array((np.ones(len(place), np.float32), (place, np.arange(len(place)))), shape=(n, len(place)))
            moved = sp.csr_array(at @ x)
            moved.sort_indices()
            return Block("counts", moved, self.names)
        whole = np.empty((n, x.shape[1]), np.float32)
        if len(place) < n:
            whole[:] = np.sort(x, axis=0).mean(axis=0, dtype=np.float64)
        whole[place] = x
        return Block("vectors", whole, self.names)


def _matrix(table: Table, name: str) -> np.ndarray:
    """A column of numbers or vectors ``[rows, columns]``. A number that is missing is refused."""
    if table.columns[name] == "vectors":
        return table.vectors(name)
    remedy = "; fill it in, or put the column into the node table, where gaps are filled"
    table.refuse(name, f"({number_sql(table, name)}) is null", "the value is missing", remedy)
    return numbers(table, name)[:, None]


def load_array(path: Path) -> np.ndarray:
    """An array of features [nodes, columns] in a .npy file, mapped; refused if it is none."""
    file = readable(path)
    with reading(path, "write it with numpy.save"):
        x: np.ndarray = np.lib.format.open_memmap(file, mode="r")
    if x.ndim != 2 or x.dtype.kind not in "iufb" or not x.shape[1]:
        raise InputError(f"{path} holds {x.dtype} of shape {x.shape}; features are numbers [nodes, columns]")
    return x


def finite_rows(path: Path, x: Any, first: int = 0) -> Any:
    """Dense or sparse features in single precision, all of them finite; ``first`` is the number of their first row."""
    with np.errstate(over="ignore"):  # too large values become infinite and are refused
        made = x.astype(np.float32) if sp.issparse(x) else np.ascontiguousarray(x, dtype=np.float32)
    wrong = np.flatnonzero(~np.isfinite(made.data if sp.issparse(x) else made.ravel()))
    if len(wrong):
        row = np.searchsorted(x.indptr, wrong[0], "right") - 1 if sp.issparse(x) else wrong[0] // x.shape[1]
        told = "a feature is missing, NaN or infinite (as float32); write a number"
        raise InputError(f"{path}, row {first + row + 1}: {told}")
    return made


def _read_npz(path: Path) -> tuple[Any, np.ndarray | None]:
    """The matrix of a .npz, and the ids of its rows if there is an array ``ids``."""
    parts = read_npz(path)
    ids = next((parts.pop(name) for name in ("ids", "id", "node_names") if name in parts), None)
    named = None if ids is None else np.array([str(value).strip() for value in ids.tolist()], dtype=object)
    if {"indptr", "indices"} & set(parts):  # as scipy.sparse.save_npz calls them
        parts = {f"x_{name}": part for name, part in parts.items()}
    if {"x_data", "x_indptr"} & set(parts):
        with reading(path, "write it again"):
            return checked_csr(parts, "x"), named
    matrices = [part for part in parts.values() if part.ndim == 2 and part.dtype.kind in "iufb" and part.shape[1]]
    if len(matrices) != 1:
        wanted = "one array [nodes, columns], or a sparse matrix as scipy.sparse.save_npz writes it"
        raise InputError(f"{path} holds {', '.join(parts) or 'nothing'}; features are {wanted}")
    return matrices[0], named
