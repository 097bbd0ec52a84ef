"""Where labels are, and their cells as classes."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import Any, Literal

import numpy as np

from ..errors import InputError, one_of
from . import names
from .columns import Table
from .roles import FLAGS, Role, doubt, flagged, listed, sample, share_known

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
    classes = sorted(found, key=(lambda value: (int(value), value)) if whole else None)
    notes += [
        f"label {odd!r} is taken for a class; leave the cells empty if it means unknown"
        for odd in DOUBTFUL
        if odd in found
    ]
    index = {label: i for i, label in enumerate(classes)}
    y = np.fromiter(map(index.get, cells, repeat(-1)), dtype=np.int64, count=len(cells))
    return y, tuple(classes) or None


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


def pair_roles(table: Table, options: Mapping[str, Any], known: Collection[str], remedy: str = "") -> tuple[Role, Role]:
    """The columns of ids and of labels in a table of labels; ``known`` are the ids of the nodes, ``remedy`` is what to
    do in doubt, where no flag helps."""
    file = table.path.name

    def only(use: str, found: Sequence[str], what: str) -> str:
        if len(found) == 1:
            return found[0]
        why = f"it is not clear which of {listed(table.columns)} holds the {what}"
        raise InputError(f"{table.path}: {why}. {remedy}") if remedy else doubt(table, use, found or ["NAME"], why)

    given = [name for name in flagged(options, "id") if name in table.columns]
    by = given or [name for name in table.columns if names.plain(name) == "id"]
    by = by or [name for name in table.columns if share_known(sample(table, name), known) >= 0.5]
    by = by if len(by) == 1 else [name for name in by or table.columns if names.is_id(name)]
    node = only("id", by, "node ids")
    rest = [name for name in table.columns if name != node]
    named = [name for name in flagged(options, "label") if name in rest]
    named = named or [name for name in rest if names.plain(name) == "label"]
    for usual in (names.LABELS, names.GROUPS):
        named = named or [name for name in rest if names.words_of(name) & set(usual)]
    label = only("label", named or rest, "labels")
    why = "the other column" if len(rest) == 1 else "its name"
    return Role(file, node, "id", "holds node ids", FLAGS["id"]), Role(file, label, "label", why, FLAGS["label"])
