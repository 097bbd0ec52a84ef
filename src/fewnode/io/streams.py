"""Tables too long for memory: written as their rows come."""

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..storage import PathLike, atomic_write
from .columns import PARQUET, _pyarrow, _separator, check_writable

Write = Callable[[Mapping[str, Any]], None]  # given equally long columns, the same ones each time


@contextmanager
def writing_columns(path: PathLike, force: bool = False) -> Iterator[Write]:
    """A function that appends rows to a CSV, TSV or Parquet file, which is there once all of them are written."""
    file = check_writable(path, force)
    if file.suffix.lower() in PARQUET:
        with atomic_write(file) as out, _parquet(out) as write:
            yield write
        return
    with atomic_write(file, "w") as out:
        writer, started = csv.writer(out, delimiter=_separator(file), lineterminator="\n"), False

        def write(columns: Mapping[str, Any]) -> None:
            nonlocal started
            if not started:
                writer.writerow(columns)
            started = True
            writer.writerows(zip(*(np.asarray(part).tolist() for part in columns.values()), strict=True))

        yield write


@contextmanager
def _parquet(out: Any) -> Iterator[Write]:
    arrow = _pyarrow()
    writers: list[Any] = []

    def write(columns: Mapping[str, Any]) -> None:
        table = arrow.table({name: np.asarray(part).tolist() for name, part in columns.items()})
        if not writers:
            writers.append(arrow.parquet.ParquetWriter(out, table.schema))
        writers[0].write_table(table)

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()
