"""Write columns to files, completely or not at all."""

import csv
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import PathLike, atomic_path, atomic_write, check_place, guarded
from .read import PARQUET, Table, connect, literal

TEXT = (".csv", ".tsv", ".txt")
Write = Callable[[Mapping[str, Any]], None]  # given equally long columns, the same ones each time


def check_writable(
    path: PathLike, force: bool = False, what: str = "table", endings: Sequence[str] = TEXT + PARQUET
) -> Path:
    """``path`` if a table, or a ``what`` with such ``endings``, may be written there. Call it before long work."""
    file = Path(path)
    check_place(file)
    suffix = file.suffix.lower()
    if suffix not in endings:
        raise InputError(f"{file}: a {what} must end in {', '.join(endings)}, not {suffix or 'nothing'!r}")
    if file.is_dir():
        raise InputError(f"{file} is a folder; name a file")
    if file.exists() and not force:
        raise InputError(f"{file} exists already; choose another name or overwrite it with force=True")
    return file


def write_columns(path: PathLike, columns: Mapping[str, Any], force: bool = False, raw: bool = False) -> None:
    """Write equally long columns as CSV, TSV or Parquet; an existing file is kept unless ``force``.

    Texts that a spreadsheet would run (``= + - @`` first) get an apostrophe in front in CSV and TSV, unless ``raw``.
    """
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    if len(lengths := {name: len(array) for name, array in arrays.items()}) and len(set(lengths.values())) > 1:
        raise InputError(f"columns differ in length: {lengths}")
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"column {name!r} holds NaN or infinity at row {int((~np.isfinite(array)).argmax()) + 1}")
    with writing_columns(path, force, raw) as write:
        write(arrays)


@contextmanager
def writing_columns(path: PathLike, force: bool = False, raw: bool = False) -> Iterator[Write]:
    """A function that appends rows to a CSV, TSV or Parquet file, which is there once all of them are written; ``raw``
    as in ``write_columns``."""
    file = check_writable(path, force)
    if file.suffix.lower() in PARQUET:
        with atomic_path(file) as fresh, _writing_parquet(fresh) as write:
            yield write
        return
    with atomic_write(file, "w") as out:
        cell: Callable[[Any], Any] = (lambda value: value) if raw else guarded
        delimiter = "\t" if file.suffix.lower() == ".tsv" else ","
        writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")

        def write(columns: Mapping[str, Any]) -> None:
            arrays = {name: np.asarray(part) for name, part in columns.items()}
            if not out.tell():
                writer.writerow(map(cell, arrays))
            cells = (a.tolist() if a.dtype.kind in "biuf" else map(cell, a.tolist()) for a in arrays.values())
            writer.writerows(zip(*cells, strict=True))

        yield write


def write_table(table: Table, path: Path) -> None:
    """Write the texts and numbers of a table as Parquet; vectors are left out."""
    plain = [name for name, content in table.columns.items() if content != "vectors"]
    cells = ", ".join(f'{table.places[name]} as "{name.replace(chr(34), chr(34) * 2)}"' for name in plain)
    table.run(f"copy (select {cells} from {table.sql} order by rowid) to {literal(path)} (format parquet)")


@contextmanager
def _writing_parquet(out: Path) -> Iterator[Write]:
    """Rows are collected in a database beside the file, which may grow larger than memory."""
    with (
        tempfile.TemporaryDirectory(dir=out.parent) as folder,
        connect(Path(folder) / "rows", folder=folder) as database,
    ):

        def write(columns: Mapping[str, Any]) -> None:
            arrays = {name: np.asarray(part) for name, part in columns.items()}
            database.register("batch", {n: a.astype(object) if a.dtype.kind == "U" else a for n, a in arrays.items()})
            database.execute("create table if not exists rows as from batch limit 0")
            database.execute("insert into rows from batch")

        yield write
        database.execute(f"copy rows to {literal(out)} (format parquet)")
