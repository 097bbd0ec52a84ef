"""What the cells of a column hold: numbers, dates, categories or texts."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nil", "<na>", "#n/a", "?", "-", "--", "."})
Kind = Literal["number", "date", "text", "category", "names", "empty"]
MOST = 0.5  # if more of the cells than this are numbers, the others are taken for mistakes
WORDS = 3.0  # on average, from which a cell is a text
SAMPLE = 2000  # cells that tell what a column holds
CATEGORIES = 1000  # at most, and each on two nodes on average

_GROUPED = re.compile(r"[+-]?\d{1,3}([., ]\d{3})+")
_DATE = re.compile(
    r"(?P<a>\d{4})[-/.](?P<b>\d{1,2})[-/.](?P<c>\d{1,2})(?:[T ](?P<t>\d{1,2}:\d{2}(?::\d{2})?).*)?"
    r"|(?P<x>\d{1,2})(?P<mark>[-/.])(?P<y>\d{1,2})[-/.](?P<z>\d{4})(?:[T ](?P<s>\d{1,2}:\d{2}(?::\d{2})?).*)?"
)


def missing(cell: str) -> bool:
    return cell.casefold() in MISSING


class NotANumber(ValueError):
    """A cell that is no number; ``row`` says which."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


class DecimalDoubt(NotANumber):
    """A cell such as ``1,234``, where a comma can be a decimal mark or group the thousands."""


def numbers(cells: Sequence[str], decimal: str | None = None) -> np.ndarray:
    """Cells as float64, nan where they are missing. ``decimal`` is the decimal mark; found out if not given."""
    if decimal != "," and not any("_" in cell for cell in cells):  # Python reads 1_000 as 1000; a table means a name
        try:
            return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        except ValueError:
            pass
    mark = decimal or _decimal_mark(cells)
    group = "," if mark == "." else "."
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        if missing(cell):
            values[row] = np.nan
            continue
        plain = cell.removesuffix("%").strip()
        if "_" in plain or (group in plain and not _GROUPED.fullmatch(plain.split(mark)[0])):
            raise NotANumber(row)
        try:
            values[row] = float(plain.replace(group, "").replace(" ", "").replace(mark, "."))
        except ValueError:
            raise NotANumber(row) from None
    return values


def _decimal_mark(cells: Sequence[str]) -> str:
    """A comma, where that is the only way to read the cells."""
    commas = [(row, cell) for row, cell in enumerate(cells) if "," in cell]
    if not commas or any("." in cell.split(",")[-1] or cell.count(",") > 1 for _, cell in commas):
        return "."
    if any("." in cell or cell.startswith(("0,", "-0,", ",")) for _, cell in commas):
        return ","
    if all(_GROUPED.fullmatch(cell) for _, cell in commas):
        raise DecimalDoubt(commas[0][0])
    return ","


def dates(cells: Sequence[str]) -> np.ndarray | None:
    """Years with fractions, nan where they are missing; None if a cell is no date."""
    found = [None if missing(cell) else _DATE.fullmatch(cell) for cell in cells]
    if any(match is None and not missing(cell) for match, cell in zip(found, cells, strict=True)):
        return None
    american = any(match and match["y"] and int(match["y"]) > 12 for match in found)
    made = []
    for match in found:
        if match is None:
            made.append("NaT")
            continue
        if match["a"]:
            year, month, day, time = match["a"], match["b"], match["c"], match["t"]
        else:
            day, month = (match["y"], match["x"]) if american else (match["x"], match["y"])
            year, time = match["z"], match["s"]
        made.append(f"{year}-{int(month):02}-{int(day):02}" + (f"T{time:0>5}" if time else ""))
    try:
        seconds = np.array(made, dtype="datetime64[s]")
    except ValueError:  # a 13th month
        return None
    years = seconds.astype("int64") / (365.2425 * 86400) + 1970
    return np.where(np.isnat(seconds), np.nan, years)


def kind_of_cells(cells: Sequence[str], text: bool = False) -> Kind:
    """What a column of text cells holds; ``text`` says that its name is that of a text.

    Long strings are a text, few distinct ones a category, many distinct short ones names of something.
    """
    sample = [cell for cell in cells[:: max(1, len(cells) // SAMPLE)] if not missing(cell)]
    sample = sample or [cell for cell in cells if not missing(cell)][:SAMPLE]
    if not sample:
        return "empty"
    if sum(map(_like_number, sample)) > MOST * len(sample):
        return "number"
    if dates(sample) is not None:
        return "date"
    words = sum(len(cell.split()) for cell in sample) / len(sample)
    counts = Counter(cells)
    given = {cell: count for cell, count in counts.items() if not missing(cell)}
    few = len(given) <= min(CATEGORIES, sum(given.values()) / 2)
    if few and not (text and words >= WORDS):
        return "category"
    return "text" if text or words >= WORDS else "names"


def _like_number(cell: str) -> bool:
    plain = cell.removesuffix("%").strip().replace(",", ".")
    if "_" in plain:
        return False
    try:
        float(plain)
    except ValueError:
        return _GROUPED.fullmatch(cell) is not None
    return True
