"""Result rows gathered into cells, tested for significance and compared."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from ..experiments.rows import SIZES, SWITCHES, Row

TEST = (
    "two-sided paired t-test over the tasks of the shared pool (accuracies averaged over training seeds), "
    "Holm-corrected, at 5 %"
)


@dataclass(frozen=True, order=True)
class Problem:
    """A data set and the shape of the tasks: cells of one problem can be compared."""

    dataset: str
    n_way: int
    k_shot: int
    n_query: int
    inductive: bool

    @property
    def setting(self) -> str:
        """For people: "5-way 3-shot", with what is unusual about it."""
        queries = "" if self.n_query == 10 else f", {self.n_query} queries"
        return f"{self.n_way}-way {self.k_shot}-shot{queries}{', inductive' * self.inductive}"

    @property
    def shape(self) -> tuple[int, int, int, bool]:
        return (self.n_way, self.k_shot, self.n_query, self.inductive)


class Cell:
    """The result of a method, with its options, on a problem: the ``rows`` of all training seeds.

    Rows of another pool of tasks than that of the newest are left out. ``per_task [T]`` is the mean over seeds,
    ``interval`` the half-width of its 95 % interval over tasks, ``deviation`` the standard deviation over training
    seeds (None for one seed). Cells that share ``tasks`` can be compared task by task. ``kind`` is ``main``,
    ``ablation`` or the name of the training size that was varied; ``whole`` is the title of the same method without
    such options, and ``without`` names the adaptation levels that are switched off.
    """

    def __init__(self, problem: Problem, rows: Sequence[Row]) -> None:
        self.problem = problem
        self.tasks = _tasks(max(rows, key=lambda row: row["finished"]))
        self.rows = sorted((row for row in rows if _tasks(row) == self.tasks), key=lambda row: row["run"]["seed"])
        by_seed = np.array([np.array(row["correct"]) / row["queries"] for row in self.rows])  # [seeds, T]
        self.per_task: np.ndarray = by_seed.mean(0)
        n = len(self.per_task)
        self.accuracy = float(self.per_task.mean())
        self.interval = float(1.96 * self.per_task.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
        self.deviation = float(by_seed.mean(1).std(ddof=1)) if len(self.rows) > 1 else None
        self.seconds = float(np.mean([row["seconds"]["train"] for row in self.rows]))
        self.memory = max(row["peak_memory"] for row in self.rows)
        self.training_free: bool = self.rows[0]["training_free"]
        self.method: str = self.rows[0]["run"]["method"]
        self.options: dict[str, Any] = self.rows[0]["run"]["options"]
        self.title = title(self.method, self.options)
        sizes = [key for key in self.options if key in SIZES]
        switched = any(key in SWITCHES for key in self.options)
        self.kind = "ablation" if switched else sizes[0] if len(sizes) == 1 else "main"
        rest = {key: value for key, value in self.options.items() if key not in (*SWITCHES, *SIZES)}
        self.whole = title(self.method, rest)
        off = [key.removesuffix("_adaptation") for key in SWITCHES if self.options.get(key) is False]
        self.without = " and ".join(off)

    def __str__(self) -> str:
        seeds = "" if self.deviation is None else f" ({100 * self.deviation:.1f})"
        return f"{100 * self.accuracy:.1f} ± {100 * self.interval:.1f}{seeds}"


def gather(rows: Iterable[Row]) -> list[Cell]:
    """The cells of all successful rows."""
    return list(_cells(rows).values())


def _cells(rows: Iterable[Row]) -> dict[Any, Cell]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["status"] == "ok":
            run = row["run"]
            problem = Problem(run["dataset"], run["n_way"], run["k_shot"], run["n_query"], run["inductive"])
            options = tuple(sorted((key, str(value)) for key, value in run["options"].items()))
            groups.setdefault((problem, run["method"], options), []).append(row)
    return {key: Cell(key[0], group) for key, group in groups.items()}


def _tasks(row: Row) -> tuple[str, int]:
    return str(row["pool"]), len(row["correct"])


def by_problem(cells: Iterable[Cell]) -> dict[Problem, list[Cell]]:
    """The cells of each problem."""
    found: dict[Problem, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.problem, []).append(cell)
    return found


@cache
def read_names(file: str) -> dict[str, Any]:
    """A TOML file of this package: titles, texts of tables, published numbers."""
    return tomllib.loads((files("fewnode.report") / file).read_text(encoding="utf-8"))


def title(method: str, options: Mapping[str, Any]) -> str:
    """The name of a method in tables: from titles.toml if it is there, else the key with its options."""
    known = read_names("titles.toml")
    for entry in known["variant"]:
        if entry["method"] == method and entry["options"] == dict(options):
            return str(entry["title"])
    name = str(known["methods"].get(method, method))
    inner = ", ".join(f"{key}={value}" for key, value in sorted(options.items()))
    return f"{name} ({inner})" if inner else name


def dataset_title(name: str) -> str:
    """The name of a data set in tables."""
    return str(read_names("titles.toml")["datasets"].get(name, name.rsplit("/", 1)[-1]))


def p_value(a: np.ndarray, b: np.ndarray, paired: bool) -> float:
    """p-value of the two-sided t-test of accuracies per task: paired, or Welch's for accuracies on different tasks."""
    from scipy.stats import ttest_ind, ttest_rel

    spread = (a - b).std() if paired else a.std() + b.std()
    if min(len(a), len(b)) < 2 or spread < 1e-12:  # no spread at all: equal, or certainly different
        return float(abs(a.mean() - b.mean()) < 1e-12)
    return float((ttest_rel(a, b) if paired else ttest_ind(a, b, equal_var=False)).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm, 1979)."""
    p, order = np.asarray(p_values, float), np.argsort(p_values)
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, np.arange(len(p), 0, -1) * p[order]))
    return corrected.tolist()


def below(cells: Sequence[Cell], reference: Cell) -> set[Cell]:
    """The cells that are significantly worse than the reference; cells of another pool of tasks are not tested."""
    tested = [cell for cell in cells if cell is not reference and cell.tasks == reference.tasks]
    corrected = holm([p_value(cell.per_task, reference.per_task, paired=True) for cell in tested])
    pairs = zip(tested, corrected, strict=True)
    return {cell for cell, p in pairs if p < 0.05 and cell.accuracy < reference.accuracy}


def compare(before: Sequence[Row], after: Sequence[Row]) -> dict[str, Any]:
    """Cells of both sets of rows, the largest change first, and those that only one set has.

    Only seeds in both sets are compared, if there are any. A change is more than noise if it is significant over tasks
    (paired t-test where both have the same tasks, else Welch's; Holm-corrected, 5 %) and exceeds two standard errors
    over training seeds; with one seed these are unknown, which ``one_seed`` says.
    """
    old, new = _cells(before), _cells(after)
    pairs = [_shared_seeds(old[key], new[key]) for key in old if key in new]
    corrected = holm([p_value(a.per_task, b.per_task, a.tasks == b.tasks) for a, b in pairs])
    changes = [_change(a, b, p) for (a, b), p in zip(pairs, corrected, strict=True)]
    return {
        "changes": sorted(changes, key=lambda change: (-change["more_than_noise"], -abs(change["difference"]))),
        "only_before": [_name(cell) for key, cell in old.items() if key not in new],
        "only_after": [_name(cell) for key, cell in new.items() if key not in old],
        "versions_before": _versions(before),
        "versions_after": _versions(after),
    }


def _shared_seeds(a: Cell, b: Cell) -> tuple[Cell, Cell]:
    shared = {row["run"]["seed"] for row in a.rows} & {row["run"]["seed"] for row in b.rows}
    if not shared:
        return a, b
    left, right = ([row for row in cell.rows if row["run"]["seed"] in shared] for cell in (a, b))
    return Cell(a.problem, left), Cell(b.problem, right)


def _name(cell: Cell) -> dict[str, Any]:
    return {"dataset": cell.problem.dataset, "method": cell.title, "tasks": cell.problem.setting}


def _change(a: Cell, b: Cell, p: float) -> dict[str, Any]:
    difference, noise = b.accuracy - a.accuracy, 0.0
    if a.deviation is not None and b.deviation is not None:  # two standard errors over training seeds
        noise = float(2 * np.sqrt(a.deviation**2 / len(a.rows) + b.deviation**2 / len(b.rows)))
    return {
        **_name(a),
        "before": a.accuracy,
        "after": b.accuracy,
        "difference": difference,
        "p": p,
        "paired": a.tasks == b.tasks,
        "seeds": [len(a.rows), len(b.rows)],
        "one_seed": not a.training_free and min(len(a.rows), len(b.rows)) == 1,
        "more_than_noise": p < 0.05 and abs(difference) > noise,
        "seconds": [a.seconds, b.seconds],
    }


def _versions(rows: Sequence[Row]) -> dict[str, list[str]]:
    names = sorted({name for row in rows for name in row["versions"]})
    return {name: sorted({row["versions"].get(name, "?") for row in rows}) for name in names}
