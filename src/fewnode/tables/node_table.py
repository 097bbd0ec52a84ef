"""The table of nodes, read as a stream: names, labels and features as arrays of a store."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..store import Progress, StoredNames, read_mapped
from .growing import Growing
from .keys import NodeKeys, keys_of, letters_of
from .node_columns import NUMBERS, FeatureFiles, Learner, batches, feature_roles
from .roles import Role
from .streams import Stream
from .vectors import read_vectors

APART = (
    "directions and edge types are not kept, all edges count alike; if the graph fits into memory, give the tables "
    "to fit, which uses those that help"
)


@dataclass(frozen=True)
class Tables:
    """The files and the names of their columns; those that are None are found in the first rows."""

    edges: Path
    nodes: Path
    id_column: str | None = None
    label_column: str | None = None  # '': there are no labels
    source_column: str | None = None
    target_column: str | None = None
    weight_column: str | None = None
    text_column: tuple[str, ...] = ()
    category_column: tuple[str, ...] = ()
    number_column: tuple[str, ...] = ()
    ignore_column: tuple[str, ...] = ()
    decimal: str | None = None
    features: Path | None = None
    apart: bool = False  # edges have directions or types, which a store does not keep

    def given(self) -> dict[str, Any]:
        """What columns of nodes are said to be."""
        uses = ("text_column", "category_column", "number_column", "ignore_column")
        return {name: list(getattr(self, name)) for name in uses if getattr(self, name)}

    def digest(self) -> str:
        """What tells whether work that was begun is on the same files."""
        stats = [path.stat() for path in (self.edges, self.nodes, self.features) if path is not None]
        return repr((self, [(one.st_size, one.st_mtime_ns) for one in stats]))


def read_nodes(tables: Tables, work: Path, progress: Progress) -> dict[str, Any]:
    """Write the arrays of the nodes into a folder: names, their keys, labels, features; and say what else is known."""
    stream = Stream(tables.nodes)
    ids = stream.column(tables.id_column or "", "node ids", "--id-column")
    label = stream.column(tables.label_column, "labels", "--label-column") if tables.label_column else None
    roles = feature_roles(stream, ids, label, tables.given())
    if tables.features is not None:
        _check_unused(tables, roles)
    plain = _Numbers(stream, work, [role.column for role in roles if role.use == "number"])
    plain.whole = all(role.use in ("number", "") for role in roles)
    files = {
        "name_ends": Growing(work / "name_ends.npy", np.int64),
        "name_letters": Growing(work / "name_letters.npy", np.uint8),
        "keys": Growing(work / "keys.npy", np.uint64, (2,)),
    }
    files["name_ends"].append(np.zeros(1))
    seen: dict[str, int] = {}
    codes: list[np.ndarray] = []
    for first, batch in stream.batches([ids] if label is None else [ids, label], plain.names if plain.whole else []):
        progress("reading nodes", 0.0)
        _add_names(stream, first, batch.column(ids), ids, files)
        if label is not None:
            codes.append(_codes(batch.column(label), seen))
        plain.append(first, batch)
    for file in files.values():
        file.close()
    rows = files["keys"].rows
    if not rows:
        raise InputError(f"{stream.path} has column names but no rows below them")
    _check_names(stream, ids, work)
    y, classes = _labels(np.concatenate(codes) if codes else np.full(rows, -1), seen)
    np.save(work / "y.npy", y)
    found = plain.close() or _features(tables, stream, work, roles, progress)
    if tables.features is not None:
        read_vectors(tables.features, stream.path, rows, work / "features.npy", progress)
    unused = [f"column {role.column!r} is not used ({role.why}); {role.change}" for role in roles if not role.use]
    return {"rows": rows, "class_names": classes, "notes": [*unused, *([APART] if tables.apart else [])], **found}


def _check_unused(tables: Tables, roles: list[Role]) -> None:
    """Beside features in a file of their own no column of nodes may be used."""
    used = [role.column for role in roles if role.use]
    if used:
        flags = " ".join(f"--ignore-column {name}" for name in used)
        raise InputError(
            f"{tables.nodes}, column {used[0]!r}: a store has the columns of nodes or --features {tables.features}, "
            f"not both; say {flags}, or do without --features"
        )


class _Numbers:
    """Columns of numbers as they are, as long as none is missing: then they are ``whole``."""

    def __init__(self, stream: Stream, work: Path, names: list[str]) -> None:
        self.stream, self.names, self.whole = stream, names, True
        self.path = work / "features.npy"
        self.file = Growing(self.path, np.float32, (len(names),))

    def append(self, first: int, batch: Any) -> None:
        self.whole = self.whole and not any(batch.column(name).null_count for name in self.names)
        if self.whole and self.names:
            self.file.append(numbers_of(self.stream, first, batch, self.names))

    def close(self) -> dict[str, Any] | None:
        self.file.close()
        if not (self.whole and self.names):
            self.path.unlink()
        return {"feature_names": self.names or None} if self.whole else None


def _features(tables: Tables, stream: Stream, work: Path, roles: list[Role], progress: Progress) -> dict[str, Any]:
    """Columns of any kind, in two passes."""
    names = [role.column for role in roles if role.use]
    learner = Learner(roles, work, tables.decimal)
    for batch in batches(stream, names):
        progress("learning what the columns hold", 0.0)
        learner.add(batch)
    files = FeatureFiles(work, roles, learner.memory(), tables.decimal)
    for batch in batches(stream, names):
        progress("reading columns", 0.0)
        files.append(batch)
    files.close()
    (work / NUMBERS).unlink()
    return {"feature_names": files.names, "width": files.width}


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


def numbers_of(stream: Stream, first: int, batch: Any, names: list[str]) -> np.ndarray:
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
