"""Two sets of rows: what changed between them, and whether it is more than noise."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..experiments.results import Row
from .cells import Cell, dataset_title, gather
from .significance import LEVEL, holm, paired_p, unpaired_p


def compare(before: Sequence[Row], after: Sequence[Row]) -> dict[str, Any]:
    """Cells that both have, the largest change first, and those only one has.

    Seeds that both have are compared, if there are any. A change is more than noise if the tasks say so (paired t-test
    where both met the same tasks, else Welch's; Holm-corrected, 5 %) and if it exceeds two standard errors over
    training seeds; with one seed the latter is unknown, and ``one_seed`` says so.
    """
    old, new = ({_key(cell): cell for cell in gather(rows)} for rows in (before, after))
    pairs = [_shared_seeds(old[key], new[key]) for key in old if key in new]
    corrected = holm([_p(a, b) for a, b in pairs])
    changes = [_change(a, b, p) for (a, b), p in zip(pairs, corrected, strict=True)]
    return {
        "changes": sorted(changes, key=lambda change: (-change["more_than_noise"], -abs(change["difference"]))),
        "only_before": [_name(cell) for key, cell in old.items() if key not in new],
        "only_after": [_name(cell) for key, cell in new.items() if key not in old],
        "versions_before": _versions(before),
        "versions_after": _versions(after),
    }


def _key(cell: Cell) -> tuple[Any, ...]:
    return (cell.problem, cell.method, tuple(sorted((key, str(value)) for key, value in cell.options.items())))


def _shared_seeds(a: Cell, b: Cell) -> tuple[Cell, Cell]:
    shared = {row["run"]["seed"] for row in a.rows} & {row["run"]["seed"] for row in b.rows}
    if not shared:
        return a, b
    chosen = ([row for row in cell.rows if row["run"]["seed"] in shared] for cell in (a, b))
    left, right = (gather(rows)[0] for rows in chosen)
    return left, right


def _name(cell: Cell) -> dict[str, Any]:
    return {"dataset": cell.problem.dataset, "method": cell.title, "tasks": cell.problem.setting}


def _p(a: Cell, b: Cell) -> float:
    return paired_p(a.per_task, b.per_task) if a.tasks == b.tasks else unpaired_p(a.per_task, b.per_task)


def _change(a: Cell, b: Cell, p: float) -> dict[str, Any]:
    difference = b.accuracy - a.accuracy
    return {
        **_name(a),
        "before": a.accuracy,
        "after": b.accuracy,
        "difference": difference,
        "p": p,
        "paired": a.tasks == b.tasks,
        "seeds": [len(a.rows), len(b.rows)],
        "one_seed": not a.training_free and min(len(a.rows), len(b.rows)) == 1,
        "more_than_noise": p < LEVEL and abs(difference) > _seed_noise(a, b),
        "seconds": [a.seconds, b.seconds],
    }


def _seed_noise(a: Cell, b: Cell) -> float:
    """Two standard errors of the difference over training seeds; 0 where a side has one seed and cannot tell."""
    if a.deviation is None or b.deviation is None:
        return 0.0
    return float(2 * np.sqrt(a.deviation**2 / len(a.rows) + b.deviation**2 / len(b.rows)))


def _versions(rows: Sequence[Row]) -> dict[str, list[str]]:
    names = sorted({name for row in rows for name in row["versions"]})
    return {name: sorted({row["versions"].get(name, "?") for row in rows}) for name in names}


def label(change: dict[str, Any]) -> str:
    return f"{change['method']} on {dataset_title(change['dataset'])}, {change['tasks']}"
