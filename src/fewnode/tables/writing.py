"""Columns as a file: whole or not at all."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import PathLike, atomic_write, check_place, guarded
from .formats import pyarrow

PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv", ".txt")


def check_writable(path: PathLike, force: bool = False) -> Path:
    """``path`` if a table may be written there: to be asked before the work that fills it."""
    file = Path(path)
    check_place(file)
    suffix = file.suffix.lower()
    if suffix not in TEXT + PARQUET:
        raise InputError(f"{file}: a table must end in {', '.join(TEXT + PARQUET)}, not {suffix or 'nothing'!r}")
    if suffix in PARQUET:
        pyarrow()
    if file.is_dir():
        raise InputError(f"{file} is a folder; name a file")
    if file.exists() and not force:
        raise InputError(f"{file} exists already; choose another name or overwrite it (--force, in Python force=True)")
    return file


def write_columns(path: PathLike, columns: Mapping[str, Any], force: bool = False, raw: bool = False) -> None:
    """Write equally long columns as CSV, TSV or Parquet; an existing file is kept unless ``force``.

    Texts that a spreadsheet would run (``= + - @`` first) get an apostrophe in front in CSV and TSV, unless ``raw``.
    """
    file = check_writable(path, force)
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    if len(lengths := {name: len(array) for name, array in arrays.items()}) and len(set(lengths.values())) > 1:
        raise InputError(f"columns differ in length: {lengths}")
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"column {name!r} holds NaN or infinity at row {int((~np.isfinite(array)).argmax()) + 1}")
    if file.suffix.lower() in PARQUET:
        arrow = pyarrow()
        table = arrow.table({name: array.tolist() for name, array in arrays.items()})
        with atomic_write(file) as out:
            arrow.parquet.write_table(table, out)
        return
    with atomic_write(file, "w") as out:
        writer = csv.writer(out, delimiter="\t" if file.suffix.lower() == ".tsv" else ",", lineterminator="\n")
        cell = (lambda value: value) if raw else guarded
        writer.writerow(map(cell, arrays))
        columns_ = (
            array.tolist() if array.dtype.kind in "biuf" else map(cell, array.tolist()) for array in arrays.values()
        )
        writer.writerows(zip(*columns_, strict=True))
