"""A user's edge, node and feature tables as the arguments of ``Graph.from_edges``, and what was understood of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse as sp

from ..errors import InputError, one_of
from ..files import PathLike, read_npz, readable
from .cells import number_sql, numbers
from .encode import Block, TableEncoder, combined, encode, fit_encoder
from .names import FLAGS, flag
from .read import Files, Table, close_name, read_columns, several
from .schema import Role, edge_roles, end_samples, find_id, flagged, node_roles, option_name, pair_roles

MultiLabel = Literal["first", "none", "one"]
TRIPLES = {"feature", "value"}  # beside the id column: one row per non-zero feature


@dataclass(frozen=True, eq=False)
class GraphTables:
    """A graph read from tables.

    Args:
        arguments: those of ``Graph.from_edges``.
        roles: what each column was taken for.
        notes: what else to say.
        columns: the roles as options, to read the next table in the same way.
        encoder: what was fitted to the columns.
    """

    arguments: dict[str, Any]
    roles: list[Role]
    notes: list[str]
    columns: dict[str, Any]
    encoder: TableEncoder


def graph_tables(edges: Files | None = None, nodes: Files | None = None, *args: Any, **options: Any) -> dict[str, Any]:
    """Keyword arguments of ``Graph.from_edges`` from a user's files; the options are those of ``read_graph``."""
    return read_graph(edges, nodes, *args, **options).arguments


def read_graph(
    edges: Files | None = None,
    nodes: Files | None = None,
    features: PathLike | None = None,
    *,
    labels: Files | None = None,
    strict: bool = False,
    knn: int | None = None,
    directed: bool = False,
    type_per_file: bool = False,
    multi_label: Any = None,
    decimal: str | None = None,
    encoder: TableEncoder | None = None,
    vocabulary: Sequence[str] | None = None,
    **columns: Any,
) -> GraphTables:
    """Read a graph from CSV, Parquet, Excel, JSON-lines or .duckdb files, or from SQL queries.

    Args:
        edges: one row per edge, in one file or several.
        nodes: one row per node. Without it the nodes are those of the edges, then of ``features``.
        features: features apart: a table with an id and numeric columns (or vectors), or of triples ``id, feature,
            value``; or an array [nodes, columns] (.npy, .npz) or CSR parts (.npz) in the order of ``nodes``.
        labels: a table of ids and labels, if these are not in ``nodes``.
        strict: refuse edges to nodes that ``nodes`` lacks, which otherwise make these nodes.
        knn: make the edges instead: each node with so many that are most like it.
        directed: keep the direction of edges.
        type_per_file: the edges of each file are a type of their own.
        multi_label: what cells such as ``a|b`` mean: "first", "none" (no label) or "one" (a class of that name).
        decimal: the decimal mark, where it cannot be told.
        encoder: what was fitted to the columns of another table, to read this one in the same way.
        vocabulary: words of the text, where a model brings them.
        columns: ``id_column``, ``label_column`` ('' for none), ``text_column``, ``category_column``, ``number_column``,
            ``ignore_column`` (one name or several), ``source_column``, ``target_column``, ``weight_column``,
            ``edge_type_column``; those not given are found by name and by content.
    """
    _check_options(columns, edges, nodes, knn)
    separate = {"separate": features is not None, "labelled": labels is not None, "again": encoder is not None}
    fitted = encoder or TableEncoder()
    fitted = fitted if vocabulary is None else replace(fitted, words=tuple(vocabulary))
    tables = [] if edges is None else [edges] if isinstance(edges, Table) else list(map(read_columns, several(edges)))
    node_table = None if nodes is None else read_columns(nodes)
    schema = Schema.of(tables, node_table, columns, **separate)
    file = None if features is None else FeatureFile(features, flagged(columns, "id"), schema)
    ids = schema.number_nodes()
    if strict:
        schema.check_ends(ids)
    listed = _add_nodes(ids, schema, file)
    notes = [*schema.notes(), *_told_of_new(schema, ids, listed)]
    given = None if labels is None else read_columns(labels)
    label_roles = () if given is None else pair_roles(given, columns, partial(ids.share, "id"))
    found: dict[str, Any] = {"num_nodes": len(ids), "node_names": tuple(ids.text("id"))}
    found |= schema.edge_arrays(ids, type_per_file, decimal) | ({"directed": True} if directed else {})
    found |= _labels(schema, given, label_roles, ids, multi_label, notes)
    blocks: list[Block] = []
    if node_table is not None:
        how: dict[str, Any] = {"extra": len(ids) - listed, "decimal": decimal}
        fitted = fit_encoder(node_table, schema.nodes, fitted, beside=file is not None, **how)
        blocks, fitted = encode(node_table, schema.nodes, fitted, slice(0, len(node_table)), **how)
    if file is not None:
        blocks.append(file.block(ids, listed, node_table))
    x, names, fitted = combined(blocks, fitted)
    if edges is None:
        found["edge_index"] = _nearest_edges(x, knn, node_table)
    roles = [*schema.nodes, *label_roles, *dict.fromkeys(role for table in schema.edges for role in table)]
    return GraphTables({**found, "x": x, "feature_names": names}, roles, notes, schema.columns(), fitted)


def _check_options(columns: Mapping[str, Any], edges: Any, nodes: Any, knn: int | None) -> None:
    known = {flag.removeprefix("--").replace("-", "_") for flag in FLAGS.values()}
    if wrong := [name for name in columns if name not in known]:
        raise TypeError(f"unknown option {wrong[0]!r}; there are {', '.join(sorted(known))}")
    if edges is None and (nodes is None or knn is None):
        raise InputError(
            "there are no edges: name their table with --edges, or, with a table of nodes alone, say --knn 10 to link "
            "each node to the 10 that are most like it"
        )
    if edges is not None and knn is not None:
        raise InputError("--knn makes edges from the columns, but --edges are given; say one of them")
    for name in ("text_column", "category_column", "number_column"):
        if nodes is None and columns.get(name):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} ({name}={columns[name]!r}) names a column of the node table, but none is given")


@dataclass(frozen=True, eq=False)
class Schema:
    """The tables of a graph, and what their columns are taken for."""

    edge_tables: Sequence[Table]
    node_table: Table | None
    edges: list[list[Role]]
    nodes: list[Role]

    @classmethod
    def of(cls, edges: Sequence[Table], nodes: Table | None, columns: Mapping[str, Any], **how: bool) -> "Schema":
        """``columns`` are the options of ``read_graph``, ``how`` those of ``node_roles``. Edge tables with the same
        columns are taken in the same way."""
        samples = [part for table in edges[:1] for part in end_samples(table, columns)]
        roles = [] if nodes is None else node_roles(nodes, columns, samples, **how)
        known = None if nodes is None else partial(nodes.share, _named(roles, "id") or "")
        found: dict[tuple[str, ...], list[Role]] = {}
        for table in edges:
            if tuple(table.columns) not in found:
                found[tuple(table.columns)] = edge_roles(table, columns, known)
        return cls(edges, nodes, [found[tuple(table.columns)] for table in edges], roles)

    def named(self, use: str) -> str | None:
        """The column of the node table for one use."""
        return _named(self.nodes, use)

    def notes(self) -> list[str]:
        tables = (*self.edge_tables, *([] if self.node_table is None else [self.node_table]))
        return [note for table in tables for note in table.notes]

    def columns(self) -> dict[str, Any]:
        """The roles as options, so that the next table is read in the same way."""
        found: dict[str, Any] = {}
        for role in (*self.nodes, *(role for table in self.edges for role in table if role.use)):
            option = option_name(role.use)
            if role.use in ("id", "label", "source", "target", "weight", "edge type"):
                found.setdefault(option, role.column)
            elif option and role.column not in found.setdefault(option, []):
                found[option].append(role.column)
        return found

    def ends(self) -> list[tuple[Table, str]]:
        """The columns of edges that name nodes."""
        pairs = zip(self.edge_tables, self.edges, strict=True)
        return [(table, role.column) for table, roles in pairs for role in roles[:2]]

    def number_nodes(self) -> Table:
        """The ids of the node table, each of which must differ from the others; the ``rowid`` of an id is the number of
        its node."""
        if self.node_table is None:
            return Table.of("the edges", {"id": np.array([], dtype=str)})
        table, name = self.node_table, self.named("id") or ""
        _check_given(table, name)
        _check_once(
            table, name, f"Every node needs its own id; if another column holds the ids, name it with {FLAGS['id']}"
        )
        return table.selected({"id": table.as_text(name)})

    def check_ends(self, ids: Table) -> None:
        """Refuse edges to nodes that the node table lacks."""
        for table, name in self.ends():
            _check_given(table, name)
            _check_known(table, name, ids, self.node_table)

    def edge_arrays(self, ids: Table, type_per_file: bool, decimal: str | None) -> dict[str, Any]:
        """``edge_index`` and, where they are asked for, ``edge_weight``, ``edge_type`` and ``edge_type_names``."""
        ends = [look_up(table, name, ids) for table, name in self.ends()]
        sides = [np.concatenate(ends[side::2]) for side in (0, 1) if ends]
        found: dict[str, Any] = {"edge_index": np.stack(sides)} if ends else {}
        pairs = list(zip(self.edge_tables, self.edges, strict=True))
        weights = [_named(roles, "weight") for roles in self.edges]
        if any(weights):
            parts = [
                table.fetch(f"{weight_sql(table, name, decimal)}::double")
                for table, name in zip(self.edge_tables, weights, strict=True)
            ]
            found["edge_weight"] = np.concatenate(parts)
        if type_per_file or any(_named(roles, "edge type") for roles in self.edges):
            cells = [_edge_types(table, _named(roles, "edge type"), type_per_file) for table, roles in pairs]
            place = {name: i for i, name in enumerate(sorted({cell for part in cells for cell in part}))}
            found["edge_type"] = np.array([place[cell] for part in cells for cell in part], dtype=np.int64)
            found["edge_type_names"] = tuple(place)
        return found


def _named(roles: Sequence[Role], use: str) -> str | None:
    return next((role.column for role in roles if role.use == use), None)


def _check_given(table: Table, name: str) -> None:
    """Refuse a column of node ids of which some are missing."""
    missing = f"{table.as_text(name, 'node ids', FLAGS['id'])} = ''"
    table.refuse(name, missing, "the node id is missing", "; fill it in or remove the row")


def _check_once(table: Table, name: str, remedy: str) -> None:
    """Refuse a column of node ids that names a node twice."""
    text = table.as_text(name)
    distinct, total = table.one(f"count(distinct {text}), count(*)")
    if distinct < total:
        row, first, value = table.run(
            f"select r, f, v from (select rowid r, min(rowid) over (partition by {text}) f, {text} v "
            f"from {table.sql}) where r > f order by r limit 1"
        ).fetchone()
        raise InputError(
            f"{table.place(row, name)}: node id {value!r} is already used in row {first + 1} ({total - distinct:,} "
            f"repeated). {remedy}"
        )


def _check_known(table: Table, name: str, ids: Table, known: Table | None) -> None:
    """Refuse a column of node ids that names a node that is not there."""
    row, value, count = table.first(name, f"{table.as_text(name)} not in (select c0 from {ids.sql})")
    if row is not None:
        where = known.path if known else "the node table"
        close = close_name(value, ids.text("id")) if len(ids) < 10_000 else None
        hint = f" (nearest id: {close!r})" if close else ""
        raise InputError(
            f"{table.place(row, name)}: {name} {value!r} is not in {where}{hint}; {count:,} such rows. Add the node to "
            f"{where} or remove the row."
        )


def look_up(table: Table, name: str, ids: Table) -> np.ndarray:
    """The number of the node in each row ``[rows]``."""
    found = table.run(
        f"select node from (select rowid r, {table.as_text(name)} v from {table.sql}) "
        f"join (select rowid node, c0 id from {ids.sql}) on id = v order by r"
    ).fetchnumpy()["node"]
    return np.asarray(found, np.int64)


def _add_nodes(ids: Table, schema: Schema, file: "FeatureFile | None") -> int:
    """Add the nodes that only edges name or, without a node table, features; how many there were before."""
    columns, listed = schema.ends(), len(ids)
    for table, name in columns:
        _check_given(table, name)
    if schema.node_table is None and file is not None and file.ids is not None:
        columns.append((file.ids, file.by))
    if not columns:
        return listed
    parts = (
        f"select {table.as_text(name)} v, {place} * 1000000000000 + rowid r from {table.sql}"
        for place, (table, name) in enumerate(columns)
    )
    ids.run(
        f"insert into {ids.sql} select v from ({' union all '.join(parts)}) "
        f"where v not in (select c0 from {ids.sql}) group by v order by min(r)"
    )
    (ids.rows,) = ids.one("count(*)")
    return listed if schema.node_table is not None else len(ids)


def _told_of_new(schema: Schema, ids: Table, listed: int) -> list[str]:
    """What to say of nodes that only edges name; edges that mostly name other things mean another column."""
    table = schema.node_table
    if table is None or len(ids) == listed:
        return []
    used = schema.named("id") or ""
    ends = [value for t, name in schema.ends() for value in t.text(name, rows=slice(0, 5000))]
    ends = list(dict.fromkeys(ends))
    share = table.share(used, ends)
    rest = [name for name, content in table.columns.items() if name != used and content != "vectors"]
    better = [name for name in rest if table.share(name, ends) > max(share, 0.1)] if share < 0.5 else []
    if better:
        raise InputError(
            f"{table.path}: the ids of the edges are in column {better[0]!r} rather than in {used!r} (where "
            f"{100 * share:.0f} % of them are); say which holds the node ids: {flag('id', better[0])} or "
            f"{flag('id', used)}"
        )
    if share == 0:
        edges, source = schema.ends()[0]
        raise InputError(
            f"{edges.place(0, source)}: {ends[0]!r} is not in column {used!r} of {table.path}, nor is any other id of "
            f"the edges. Name the right columns with {FLAGS['id']}, {FLAGS['source']} and {FLAGS['target']}"
        )
    (first,) = ids.text("id", rows=slice(listed, listed + 1))
    close = close_name(first, table.text(used)) if listed < 10_000 else None
    return [
        f"{len(ids) - listed:,} nodes that only the edges name, not {table.path.name}, were added (the first: {first!r}"
        f"{f', nearest id: {close!r}' if close else ''}); --strict refuses them"
    ]


def weight_sql(table: Table, name: str | None, decimal: str | None) -> str:
    """SQL for the weights of edges, numbers above zero; the edges of a file without any count one each."""
    if name is None:
        return "1"
    weight = f"({number_sql(table, name, decimal)})"
    problem = "the weight is {cell}; a weight is a number above zero ({count:,} such rows)"
    remedy = f". Write one, remove the row, or do without {FLAGS['weight']}"
    table.refuse(name, f"{weight} is null or {weight} <= 0", problem, remedy)
    return weight


def _edge_types(table: Table, name: str | None, per_file: bool) -> list[str]:
    file = table.path.name.split(".")[0]
    if name is None:
        return [file] * len(table)
    remedy = f"; fill it in or do without {FLAGS['edge type']}"
    table.refuse(name, f"{table.as_text(name, 'edge types')} = ''", "the edge type is missing", remedy)
    return [f"{file} {cell}" if per_file else cell for cell in table.text(name)]


def _nearest_edges(x: Any, k: int | None, table: Table | None, rank: int = 64) -> np.ndarray:
    """Edges ``[2, N k]`` from each node to the ``k`` nodes of the highest cosine in at most ``rank`` dimensions."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    if x is None or k is None:
        raise InputError(f"{table and table.path}: --knn compares nodes by their columns, but none is used")
    n = x.shape[0]
    if not 1 <= k < n:
        raise InputError(f"--knn {k}: each of the {n:,} nodes has {n - 1:,} others; ask for 1 to {n - 1}")
    if sp.issparse(x):
        whole = TfidfTransformer(sublinear_tf=True).fit_transform(x) if (x.data == np.round(x.data)).all() else x
    else:
        whole = StandardScaler().fit_transform(x)
    if x.shape[1] > rank:
        whole = TruncatedSVD(rank, random_state=0).fit_transform(whole)
    search = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(whole)
    others = search.kneighbors(return_distance=False)  # the node itself is none of them
    return np.stack([np.repeat(np.arange(n), k), others.ravel()]).astype(np.int64)


def _labels(
    schema: Schema, given: Table | None, roles: Sequence[Role], ids: Table, multi_label: Any, notes: list[str]
) -> dict[str, Any]:
    """``y`` and ``class_names``, if there are labels; nodes without a row have none."""
    if given is not None:
        table, (by, name) = given, (role.column for role in roles)
        _check_given(table, by)
        _check_known(table, by, ids, schema.node_table)
        _check_once(table, by, "A node has one label; give each node one row")
        rows = look_up(table, by, ids)
    elif schema.node_table is not None and (column := schema.named("label")):
        table, name, rows = schema.node_table, column, np.arange(len(schema.node_table))
    else:
        return {}
    number, names = class_numbers(table, name, multi_label, notes)
    y = np.full(len(ids), -1, dtype=np.int64)
    y[rows] = table.codes(name, number)
    return {"y": y, "class_names": names}


def class_numbers(
    table: Table, name: str, multi: MultiLabel | None, notes: list[str]
) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """The class of each cell that has one (an empty cell has none, nor -1 among whole numbers), and their names."""
    text = table.as_text(name, "labels", FLAGS["label"])
    cells = [cell for (cell,) in table.run(f"select distinct {text} from {table.sql}").fetchall()]
    label = dict(zip(cells, _single(table, name, cells, multi), strict=True))
    found = set(label.values()) - {"", "nan", "NaN", "null", "NULL", "N/A", "n/a", "#N/A", "<NA>", "?"}
    whole = all(value.removeprefix("-").isdecimal() for value in found)
    if whole:
        found -= {"-1"}
    classes = sorted(found, key=(lambda value: (int(value), value)) if whole else None)
    notes += [
        f"label {odd!r} is taken for a class; leave the cells empty if it means unknown"
        for odd in ("NA", "None", "none", "unknown", "Unknown", "other", "-")
        if odd in found
    ]
    number = {name: i for i, name in enumerate(classes)}
    return {cell: number[value] for cell, value in label.items() if value in number}, tuple(classes) or None


def _single(table: Table, name: str, cells: Sequence[str], multi: MultiLabel | None) -> Sequence[str]:
    """One label for each cell; what cells with several mean is for the user to say."""
    if multi is not None:
        one_of("answer to --multi-label", multi, ("first", "none", "one"))
    mark = None if multi == "one" else _mark(set(cells))
    if mark is None:
        return cells
    if multi is None:
        remedy = (
            ". A node has one class: say --multi-label first (take the first), --multi-label none (leave these nodes "
            "without a label) or --multi-label one (it is the name of a class)"
        )
        problem = "{cell!r} seems to name several classes ({count:,} such rows)"
        table.refuse(name, f"contains({table.as_text(name)}, '{mark}')", problem, remedy)
    if multi == "first":
        return [cell.split(mark)[0].strip(" [\"'") if mark in cell else cell for cell in cells]
    return ["" if mark in cell else cell for cell in cells]


def _mark(found: set[str]) -> str | None:
    """What separates several labels in one cell: each of them is also seen alone or in another cell."""
    for mark in "|;,":
        several = [[part.strip(" []\"'") for part in cell.split(mark)] for cell in found if mark in cell]
        alone = {cell for cell in found if mark not in cell}
        counts = Counter(part for cell in several for part in set(cell))
        again = {part for part, count in counts.items() if part in alone or count > 1}
        if any(all(cell) and again.issuperset(cell) for cell in several):
            return mark
    return None


class FeatureFile:
    """A table, vectors (.npy, .npz) or a sparse matrix (.npz). ``ids`` is the table with the nodes of its rows in the
    column ``by``; None, if these are in the order of the node table."""

    def __init__(self, path: PathLike, id_column: Sequence[str], schema: Schema) -> None:
        self.path, self.by, self.triples = Path(path), "ids", False
        self.ids: Table | None = None
        self.names: tuple[str, ...] | None = None
        if self.path.suffix.lower() == ".npy":
            self.x: Any = finite_rows(self.path, load_array(self.path))
        elif self.path.suffix.lower() == ".npz":
            self.x, ids = _arrays(self.path)
            self.ids = None if ids is None else Table.of(self.path, {"ids": ids})
        else:
            table = self.ids = read_columns(path)
            given = [name for name in id_column if name in table.columns]
            rest = [name for name in table.columns if name not in TRIPLES]
            ends = [[] if schema.node_table is None else schema.node_table.sample(schema.named("id") or "")]
            self.by = rest[0] if len(rest) == 1 else find_id(table, given, ends)[0]
            _check_given(table, self.by)
            self.triples = set(table.columns) == {self.by, *TRIPLES}
            self.x, self.names = _triples(table) if self.triples else _feature_columns(table, self.by)

    def block(self, ids: Table, listed: int, nodes: Table | None) -> Block:
        """The features of all nodes of ``ids``, of which the first ``listed`` must have some. Other nodes have the mean
        of dense features and none of sparse ones."""
        n, rows = len(ids), self._nodes(ids, listed, nodes)
        if sp.issparse(self.x):
            place = sp.csr_array((np.ones(len(rows), np.float32), (rows, np.arange(len(rows)))), shape=(n, len(rows)))
            moved = sp.csr_array(place @ self.x)
            moved.sort_indices()
            return Block("counts", moved, self.names)
        whole = np.empty((n, self.x.shape[1]), np.float32)
        if len(rows) < n:
            whole[:] = np.sort(self.x, axis=0).mean(axis=0, dtype=np.float64)
        whole[rows] = self.x
        return Block("vectors", whole, self.names)

    def _nodes(self, ids: Table, listed: int, nodes: Table | None) -> np.ndarray:
        """The number of the node of each row; refused if a node lacks one or has several."""
        if self.ids is None and nodes is None:
            raise InputError(
                f"{self.path} gives features by row number, so a node table is needed to say which node is which row"
            )
        if self.ids is None:
            check_rows(self.path, self.x, nodes, listed)
            return np.arange(listed)
        _check_known(self.ids, self.by, ids, nodes)
        rows = look_up(self.ids, self.by, ids)
        counts = np.bincount(rows, minlength=len(ids))
        counts[listed:] = np.maximum(counts[listed:], 1)  # nodes that only edges name need none
        if (counts != 1).any() and not self.triples:
            node = int((counts != 1).argmax())
            times = "no row" if counts[node] == 0 else f"{counts[node]} rows"
            (name,) = ids.text("id", rows=slice(node, node + 1))
            raise InputError(f"{self.path}: node {name!r} has {times}; every node needs exactly one")
        return rows


def check_rows(path: Path, x: Any, nodes: Table | None, listed: int) -> None:
    """Refuse features by row number of more or fewer nodes than the node table has."""
    if nodes is not None and x.shape[0] != listed:
        raise InputError(f"{path} has {x.shape[0]:,} feature rows, but {nodes.path} has {listed:,} nodes")


def _whole(table: Table, name: str) -> np.ndarray:
    """A column of numbers or vectors ``[rows, columns]``, none missing."""
    found = table.vectors(name) if table.columns[name] == "vectors" else numbers(table, name)[:, None]
    if len(gap := np.flatnonzero(np.isnan(found).any(axis=1))):
        raise InputError(
            f"{table.place(int(gap[0]), name)}: the value is missing. A file of features needs every value: fill it "
            "in, or put the column into the node table, where gaps are filled"
        )
    return found


def _feature_columns(table: Table, id_column: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """All other columns of a table of features."""
    parts = {name: _whole(table, name) for name in table.columns if name != id_column}
    if not parts:
        raise InputError(f"{table.path} has no column beside {id_column!r}; it should hold the features")
    names: list[str] = []
    for name, part in parts.items():
        names += [f"{name} {i}" for i in range(part.shape[1])] if table.columns[name] == "vectors" else [name]
    return np.concatenate(list(parts.values()), axis=1).astype(np.float32), tuple(names)


def _triples(table: Table) -> tuple[Any, tuple[str, ...]]:
    """A sparse matrix with the one feature that each row of a table of triples names."""
    names, columns = np.unique(np.array(table.text("feature", "feature names"), dtype=object), return_inverse=True)
    table.as_text("value", "value of a feature")  # vectors are refused
    values, ends = _whole(table, "value")[:, 0].astype(np.float32), np.arange(len(table) + 1)
    return sp.csr_array((values, columns, ends), shape=(len(table), len(names))), tuple(names.tolist())


def load_array(path: Path) -> np.ndarray:
    """An array of features [nodes, columns] in a .npy file, mapped; refused if it is none."""
    file = readable(path)
    try:
        x: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} is not a readable .npy array ({error}); write it with numpy.save") from error
    return _check_matrix(path, x)


def _check_matrix(path: Path, x: np.ndarray) -> np.ndarray:
    if x.ndim != 2 or x.dtype.kind not in "iufb" or not x.shape[1]:
        raise InputError(f"{path} holds {x.dtype} of shape {x.shape}; features are numbers [nodes, columns]")
    return x


def finite_rows(path: Path, x: np.ndarray, first: int = 0) -> np.ndarray:
    """Rows of features in single precision, of which ``first`` is the number of the first one."""
    with np.errstate(over="ignore"):  # what is too large for single precision becomes infinite, and is refused
        made = np.ascontiguousarray(x, dtype=np.float32)
    if len(wrong := np.flatnonzero(~np.isfinite(made).all(axis=1))):
        raise InputError(
            f"{path}, row {first + wrong[0] + 1}: a feature is NaN or infinite (as float32); write a number"
        )
    return made


def _arrays(path: Path) -> tuple[Any, np.ndarray | None]:
    """The matrix of a .npz, and the ids of its rows if there is an array ``ids``."""
    parts = read_npz(path)
    ids = next((parts.pop(name) for name in ("ids", "id", "node_names") if name in parts), None)
    named = None if ids is None else np.array([str(value).strip() for value in ids.tolist()], dtype=object)
    prefix = "x_" if {"x_data", "x_indptr"} & set(parts) else ""
    if prefix or {"indptr", "indices"} & set(parts):
        return _csr(path, parts, prefix), named
    matrices = [part for part in parts.values() if part.ndim == 2 and part.dtype.kind in "iufb"]
    if len(matrices) != 1:
        raise InputError(
            f"{path} holds {', '.join(parts) or 'nothing'}; features are one array of shape [nodes, columns], or CSR "
            "parts x_data, x_indices, x_indptr, x_shape (or as scipy.sparse.save_npz writes them)"
        )
    return finite_rows(path, _check_matrix(path, matrices[0])), named


def _csr(path: Path, held: Mapping[str, np.ndarray], prefix: str) -> Any:
    """A sparse matrix of its CSR parts, as ``scipy.sparse.save_npz`` calls them after ``prefix``."""
    needed = [prefix + part for part in ("data", "indices", "indptr", "shape")]
    if missing := [name for name in needed if name not in held]:
        raise InputError(f"{path} lacks {', '.join(sorted(missing))}; it holds {', '.join(held) or 'nothing'}")
    data, indices, indptr, shape = (held[name] for name in needed)
    try:
        x = sp.csr_array((data.astype(np.float32), indices, indptr), shape=tuple(map(int, shape)))
        x.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"{path}: the CSR parts do not fit together ({error})") from error
    if not np.isfinite(x.data).all():
        row = int(np.searchsorted(x.indptr, (~np.isfinite(x.data)).argmax(), side="right"))
        raise InputError(f"{path}, row {row}: a feature is NaN or infinite; write a number or leave it out")
    return x
