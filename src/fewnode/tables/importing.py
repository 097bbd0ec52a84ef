"""A user's tables of any length as a store: read once as streams, with bounded memory; what was killed goes on."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import PathLike, lock, write_json
from ..store import Facts, Progress, check_disk, default_memory, format_bytes, full_disk
from .arcs import Buckets
from .column_names import with_columns
from .keys import NodeKeys, keys_of, letters_of
from .node_table import Tables, numbers_of, read_nodes
from .streams import Stream
from .vectors import check_vectors

STATE = "import.json"
LEAST = 600 << 20  # bytes that importing takes, however few the rows
PER_NODE = 56  # bytes: both keys, the order, the labels, and what sorting takes
PER_ARC = 24  # bytes while a bucket is sorted


def import_tables(
    tables: Tables,
    out: PathLike,
    *,
    memory: int | None = None,
    progress: Progress = lambda what, part: None,
) -> Path:
    """Make the store ``out`` of tables; until it is whole, what is there of it is in a hidden folder beside it.

    Args:
        tables: the node table with ids, labels (may be empty) and other columns, and the edge table.
        memory: bytes that the program may take; half of what is free, if not given.
        progress: told what is being done, and which part of it is done.
    """
    target = Path(out)
    if target.exists():
        raise InputError(f"{target} exists already; choose another name or remove it")
    tables, found = with_columns(tables)
    work = target.parent / f".{target.name}.part"
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as file:
        if not lock(file.fileno()):
            raise InputError(f"another program is importing into {target}; wait for it")
        state = _begun(work, tables)
        try:
            with full_disk(work, needed := _disk(tables)):
                check_disk(work, needed - sum(path.stat().st_size for path in work.iterdir()))
                if "nodes" not in state:
                    state["nodes"] = read_nodes(tables, work, progress)
                    write_json(work / STATE, state)
                facts = _edges(tables, work, state, default_memory() if memory is None else memory, progress)
        except InputError:  # the tables must change, or the request; nothing half-built is of use then
            shutil.rmtree(work)
            raise
        progress("hashing", 0.0)
        for name in (STATE, "keys.npy", "lock"):
            (work / name).unlink(missing_ok=True)
        Facts.write(work, facts | {"notes": [*found, *facts["notes"]]})
        work.rename(target)
    progress("done", 1.0)
    return target


def _disk(tables: Tables) -> int:
    """Bytes that an import takes on disk, while it is made: keys and columns of nodes, and each edge both ways."""
    vectors = 0 if tables.features is None else 4 * math.prod(check_vectors(tables.features))
    nodes, edges = Stream(tables.nodes), Stream(tables.edges)
    rows, width = nodes.most_rows(), len(nodes.names)
    arcs = 2 * edges.most_rows()
    least = min(rows * (40 + 4 * width), 3 * nodes.path.stat().st_size if not nodes.parquet else 1 << 62)
    return least + 12 * arcs + vectors


def _begun(work: Path, tables: Tables) -> dict[str, Any]:
    """What an import of the very same files had finished; anything else there is removed."""
    state: dict[str, Any] = json.loads((work / STATE).read_bytes()) if (work / STATE).exists() else {}
    if state.get("tables") != tables.digest():
        for path in work.iterdir():
            if path.name != "lock":
                path.unlink()
        state = {"tables": tables.digest()}
    return state


# --- edges ----------------------------------------------------------------------------------------------


def _edges(tables: Tables, work: Path, state: dict[str, Any], memory: int, progress: Progress) -> dict[str, Any]:
    n = state["nodes"]["rows"]
    keys = NodeKeys.of(np.load(work / "keys.npy"))
    stream = Stream(tables.edges)
    bytes_ = stream.path.stat().st_size
    size = _bucket(n, stream.path, memory if tables.weight_column is None else memory // 2)
    buckets = Buckets(work, n, size)
    begun = state.setdefault("edges", {"batches": 0, "loops": 0, "sizes": [0] * buckets.count})
    buckets.cut(begun["sizes"])
    named = {"--source-column": tables.source_column, "--target-column": tables.target_column}
    ends = [stream.column(name or "", "node ids", flag) for flag, name in named.items()]
    weight_column = [] if tables.weight_column is None else [tables.weight_column]
    weighed = [stream.column(name, "weight of each edge", "--weight-column") for name in weight_column]
    for number, (first, batch) in enumerate(stream.batches(ends, weighed)):
        progress("reading edges", min(first * 16 / max(bytes_, 1), 1.0))
        if number < begun["batches"]:
            continue
        source, target = (_looked_up(stream, first, batch.column(name), name, keys, tables.nodes) for name in ends)
        apart = source != target
        source, target = source[apart], target[apart]
        weight = _weights(stream, first, batch, weighed[0])[apart] if weighed else None
        buckets.add(target, source, 0, weight)
        buckets.add(source, target, 1, weight)
        begun["batches"], begun["loops"] = number + 1, begun["loops"] + int((~apart).sum())
        begun["sizes"] = buckets.sizes()
        write_json(work / STATE, state)
    progress("sorting edges", 0.0)
    repeated = buckets.arcs(work / "indptr.npy", work / "indices.npy", work / "weights.npy" if weighed else None)
    buckets.drop()
    told = {name: value for name, value in state["nodes"].items() if name != "rows"}
    return {"self_loops": begun["loops"], "duplicates": repeated, **told}


def _weights(stream: Stream, first: int, batch: Any, name: str) -> np.ndarray:
    weight: np.ndarray = numbers_of(stream, first, batch, [name])[:, 0]
    if (weight > 0).all():
        return weight
    row = int((weight <= 0).argmax())
    raise InputError(
        f"{stream.place(first + row, name)}: the weight is {weight[row]:g}; a weight is a number above zero. "
        "Write one, remove the row, or do without --weight-column"
    )


def _bucket(n: int, edges: Path, memory: int) -> int:
    """How many targets a bucket has, so that sorting its arcs stays within the memory."""
    least = LEAST + PER_NODE * n
    if memory < least:
        raise InputError(
            f"--memory {format_bytes(memory)} is too little for {n:,} nodes: give {format_bytes(least)} or more"
        )
    arcs = 2 * max(1, Stream(edges).most_rows())
    parts = min(max(1, -(-arcs * PER_ARC // (memory - least + (64 << 20)))), 512, n)
    return -(-n // parts)


def _looked_up(stream: Stream, first: int, names: Any, column: str, keys: NodeKeys, nodes: Path) -> np.ndarray:
    found = keys.look_up(keys_of(*letters_of(names)))
    if (found >= 0).all():
        return found
    row = int((found < 0).argmax())
    name = names[row].as_py()
    if not name:
        raise InputError(f"{stream.place(first + row, column)}: the node id is missing; fill it in or remove the row")
    raise InputError(
        f"{stream.place(first + row, column)}: {column} {name!r} is not in {nodes}. Add the node or remove the row"
    )
