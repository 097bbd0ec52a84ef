"""Is a difference more than noise? Paired tests over shared tasks, corrected for how many are made."""

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
    from scipy.stats import ttest_rel

    gap = a - b
    if len(gap) < 2 or gap.std() < 1e-12:  # no spread at all: either the same, or different beyond doubt
        return float(abs(gap.mean()) < 1e-12)
    return float(ttest_rel(a, b).pvalue)


def unpaired_p(a: np.ndarray, b: np.ndarray) -> float:
    """p-value of Welch's t-test, for accuracies on different tasks."""
    from scipy.stats import ttest_ind

    if min(len(a), len(b)) < 2 or a.std() + b.std() < 1e-12:
        return float(abs(a.mean() - b.mean()) < 1e-12)
    return float(ttest_ind(a, b, equal_var=False).pvalue)


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
    asked = [cell for cell in cells if cell is not reference and cell.tasks == reference.tasks]
    corrected = holm([paired_p(cell.per_task, reference.per_task) for cell in asked])
    sure = {
        id(cell) for cell, p in zip(asked, corrected, strict=True) if p < LEVEL and cell.accuracy < reference.accuracy
    }
    return [id(cell) in sure for cell in cells]
