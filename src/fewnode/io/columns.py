"""One table file as named columns, and back."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..storage import PathLike, atomic_write, readable

PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv", ".txt")
LIKELY = 500  # names that are compared letter by letter with a misspelt one


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of one file by name: text as object arrays of ``str``, numbers of Parquet as they were."""

    path: Path
    columns: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str, role: str) -> np.ndarray:
        """The column called ``name``; if there is none, the error shows what is there and the likely one."""
        if name in self.columns:
            return self.columns[name]
        close = close_name(name, self.columns)
        hint = f" Did you mean {close!r}?" if close else ""
        raise InputError(
            f"{self.path} has no column {name!r} for the {role}.{hint} Its first row names: "
            f"{', '.join(map(repr, self.columns))}. Rename the column or say which one it is."
        )

    def text(self, name: str, role: str) -> list[str]:
        """The column as stripped strings, missing as ''; whole numbers without a decimal point."""
        column = self.column(name, role)
        if column.dtype.kind == "f":  # how Parquet gives integers with gaps
            return ["" if np.isnan(v) else str(int(v)) if v == np.trunc(v) else str(v) for v in column.tolist()]
        return [value.strip() for value in column.astype(object if column.dtype == object else str).tolist()]

    def place(self, row: int, column: str | None = None) -> str:
        """Where data row ``row`` (from 0) is, as a person would look for it."""
        line = f" (line {_line_number(self.path, row)})" if self.path.suffix.lower() in TEXT else ""
        return f"{self.path}, row {row + 1}{line}" + (f", column {column!r}" if column else "")


def close_name(name: str, names: Mapping[str, Any] | Sequence[str]) -> str | None:
    """The one of ``names`` that ``name`` probably meant: letter case ignored, else the nearest spelling.

    Of many names only the ``LIKELY`` ones that share most pairs of letters with it are compared in full.
    """
    folded = {known.casefold(): known for known in names}
    wanted = name.casefold()
    if wanted in folded:
        return folded[wanted]
    likely: Iterable[str] = folded
    if len(folded) > LIKELY:
        pairs = {wanted[i : i + 2] for i in range(len(wanted) - 1)}
        likely = nlargest(
            LIKELY, folded, lambda known: (sum([pair in known for pair in pairs]), -abs(len(known) - len(wanted)))
        )
    close = get_close_matches(wanted, likely, n=1, cutoff=0.7)
    return folded[close[0]] if close else None


def read_columns(path: PathLike) -> Table:
    """Read a CSV (comma), TSV (tab) or Parquet file whose first row names the columns."""
    file = readable(path)
    suffix = file.suffix.lower()
    if suffix not in TEXT + PARQUET:
        raise InputError(f"{file}: a table must end in {', '.join(TEXT + PARQUET)}, not {suffix or 'nothing'!r}")
    table = _read_parquet(file) if suffix in PARQUET else _read_text(file)
    if len(table) == 0:
        raise InputError(f"{file} has column names but no rows below them")
    return table


def _decode(file: Path) -> str:
    data = file.read_bytes()
    remedy = "Save it as a comma-separated UTF-8 text file."
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{file} is in UTF-16, not UTF-8. {remedy}")
    if b"\0" in data:
        raise InputError(f"{file} holds NUL bytes, so it is not a UTF-8 text table. {remedy}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{file}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8 "
            f"(perhaps Latin-1 or Windows-1252). {remedy}"
        ) from error


def _separator(file: Path) -> str:
    return "\t" if file.suffix.lower() == ".tsv" else ","


def _read_text(file: Path) -> Table:
    reader = csv.reader(io.StringIO(_decode(file), newline=""), delimiter=_separator(file), strict=True)
    rows = filter(None, reader)  # a blank line is no row
    try:
        header = [name.strip() for name in next(rows, [])]
        _check_header(file, header)
        columns: list[list[str]] = [[] for _ in header]
        while block := list(islice(rows, 10_000)):  # few rows alive at once: half the time, a third of the memory
            _check_lengths(file, block, len(columns[0]), len(header))
            for column, values in zip(columns, zip(*block, strict=True), strict=True):
                column.extend(values)
    except csv.Error as error:
        reason = f"{error}. A quote may be left open or out of place."
        raise InputError(f"{file}, line {reader.line_num}: {reason}") from error
    return Table(file, {name: np.array(column, dtype=object) for name, column in zip(header, columns, strict=True)})


def _check_lengths(file: Path, block: list[list[str]], start: int, expected: int) -> None:
    lengths = np.fromiter(map(len, block), dtype=np.int64, count=len(block))
    if len(wrong := np.flatnonzero(lengths != expected)):
        raise InputError(
            f"{Table(file, {}).place(start + int(wrong[0]))}: {lengths[wrong[0]]} values, but the first row "
            f"names {expected} columns. Quote values that hold {_separator(file)!r}, leave gaps empty."
        )


def _check_header(file: Path, header: list[str]) -> None:
    separator = _separator(file)
    if not header:
        raise InputError(f"{file} has only blank lines")
    other = next((mark for mark in ("\t", ";", "|", ",") if mark != separator and mark in header[0]), None)
    if len(header) == 1 and other:
        raise InputError(
            f"{file}: columns are separated by {other!r}, not {separator!r} (first row: {header[0]!r}). "
            "Save it with commas as .csv, or with tabs as .tsv."
        )
    for name in header:
        if not name or header.count(name) > 1:
            what = f"two columns called {name!r}" if name else "a column without a name"
            raise InputError(f"{file}: the first row has {what}; every column needs its own name")


def _line_number(file: Path, row: int) -> int:
    """The line of the file where a data row ends; only errors ask, so the file is read again."""
    reader = csv.reader(io.StringIO(_decode(file), newline=""), delimiter=_separator(file))
    for seen, _ in enumerate(filter(None, reader)):
        if seen == row + 1:
            break
    return reader.line_num


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "Parquet needs pyarrow, which is not installed: pip install 'fewnode[tables]', or use CSV"
        ) from error
    return pyarrow


def _read_parquet(file: Path) -> Table:
    arrow = _pyarrow()
    try:
        table = arrow.parquet.read_table(file)
    except (arrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{file} is not a readable Parquet file ({reason})") from error
    if not table.num_columns:
        raise InputError(f"{file} has no columns")
    names = [name for name in table.column_names if not name.startswith("__index_level_")]  # a row index, not data
    return Table(file, {name: _parquet_column(file, name, table[name]) for name in names})


def _parquet_column(file: Path, name: str, column: Any) -> np.ndarray:
    kind = column.type
    types = _pyarrow().types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        values: np.ndarray = column.to_numpy()
        return values if values.dtype != object else values.astype(np.float64)  # booleans with gaps
    if types.is_nested(kind):
        raise InputError(f"{file}, column {name!r}: holds {kind}, not single values; write one column per value")
    text = column.cast(_pyarrow().string())
    return np.array(["" if value is None else value for value in text.to_pylist()], dtype=object)


def check_writable(path: PathLike, force: bool = False) -> Path:
    """``path`` if a table may be written there: to be asked before the work that fills it."""
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in TEXT + PARQUET:
        raise InputError(f"{file}: a table must end in {', '.join(TEXT + PARQUET)}, not {suffix or 'nothing'!r}")
    if suffix in PARQUET:
        _pyarrow()
    if file.is_dir():
        raise InputError(f"{file} is a folder; name a file")
    if file.exists() and not force:
        raise InputError(f"{file} exists already; choose another name or overwrite it (--force, in Python force=True)")
    return file


def write_columns(path: PathLike, columns: Mapping[str, Any], force: bool = False) -> None:
    """Write equally long columns as CSV, TSV or Parquet; an existing file is kept unless ``force``."""
    file = check_writable(path, force)
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    if len(lengths := {name: len(array) for name, array in arrays.items()}) and len(set(lengths.values())) > 1:
        raise InputError(f"columns differ in length: {lengths}")
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"column {name!r} holds NaN or infinity at row {int((~np.isfinite(array)).argmax()) + 1}")
    if file.suffix.lower() in PARQUET:
        arrow = _pyarrow()
        table = arrow.table({name: array.tolist() for name, array in arrays.items()})
        with atomic_write(file) as out:
            arrow.parquet.write_table(table, out)
        return
    with atomic_write(file, "w") as out:
        writer = csv.writer(out, delimiter=_separator(file), lineterminator="\n")
        writer.writerow(arrays)
        writer.writerows(zip(*(array.tolist() for array in arrays.values()), strict=True))
