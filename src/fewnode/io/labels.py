"""Cells of a label column as classes."""

from collections import Counter
from collections.abc import Sequence
from itertools import repeat
from typing import Literal

import numpy as np

from ..errors import InputError, one_of
from .columns import Table

UNKNOWN = frozenset({"", "nan", "NaN", "null", "NULL", "N/A", "n/a", "#N/A", "<NA>", "?"})
DOUBTFUL = ("NA", "None", "none", "unknown", "Unknown", "other", "-")
SEVERAL = "|;,"  # what may stand between the labels of one cell
MultiLabel = Literal["first", "none", "one"]


def class_labels(
    table: Table, name: str, cells: Sequence[str], multi: MultiLabel | None, notes: list[str]
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Class ids, -1 for unknown (an empty cell, or -1 among whole numbers), and the names of the classes."""
    cells = _single(table, name, cells, multi)
    found = set(cells) - UNKNOWN
    whole = all(value.removeprefix("-").isdecimal() for value in found)
    if whole:
        found -= {"-1"}
    names = sorted(found, key=(lambda value: (int(value), value)) if whole else None)
    notes += [
        f"label {odd!r} is taken for a class; leave the cells empty if it means unknown"
        for odd in DOUBTFUL
        if odd in found
    ]
    index = {label: i for i, label in enumerate(names)}
    y = np.fromiter(map(index.get, cells, repeat(-1)), dtype=np.int64, count=len(cells))
    return y, tuple(names) or None


def _single(table: Table, name: str, cells: Sequence[str], multi: MultiLabel | None) -> Sequence[str]:
    """One label in each cell; what cells with several mean is for the user to say."""
    if multi is not None:
        one_of("answer to --multi-label", multi, ("first", "none", "one"))
    mark = None if multi == "one" else _mark(set(cells))
    if mark is None:
        return cells
    if multi is None:
        row = next(i for i, cell in enumerate(cells) if mark in cell)
        count = sum(mark in cell for cell in cells)
        raise InputError(
            f"{table.place(row, name)}: {cells[row]!r} seems to name several classes ({count:,} such rows). A node has "
            "one class: say --multi-label first (take the first), --multi-label none (leave these nodes without a "
            "label) or --multi-label one (it is the name of a class)"
        )
    if multi == "first":
        return [cell.split(mark)[0].strip(" [\"'") if mark in cell else cell for cell in cells]
    return ["" if mark in cell else cell for cell in cells]


def _mark(found: set[str]) -> str | None:
    """What separates several labels in one cell: each of them is also seen alone or in another cell."""
    for mark in SEVERAL:
        several = [[part.strip(" []\"'") for part in cell.split(mark)] for cell in found if mark in cell]
        alone = {cell for cell in found if mark not in cell}
        counts = Counter(part for cell in several for part in set(cell))
        again = {part for part, count in counts.items() if part in alone or count > 1}
        if any(all(cell) and again.issuperset(cell) for cell in several):
            return mark
    return None
