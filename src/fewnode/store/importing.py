"""A user's tables of any length as a store: read once as streams, with bounded memory; what was killed goes on."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..io.streams import Stream
from ..storage import PathLike, write_json
from ..storage.files import lock
from .arcs import Buckets
from .growing import Growing
from .keys import NodeKeys, keys_of, letters_of
from .manifest import Facts
from .names import StoredNames
from .space import Progress, default_memory, full_disk, read_mapped, room, said

STATE = "import.json"
LEAST = 600 << 20  # bytes that importing takes, however few the rows
PER_NODE = 56  # bytes: both keys, the order, the labels, and what sorting takes
PER_ARC = 24  # bytes while a bucket is sorted


@dataclass(frozen=True)
class Tables:
    """The files and the names of their columns."""

    edges: Path
    nodes: Path
    id_column: str = "id"
    label_column: str = "label"
    source_column: str = "source"
    target_column: str = "target"

    def digest(self) -> str:
        """What tells whether work that was begun is on the same files."""
        stats = [path.stat() for path in (self.edges, self.nodes)]
        return repr((self, [(one.st_size, one.st_mtime_ns) for one in stats]))


def import_tables(
    tables: Tables,
    out: PathLike,
    *,
    memory: int | None = None,
    progress: Progress = lambda what, part: None,
) -> Path:
    """Make the store ``out`` of tables; until it is whole, what is there of it is in a hidden folder beside it.

    Args:
        tables: the node table with ids, labels (may be empty) and numeric columns, and the edge table.
        memory: bytes that the program may take; half of what is free, if not given.
        progress: told what is being done, and which part of it is done.
    """
    target = Path(out)
    if target.exists():
        raise InputError(f"{target} exists already; choose another name or remove it")
    work = target.parent / f".{target.name}.part"
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as file:
        if not lock(file.fileno()):
            raise InputError(f"another program is importing into {target}; wait for it")
        state = _begun(work, tables)
        try:
            with full_disk(work, needed := _disk(tables)):
                room(work, needed - sum(path.stat().st_size for path in work.iterdir()))
                _nodes(tables, work, state, progress)
                facts = _edges(tables, work, state, default_memory() if memory is None else memory, progress)
        except InputError:  # the tables must change, or the request; nothing half-built is of use then
            shutil.rmtree(work)
            raise
        progress("hashing", 0.0)
        for name in (STATE, "keys.npy", "lock"):
            (work / name).unlink(missing_ok=True)
        Facts.write(work, facts)
        work.rename(target)
    progress("done", 1.0)
    return target


def _disk(tables: Tables) -> int:
    """Bytes that an import takes on disk, while it is made: keys and columns of nodes, and each edge both ways."""
    nodes, edges = Stream(tables.nodes), Stream(tables.edges)
    rows, width = nodes.most_rows(), len(nodes.names)
    arcs = 2 * edges.most_rows()
    return min(rows * (40 + 4 * width), 3 * nodes.path.stat().st_size if not nodes.parquet else 1 << 62) + 12 * arcs


def _begun(work: Path, tables: Tables) -> dict[str, Any]:
    """What an import of the very same files had finished; anything else there is removed."""
    state: dict[str, Any] = json.loads((work / STATE).read_bytes()) if (work / STATE).exists() else {}
    if state.get("tables") != tables.digest():
        for path in work.iterdir():
            if path.name != "lock":
                path.unlink()
        state = {"tables": tables.digest()}
    return state


# --- nodes ----------------------------------------------------------------------------------------------


def _nodes(tables: Tables, work: Path, state: dict[str, Any], progress: Progress) -> None:
    if "nodes" in state:
        return
    stream = Stream(tables.nodes)
    ids = stream.column(tables.id_column, "node ids")
    label = tables.label_column if tables.label_column in stream.names else None
    numbers = [name for name in stream.names if name not in (ids, label)]
    files = {
        "name_ends": Growing(work / "name_ends.npy", np.int64),
        "name_letters": Growing(work / "name_letters.npy", np.uint8),
        "keys": Growing(work / "keys.npy", np.uint64, (2,)),
    }
    if numbers:
        files["features"] = Growing(work / "features.npy", np.float32, (len(numbers),))
    files["name_ends"].append(np.zeros(1))
    seen: dict[str, int] = {}
    codes: list[np.ndarray] = []
    text = [ids] if label is None else [ids, label]
    for first, batch in stream.batches(text, numbers):
        progress("reading nodes", 0.0)
        _add_names(stream, first, batch.column(ids), ids, files)
        if label is not None:
            codes.append(_codes(batch.column(label), seen))
        if numbers:
            files["features"].append(_numbers(stream, first, batch, numbers))
    for file in files.values():
        file.close()
    rows = files["keys"].rows
    if not rows:
        raise InputError(f"{stream.path} has column names but no rows below them")
    _check_names(stream, ids, work)
    y, classes = _labels(np.concatenate(codes) if codes else np.full(rows, -1), seen)
    np.save(work / "y.npy", y)
    state["nodes"] = {"rows": rows, "class_names": classes, "feature_names": numbers or None}
    write_json(work / STATE, state)


def _add_names(stream: Stream, first: int, names: Any, column: str, files: Mapping[str, Growing]) -> None:
    ends, letters = letters_of(names)
    if len(empty := np.flatnonzero(np.diff(ends) == 0)):
        raise InputError(f"{stream.place(first + int(empty[0]), column)}: the node id is missing; fill it in")
    files["name_ends"].append(ends[1:] + files["name_letters"].rows)
    files["name_letters"].append(letters)
    files["keys"].append(keys_of(ends, letters))


def _check_names(stream: Stream, column: str, work: Path) -> None:
    twice = NodeKeys.of(np.load(work / "keys.npy")).repeated()
    if twice is not None:
        first, again = twice
        names = StoredNames(read_mapped(work / "name_ends.npy"), read_mapped(work / "name_letters.npy"))
        raise InputError(
            f"{stream.place(again, column)}: node id {names[again]!r} is already used in row {first + 1}. "
            "Every node needs its own id"
        )


def _codes(labels: Any, seen: dict[str, int]) -> np.ndarray:
    """Numbers of the labels in the order in which they were first seen."""
    coded = labels.fill_null("").dictionary_encode()
    known = [seen.setdefault(name.strip(), len(seen)) for name in coded.dictionary.to_pylist()]
    found: np.ndarray = np.array(known)[coded.indices.to_numpy()]
    return found


def _labels(codes: np.ndarray, seen: Mapping[str, int]) -> tuple[np.ndarray, list[str] | None]:
    """Class ids and names: in order, as numbers where all are whole numbers; empty ones (and -1) are unknown."""
    names = [name for name in seen if name]
    whole = all(name.removeprefix("-").isdecimal() for name in names)
    names = sorted((name for name in names if not (whole and name == "-1")), key=int if whole else None)
    number = np.full(len(seen) + 1, -1, np.int64)
    for i, name in enumerate(names):
        number[seen[name]] = i
    return number[codes], names or None


def _numbers(stream: Stream, first: int, batch: Any, names: list[str]) -> np.ndarray:
    for name in names:
        if batch.column(name).null_count:
            row = batch.column(name).is_null().to_numpy(zero_copy_only=False).argmax()
            raise InputError(f"{stream.place(first + int(row), name)}: the value is missing; fill it in")
    values = np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in names], 1)
    if not (fine := np.isfinite(values)).all():
        row, column = np.argwhere(~fine)[0]
        raise InputError(
            f"{stream.place(first + int(row), names[column])}: {values[row, column]} is not a finite number (as "
            "float32); write a number, or leave the column out"
        )
    return values


# --- edges ----------------------------------------------------------------------------------------------


def _edges(tables: Tables, work: Path, state: dict[str, Any], memory: int, progress: Progress) -> dict[str, Any]:
    n = state["nodes"]["rows"]
    keys = NodeKeys.of(np.load(work / "keys.npy"))
    stream = Stream(tables.edges)
    size, bytes_ = _bucket(n, stream.path, memory), stream.path.stat().st_size
    buckets = Buckets(work, n, size)
    begun = state.setdefault("edges", {"batches": 0, "loops": 0, "sizes": [0] * buckets.count})
    buckets.cut(begun["sizes"])
    ends = [stream.column(name, "node ids") for name in (tables.source_column, tables.target_column)]
    for number, (first, batch) in enumerate(stream.batches(ends, [])):
        progress("reading edges", min(first * 16 / max(bytes_, 1), 1.0))
        if number < begun["batches"]:
            continue
        source, target = (_looked_up(stream, first, batch.column(name), name, keys, tables.nodes) for name in ends)
        apart = source != target
        source, target = source[apart], target[apart]
        buckets.add(target, source, 0)
        buckets.add(source, target, 1)
        begun["batches"], begun["loops"] = number + 1, begun["loops"] + int((~apart).sum())
        begun["sizes"] = buckets.sizes()
        write_json(work / STATE, state)
    progress("sorting edges", 0.0)
    repeated = buckets.arcs(work / "indptr.npy", work / "indices.npy")
    buckets.drop()
    names = {name: state["nodes"][name] for name in ("class_names", "feature_names")}
    return {"self_loops": begun["loops"], "duplicates": repeated, **names}


def _bucket(n: int, edges: Path, memory: int) -> int:
    """How many targets a bucket has, so that sorting its arcs stays within the memory."""
    least = LEAST + PER_NODE * n
    if memory < least:
        raise InputError(f"--memory {said(memory)} is too little for {n:,} nodes: give {said(least)} or more")
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
