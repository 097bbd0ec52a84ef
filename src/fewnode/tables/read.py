"""A user's tables, read by DuckDB: CSV in any dialect, Parquet, JSON lines, Excel, DataFrames, .duckdb files, queries.

Every table becomes a table of a database: in memory, or in the work folder of an import, where it may be larger than
memory. What the columns hold is found out there, by the same code for both."""

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import duckdb
import numpy as np

from ..errors import InputError
from ..files import PathLike, readable, unpacked_bound
from .names import USUAL_NAMES

TEXT = (".csv", ".tsv", ".txt", ".tab", ".edges", ".edgelist")
PARQUET, JSON_LINES, EXCEL = (".parquet", ".pq"), (".jsonl", ".ndjson"), (".xlsx", ".xlsm")
DATABASES = (".duckdb", ".db")
PACKED = (".gz", ".bz2", ".xz", ".zst")
DAMAGED = (OSError, EOFError, ValueError, lzma.LZMAError)
SPACES = "' \t\r\n\v\f\u00a0\u2002\u2003\u2009\u3000'"  # what is stripped from cells, as SQL
NUMERIC = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")
QUERY = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)

CORRECT = "correct the query, or name a file"

Content = Literal["text", "number", "vectors"]
Files = Any  # a path, a query, several of them, or a Table


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
        notes: what was unusual about the file.
        parts: each file with its first row, if there are several.
        sql: the name of the table in ``database``.
        rows: how many there are; their ``rowid`` counts from 0.
    """

    path: Path
    columns: dict[str, Content]
    places: dict[str, str]
    sql: str
    rows: int
    database: Any
    notes: tuple[str, ...] = ()
    parts: tuple[tuple[Path, int], ...] = ()
    cache: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, path: PathLike, columns: Mapping[str, np.ndarray], database: Any = None) -> "Table":
        """A table of arrays: numbers with NaN where they are missing, vectors as rows, anything else as text."""
        database = _in_memory(os.getpid()) if database is None else database
        cursor = database.cursor()
        cursor.register("given", {f"c{i}": _registered(column) for i, column in enumerate(columns.values())})
        return _stored(database, Path(path), list(columns), "given", cursor)

    def selected(self, expressions: Mapping[str, str]) -> "Table":
        """A new table of text that SQL makes of this one's rows."""
        chosen = ", ".join(expressions.values())
        return _stored(self.database, self.path, list(expressions), f"(select {chosen} from {self.sql} order by rowid)")

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

    def first(self, name: str, where: str) -> tuple[int | None, str, int]:
        """The first row for which an SQL condition holds, its cell, and how many such rows there are."""
        row, cell, count = self.one(f"min(rowid), arg_min({self.as_text(name)}, rowid), count(*)", where)
        return row, cell, count

    def refuse(self, name: str, where: str, problem: str, remedy: str) -> None:
        """Raise an error if an SQL condition holds for any row. The ``problem`` may tell the ``{cell}`` of the first
        such row and the ``{count}`` of them."""
        row, cell, count = self.first(name, where)
        if row is not None:
            told = problem.format(cell=cell or "missing", count=count)
            raise InputError(f"{self.place(row, name)}: {told}{remedy}")

    def column(self, name: str, role: str = "values", flag: str | None = None) -> str:
        """The SQL name of a column; if there is none of this ``name``, the error shows what is there."""
        if name in self.columns:
            return self.places[name]
        close = close_name(name, self.columns)
        hint = f" Did you mean {close!r}?" if close else ""
        raise InputError(
            f"{self.path} has no column {name!r} for the {role}.{hint} Its first row names: "
            f"{', '.join(map(repr, self.columns))}. Rename the column or say which one it is"
            f"{f' ({flag} NAME)' if flag else ''}."
        )

    def as_text(self, name: str, role: str = "values", flag: str | None = None) -> str:
        """SQL for the cells of a column as text; whole numbers have no decimal point."""
        column = self.column(name, role, flag)
        if self.columns[name] == "vectors":
            raise InputError(f"{self.path}, column {name!r}: holds vectors, so it cannot be the {role}")
        if self.columns[name] == "text":
            return column
        whole = f"case when abs({column}) < 1e38 and {column} = trunc({column}) then {column}::hugeint::varchar"
        return f"coalesce({whole} else {column}::varchar end, '')"

    def fetch(self, expression: str, rows: slice | None = None) -> Any:
        """The values ``[rows]`` of an SQL expression; a masked array if some are missing."""
        chosen = "" if rows is None else f" where rowid >= {rows.start} and rowid < {rows.stop}"
        return self.run(f"select {expression} as x from {self.sql}{chosen} order by rowid").fetchnumpy()["x"]

    def text(self, name: str, role: str = "values", flag: str | None = None, rows: slice | None = None) -> list[str]:
        """The cells of a column as text, '' where they are missing."""
        found: list[str] = self.fetch(self.as_text(name, role, flag), rows).tolist()
        return found

    def vectors(self, name: str) -> np.ndarray:
        """A column of vectors ``[rows, length]``, NaN where there is none."""
        column = self.column(name, "vectors")
        (width,) = self.one(f"coalesce(max(len({column})), 1)")
        row, length = self.one(f"min(rowid), arg_min(len({column}), rowid)", f"len({column}) <> {width}")
        if row is not None:
            remedy = "give all vectors the same length"
            raise InputError(
                f"{self.place(row, name)}: a vector of {length} numbers, but another has {width}; {remedy}"
            )
        gap = np.full(width, np.nan, np.float32)
        cells = self.fetch(f"coalesce({column}, [])").tolist()
        return np.stack([np.ma.filled(cell, np.nan) if len(cell) else gap for cell in cells]).astype(np.float32)

    def codes(self, name: str, numbers: Mapping[str, int], rows: slice | None = None) -> np.ndarray:
        """The number of each cell's text, -1 where it has none."""
        cells = self.text(name, rows=rows)
        return np.fromiter((numbers.get(cell, -1) for cell in cells), dtype=np.int64, count=len(cells))

    def sample(self, name: str, size: int = 2000) -> list[str]:
        """Distinct values of about ``size`` rows, spread over the table."""
        text, step = self.as_text(name), max(1, self.rows // size)
        found = self.run(f"select distinct {text} from {self.sql} where rowid % {step} = 0 and {text} <> ''").fetchall()
        return [value for (value,) in found]

    def share(self, name: str, values: Sequence[str]) -> float:
        """The share of ``values`` that the column holds."""
        query = f"select count(*) from (select unnest(?) v) where v in (select {self.as_text(name)} from {self.sql})"
        return self.run(query, [list(values)]).fetchone()[0] / len(values) if values else 0.0

    def batches(self, size: int | None) -> list[slice]:
        """All rows, some at a time; None for all at once."""
        step = max(1, self.rows if size is None else size)
        return [slice(at, min(at + step, self.rows)) for at in range(0, self.rows, step)]

    def place(self, row: int, column: str | None = None) -> str:
        """Where data row ``row`` (from 0) is, as a person would look for it."""
        file, first = next((part for part in reversed(self.parts) if part[1] <= row), (self.path, 0))
        line = ""
        if _ending(file) in TEXT and file.exists():
            with tempfile.TemporaryDirectory() as folder:
                plain, _ = _plain_text(file, Path(folder))
                rows = _rows(plain, _find_dialect(file, plain))
                line = f" (line {next(islice(rows, row - first, None))[0]})"
        return f"{file}, row {row - first + 1}{line}" + (f", column {column!r}" if column else "")


def _registered(column: np.ndarray) -> np.ndarray:
    """A column as DuckDB takes it."""
    if column.ndim == 1:
        return column
    made = np.empty(len(column), dtype=object)
    made[:] = [None if np.isnan(row).any() else row.tolist() for row in column.astype(np.float32)]
    return made


def close_name(name: str, names: Mapping[str, Any] | Sequence[str], likely: int = 500) -> str | None:
    """The one of ``names`` that ``name`` probably meant: letter case ignored, else the nearest spelling.

    Of many names only the ``likely`` ones that share most pairs of letters with it are compared in full.
    """
    folded = {known.casefold(): known for known in names}
    wanted = name.casefold()
    if wanted in folded:
        return folded[wanted]
    compared: Iterable[str] = folded
    if len(folded) > likely:
        pairs = {wanted[i : i + 2] for i in range(len(wanted) - 1)}
        compared = nlargest(
            likely, folded, lambda known: (sum([pair in known for pair in pairs]), -abs(len(known) - len(wanted)))
        )
    close = get_close_matches(wanted, compared, n=1, cutoff=0.7)
    return folded[close[0]] if close else None


def is_query(value: Any) -> bool:
    """Whether a table is named by an SQL query instead of a file."""
    return isinstance(value, str) and QUERY.match(value) is not None


def several(paths: PathLike | Sequence[PathLike]) -> list[Any]:
    """The files (and queries) that are meant: one, several, or a pattern such as ``part-*.csv``."""
    given = [paths] if isinstance(paths, str | Path) or not isinstance(paths, Sequence) else paths
    files: list[Any] = []
    for one in given:
        path = Path(one)
        pattern = not is_query(one) and any(mark in path.name for mark in "*?[") and not path.exists()
        found = sorted(path.parent.glob(path.name)) if pattern else [one if is_query(one) else path]
        if not found:
            raise InputError(f"no file matches {path}")
        files += found
    if not files:
        raise InputError("no file is named")
    return files


def query_digest(query: str) -> str:
    """What tells whether a query gives other rows than before."""
    digest = f"select count(*), sum(md5_number_lower(q::varchar)::hugeint) from ({query}) q"
    try:
        return repr(_in_memory(os.getpid()).cursor().execute(digest).fetchone())
    except duckdb.Error as error:
        raise _refused(f'the query "{query}" fails', error, CORRECT) from error


def read_columns(paths: Files, database: Any = None, folder: Path | None = None) -> Table:
    """Read a table whose first row names the columns: CSV, TSV, Parquet, Excel, JSON lines, the only table of a
    .duckdb file, or what an SQL query selects.

    Several files, or those of a pattern such as ``part-*.csv``, are parts of one table with the same columns. Packed
    files are unpacked into ``folder``.
    """
    if isinstance(paths, Table):
        return paths
    database = _in_memory(os.getpid()) if database is None else database
    tables = []
    for path in several(paths):
        with tempfile.TemporaryDirectory(dir=folder) as unpacked:
            tables.append(_read(path, database, Path(unpacked)))
    return tables[0] if len(tables) == 1 else _joined(tables)


def _joined(tables: Sequence[Table]) -> Table:
    first = tables[0]
    for table in tables[1:]:
        if set(table.columns) != set(first.columns):
            other = set(table.columns) ^ set(first.columns)
            raise InputError(
                f"{table.path} and {first.path} are read as one table, but not both have {', '.join(sorted(other))}. "
                "Give every part the same columns"
            )
    same = {name for name in first.columns if len({table.columns[name] for table in tables}) == 1}
    selected = []
    for table in tables:
        cells = [table.column(name) if name in same else table.as_text(name) for name in first.columns]
        selected.append(f"(select {', '.join(cells)} from {table.sql} order by rowid)")
    found = _stored(first.database, first.path, list(first.columns), f"({' union all '.join(selected)})")
    found.notes = tuple(note for table in tables for note in table.notes)
    starts = np.cumsum([0, *(len(table) for table in tables[:-1])]).tolist()
    found.parts = tuple(zip([table.path for table in tables], starts, strict=True))
    return found


def _read(path: Any, database: Any, folder: Path) -> Table:
    if is_query(path):
        table = _from_sql(database, Path("the query"), f"({path})", f'the query "{path}" fails', CORRECT)
    else:
        table = _read_file(readable(path), database, folder)
    if not len(table):
        raise InputError(f"{path} has column names but no rows below them")
    return table


def _read_file(file: Path, database: Any, folder: Path) -> Table:
    kind, quoted = _ending(file), _literal(file)
    if kind in TEXT:
        return _read_text(file, database, folder)
    if kind in PARQUET:
        what, source = f"{file} is not a readable Parquet file", f"read_parquet({quoted}, binary_as_string = true)"
        return _from_sql(database, file, source, what, "write it again")
    if kind in DATABASES:
        remedy = f"with several tables, name one with a query: from read_duckdb({quoted}, table_name = 'NAME')"
        what = f"{file} is not a readable DuckDB database with one table"
        return _from_sql(database, file, f"read_duckdb({quoted})", what, remedy)
    if kind in JSON_LINES:
        return _read_json_lines(file, database, folder)
    if kind in EXCEL:
        return _read_excel(file, database)
    known = ", ".join((*TEXT[:3], *PARQUET, *JSON_LINES, EXCEL[0], DATABASES[0]))
    raise InputError(
        f"{file}: a table must end in {known} (text also packed: {', '.join(PACKED)}), not {kind or 'nothing'!r}"
    )


def _ending(file: Path) -> str:
    """The ending that says what a file holds, without that of its packing."""
    inner = Path(file.stem) if file.suffix.lower() in PACKED else file
    return inner.suffix.lower()


def _literal(text: Any) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def _refused(what: str, error: Exception, remedy: str = "write it again") -> InputError:
    """DuckDB's complaint as the user's error."""
    reason = str(error).strip().splitlines()[0] if str(error) else type(error).__name__
    return InputError(f"{what} ({reason}); {remedy}")


def _from_sql(database: Any, path: Path, source: str, what: str, remedy: str) -> Table:
    """What DuckDB reads by itself; ``what`` is wrong if it cannot. The row index that pandas writes into Parquet is no
    data."""
    try:
        described = database.cursor().execute(f"describe select * from {source}").fetchall()
        table = _stored(database, path, [row[0] for row in described], source)
    except duckdb.Error as error:
        raise _refused(what, error, remedy) from error
    for name in [name for name in table.columns if name.startswith("__index_level_")]:
        del table.columns[name]
    if not table.columns:
        raise InputError(f"{path} has an index but no columns; write the index as a column")
    return table


def _stored(database: Any, path: Path, names: Sequence[str], source: str, cursor: Any = None) -> Table:
    """A source of SQL as a table: columns of any type as text, numbers or vectors."""
    cursor = cursor or database.cursor()
    places = [f"c{i}" for i in range(len(names))]
    source = f"{source} as source({', '.join(places)})"
    types = [row[1] for row in cursor.execute(f"describe select * from {source}").fetchall()]
    converted = [_converted(cursor, source, path, *column) for column in zip(names, places, types, strict=True)]
    sql = f"t{uuid4().hex}"
    chosen = ", ".join(f"{expression} as {place}" for (expression, _), place in zip(converted, places, strict=True))
    cursor.execute(f"create table {sql} as select {chosen} from {source}")
    (rows,) = cursor.execute(f"select count(*) from {sql}").fetchone()
    contents = dict(zip(names, (content for _, content in converted), strict=True))
    return Table(path, contents, dict(zip(names, places, strict=True)), sql, rows, database)


def _converted(cursor: Any, source: str, path: Path, name: str, place: str, kind: str) -> tuple[str, Content]:
    """SQL that turns a column of DuckDB's type ``kind`` into text, numbers or vectors, and which of them."""
    if kind == "JSON":
        kind, place = _json_kind(cursor, source, path, name, place)
    if NUMERIC.fullmatch(kind):
        if kind.startswith(("FLOAT", "DOUBLE", "DECIMAL")):
            return f"case when isnan({place}::double) then null else {place}::double end", "number"
        return place, "number"
    listed = re.fullmatch(r"([^\[\]]*)\[\d*\]", kind)
    if listed and NUMERIC.fullmatch(listed[1]):
        return f"{place}::float[]", "vectors"
    if listed:
        place = f"array_to_string({place}, '|')"
    elif re.search(r"\[|\(.*\)|BLOB", kind) and not kind.startswith("ENUM"):
        raise InputError(f"{path}, column {name!r}: holds {kind}, not single values; write one column per value")
    return f"coalesce(trim({place}::varchar, {SPACES}), '')", "text"


def _json_kind(cursor: Any, source: str, path: Path, name: str, place: str) -> tuple[str, str]:
    """The type that all values of a JSON column have, and SQL for it."""
    found = cursor.execute(
        f"select json_type({place}) t, min(row) from (select *, row_number() over () row from {source}) group by t"
    ).fetchall()
    types = {kind: row for kind, row in found if kind not in (None, "NULL")}
    if "OBJECT" in types:
        raise InputError(f"{path}, row {types['OBJECT']}, column {name!r}: holds an object, not a single value")
    if types and types.keys() <= {"BIGINT", "UBIGINT"}:
        return "HUGEINT", f"{place}::hugeint"
    if types and types.keys() <= {"BIGINT", "UBIGINT", "DOUBLE"}:
        return "DOUBLE", f"{place}::double"
    if set(types) == {"ARRAY"}:
        unlike = f"{place} is not null and json_type({place}) <> 'NULL' and try_cast({place} as float[]) is null"
        (others,) = cursor.execute(f"select count(*) from {source} where {unlike}").fetchone()
        return ("VARCHAR[]", f"{place}::varchar[]") if others else ("FLOAT[]", f"try_cast({place} as float[])")
    return "VARCHAR", f"({place} ->> '$')"


@dataclass(frozen=True)
class _Dialect:
    """How a text file is written: what comes before the first row of data is ``skip`` lines long."""

    separator: str
    header: tuple[str, ...]
    skip: int
    notes: tuple[str, ...] = ()


def _read_text(file: Path, database: Any, folder: Path) -> Table:
    plain, note = _plain_text(file, folder)
    dialect = _find_dialect(file, plain)
    names = _checked_header(file, dialect.header)
    try:
        table = _stored(database, file, names, _csv_source(plain, dialect))
    except duckdb.Error as error:
        if "not utf-8" in str(error):
            plain, note = _plain_text(file, folder, utf8=False)
        else:
            plain = _rewritten(file, plain, dialect, folder)
        try:
            table = _stored(database, file, names, _csv_source(plain, dialect))
        except duckdb.Error:
            raise _refused(f"{file} cannot be read", error) from error
    for name, given in zip(names, dialect.header, strict=True):
        if not given and table.one("count(*)", f"{table.column(name)} <> ''")[0] == 0:
            del table.columns[name]  # a separator at the end of every line
    table.notes = (*([note] if note else []), *dialect.notes)
    return table


def _csv_source(plain: Path, dialect: _Dialect) -> str:
    columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(dialect.header)))
    source = (
        f"read_csv({_literal(plain)}, columns = {{{columns}}}, delim = {_literal(dialect.separator)}, "
        f"skip = {dialect.skip}, auto_detect = false, header = false, quote = '\"', escape = '\"')"
    )
    return source if len(dialect.header) > 1 else f"(from {source} where c0 is not null)"  # a blank line is no row


def _opened(file: Path) -> Any:
    packing: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return packing.get(file.suffix.lower(), open)(file, "rb")


def _plain_text(file: Path, folder: Path, utf8: bool = True) -> tuple[Path, str | None]:
    """A text file as it is or, if it is packed or in another encoding, a copy in ``folder``; and what to say about it.

    ``utf8`` is False if the file is known not to be in UTF-8.
    """
    source = _unpacked_zstd(file, folder) if file.suffix.lower() == ".zst" else file
    plain = folder / "plain"
    try:
        with _opened(source) as stream:
            encoding, note = _find_encoding(file, stream, utf8)
            if encoding == "utf-8" and file.suffix.lower() not in PACKED:
                return file, note
            stream.seek(0)
            text = io.TextIOWrapper(stream, encoding, newline="")
            with plain.open("w", encoding="utf-8", newline="") as out:
                while part := text.read(1 << 20):
                    out.write(part)
                    if out.tell() > 3 * unpacked_bound(file):
                        raise InputError(f"{file} unpacks to more than {out.tell():,} bytes, too much for its size")
    except InputError:
        raise
    except DAMAGED as error:
        raise InputError(f"{file} cannot be unpacked ({error}); it may be cut off. Write it again") from error
    return plain, note


def _unpacked_zstd(file: Path, folder: Path) -> Path:
    """Lines of a text in UTF-8, as DuckDB reads them."""
    out = folder / "unpacked"
    lines = f"read_csv({_literal(file)}, columns = {{line: 'VARCHAR'}}, delim = '\x01', quote = '', escape = '', "
    lines += "compression = 'zstd', auto_detect = false, header = false)"
    written = f"{_literal(out)} (format csv, header false, quote '', escape '', delimiter '\x02')"
    try:
        _in_memory(os.getpid()).cursor().execute(f"copy (from {lines}) to {written}")
    except duckdb.Error as error:
        raise _refused(f"{file} cannot be read", error) from error
    return out


def _find_encoding(file: Path, stream: Any, utf8: bool) -> tuple[str, str | None]:
    """The encoding of a text, and what is to be said about it."""
    head = stream.read(1 << 20)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16", f"{file.name} is in UTF-16"
    if b"\0" in head:
        for encoding, zeros in (("utf-16-le", head[1:2000:2]), ("utf-16-be", head[0:2000:2])):
            if zeros.count(0) > len(zeros) // 2:
                return encoding, f"{file.name} is in UTF-16"
        raise InputError(f"{file} holds NUL bytes, so it is not a text table. Save it as a UTF-8 text file.")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
        if utf8:
            return "utf-8", None
    except UnicodeDecodeError:
        pass
    stream.seek(0)
    encoding, name, where = "cp1252", "Windows-1252 (Latin-1)", ""
    for number, line in enumerate(stream, 1):
        if any(byte in line for byte in b"\x81\x8d\x8f\x90\x9d"):  # which Windows-1252 lacks
            encoding, name = "latin-1", "Latin-1"
        try:
            line.decode()
        except UnicodeDecodeError as error:
            where = where or f" (line {number}: byte 0x{line[error.start]:02x})"
    return encoding, f"{file.name} is not in UTF-8{where}; it was read as {name}"


def _find_dialect(file: Path, plain: Path) -> _Dialect:
    """How a text file is written, by its first lines. A comment line above a row of usual column names is no header."""
    with plain.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        lines = list(islice(stream, 500))
    comments = 0
    while comments < len(lines) and (lines[comments].startswith("#") or not lines[comments].strip()):
        comments += 1
    body = lines[comments:]
    separator = _find_separator(file, body or lines)
    reader = csv.reader(body, delimiter=separator)
    first = next(_lenient(reader), [])
    told = _comment_header(lines[:comments], separator, first)
    if told is not None and not {name.strip().casefold() for name in first} & USUAL_NAMES:
        return _Dialect(separator, tuple(told), comments)
    if not body and not any(line.strip() for line in lines):
        raise InputError(f"{file} has only blank lines")
    if len(first) > 1 and all(map(_is_number, first)):
        notes = (f"{file.name} has no row of column names (its first row is {', '.join(first)})",)
        return _Dialect(separator, tuple(f"column {i + 1}" for i in range(len(first))), comments, notes)
    return _Dialect(separator, tuple(name.strip() for name in first), comments + reader.line_num)


def _comment_header(comments: list[str], separator: str, first: list[str]) -> list[str] | None:
    """The names in the last comment line, if there are as many as cells in the first row below."""
    told = [line.lstrip("# ") for line in comments if line.startswith("#")][-1:]
    cells = [cell.strip() for cell in next(_lenient(csv.reader(told, delimiter=separator)), [])]
    return cells if len(cells) == len(first) > 1 and all(cells) else None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _find_separator(file: Path, lines: list[str]) -> str:
    """The usual separator of the ending, unless the first rows are only of one length with another."""
    usual = "\t" if _ending(file) == ".tsv" else ","
    found: dict[str, tuple[bool, int]] = {}
    for mark in (usual, *(mark for mark in ",\t;| " if mark != usual)):
        rows = [row for row in islice(_lenient(csv.reader(lines, delimiter=mark)), 50) if any(map(str.strip, row))]
        lengths = [len(row) for row in rows]
        if lengths and lengths[0] > 1:
            found[mark] = (len(set(lengths)) == 1, lengths[0])
    even = {mark: count for mark, (same, count) in found.items() if same and (mark != " " or count <= 3)}
    if usual in even:
        return usual
    marks = even or {mark: count for mark, (_, count) in found.items() if mark != " "}
    return usual if usual in marks else max(marks, key=lambda mark: marks[mark], default=usual)


def _lenient(reader: Any) -> Iterator[list[str]]:
    with suppress(csv.Error):
        yield from reader


def _checked_header(file: Path, header: tuple[str, ...]) -> list[str]:
    """Every column with a name of its own; those without one are numbered."""
    if not any(header):
        raise InputError(f"{file}: the first row names no column; every column needs its own name")
    for name in header:
        if name and header.count(name) > 1:
            raise InputError(f"{file}: the first row has two columns called {name!r}; every column needs its own name")
    return [name or f"column {place + 1}" for place, name in enumerate(header)]


def _rows(plain: Path, dialect: _Dialect) -> Iterator[tuple[int, list[str]]]:
    """The line that each row of data ends in, and its cells: to explain errors."""
    with plain.open(encoding="utf-8", errors="replace", newline="") as stream:
        skipped = sum(1 for _ in islice(stream, dialect.skip))
        reader = csv.reader(stream, delimiter=dialect.separator, strict=True)
        try:
            for cells in filter(None, reader):
                yield skipped + reader.line_num, cells
        except csv.Error as error:
            line = skipped + reader.line_num
            raise InputError(f"line {line}: {error}. A quote may be left open or out of place.") from error


def _rewritten(file: Path, plain: Path, dialect: _Dialect, folder: Path) -> Path:
    """A copy of a text that DuckDB does not read, such as one with mixed line ends; refused with its line if a row has
    too few or too many cells, or a quote is left open."""
    expected, copy = len(dialect.header), folder / "rewritten"
    with copy.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, delimiter=dialect.separator, lineterminator="\n")
        writer.writerows([""] for _ in range(dialect.skip))
        try:
            for row, (line, cells) in enumerate(_rows(plain, dialect)):
                if len(cells) != expected:
                    raise InputError(
                        f"row {row + 1} (line {line}): {len(cells)} values, but the first row names {expected} "
                        f"columns. Quote values that hold {dialect.separator!r}, leave gaps empty; "
                        "the file may be truncated"
                    )
                writer.writerow(cells)
        except InputError as error:
            raise InputError(f"{file}, {error}") from error
    return copy


def _read_json_lines(file: Path, database: Any, folder: Path) -> Table:
    """One object in each line; a key that a line lacks is missing there."""
    plain, note = _plain_text(file, folder)
    source = f"read_json({_literal(plain)}, format = 'newline_delimited', maximum_depth = 1, sample_size = -1)"
    try:
        names = [row[0] for row in database.cursor().execute(f"describe select * from {source}").fetchall()]
        if names == ["json"]:  # what DuckDB calls lines that are no objects
            _check_objects(file, plain)
        table = _stored(database, file, names, source)
    except duckdb.Error as error:
        _check_objects(file, plain)
        raise _refused(f"{file} cannot be read", error) from error
    table.notes = (note,) if note else ()
    return table


def _check_objects(file: Path, plain: Path) -> None:
    """Refuse the first line that is no JSON object."""
    with plain.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise InputError(f"{file}, line {number}: not JSON ({error}). Write one object in each line") from error
            if not isinstance(row, dict):
                raise InputError(f"{file}, line {number}: {line[:40]!r} is no object; write one {{...}} in each line")


def _read_excel(file: Path, database: Any) -> Table:
    """The first sheet with anything in it."""
    try:
        import openpyxl
    except ImportError as error:
        raise InputError(
            f"{file}: Excel needs openpyxl, which is not installed: pip install 'fewnode[tables]', or save it as CSV"
        ) from error
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        sheets = {sheet.title: [row for row in sheet.iter_rows(values_only=True) if any(row)] for sheet in book}
    except Exception as error:  # zipfile, XML and openpyxl each have their own words for "damaged"
        raise InputError(f"{file} is not a readable .xlsx file ({error}); save it again") from error
    full = {title: rows for title, rows in sheets.items() if rows}
    if not full:
        raise InputError(f"{file} has no sheet with anything in it")
    title, rows = next(iter(full.items()))
    names = _checked_header(file, tuple("" if name is None else str(name).strip() for name in rows[0]))
    columns = {}
    for place, name in enumerate(names):
        values = [row[place] if place < len(row) else None for row in rows[1:]]
        if rows[0][place] is not None or any(value is not None for value in values):
            columns[name] = values_column(values)
    table = Table.of(file, columns, database)
    if len(full) > 1:
        table.notes = (f"{file.name}: only the first of {len(full)} sheets was read, {title!r}",)
    return table


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame of pandas or polars, neither of which is imported."""
    return hasattr(value, "columns") and hasattr(value, "shape") and hasattr(value, "to_dict")


def is_series(value: Any) -> bool:
    """Whether a value is one column of a DataFrame."""
    return hasattr(value, "to_numpy") and hasattr(value, "dtype") and not hasattr(value, "columns")


def table_of(frame: Any, name: str) -> Table:
    """A DataFrame as a table; ``name`` is what messages call it. An index with a name is a column as well."""
    if hasattr(frame, "reset_index") and any(level is not None for level in frame.index.names):
        frame = frame.reset_index()
    names = [str(column) for column in frame.columns]
    if len(set(names)) < len(names):
        again = next(column for column in names if names.count(column) > 1)
        raise InputError(f"{name} has two columns called {again!r}; give them different names")
    if len(frame) == 0 or not names:
        raise InputError(f"{name} is a DataFrame without {'rows' if names else 'columns'}")
    columns = {text: column_of(frame[column]) for text, column in zip(names, frame.columns, strict=True)}
    return Table.of(name, columns)


def column_of(series: Any) -> np.ndarray:
    """A column of a DataFrame as an array that ``Table.of`` takes; dates become text."""
    values = np.asarray(series.to_numpy())
    return values if values.dtype.kind in "iuf" else values_column(series.to_list())


def values_column(values: Sequence[Any]) -> np.ndarray:
    """Values of any type as one column: vectors of one length, else text; what the text says is found out later."""
    if values and all(isinstance(value, list | tuple | np.ndarray) for value in values):
        rows = [np.asarray(value) for value in values]
        if len({row.shape for row in rows}) == 1 and all(row.ndim == 1 and row.dtype.kind in "iuf" for row in rows):
            return np.stack(rows)
    found = np.empty(len(values), dtype=object)
    found[:] = [value if isinstance(value, str) else _text(value) for value in values]
    return found


def _text(value: Any) -> str:
    """A value as text, '' if it is missing; whole numbers have no decimal point."""
    text = str(value)
    missing = value is None or text in ("nan", "NaT", "<NA>")
    return "" if missing else text.removesuffix(".0") if isinstance(value, float) else text
