"""Edges made from features: each node with those most like it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse as sp

from ..errors import InputError
from ..files import PathLike
from .columns import Table, read_columns
from .edges import edge_values, end_samples, read_edges, understood_edges
from .encode import Block, Memory, combined, node_blocks
from .features import FeatureFile, look_up, node_ids
from .labels import class_labels, pair_roles
from .nodes import Files, Nodes, all_nodes, listed_nodes
from .roles import FLAGS, Role, flagged

# --- Edges made from features: each node with those most like it.
RANK = 64  # coordinates that the nodes are compared in, if they have more features


def nearest_edges(x: Any, k: int) -> np.ndarray:
    """Edges ``[2, N k]`` from each node to the ``k`` nodes of the highest cosine; compared in pieces, never all at
    once."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.neighbors import NearestNeighbors

    n = x.shape[0]
    if not 1 <= k < n:
        raise InputError(f"--knn {k}: each of the {n:,} nodes has {n - 1:,} others; ask for 1 to {n - 1}")
    if sp.issparse(x):
        whole = TfidfTransformer(sublinear_tf=True).fit_transform(x) if (x.data == np.round(x.data)).all() else x
        if x.shape[1] > RANK:
            whole = TruncatedSVD(RANK, random_state=0).fit_transform(whole)
    else:
        spread = x.std(axis=0)
        whole = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)
        if x.shape[1] > RANK:
            whole = TruncatedSVD(RANK, random_state=0).fit_transform(whole)
    search = NearestNeighbors(n_neighbors=k + 1, metric="cosine", algorithm="brute").fit(whole)
    found = search.kneighbors(whole, return_distance=False)
    source = np.repeat(np.arange(n), k + 1)
    target = found.ravel()
    other = source != target
    ranks = np.tile(np.arange(k + 1), n)
    full = np.ones(len(source), dtype=bool)
    missed = np.flatnonzero(np.bincount(source[other], minlength=n) == k + 1)  # equal nodes may hide the node itself
    full[np.isin(source, missed) & (ranks == k)] = False
    return np.stack([source[other & full], target[other & full]]).astype(np.int64)


# --- A user's edge, node and feature files -> the arguments of ``Graph.from_edges``, and what was understood.
@dataclass(frozen=True, eq=False)
class Understood:
    """What was read: the ``arguments`` of ``Graph.from_edges``, what each column was taken for (``roles``), what else
    to say (``notes``), and what the next table must be read with: ``columns`` by role, ``memory`` of their values."""

    arguments: dict[str, Any]
    roles: list[Role]
    notes: list[str]
    columns: dict[str, Any]
    memory: Memory


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
    memory: Memory | None = None,
    vocabulary: Sequence[str] | None = None,
    **columns: Any,
) -> Understood:
    """Read a graph from CSV, Parquet, Excel or JSON-lines files with string ids.

    Args:
        edges: one row per edge, in one file or several.
        nodes: one row per node. Without it the nodes are those of the edges, then of ``features``.
        features: features apart: a table with an id and numeric columns (or vectors), or of triples ``id, feature,
            value``; or an array [nodes, columns] (.npy, .npz) or CSR parts (.npz) in the order of ``nodes``.
        labels: a table of ids and labels, if these are not in ``nodes``.
        strict: refuse edges to nodes that ``nodes`` lacks, which otherwise make these nodes.
        knn: make the edges instead: each node with so many that are most like it.
        directed: keep the direction of edges.
        type_per_file: the edges of each file are an edge type of their own.
        multi_label: what cells such as ``a|b`` mean: "first", "none" (no label) or "one" (a class of that name).
        decimal: the decimal mark, where it cannot be told.
        memory: what was learned of the columns of another table, to read this one in the same way.
        vocabulary: words of the text, where a model brings them.
        columns: ``id_column``, ``label_column`` ('' for none), ``text_column``, ``category_column``, ``number_column``,
            ``ignore_column`` (one name or several), ``source_column``, ``target_column``, ``weight_column``,
            ``edge_type_column``; those not given are found by name and by content.
    """
    _check_options(columns, edges, nodes, knn)
    again = memory is not None
    memory = Memory() if memory is None else memory
    memory = memory if vocabulary is None else replace(memory, words=tuple(vocabulary))
    tables = [] if edges is None else read_edges(edges)
    samples = [part for table in tables[:1] for part in end_samples(table, columns)]
    listed = listed_nodes(nodes, columns, samples, features is not None, labels is not None, again)
    joined = understood_edges(tables, columns, listed.index)
    file = None if features is None else FeatureFile(features, flagged(columns, "id"), [list(listed.index)[:2000]])
    everyone, edge_index, notes = all_nodes(listed, joined, file, strict)
    apart = None if labels is None else _label_table(labels, columns, everyone)
    x, names, learned = _features(everyone, file, memory, decimal)
    found: dict[str, Any] = {"num_nodes": len(everyone.index), "node_names": tuple(everyone.index)}
    found["edge_index"] = edge_index if joined else _made_edges(x, knn, everyone)
    found |= edge_values(joined, type_per_file, decimal) | ({"directed": True} if directed else {})
    found |= _labels(everyone, apart, multi_label, notes)
    of_edges = list(dict.fromkeys(role for table in joined for role in table.roles))
    roles = [*listed.roles, *(apart[1:] if apart else ()), *of_edges]
    said = [note for table in (*tables, *filter(None, (listed.table,))) for note in table.notes]
    return Understood(
        {**found, "x": x, "feature_names": names}, roles, [*said, *notes], _columns(listed.roles, of_edges), learned
    )


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
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} ({name}={columns[name]!r}) names a column of the node table, but none is given")


def _made_edges(x: Any, knn: int | None, nodes: Nodes) -> np.ndarray:
    if x is None or knn is None:
        raise InputError(f"{nodes.table and nodes.table.path}: --knn compares nodes by their columns, but none is used")
    return nearest_edges(x, knn)


def _features(
    nodes: Nodes, file: FeatureFile | None, learned: Memory, decimal: str | None
) -> tuple[Any, tuple[str, ...] | None, Memory]:
    blocks: list[Block] = []
    if nodes.table is not None:
        blocks, learned = node_blocks(nodes.table, nodes.roles, len(nodes.index), learned, decimal)
    if file is not None:
        blocks.append(file.block(nodes.index, nodes.listed, nodes.table))
    return combined(blocks, learned)


def _label_table(labels: Files, columns: Mapping[str, Any], nodes: Nodes) -> tuple[Table, Role, Role]:
    table = read_columns(labels)
    return table, *pair_roles(table, columns, nodes.index)


def _labels(nodes: Nodes, apart: tuple[Table, Role, Role] | None, multi_label: Any, notes: list[str]) -> dict[str, Any]:
    """``y`` and ``class_names``, if there are labels; nodes without a row have none."""
    if apart is not None:
        table, by, label = apart
        name = label.column
        given = table.text(name, "labels", FLAGS["label"])
        rows = look_up(table, by.column, node_ids(table, by.column), nodes.index, nodes.table)
        if len(set(rows.tolist())) < len(rows):
            again = next(i for i, node in enumerate(rows.tolist()) if node in rows[:i])
            raise InputError(f"{table.place(again, by.column)}: this node has a label already; give each node one row")
    elif nodes.table is not None and (found := nodes.named("label")):
        table, name = nodes.table, found
        given = table.text(name, "labels", FLAGS["label"])
        rows = np.arange(len(given))
    else:
        return {}
    y = np.full(len(nodes.index), -1, dtype=np.int64)
    y[rows], names = class_labels(table, name, given, multi_label, notes)
    return {"y": y, "class_names": names}


def _columns(nodes: Sequence[Role], edges: Sequence[Role]) -> dict[str, Any]:
    """The roles as options, so that the next table is read in the same way."""
    found: dict[str, Any] = {}
    for role in (*nodes, *(role for role in edges if role.use)):
        option = FLAGS.get(role.use or "ignore", "").removeprefix("--").replace("-", "_")
        if role.use in ("id", "label", "source", "target", "weight", "edge type"):
            found.setdefault(option, role.column)
        elif option:
            found.setdefault(option, []).append(role.column)
    return found
