"""Is a difference more than noise? Paired over the tasks both have met, corrected for how many are asked about."""

from collections.abc import Sequence

import numpy as np

from .cells import Cell

LEVEL = 0.05
TEST = (
    "two-sided paired t-test over the tasks of the shared pool (accuracies averaged over training seeds), "
    "Holm-corrected, at 5 %"
)


def paired_p(a: np.ndarray, b: np.ndarray) -> float:
    """p-value of the two-sided paired t-test of two accuracies per task [T]."""
    from scipy.stats import t

    gap = a - b
    n = len(gap)
    error = gap.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    if error < 1e-12:  # no spread at all: either the same, or different beyond doubt
        return 1.0 if abs(gap.mean()) < 1e-12 else 0.0
    return float(2 * t.sf(abs(gap.mean() / error), n - 1))


def unpaired_p(a: np.ndarray, b: np.ndarray) -> float:
    """p-value of Welch's t-test, for accuracies on different tasks."""
    from scipy.stats import t

    gap, errors = a.mean() - b.mean(), [x.var(ddof=1) / len(x) if len(x) > 1 else 0.0 for x in (a, b)]
    total = sum(errors)
    if total < 1e-24:
        return float(abs(gap) < 1e-12)
    freedom = total**2 / sum(error**2 / max(len(x) - 1, 1) for error, x in zip(errors, (a, b), strict=True))
    return float(2 * t.sf(abs(gap) / np.sqrt(total), freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm, 1979)."""
    order = np.argsort(p_values)
    corrected = np.empty(len(p_values))
    highest = 0.0
    for place, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = highest
    return corrected.tolist()


def below(cells: Sequence[Cell], reference: Cell) -> list[bool]:
    """Which cells are worse than the reference beyond noise; cells of another pool of tasks are not judged."""
    asked = [cell for cell in cells if cell is not reference and cell.pool == reference.pool]
    corrected = holm([paired_p(cell.per_task, reference.per_task) for cell in asked])
    sure = {
        id(cell) for cell, p in zip(asked, corrected, strict=True) if p < LEVEL and cell.accuracy < reference.accuracy
    }
    return [id(cell) in sure for cell in cells]
