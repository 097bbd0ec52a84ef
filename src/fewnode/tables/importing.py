"""Convert tables of any length to a store with bounded memory: DuckDB keeps them in a folder beside the arrays."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
from numpy.lib import format as npy
from scipy import sparse as sp

from ..errors import InputError, refused
from ..files import PathLike, whole_folder
from ..store import Facts, Progress, check_disk, default_memory, format_bytes, name_arrays, write_name_index
from .graph_tables import GraphTables
from .names import option
from .read import TEXT, connect, read_columns, several

SAMPLE = 1 << 17  # rows from which the vocabulary of texts is learned


def import_tables(
    edges: PathLike,
    nodes: PathLike,
    out: PathLike,
    *,
    features: PathLike | None = None,
    typed: bool = False,
    memory: int | None = None,
    batch: int = 1 << 17,
    progress: Progress = lambda what, part: None,
    **options: Any,
) -> Path:
    """Convert tables to the store ``out``.

    The store is written to a hidden folder beside ``out`` until it is complete. An import removes the hidden folder of
    a previous import that was killed.

    Args:
        edges: the edge table: a file or a query.
        nodes: the node table with ids, labels (may be empty) and other columns.
        out: the store, a new folder.
        features: an array [nodes, columns] in the order of ``nodes`` (.npy), instead of their columns.
        typed: the edges have directions or types, which a store does not keep.
        memory: bytes that the program may use; by default half of the free memory.
        batch: rows of nodes that are encoded together.
        progress: called with the name of a step and the part of it that is done.
        options: of ``read_graph``: columns, labels, multi_label, decimal, max_classes, text_encoder.
    """
    target, memory = Path(out), default_memory() if memory is None else memory
    if features is not None and Path(features).suffix.lower() != ".npy":
        raise InputError(f"{features}: a store takes features from an array [nodes, columns]; save it as .npy")
    with whole_folder(target, new=True) as work:
        given = [file for one in (edges, nodes, features) if one is not None for file in several(one)]
        files = [file for file in given if isinstance(file, Path) and file.exists()]  # no queries
        each = {".npy": 1} | dict.fromkeys(TEXT, 6)  # bytes on disk for one of a file, while it is imported
        check_disk(work, sum(file.stat().st_size * each.get(file.suffix.lower(), 24) for file in files))
        short = f"memory= {format_bytes(memory)} is too little"
        with (
            TemporaryDirectory(dir=work) as scratch,
            refused(short, duckdb.OutOfMemoryException, remedy="give more"),
            connect(f"{scratch}/tables", max(256 << 20, memory - (400 << 20)), f"{scratch}/spilled") as database,
        ):
            progress("reading nodes", 0.0)
            node_table = read_columns(nodes, database, Path(scratch))
            if memory < (least := (600 << 20) + 56 * len(node_table)):
                told = f"too little for {len(node_table):,} nodes: give {format_bytes(least)} or more"
                raise InputError(f"memory= {format_bytes(memory)} is {told}")
            progress("reading edges", 0.0)
            keep = {"strict": True, "sample": SAMPLE, "database": database, "folder": Path(scratch)}
            graph = GraphTables(edges, node_table, features, **keep, **options)
            _check_features(graph)
            n = len(graph.nodes.table)
            facts = _write_nodes(work, graph, batch, progress)
            facts |= {"class_names": graph.class_names, "encoder": asdict(graph.encoder), "columns": graph.columns}
            progress("sorting edges", 0.0)
            database.execute(f"create table ends as select s, t, w from {graph.edges_sql()}")
            facts |= write_arcs(database, work, n, "weight_column" in graph.columns, progress)
            facts |= {"notes": graph.notes, "roles": [asdict(role) for role in graph.roles]}
            if typed:
                lost = "directions and edge types are not kept"
                facts["notes"].append(f"{lost}; if the graph fits into memory, give the tables to fit instead")
        Facts.write(work, facts)
        progress("hashing", 0.0)
    progress("done", 1.0)
    return target


def _write_nodes(work: Path, graph: GraphTables, batch: int, progress: Progress) -> dict[str, Any]:
    """Write names, labels and features of all nodes in batches, and return facts about the features."""
    table, files, names, blocks, width = graph.nodes.table, GrowingArrays(work), None, dict[str, int](), None
    if graph.features is not None:
        batch = min(batch, max(1, (32 << 20) // graph.features.x.shape[1]))
    np.save(work / "y.npy", np.full(len(table), -1) if graph.y is None else graph.y)
    for start in range(0, len(table), batch):
        progress("encoding nodes", start / len(table))
        rows, later = slice(start, start + batch), int(start > 0)  # where a batch ends, the next one begins
        for what, texts in graph.texts(rows).items():
            letters = name_arrays(texts, what)
            files.append(f"{what}_ends", letters[f"{what}_ends"][later:] + files.rows[f"{what}_letters"])
            files.append(f"{what}_letters", letters[f"{what}_letters"])
        x, names, blocks = graph.encode(rows)
        if sp.issparse(x):
            width = x.shape[1]
            files.append("x_indptr", files.rows["x_indices"] + x.indptr[later:].astype(np.int64))
            files.append("x_indices", x.indices.astype(np.int64))
            files.append("x_values", x.data.astype(np.float32))
        elif x is not None:
            files.append("features", x)
    files.close()
    write_name_index(work)
    return {"feature_names": names, "width": width, "blocks": blocks}


def write_arcs(
    database: Any, folder: Path, n: int, weighted: bool, progress: Progress = lambda what, part: None
) -> dict[str, Any]:
    """Write the CSR arrays of the ``n`` nodes whose edges are the table ``ends (s, t, w)``: both ways, sorted, each
    once, with the sum of their weights."""
    run, indices = database.execute, np.int32 if n < 2**31 else np.int64
    (loops,) = run("select count(*) from ends where s = t").fetchone()
    summed = "select s, t, count(*) n, fsum(w)::float w from ends where s <> t group by s, t"
    run(f"create table edges as {summed}; drop table ends")
    (repeated,) = run("select coalesce(sum(n) - count(*), 0)::bigint from edges").fetchone()
    both = "(select t i, s j, w from edges union all select s, t, w from edges)"
    mirrored = "select 1 from edges a left join edges b on a.s = b.t and a.t = b.s where b.w is distinct from a.w"
    arcs = f"select distinct i, j from {both}"
    if weighted:  # those of both ways are added, unless every edge is there both ways with the same weight
        added = run(mirrored).fetchone() is not None
        arcs = f"select i, j, fsum(w)::float w from {both} group by i, j" if added else "select t i, s j, w from edges"
    run(f"create table arcs as {arcs} order by i, j")
    degrees = run("select i, count(*) n from arcs group by i").fetchnumpy()
    indptr, files, step = np.zeros(n + 1, np.int64), GrowingArrays(folder), 1 << 22
    indptr[degrees["i"] + 1] = degrees["n"]
    total = int(indptr.sum())
    for at in range(0, max(total, 1), step):
        progress("writing edges", at / max(total, 1))
        part = run(
            f"select * exclude i from arcs where rowid >= {at} and rowid < {at + step} order by rowid"
        ).fetchnumpy()
        files.append("indices", np.asarray(part["j"], indices))
        if weighted:
            files.append("weights", np.asarray(part["w"], np.float32))
    files.close()
    np.save(folder / "indptr.npy", indptr.cumsum().astype(np.int32 if max(total, n) < 2**31 else np.int64))
    return {"self_loops": loops, "duplicates": repeated}


def _check_features(graph: GraphTables) -> None:
    """Refuse columns of vectors, and columns that are used beside an array of features."""
    for role in graph.node_roles:
        if role.use == "vectors" or (graph.features is not None and role.use not in ("", "id", "label", "title")):
            told = f"column {role.column!r}: a store has either an array of vectors (features=) or other columns"
            raise InputError(f"{role.table}, {told}; leave this one out with {option('ignore', role.column)}")


class GrowingArrays:
    """Arrays ``[rows, ...]`` in .npy files of a folder, to which rows are appended; ``close`` writes how many there
    are."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.files = folder, Counter[str](), dict[str, tuple[Any, np.ndarray]]()

    def append(self, name: str, values: np.ndarray) -> None:
        if name not in self.files:
            self.files[name] = (self.folder / f"{name}.npy").open("wb"), values[:0].copy()
            self.files[name][0].write(bytes(128))  # the header of an array of any length is so long
        file, like = self.files[name]
        np.ascontiguousarray(values, like.dtype).tofile(file)
        self.rows[name] += len(values)

    def close(self) -> None:
        for name, (file, like) in self.files.items():
            with file:
                file.seek(0)
                told = npy.header_data_from_array_1_0(like) | {"shape": (self.rows[name], *like.shape[1:])}
                npy.write_array_header_1_0(file, told | {"fortran_order": False})
                assert file.tell() == 128
