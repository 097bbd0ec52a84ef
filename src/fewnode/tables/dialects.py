"""A text file as rows of cells: packed or not, in any common encoding, with any common separator."""

import bz2
import csv
import gc
import gzip
import io
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import check_content, unpacked_bound

PACKED = (".gz", ".bz2", ".xz", ".zst")
SEPARATORS = (",", "\t", ";", "|", " ")
SAMPLE = 50  # rows that the separator is judged by
DAMAGED = (OSError, EOFError, ValueError, lzma.LZMAError)


@dataclass(frozen=True)
class Dialect:
    """How a text file is written: the first ``skip`` lines are comments, ``header`` names the columns; ``in_row`` says
    that the first row holds these names."""

    encoding: str
    separator: str
    header: tuple[str, ...]
    skip: int
    in_row: bool
    notes: tuple[str, ...] = ()


def kind_of(file: Path) -> str:
    """The ending that says what a file holds, without that of its packing."""
    inner = Path(file.stem) if file.suffix.lower() in PACKED else file
    return inner.suffix.lower()


def unpacked(file: Path) -> bytes:
    """The bytes of a file that may be packed."""
    packing = file.suffix.lower()
    if packing not in PACKED:
        return file.read_bytes()
    try:
        if packing == ".zst":
            return _zstd(file)
        opened: Any = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[packing]
        with opened.open(file, "rb") as stream:
            content: bytes = stream.read(unpacked_bound(file) + 1)
        return check_content(file, content)
    except DAMAGED as error:
        raise InputError(f"{file} cannot be unpacked ({error}); it may be cut off. Write it again") from error


def _zstd(file: Path) -> bytes:
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            f"{file}: .zst needs pyarrow, which is not installed: pip install 'fewnode[tables]', or use .gz"
        ) from error
    with pyarrow.input_stream(str(file), compression="zstd") as stream:
        content: bytes = stream.read(unpacked_bound(file) + 1)
    return check_content(file, content)


def find_encoding(file: Path, data: bytes) -> tuple[str, str | None]:
    """The encoding of a text, and what is to be said about it."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16", f"{file.name} is in UTF-16"
    if b"\0" in data:
        for encoding, zeros in (("utf-16-le", data[1:2000:2]), ("utf-16-be", data[0:2000:2])):
            if zeros.count(0) > len(zeros) // 2:
                return encoding, f"{file.name} is in UTF-16"
        raise InputError(f"{file} holds NUL bytes, so it is not a text table. Save it as a UTF-8 text file.")
    try:
        data.decode("utf-8-sig")
        return "utf-8-sig", None
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
    try:
        data.decode("cp1252")
        encoding, name = "cp1252", "Windows-1252 (Latin-1)"
    except UnicodeDecodeError:
        encoding, name = "latin-1", "Latin-1"
    return encoding, f"{file.name} is not in UTF-8 (line {line}: byte 0x{byte:02x}); it was read as {name}"


def find_dialect(file: Path, data: bytes, names: frozenset[str], header: bool = True) -> Dialect:
    """How the text ``data`` of a file is written. ``names`` are usual column names, in lower case: a comment line above
    a row of such names is no header."""
    encoding, note = find_encoding(file, data)
    try:
        start = io.TextIOWrapper(io.BytesIO(data), encoding, newline="")
        lines = list(islice(start, 10 * SAMPLE))
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not a {encoding} text ({error}). Save it as UTF-8") from error
    notes = [] if note is None else [note]
    comments = 0
    while comments < len(lines) and (lines[comments].startswith("#") or not lines[comments].strip()):
        comments += 1
    body = lines[comments:]
    separator = _separator(file, body or lines)
    first = _cells(body[:1], separator)
    told = _comment_header(lines[:comments], separator, first)
    if told is not None and not {name.strip().casefold() for name in first} & names:
        return Dialect(encoding, separator, tuple(told), comments, False, tuple(notes))
    if not body and not any(line.strip() for line in lines):
        raise InputError(f"{file} has only blank lines")
    numeric = len(first) > 1 and all(_is_number(cell) for cell in first)
    if not header or numeric:
        if numeric:
            notes.append(f"{file.name} has no row of column names (its first row is {', '.join(first)})")
        made = tuple(f"column {i + 1}" for i in range(len(first)))
        return Dialect(encoding, separator, made, comments, False, tuple(notes))
    return Dialect(encoding, separator, tuple(name.strip() for name in first), comments, True, tuple(notes))


def _comment_header(comments: list[str], separator: str, first: list[str]) -> list[str] | None:
    """The names in the last comment line, if there are as many as cells in the first row below."""
    told = [line for line in comments if line.startswith("#")][-1:]
    cells = [cell.strip() for cell in _cells([line.lstrip("# ") for line in told], separator)]
    return cells if len(cells) == len(first) > 1 and all(cells) else None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _cells(lines: list[str], separator: str) -> list[str]:
    return next(csv.reader(lines, delimiter=separator), [])


def _separator(file: Path, lines: list[str]) -> str:
    """The usual separator of the ending, unless the first rows are only of one length with another."""
    usual = "\t" if kind_of(file) == ".tsv" else ","
    found: dict[str, tuple[bool, int]] = {}
    for mark in (usual, *(mark for mark in SEPARATORS if mark != usual)):
        rows = [row for row in islice(_lenient(lines, mark), SAMPLE) if any(cell.strip() for cell in row)]
        lengths = [len(row) for row in rows]
        if lengths and lengths[0] > 1:
            found[mark] = (len(set(lengths)) == 1, lengths[0])
    even = {mark: count for mark, (same, count) in found.items() if same and (mark != " " or count <= 3)}
    if usual in even:
        return usual
    marks = even or {mark: count for mark, (_, count) in found.items() if mark != " "}
    return usual if usual in marks else max(marks, key=lambda mark: marks[mark], default=usual)


def _lenient(lines: list[str], separator: str) -> Iterator[list[str]]:
    reader = csv.reader(lines, delimiter=separator)
    while True:
        try:
            yield next(reader)
        except (csv.Error, StopIteration):
            return


def rows_of(data: bytes, dialect: Dialect) -> tuple[Iterator[list[str]], Any]:
    """The data rows of a text, and the reader, which knows the line it is at. A blank line is no row."""
    stream = io.TextIOWrapper(io.BytesIO(data), dialect.encoding, newline="")
    comments = ["\n" for _ in islice(stream, dialect.skip)]  # blank lines in their place keep the line numbers
    reader: Any = csv.reader(chain(comments, stream), delimiter=dialect.separator, strict=True)
    rows = filter(None, reader)
    if dialect.in_row:
        next(rows, None)
    return rows, reader


@contextmanager
def no_collection() -> Iterator[None]:
    """Millions of small lists would be searched for cycles again and again: seven times slower."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def read_text(file: Path, data: bytes, dialect: Dialect) -> dict[str, np.ndarray]:
    """The columns of a text table; an error names the line."""
    rows, reader = rows_of(data, dialect)
    columns: list[list[str]] = [[] for _ in dialect.header]
    try:
        with no_collection():
            while block := list(islice(rows, 10_000)):  # few rows alive at once: a third of the memory
                _check_lengths(file, data, dialect, block, len(columns[0]))
                for column, values in zip(columns, zip(*block, strict=True), strict=True):
                    column.extend(map(str.strip, values))
    except csv.Error as error:
        reason = f"{error}. A quote may be left open or out of place."
        raise InputError(f"{file}, line {reader.line_num}: {reason}") from error
    return {name: np.array(column, dtype=object) for name, column in zip(dialect.header, columns, strict=True)}


def _check_lengths(file: Path, data: bytes, dialect: Dialect, block: list[list[str]], start: int) -> None:
    expected = len(dialect.header)
    lengths = np.fromiter(map(len, block), dtype=np.int64, count=len(block))
    if len(wrong := np.flatnonzero(lengths != expected)):
        row = start + int(wrong[0])
        raise InputError(
            f"{file}, row {row + 1} (line {line_number(data, dialect, row)}): {lengths[wrong[0]]} values, but the "
            f"first row names {expected} columns. Quote values that hold {dialect.separator!r}, leave gaps empty."
        )


def line_number(data: bytes, dialect: Dialect, row: int) -> int:
    """The line of the file where a data row ends; only errors ask, so the file is gone through again."""
    rows, reader = rows_of(data, dialect)
    for seen, _ in enumerate(rows):
        if seen == row:
            break
    return int(reader.line_num)
