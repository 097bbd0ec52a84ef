"""Parquet, Excel and JSON lines as named columns."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .dialects import find_encoding, unpacked

EXTRA = "is not installed: pip install 'fewnode[tables]'"


def pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(f"Parquet needs pyarrow, which {EXTRA}, or use CSV") from error
    return pyarrow


def read_parquet(file: Path) -> dict[str, np.ndarray]:
    arrow = pyarrow()
    try:
        table = arrow.parquet.read_table(file)
    except (arrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{file} is not a readable Parquet file ({reason})") from error
    if not table.num_columns:
        raise InputError(f"{file} has no columns")
    names = [name for name in table.column_names if not name.startswith("__index_level_")]  # a row index, not data
    if not names:
        raise InputError(f"{file} has an index but no columns; write the index as a column")
    return {name: _parquet_column(file, name, table[name]) for name in names}


def _parquet_column(file: Path, name: str, column: Any) -> np.ndarray:
    arrow = pyarrow()
    kind, types = column.type, arrow.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        if types.is_integer(kind) and column.null_count and _beyond_float(column):
            return np.array(["" if value is None else str(value) for value in column.to_pylist()], dtype=object)
        values: np.ndarray = column.to_numpy()
        return values if values.dtype != object else values.astype(np.float64)  # booleans with gaps
    if (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)) and not types.is_nested(
        kind.value_type
    ):
        return typed_column(file, name, _listed(file, name, column))
    if types.is_nested(kind):
        raise InputError(f"{file}, column {name!r}: holds {kind}, not single values; write one column per value")
    try:
        text = column.cast(arrow.string()).to_pylist()
    except (arrow.ArrowException, UnicodeDecodeError) as error:  # the second: what the file calls text is none
        raise InputError(
            f"{file}, column {name!r}: holds {kind} that is no text ({str(error).splitlines()[0]}); write it as text"
        ) from error
    return np.array(["" if value is None else value.strip() for value in text], dtype=object)


def _listed(file: Path, name: str, column: Any) -> list[Any]:
    try:
        cells: list[Any] = column.to_pylist()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}, column {name!r}: holds text that is none ({error}); write it again") from error
    return cells


def _beyond_float(column: Any) -> bool:
    """Whether whole numbers with gaps, which NumPy only has as float64, are too large to stay apart in it."""
    return any(value is not None and abs(value) >= 2**53 for value in column.to_pylist())


def read_json_lines(file: Path) -> dict[str, np.ndarray]:
    """One object in each line; a key that a line lacks is missing there."""
    data = unpacked(file)
    text = data.decode(find_encoding(file, data)[0])
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{file}, line {number}: not JSON ({error}). Write one object in each line") from error
        if not isinstance(row, dict):
            raise InputError(f"{file}, line {number}: {line[:40]!r} is no object; write one {{...}} in each line")
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: typed_column(file, name, [row.get(name) for row in rows]) for name in names}


def read_excel(file: Path) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """The first sheet with anything in it."""
    try:
        import openpyxl
    except ImportError as error:
        raise InputError(f"{file}: Excel needs openpyxl, which {EXTRA}, or save it as CSV") from error
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        sheets = {sheet.title: [row for row in sheet.iter_rows(values_only=True) if any(row)] for sheet in book}
    except Exception as error:  # zipfile, XML and openpyxl each have their own words for "damaged"
        raise InputError(f"{file} is not a readable .xlsx file ({error}); save it again") from error
    full = {title: rows for title, rows in sheets.items() if rows}
    if not full:
        raise InputError(f"{file} has no sheet with anything in it")
    title, rows = next(iter(full.items()))
    notes = (f"{file.name}: only the first of {len(full)} sheets was read, {title!r}",) if len(full) > 1 else ()
    names = ["" if name is None else str(name).strip() for name in rows[0]]
    table = {}
    for place, name in enumerate(names):
        values = [row[place] if place < len(row) else None for row in rows[1:]]
        if name or any(value is not None for value in values):
            table[name or f"column {place + 1}"] = typed_column(file, name, values)
    return table, notes


def typed_column(file: Path, name: str, values: list[Any]) -> np.ndarray:
    """Python values as one column: numbers with nan for gaps, vectors as rows, all else as text with '' for gaps."""
    given = [value for value in values if value is not None]
    if given and all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
        whole = len(given) == len(values) and all(isinstance(value, int) for value in given)
        if whole and all(abs(value) < 2**63 for value in given):
            return np.array(values, dtype=np.int64)
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if given and all(isinstance(value, list) and _numeric(value) for value in given):
        return _vectors(file, name, values)
    return np.array([_text(file, name, row, value) for row, value in enumerate(values)], dtype=object)


def _numeric(value: list[Any]) -> bool:
    return len(value) > 0 and all(isinstance(part, int | float) for part in value)


def _vectors(file: Path, name: str, values: list[Any]) -> np.ndarray:
    width = len(next(value for value in values if value is not None))
    for row, value in enumerate(values):
        if value is not None and len(value) != width:
            raise InputError(
                f"{file}, row {row + 1}, column {name!r}: a vector of {len(value)} numbers, but the first has {width}; "
                "give all vectors the same length"
            )
    gap = [np.nan] * width
    return np.array([gap if value is None else value for value in values], dtype=np.float32)


def _text(file: Path, name: str, row: int, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, str | int | float) for part in value):
        return "|".join(map(str, value)).strip()
    if isinstance(value, list | dict):
        raise InputError(f"{file}, row {row + 1}, column {name!r}: holds {value!r}, not a single value")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).strip()
