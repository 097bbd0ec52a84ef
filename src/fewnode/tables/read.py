"""Read tables with DuckDB: CSV in any dialect, Parquet, JSON lines, Excel, DataFrames, .duckdb files and queries.

Every input becomes a table of a database, in memory or in the work folder of an import, where it may be larger than
memory. The rest of the package works on these tables and does not depend on where they are."""

import bz2
import codecs
import csv
import gzip
import io
import lzma
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import duckdb
import msgspec
import numpy as np

from ..errors import InputError, refused
from ..files import PathLike, check_bound, check_unpacked, readable, reading
from .names import USUAL_NAMES

TEXT = (".csv", ".tsv", ".txt", ".tab", ".edges", ".edgelist")
PARQUET, JSON_LINES, EXCEL = (".parquet", ".pq"), (".jsonl", ".ndjson"), (".xlsx", ".xlsm")
DATABASES = (".duckdb", ".db")
PACKED = (".gz", ".bz2", ".xz", ".zst")
SPACES = "' \t\r\n\v\f\u00a0\u2002\u2003\u2009\u3000'"  # what is stripped from cells, as SQL
NUMERIC = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")
QUERY = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)

csv.field_size_limit(1 << 30)  # texts may be long
CELLS = "cells", 20_000_000, 20  # of a table: at most so many, or so many for each byte of its file
Content = Literal["text", "number", "vectors"]
Files = Any  # a path, a query, a DataFrame, a Table, or several of them


def connect(file: PathLike = ":memory:", memory: int | None = None, folder: PathLike | None = None) -> Any:
    """A DuckDB database that never downloads anything; what does not fit into ``memory`` bytes goes to ``folder``."""
    settings: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    settings["temp_directory"] = str(folder or Path(tempfile.gettempdir()) / f"fewnode-{os.getpid()}")
    if memory is not None:
        settings["memory_limit"] = f"{memory}B"
    return duckdb.connect(str(file), config=settings)


@cache  # that of a parent process has threads that do not live here, and is never closed
def _in_memory(process: int) -> Any:
    return connect()


@dataclass(eq=False)
class Table:
    """A table of a database: text cells are stripped and '' where they are missing, numbers and vectors NULL.

    Args:
        path: the file, or what messages call the table.
        columns: what each column holds.
        places: the name of each column in the database.
        sql: the name of the table in ``database``.
        rows: how many there are; their ``rowid`` counts from 0.
        notes: what was unusual about the file.
        parts: each file with its first row, if there are several.
        origin: the row of the file that each row was, if some were left out.
        decimal: the decimal mark of its numbers, where it cannot be told.
        cache: what was found out about its columns.
    """

    path: Path
    columns: dict[str, Content]
    places: dict[str, str]
    sql: str
    rows: int
    database: Any
    notes: Sequence[str] = ()
    parts: Sequence[tuple[Path, int]] = ()
    origin: Any = None
    decimal: str | None = None
    cache: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, path: PathLike, columns: Mapping[str, Any]) -> "Table":
        """A table of columns in memory, as ``column_of`` reads them."""
        database = _in_memory(os.getpid())  # once: two threads that are the first make two
        cursor = database.cursor()
        cursor.register("given", {f"c{i}": column_of(cells) for i, cells in enumerate(columns.values())})
        return _stored(database, Path(path), list(columns), "given", cursor)

    def with_rows(self, name: str, values: Sequence[str]) -> "Table":
        """A copy with one more row for each of ``values`` of the column ``name``, where other cells are missing."""
        cursor = self.database.cursor()
        cursor.register("added", {"v": np.array([*values], dtype=object)})
        place = self.places[name]
        cells = (f"{self.as_text(name)} {place}" if one == name else self.places[one] for one in self.columns)
        old = f"from (select {', '.join(cells)} from {self.sql} order by rowid)"
        return self._copy(f"({old} union all by name select v {place} from added)", self.origin, cursor)

    def distinct(self) -> "Table":
        """A copy without the rows that repeat an earlier one."""
        cells = ", ".join(self.places[name] for name in self.columns)
        rows = f"(select min(rowid) r, {cells} from {self.sql} group by {cells} order by r)"
        return self._copy(f"(select {cells} from {rows})", self.run(f"select r from {rows}").fetchnumpy()["r"])

    def _copy(self, source: str, origin: Any, cursor: Any = None) -> "Table":
        kept = {"notes": self.notes, "parts": self.parts, "decimal": self.decimal, "origin": origin}
        return _stored(self.database, self.path, list(self.columns), source, cursor, **kept)

    def __len__(self) -> int:
        return self.rows

    def __del__(self) -> None:
        if self.database is _in_memory(os.getpid()):
            with suppress(Exception):  # Python may be about to end
                self.run(f"drop table if exists {self.sql}")

    def run(self, query: str, values: Sequence[Any] = ()) -> Any:
        """The cursor of a query; every thread has its own."""
        return self.database.cursor().execute(query, values)

    def one(self, expressions: str, where: str = "true") -> Any:
        """The first row of what some rows give."""
        return self.run(f"select {expressions} from {self.sql} where {where} limit 1").fetchone()

    def refuse(self, name: str, where: str, problem: str, remedy: str, told: Callable[[str], str] = str) -> None:
        """Raise an error if an SQL condition holds for any row. The ``problem`` may contain the ``{cell}`` of the first
        such row, what the function ``told`` says of it as ``{told}``, and the ``{count}`` of such rows."""
        row, cell, count = self.one(f"min(rowid), arg_min({self.as_text(name)}, rowid), count(*)", where)
        if row is not None:
            found = problem.format(cell=cell or "missing", told=told(cell), count=count)
            raise InputError(f"{self.place(row, name)}: {found}{remedy}")

    def column(self, name: str, role: str = "values", flag: str | None = None) -> str:
        """The SQL name of a column. If there is no column of this ``name``, the error lists the columns."""
        if name in self.columns:
            return self.places[name]
        close = close_name(name, self.columns)
        hint = f" Did you mean {close!r}?" if close else ""
        there = f"{', '.join(map(repr, self.columns))}; name one of them{f' with {flag}' if flag else ''}"
        raise InputError(f"{self.path} has no column {name!r} for the {role}.{hint} It has {there}")

    def as_text(self, name: str, role: str = "values") -> str:
        """SQL for the cells of a column as text; whole numbers have no decimal point."""
        column = self.column(name, role)
        if self.columns[name] == "vectors":
            raise InputError(f"{self.path}, column {name!r}: holds vectors, so it cannot be the {role}")
        if self.columns[name] == "text":
            return column
        whole = f"case when abs({column}) < 1e38 and {column} = trunc({column}) then {column}::hugeint::varchar"
        return f"coalesce({whole} else {column}::varchar end, '')"

    def fetch(self, expression: str, rows: slice | None = None) -> Any:
        """The values ``[rows]`` of an SQL expression; a masked array if some are missing."""
        return self.run(f"select {expression} as x from {self.sql}{_where(rows)} order by rowid").fetchnumpy()["x"]

    def text(self, name: str, role: str = "values", rows: slice | None = None) -> list[str]:
        """The cells of a column as text, '' where they are missing."""
        return list(self.fetch(self.as_text(name, role), rows))

    def vectors(self, name: str) -> np.ndarray:
        """A column of vectors ``[rows, length]``, NaN where there is none."""
        column = self.column(name, "vectors")
        (width,) = self.one(f"coalesce(max(len({column})), 1)")
        row, length = self.one(f"min(rowid), arg_min(len({column}), rowid)", f"len({column}) <> {width}")
        if row is not None:
            told = f"a vector of {length} numbers, but another has {width}; give all vectors the same length"
            raise InputError(f"{self.place(row, name)}: {told}")
        gap = np.full(width, np.nan, np.float32)
        cells = self.fetch(f"coalesce({column}, [])").tolist()
        return np.stack([np.ma.filled(cell, np.nan) if len(cell) else gap for cell in cells]).astype(np.float32)

    def codes(self, name: str, numbers: Mapping[str, int], rows: slice | None = None) -> np.ndarray:
        """The number of each cell's text, -1 where it has none."""
        cursor = self.database.cursor()
        cursor.register("numbers", {"v": np.array([*numbers], dtype=object), "n": np.array([*numbers.values()], int)})
        cells = f"(select rowid r, {self.as_text(name)} v from {self.sql}{_where(rows)})"
        found = cursor.execute(f"select coalesce(n, -1) n from {cells} left join numbers using (v) order by r")
        return np.asarray(found.fetchnumpy()["n"], np.int64)

    def sample(self, name: str) -> list[str]:
        """Distinct values of about 2,000 rows, spread over the table."""
        text, step = self.as_text(name), max(1, self.rows // 2000)
        found = self.run(f"select distinct {text} from {self.sql} where rowid % {step} = 0 and {text} <> ''").fetchall()
        return [value for (value,) in found]

    def share(self, name: str, values: Sequence[str]) -> float:
        """The share of different ``values`` that the column holds."""
        text = self.as_text(name)
        query = f"select count(distinct {text}) from {self.sql} where {text} in (select unnest(?))"
        return self.run(query, [list(values)]).fetchone()[0] / len(values) if values else 0.0

    def unique(self, name: str) -> bool:
        """Whether all cells of a column differ and none is empty."""
        if self.columns[name] == "vectors":
            return False
        cells = f"count(distinct nullif({self.as_text(name)}, '')) = count(*)"
        return all(self.one(cells, rows)[0] for rows in ("rowid < 2000", "true"))  # mostly the first rows tell

    def place(self, row: int, column: str | None = None) -> str:
        """Where row ``row`` (from 0) is: its file, its number from 1, and in a text file its line."""
        row = row if self.origin is None else int(self.origin[row])
        file, first = next((part for part in reversed(self.parts) if part[1] <= row), (self.path, 0))
        line = ""
        if _ending(file) in TEXT and file.exists():
            with tempfile.TemporaryDirectory() as folder:
                plain, _ = _plain_text(file, Path(folder))
                rows = _rows(file, plain, _find_dialect(file, plain))
                line = f" (line {next(islice(rows, row - first, None))[0]})"
        return f"{file}, row {row - first + 1}{line}" + (f", column {column!r}" if column else "")


def _where(rows: slice | None) -> str:
    every = "" if rows is None or rows.step is None else f" and rowid % {rows.step} = 0"
    return "" if rows is None else f" where rowid >= {rows.start} and rowid < {rows.stop}{every}"


def close_name(name: str, names: Iterable[str]) -> str | None:
    """The most similar of ``names``, if at most 30 % of the letters differ; case and leading zeros are ignored."""
    far = "damerau_levenshtein(ltrim(lower(n), '0'), ltrim(lower($name), '0')) / greatest(len(n), len($name))"
    like = "jaro_winkler_similarity(n, $name)"
    nearest = f"select n from (select unnest($names) n) where {far} <= 0.3 order by {far}, {like} desc limit 1"
    found = _in_memory(os.getpid()).cursor().execute(nearest, {"name": name, "names": list(names)}).fetchone()
    return found[0] if found else None


def is_query(value: Any) -> bool:
    """Whether a table is named by an SQL query instead of a file."""
    return isinstance(value, str) and QUERY.match(value) is not None


def several(given: Files, name: str = "the table") -> list[Any]:
    """A list of the files, queries and DataFrames in ``given``; a pattern such as ``part-*.csv`` is expanded."""
    files: list[Any] = []
    for one in given if isinstance(given, list | tuple) else [given]:
        found = [one]
        if isinstance(one, str | os.PathLike) and not is_query(one):
            path = Path(one)
            pattern = any(mark in path.name for mark in "*?[") and not path.exists()
            found = sorted(path.parent.glob(path.name)) if pattern else [path]
        elif not (is_query(one) or isinstance(one, Table) or is_frame(one)):
            raise InputError(f"{name} is a value of type {type(one).__name__}; give a DataFrame or a file")
        if not found:
            raise InputError(f"no file matches {one}")
        files += found
    if not files:
        raise InputError(f"no file is given for {name}")
    return files


def read_columns(given: Files, database: Any = None, folder: Path | None = None, *, name: str = "the table") -> Table:
    """Read a table whose first row names the columns: CSV, TSV, Parquet, Excel, JSON lines, the only table of a
    .duckdb file, or what an SQL query selects; or take a DataFrame, which messages call ``name``.

    Several files, or those of a pattern such as ``part-*.csv``, are parts of one table with the same columns. Packed
    files are unpacked into ``folder``.
    """
    database = _in_memory(os.getpid()) if database is None else database
    tables = []
    for path in several(given, name):
        with tempfile.TemporaryDirectory(dir=folder) as unpacked:
            tables.append(_read(path, database, Path(unpacked), name))
        if not len(tables[-1]):
            raise InputError(f"{path} has column names but no rows below them")
    return tables[0] if len(tables) == 1 else _joined(tables)


def _joined(tables: Sequence[Table]) -> Table:
    first, selected = tables[0], []
    for table in tables:
        if other := set(table.columns) ^ set(first.columns):
            only = f"only one of them has {', '.join(sorted(other))}; give every part the same columns"
            raise InputError(f"{table.path} and {first.path} are parts of one table, but {only}")
    same = {name for name in first.columns if len({table.columns[name] for table in tables}) == 1}
    for table in tables:
        cells = [table.places[name] if name in same else table.as_text(name) for name in first.columns]
        selected.append(f"(select {', '.join(cells)} from {table.sql} order by rowid)")
    starts = np.cumsum([0, *map(len, tables[:-1])]).tolist()
    parts = list(zip([table.path for table in tables], starts, strict=True))
    notes, rows = [note for table in tables for note in table.notes], f"({' union all '.join(selected)})"
    return _stored(first.database, first.path, list(first.columns), rows, notes=notes, parts=parts)


def _read(path: Any, database: Any, folder: Path, name: str) -> Table:
    if isinstance(path, Table):
        return path
    if is_frame(path):
        return _of_frame(path, name)
    if is_query(path):
        told = f'the query "{path}" fails', "correct the query, or name a file"
        return _from_sql(database, Path("the query"), f"({path})", *told)
    file = readable(path)
    kind, quoted = _ending(file), literal(file)
    if kind in TEXT:
        return _read_text(file, database, folder, *_plain_text(file, folder))
    if kind in EXCEL:
        return _read_text(file, database, folder, *_excel_text(file, folder))
    if kind in JSON_LINES:
        return _read_json_lines(file, database, *_plain_text(file, folder))
    if kind in PARQUET:
        source = f"read_parquet({quoted}, binary_as_string = true)"
        return _from_sql(database, file, source, f"{file} is not a readable Parquet file")
    if kind in DATABASES:
        remedy = f"with several tables, name one with a query: from read_duckdb({quoted}, table_name = 'NAME')"
        what = f"{file} is not a readable DuckDB database with one table"
        return _from_sql(database, file, f"read_duckdb({quoted})", what, remedy)
    known = ", ".join((*TEXT[:3], *PARQUET, *JSON_LINES, EXCEL[0], DATABASES[0]))
    packed = f"(text also packed: {', '.join(PACKED)})"
    raise InputError(f"{file}: a table must end in {known} {packed}, not {kind or 'nothing'!r}")


def _ending(file: Path) -> str:
    """The ending that says what a file holds, without that of its packing."""
    inner = Path(file.stem) if file.suffix.lower() in PACKED else file
    return inner.suffix.lower()


def literal(text: Any) -> str:
    """A text as SQL writes it."""
    return "'" + str(text).replace("'", "''") + "'"


def _from_sql(database: Any, path: Path, source: str, what: str, remedy: str = "write it again") -> Table:
    """A table of a source that DuckDB reads directly; ``what`` and ``remedy`` are for the error if it cannot. The row
    index that pandas writes into Parquet is left out."""
    with refused(what, duckdb.Error, remedy=remedy):
        described = database.cursor().execute(f"describe select * from {source}").fetchall()
        if path.exists():  # of a packed format
            (rows,) = database.cursor().execute(f"select count(*) from {source}").fetchone()
            check_bound(path, rows * len(described), *CELLS)
        table = _stored(database, path, [row[0] for row in described], source)
    for name in [name for name in table.columns if name.startswith("__index_level_")]:
        del table.columns[name]
    if not table.columns:
        raise InputError(f"{path} has an index but no columns; write the index as a column")
    return table


def _stored(database: Any, path: Path, names: Sequence[str], source: str, cursor: Any = None, **kept: Any) -> Table:
    """A source of SQL as a table: columns of any type as text, numbers or vectors."""
    _check_names(path, names)
    cursor, sql = cursor or database.cursor(), f"t{uuid4().hex}"
    places = {name: f"c{i}" for i, name in enumerate(names)}
    source = f"{source} as source({', '.join(places.values())})"
    types = [row[1] for row in cursor.execute(f"describe select * from {source}").fetchall()]
    converted = [_converted(path, *column) for column in zip(names, places.values(), types, strict=True)]
    chosen = ", ".join(f"{cell} as {place}" for (cell, _), place in zip(converted, places.values(), strict=True))
    cursor.execute(f"create table {sql} as select {chosen} from {source}")
    (rows,) = cursor.execute(f"select count(*) from {sql}").fetchone()
    contents = {name: content for name, (_, content) in zip(names, converted, strict=True)}
    return Table(path, contents, places, sql, rows, database, **kept)


def _check_names(path: Any, names: Sequence[str]) -> None:
    if again := [name for place, name in enumerate(names) if name in names[:place]]:
        raise InputError(f"{path} has two columns called {again[0]!r}; give every column its own name")


def _converted(path: Path, name: str, place: str, kind: str) -> tuple[str, Content]:
    """SQL that turns a column of DuckDB's type ``kind`` into text, numbers or vectors, and which of them."""
    if kind.startswith(("FLOAT", "DOUBLE", "DECIMAL")) and NUMERIC.fullmatch(kind):
        return f"case when isnan({place}::double) then null else {place}::double end", "number"
    if NUMERIC.fullmatch(kind):
        return place, "number"
    listed = re.fullmatch(r"([^\[\]]*)\[\d*\]", kind)
    if listed and NUMERIC.fullmatch(listed[1]):
        return f"{place}::float[]", "vectors"
    if listed:
        place = f"array_to_string({place}, '|')"
    elif kind == "JSON":  # values of several types
        place = f"({place} ->> '$')"
    elif re.search(r"\[|\(.*\)|BLOB", kind) and not kind.startswith("ENUM"):
        raise InputError(f"{path}, column {name!r}: holds {kind}, not single values; write one column per value")
    return f"coalesce(trim({place}::varchar, {SPACES}), '')", "text"


class _Dialect(NamedTuple):
    """How a text file is written: what comes before the first row of data is ``skip`` lines long."""

    separator: str
    header: Sequence[str]
    skip: int
    notes: Sequence[str] = ()


def _read_text(file: Path, database: Any, folder: Path, plain: Path, notes: list[str]) -> Table:
    """A table of the text in ``plain``. If DuckDB cannot read it, the first wrong row is named; where none is wrong
    (line ends of several kinds, say), Python's reader makes a copy that DuckDB reads."""
    dialect = _find_dialect(file, plain)
    if not any(dialect.header):
        raise InputError(f"{file}: the first row names no column; every column needs its own name")
    names = [name or f"column {place + 1}" for place, name in enumerate(dialect.header)]
    try:
        table = _stored(database, file, names, _csv_source(plain, dialect))
    except duckdb.Error:
        copy = folder / "copy"
        with copy.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows(cells for _, cells in _rows(file, plain, dialect))
        with reading(file, "write it again"):
            table = _stored(database, file, names, _csv_source(copy, _Dialect(",", names, 0)))
    for name, given in zip(names, dialect.header, strict=True):
        if not given and table.one("count(*)", f"{table.places[name]} <> ''")[0] == 0:
            del table.columns[name]  # a separator at the end of every line
    table.notes = [*notes, *dialect.notes]
    return table


def _csv_source(plain: Path, dialect: _Dialect) -> str:
    columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(dialect.header)))
    source = (
        f"read_csv({literal(plain)}, columns = {{{columns}}}, delim = {literal(dialect.separator)}, "
        f"skip = {dialect.skip}, auto_detect = false, header = false, quote = '\"', escape = '\"', "
        f"max_line_size = {1 << 24}, buffer_size = {1 << 25})"  # a text may be as long as a book
    )
    return source if len(dialect.header) > 1 else f"(from {source} where c0 is not null)"  # a blank line is no row


def _plain_text(file: Path, folder: Path) -> tuple[Path, list[str]]:
    """A text file or, if it is packed or not in UTF-8, an unpacked copy in ``folder``; and notes about it."""
    packing: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    packing[".zst"] = partial(_open_zstd, folder / "unpacked")
    suffix, plain = file.suffix.lower(), folder / "plain"
    with reading(file, "it cannot be unpacked: write it again"), packing.get(suffix, open)(file, "rb") as stream:
        encoding, notes = _find_encoding(file, stream)
        if encoding == "utf-8" and suffix not in PACKED:
            return file, notes
        stream.seek(0)
        text = io.TextIOWrapper(stream, encoding, "replace", newline="")  # Windows-1252 lacks five bytes
        with plain.open("w", encoding="utf-8", newline="") as out:
            while part := text.read(1 << 20):
                out.write(part)
                check_bound(file, out.tell())
    return plain, notes


def _open_zstd(out: Path, file: Path, mode: str) -> Any:
    """Lines of a text in UTF-8, which DuckDB unpacks to ``out``."""
    lines = f"read_csv({literal(file)}, columns = {{line: 'VARCHAR'}}, delim = '\x01', quote = '', escape = '', "
    lines += "compression = 'zstd', auto_detect = false, header = false)"
    written = f"{literal(out)} (format csv, header false, quote '', escape '', delimiter '\x02')"
    _in_memory(os.getpid()).cursor().execute(f"copy (from {lines}) to {written}")
    return out.open(mode)


def _find_encoding(file: Path, stream: Any) -> tuple[str, list[str]]:
    """The encoding of a text, and notes about it."""
    part = stream.read(2000)
    even, odd = (part[start::2].count(0) for start in (0, 1))
    marked = part[:2] in (b"\xff\xfe", b"\xfe\xff")
    if marked or max(even, odd) > len(part) // 4:
        return "utf-16" if marked else "utf-16-be" if even > odd else "utf-16-le", [f"{file.name} is in UTF-16"]
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    while part:
        if b"\0" in part:
            raise InputError(f"{file} holds NUL bytes, so it is not a text table. Save it as a UTF-8 text file.")
        try:
            decoder.decode(part)
        except UnicodeDecodeError as error:
            where = f"line {line + part[: error.start].count(10)}: byte 0x{error.object[error.start]:02x}"
            return "cp1252", [f"{file.name} is not in UTF-8 ({where}); it was read as Windows-1252 (Latin-1)"]
        line, part = line + part.count(10), stream.read(1 << 20)
    return "utf-8", []


def _find_dialect(file: Path, plain: Path) -> _Dialect:
    """How a text file is written, by its first lines. A comment line above a row of usual column names is no header."""
    with plain.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        lines = list(islice(stream, 500))
    if not any(map(str.strip, lines)):
        raise InputError(f"{file} has only blank lines")
    skip = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    separator = _find_separator(file, lines[skip:] or lines)
    reader = csv.reader(lines[skip:], delimiter=separator)
    first = [name.strip() for name in next(reader, [])]
    comments = [line.lstrip("# ") for line in lines[:skip] if line.startswith("#")]
    named = [name.strip() for name in next(csv.reader(comments[-1:], delimiter=separator), [])]
    if len(named) == len(first) > 1 and all(named) and not {name.casefold() for name in first} & USUAL_NAMES:
        return _Dialect(separator, named, skip)
    if len(first) > 1 and all(re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", cell.casefold()) for cell in first):
        notes = [f"{file.name} has no row of column names (its first row is {', '.join(first)})"]
        return _Dialect(separator, [f"column {i + 1}" for i in range(len(first))], skip, notes)
    return _Dialect(separator, first, skip + reader.line_num)


def _find_separator(file: Path, lines: list[str]) -> str:
    """The usual separator for the ending of the file, unless only another one gives the first rows equal lengths."""
    usual = "\t" if _ending(file) == ".tsv" else ","
    marks: list[str] = [usual, *",\t;| "]

    def fitness(mark: str) -> tuple[bool, bool, bool, int]:
        rows = islice(csv.reader(lines, delimiter=mark), 50)
        lengths = [len(row) for row in rows if any(map(str.strip, row))] or [0]
        even = len(set(lengths)) == 1
        return lengths[0] > 1 and (mark != " " or (even and lengths[0] <= 3)), even, mark == usual, lengths[0]

    return max(marks, key=fitness)


def _rows(file: Path, plain: Path, dialect: _Dialect) -> Iterator[tuple[int, list[str]]]:
    """The rows of data, each with the line that it ends in. A row with too few or too many cells, or a quote that is
    left open, is refused by its line."""
    with plain.open(encoding="utf-8", errors="replace", newline="") as stream:
        skipped, expected = sum(1 for _ in islice(stream, dialect.skip)), len(dialect.header)
        reader = csv.reader(stream, delimiter=dialect.separator, strict=True)
        try:
            for row, cells in enumerate(filter(None, reader), 1):
                line = skipped + reader.line_num
                if len(cells) != expected:
                    found = f"{len(cells)} values, but the first row names {expected} columns"
                    remedy = f"Quote values that hold {dialect.separator!r}; the file may be truncated"
                    raise InputError(f"{file}, row {row} (line {line}): {found}. {remedy}")
                yield line, cells
        except csv.Error as error:
            told = f"{error}. A quote may be left open or out of place."
            raise InputError(f"{file}, line {skipped + reader.line_num}: {told}") from error


def _read_json_lines(file: Path, database: Any, plain: Path, notes: list[str]) -> Table:
    """One object in each line; a key that a line lacks is missing there."""
    how = "format = 'newline_delimited', records = true, maximum_depth = 3, sample_size = -1"
    source = f"read_json({literal(plain)}, {how}, map_inference_threshold = -1)"
    try:
        table = _from_sql(database, file, source, f"{file} cannot be read")
    except InputError:
        for number, line in enumerate(plain.read_bytes().splitlines(), 1):  # which one is it?
            told, remedy = f"{file}, line {number}: not a JSON object", "write one {...} in each line"
            with refused(told, ValueError, RecursionError, remedy=remedy):
                msgspec.json.decode(line.strip() or b"{}", type=dict)
        raise
    table.notes = notes
    return table


def _excel_text(file: Path, folder: Path) -> tuple[Path, list[str]]:
    """The first sheet that is not empty as CSV without its blank rows, and notes about the file."""
    remedy = "pip install 'fewnode[tables]', or save it as CSV"
    with refused(f"{file}: Excel needs openpyxl, which is not installed", ImportError, remedy=remedy):
        import openpyxl
    check_unpacked(file, 64 << 20)  # all cells are held in memory
    plain, sheets = folder / "sheet", dict[str, list[Any]]()
    with reading(file, "save it again as .xlsx"):
        for sheet in openpyxl.load_workbook(file, data_only=True).worksheets:
            check_bound(file, sheet.max_row * sheet.max_column, *CELLS)
            if rows := [row for row in sheet.iter_rows(values_only=True) if any(cell is not None for cell in row)]:
                sheets[sheet.title] = rows
        if not sheets:
            raise InputError(f"{file} has no sheet with anything in it")
    (title, rows), *more = sheets.items()
    with plain.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows(map(as_text, row) for row in rows)
    return plain, [f"{file.name}: only the first of {len(sheets)} sheets was read, {title!r}"] if more else []


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame of pandas or polars; neither is imported."""
    return hasattr(value, "columns") and hasattr(value, "shape") and hasattr(value, "to_dict")


def is_series(value: Any) -> bool:
    """Whether a value is one column of a DataFrame."""
    return hasattr(value, "to_numpy") and hasattr(value, "dtype") and not hasattr(value, "columns")


def _of_frame(frame: Any, name: str) -> Table:
    """A DataFrame as a table; ``name`` is what messages call it. An index with a name is a column as well."""
    if hasattr(frame, "reset_index") and any(level is not None for level in frame.index.names):
        frame = frame.reset_index()
    names = [str(column) for column in frame.columns]
    if len(frame) == 0 or not names:
        raise InputError(f"{name} is a DataFrame without {'rows' if names else 'columns'}")
    _check_names(name, names)
    return Table.of(name, {text: frame[column] for text, column in zip(names, frame.columns, strict=True)})


def column_of(cells: Any) -> np.ndarray:
    """Cells, perhaps of a DataFrame, as an array that DuckDB takes: numbers, vectors of one length, or else text."""
    if not isinstance(cells, list):
        values = np.asarray(cells.to_numpy() if is_series(cells) else cells)
        if values.dtype.kind in "iuf":
            return values
        cells = cells.to_list() if is_series(cells) else values.tolist()
    if cells and all(isinstance(cell, list | tuple | np.ndarray) for cell in cells) and len(set(map(len, cells))) == 1:
        vectors = np.array([np.asarray(cell) for cell in cells])
        if vectors.ndim == 2 and vectors.dtype.kind in "iuf":
            found = np.empty(len(cells), dtype=object)
            found[:] = [None if np.isnan(row).any() else row.tolist() for row in vectors.astype(np.float32)]
            return found
    return np.array(list(map(as_text, cells)), dtype=object)


def as_text(value: Any) -> str:
    """A value as text, '' if it is missing; whole numbers have no decimal point."""
    text = str(value)
    missing = value is None or (text in ("nan", "NaT", "<NA>") and not isinstance(value, str))
    return "" if missing else text.removesuffix(".0") if isinstance(value, float) else text
