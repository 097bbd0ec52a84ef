"""Tables longer than memory: read and written some rows at a time (Arrow's CSV and Parquet streams)."""

import csv
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import PathLike, atomic_write, guarded, readable
from .columns import Table
from .formats import pyarrow as arrow_with_parquet
from .writing import PARQUET, TEXT, check_writable

BLOCK = 16 << 20  # bytes of text read at a time
BATCH = 1 << 18  # rows of Parquet read at a time

Write = Callable[[Mapping[str, Any]], None]  # given equally long columns, the same ones each time
Batches = Iterator[tuple[int, Any]]  # the number of the first row, and an Arrow batch


class Stream:
    """The rows of a CSV, TSV or Parquet file, some at a time; a row that cannot be read is named."""

    def __init__(self, path: PathLike) -> None:
        self.path, self.arrow = readable(path), arrow_with_parquet()
        self.wrong: re.Match[str] | None = None  # the row that Arrow stumbled over
        suffix = self.path.suffix.lower()
        if suffix not in TEXT + PARQUET:
            raise InputError(
                f"{self.path}: a table must end in {', '.join(TEXT + PARQUET)}, not {suffix or 'nothing'!r}"
            )
        self.parquet = suffix in PARQUET
        with self._reading(), self._opened(None) as opened:
            schema = opened.schema_arrow if self.parquet else opened.schema
            self.names: list[str] = schema.names
            self.vectors = [field.name for field in schema if self.arrow.types.is_nested(field.type)]

    def column(self, name: str, role: str, flag: str) -> str:
        """``name``, if there is such a column."""
        Table(self.path, dict.fromkeys(self.names, np.empty(0))).column(name, role, flag)
        return name

    def place(self, row: int, column: str | None = None) -> str:
        """Where data row ``row`` (from 0) is."""
        return f"{self.path}, row {row + 1}" + (f", column {column!r}" if column else "")

    def most_rows(self) -> int:
        """A number that the rows are hardly above: as they are counted in Parquet, else from the length of the first
        ones, of which those that follow are mostly longer."""
        if self.parquet:
            with self._reading(), self._opened(None) as opened:
                return int(opened.metadata.num_rows)
        with self.path.open("rb") as file:
            start = file.read(1 << 16)
        lines = max(start.count(b"\n"), 1)
        return 1 + self.path.stat().st_size * lines // len(start) if start else 0

    def batches(self, text: list[str], numbers: list[str]) -> Batches:
        """Batches with the columns ``text`` as strings and ``numbers`` in single precision."""
        first, wanted = 0, [*text, *numbers]
        types = dict.fromkeys(text, self.arrow.string()) | dict.fromkeys(numbers, self.arrow.float32())
        try:
            with self._reading(), self._opened(types, wanted) as opened:
                for batch in self._rows(opened, wanted, types):
                    yield first, batch
                    first += batch.num_rows
        except InputError:
            if numbers and not self.parquet and self.wrong is None:
                self._not_a_number(numbers)
            raise
        if first and not self.parquet:
            self._check_end(first - 1)

    def _check_end(self, last: int) -> None:
        """Refuse a text that ends within its last row: an id that was cut off may well be that of another node."""
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read() in (b"\n", b"\r"):
                return
        raise InputError(
            f"{self.place(last)}: the file ends without a line break, so the row may be truncated. Complete it, or end "
            "it with a line break"
        )

    def _rows(self, opened: Any, wanted: list[str], types: Mapping[str, Any]) -> Iterator[Any]:
        if not self.parquet:
            yield from opened
            return
        for batch in opened.iter_batches(BATCH, columns=wanted):
            parts = [batch.column(name).cast(types[name]) for name in wanted]
            yield self.arrow.record_batch(parts, names=wanted)

    def _opened(self, types: Mapping[str, Any] | None, wanted: list[str] | None = None) -> Any:
        if self.parquet:
            return self.arrow.parquet.ParquetFile(self.path)
        import pyarrow.csv

        kinds = {} if types is None else {"column_types": types, "include_columns": wanted}
        return pyarrow.csv.open_csv(
            self.path,
            pyarrow.csv.ReadOptions(block_size=BLOCK, use_threads=False),
            pyarrow.csv.ParseOptions(delimiter=separator(self.path)),
            pyarrow.csv.ConvertOptions(**kinds, strings_can_be_null=False),
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self.wrong = None
        try:
            yield
        except (self.arrow.ArrowException, OSError) as error:
            # In words, because a function of ours that Arrow's threads called would be in use when the program ends.
            self.wrong = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", str(error))
            if self.wrong is not None:
                row, expected, found = map(int, self.wrong.groups())
                raise InputError(
                    f"{self.place(row - 2)}: {found} values, but the first row names {expected} columns. "
                    "The file may be truncated"
                ) from error
            raise InputError(f"{self.path} cannot be read ({str(error).splitlines()[0]})") from error

    def _not_a_number(self, numbers: list[str]) -> None:
        """Find the value that is none: slowly, because only errors ask."""
        for first, batch in self.batches(numbers, []):
            for name in numbers:
                for i, value in enumerate(batch.column(name).to_pylist()):
                    if value.strip() and not _is_number(value):
                        raise InputError(
                            f"{self.place(first + i, name)}: {value!r} is not a number. Columns other than id "
                            "and label must be numeric in every row: fill it in, or leave the column out"
                        )


@contextmanager
def writing_columns(path: PathLike, force: bool = False, raw: bool = False) -> Iterator[Write]:
    """A function that appends rows to a CSV, TSV or Parquet file, which is there once all of them are written; ``raw``
    as in ``write_columns``."""
    file = check_writable(path, force)
    if file.suffix.lower() in PARQUET:
        with atomic_write(file) as out, _parquet(out) as write:
            yield write
        return
    with atomic_write(file, "w") as out:
        cell: Callable[[Any], Any] = (lambda value: value) if raw else guarded
        writer, started = csv.writer(out, delimiter=separator(file), lineterminator="\n"), False

        def write(columns: Mapping[str, Any]) -> None:
            nonlocal started
            arrays = {name: np.asarray(part) for name, part in columns.items()}
            if not started:
                writer.writerow(map(cell, arrays))
            started = True
            cells = (a.tolist() if a.dtype.kind in "biuf" else map(cell, a.tolist()) for a in arrays.values())
            writer.writerows(zip(*cells, strict=True))

        yield write


@contextmanager
def _parquet(out: Any) -> Iterator[Write]:
    arrow = arrow_with_parquet()
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


def separator(file: Path) -> str:
    return "\t" if file.suffix.lower() == ".tsv" else ","


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
