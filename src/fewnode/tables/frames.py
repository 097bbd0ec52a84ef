"""DataFrames of pandas or polars as tables, known by what they can do: neither library is imported."""

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .columns import Table


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame: it has named columns and gives each as a series."""
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
    return Table(
        Path(name), {text: column_of(frame[column]) for text, column in zip(names, frame.columns, strict=True)}
    )


def column_of(series: Any) -> np.ndarray:
    """A column as an array: numbers as they are, dates as ISO text, all else as text with '' for missing values."""
    values = np.asarray(series.to_numpy())
    if values.ndim == 1 and values.dtype.kind in "iuf":
        return values
    if values.dtype.kind in "mM":
        texts = np.datetime_as_string(values) if values.dtype.kind == "M" else values.astype(str)
        return np.where(np.isnat(values), "", texts).astype(object)
    items = values.tolist()
    if _vectors(items):
        return np.stack([np.asarray(item) for item in items])
    return np.array(["" if _missing(item) else str(item) for item in items], dtype=object)


def _vectors(items: list[Any]) -> bool:
    sized = all(isinstance(item, list | tuple | np.ndarray) for item in items)
    return sized and len({len(item) for item in items}) == 1


def _missing(item: Any) -> bool:
    return item is None or item != item or str(item) in ("<NA>", "NaT")
