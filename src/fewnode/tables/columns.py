"""One table, in one file or several, as named columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from heapq import nlargest
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import PathLike, readable
from . import dialects, formats
from .names import USUAL_NAMES

PARQUET, JSON_LINES, EXCEL = (".parquet", ".pq"), (".jsonl", ".ndjson"), (".xlsx", ".xlsm")
TEXT = (".csv", ".tsv", ".txt", ".tab", ".edges", ".edgelist")
LIKELY = 500  # names that are compared letter by letter with a misspelt one


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a table by name: text as object arrays of stripped ``str``, numbers of typed files as they were.

    ``notes`` says what was unusual about the file; ``parts`` names each file with its first row, if there are several.
    """

    path: Path
    columns: dict[str, np.ndarray]
    notes: tuple[str, ...] = ()
    parts: tuple[tuple[Path, int], ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str, role: str, flag: str | None = None) -> np.ndarray:
        """The column called ``name``; if there is none, the error shows what is there and the likely one."""
        if name in self.columns:
            return self.columns[name]
        close = close_name(name, self.columns)
        hint = f" Did you mean {close!r}?" if close else ""
        raise InputError(
            f"{self.path} has no column {name!r} for the {role}.{hint} Its first row names: "
            f"{', '.join(map(repr, self.columns))}. Rename the column or say which one it is"
            f"{f' ({flag} NAME)' if flag else ''}."
        )

    def text(self, name: str, role: str, flag: str | None = None) -> list[str]:
        """The column as strings, missing as ''; whole numbers without a decimal point."""
        column = self.column(name, role, flag)
        if column.ndim > 1:
            raise InputError(f"{self.path}, column {name!r}: holds vectors, so it cannot be the {role}")
        if column.dtype.kind == "f":  # how Parquet gives integers with gaps
            return ["" if np.isnan(v) else str(int(v)) if v.is_integer() else str(v) for v in column.tolist()]
        values: list[str] = (column if column.dtype == object else column.astype(str)).tolist()
        return values

    def place(self, row: int, column: str | None = None) -> str:
        """Where data row ``row`` (from 0) is, as a person would look for it."""
        file, first = next((part for part in reversed(self.parts) if part[1] <= row), (self.path, 0))
        line = ""
        if dialects.kind_of(file) in TEXT:
            data = dialects.unpacked(file)
            dialect = dialects.find_dialect(file, data, USUAL_NAMES)
            line = f" (line {dialects.line_number(data, dialect, row - first)})"
        return f"{file}, row {row - first + 1}{line}" + (f", column {column!r}" if column else "")


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


def several(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """The files that are meant: one, several, or a pattern such as ``part-*.csv``."""
    given = [Path(paths)] if isinstance(paths, str | Path) or not isinstance(paths, Sequence) else map(Path, paths)
    files: list[Path] = []
    for path in given:
        pattern = any(mark in path.name for mark in "*?[") and not path.exists()
        found = sorted(path.parent.glob(path.name)) if pattern else [path]
        if not found:
            raise InputError(f"no file matches {path}")
        files += found
    if not files:
        raise InputError("no file is named")
    return files


def read_columns(paths: PathLike | Sequence[PathLike] | Table) -> Table:
    """Read a table whose first row names the columns: CSV, TSV, Parquet, Excel or JSON lines, packed or not.

    Several files, or those of a pattern such as ``part-*.csv``, are parts of one table with the same columns.
    """
    if isinstance(paths, Table):  # a DataFrame, which io.frames has made a table
        return paths
    tables = [_read(path) for path in several(paths)]
    first = tables[0]
    if len(tables) == 1:
        return first
    for table in tables[1:]:
        if set(table.columns) != set(first.columns):
            other = set(table.columns) ^ set(first.columns)
            raise InputError(
                f"{table.path} and {first.path} are read as one table, but not both have {', '.join(sorted(other))}. "
                "Give every part the same columns"
            )
    starts = np.cumsum([0, *(len(table) for table in tables[:-1])]).tolist()
    columns = {name: _joined([table.columns[name] for table in tables]) for name in first.columns}
    notes = tuple(note for table in tables for note in table.notes)
    return Table(first.path, columns, notes, tuple(zip([table.path for table in tables], starts, strict=True)))


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    if any(part.dtype == object for part in parts) and any(part.dtype != object for part in parts):
        whole = [Table(Path(), {"": part}).text("", "values") for part in parts]
        return np.array([value for part in whole for value in part], dtype=object)
    return np.concatenate(parts)


def _read(path: PathLike) -> Table:
    file = readable(path)
    kind = dialects.kind_of(file)
    if kind in TEXT:
        table = _read_text(file)
    elif kind in PARQUET:
        table = Table(file, formats.read_parquet(file))
    elif kind in JSON_LINES:
        table = Table(file, formats.read_json_lines(file))
    elif kind in EXCEL:
        table = Table(file, *formats.read_excel(file))
    else:
        known = ", ".join((*TEXT[:3], *PARQUET, *JSON_LINES, EXCEL[0]))
        raise InputError(
            f"{file}: a table must end in {known} (text also packed: {', '.join(dialects.PACKED)}), "
            f"not {kind or 'nothing'!r}"
        )
    if not table.columns or len(table) == 0:
        raise InputError(f"{file} has column names but no rows below them")
    return table


def _read_text(file: Path) -> Table:
    data = dialects.unpacked(file)
    dialect = dialects.find_dialect(file, data, USUAL_NAMES)
    header, nameless = _checked_header(file, dialect.header)
    columns = dialects.read_text(file, data, replace(dialect, header=header))
    for name in nameless:  # a separator at the end of every line
        if not any(map(str.strip, columns[name])):
            del columns[name]
    return Table(file, columns, dialect.notes)


def _checked_header(file: Path, header: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
    """Every column with a name of its own; those without one are numbered."""
    if not any(header):
        raise InputError(f"{file}: the first row names no column; every column needs its own name")
    for name in header:
        if name and header.count(name) > 1:
            raise InputError(f"{file}: the first row has two columns called {name!r}; every column needs its own name")
    named = tuple(name or f"column {place + 1}" for place, name in enumerate(header))
    return named, [new for new, old in zip(named, header, strict=True) if not old]
