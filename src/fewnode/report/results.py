"""Result rows combined into cells, tested for significance and compared."""

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ..experiments.rows import SIZES, SWITCHES, Row

TEST = (
    "two-sided t-test, paired over the tasks of the shared pool, to whose variance that over training seeds is added: "
    "the larger of the cell's own and the mean over all cells of the method; Holm-corrected, at 5 %"
)
SETTINGS = ("supervised", "label-free", "task-transductive", "training-free")  # in the order of tables


@dataclass(frozen=True, order=True)
class Problem:
    """A data set, the shape of the tasks, and the input of a method: cells of one problem can be compared.

    ``given`` names a text encoder, a file of classes or a file of tasks.
    """

    dataset: str
    n_way: int
    k_shot: int
    n_query: int
    inductive: bool
    given: str = ""

    @property
    def setting(self) -> str:
        """A label such as "5-way 3-shot", with everything that differs from the defaults."""
        queries = "" if self.n_query == 10 else f"{self.n_query} queries"
        parts = [f"{self.n_way}-way {self.k_shot}-shot", queries, "inductive" * self.inductive, self.given]
        return ", ".join(filter(None, parts))


class Cell:
    """The result of a method, with its options, on a problem: the ``rows`` of all training seeds.

    Rows of pools of tasks other than the newest are left out. ``per_task [T]`` is the mean over seeds, ``interval`` the
    half-width of its 95 % interval over tasks, ``deviation`` the standard deviation over training seeds (None for one
    seed), and ``seeds`` the variance over seeds that tests use with its degrees of freedom (None if unknown). Cells
    that share ``tasks`` can be compared task by task. ``setting`` is one of SETTINGS: what a method learns from, or
    sees of a task. ``kind`` is ``main``, ``ablation`` or the name of the training size that was varied. ``whole`` is
    the title of the same method without such options, and ``without`` names the adaptation levels that are switched
    off.
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
        self.seeds: tuple[float, int] | None = None
        self.seconds = float(np.mean([row["seconds"]["train"] for row in self.rows]))
        self.memory = max(row["peak_memory"] for row in self.rows)
        self.training_free: bool = self.rows[0]["training_free"]
        self.method: str = self.rows[0]["run"]["method"]
        self.options: dict[str, Any] = self.rows[0]["run"]["options"]
        self.title = title(self.method, self.options)
        learned = "supervised" if self.rows[0]["uses_labels"] else "label-free"
        learned = "training-free" if self.training_free else learned
        self.setting = "task-transductive" if self.rows[0]["task_transductive"] else learned
        sizes = [key for key in self.options if key in SIZES]
        switched = any(key in SWITCHES for key in self.options)
        self.kind = "ablation" if switched else sizes[0] if len(sizes) == 1 else "main"
        rest = {key: value for key, value in self.options.items() if key not in (*SWITCHES, *SIZES)}
        self.whole = title(self.method, rest)
        off = [key.removesuffix("_adaptation") for key in SWITCHES if self.options.get(key) is False]
        self.without = " and ".join(off)

    def comparable(self, other: "Cell") -> bool:
        """Whether a test can compare the two: on the same tasks, and with a known variance over training seeds."""
        known = all(cell.training_free or cell.seeds is not None for cell in (self, other))
        return self.tasks == other.tasks and known

    def __str__(self) -> str:
        seeds = "" if self.deviation is None else f" ({100 * self.deviation:.1f})"
        return f"{100 * self.accuracy:.1f} ± {100 * self.interval:.1f}{seeds}"


def gather(rows: Iterable[Row]) -> list[Cell]:
    """The cells of all successful rows; a cell holds the rows of a problem and a method with its options."""
    groups, of_method = defaultdict(list), defaultdict(list)
    for row in rows:
        if row["status"] == "ok":
            run = row["run"]
            named = ((word, run.get(word)) for word in ("text_encoder", "split", "pool"))
            given = ", ".join(f"{word.replace('_', ' ')} {Path(name).name}" for word, name in named if name)
            problem = Problem(run["dataset"], run["n_way"], run["k_shot"], run["n_query"], run["inductive"], given)
            groups[problem, title(run["method"], run["options"])].append(row)
    cells = [Cell(problem, group) for (problem, _), group in groups.items()]
    for cell in cells:
        of_method[cell.title].append(cell)
    for part in of_method.values():  # three seeds tell little of a variance: all cells of a method are asked
        known = [(len(cell.rows) - 1, cell.deviation**2) for cell in part if cell.deviation is not None]
        free = sum(n for n, _ in known)
        for cell in part if free else ():
            pooled = sum(n * variance for n, variance in known) / free
            cell.seeds = (max(pooled, (cell.deviation or 0.0) ** 2), free)
    return cells


def _tasks(row: Row) -> tuple[str, int]:
    return str(row["pool"]), len(row["correct"])


def by_problem(cells: Iterable[Cell]) -> dict[Problem, list[Cell]]:
    """The cells of each problem."""
    found = defaultdict(list)
    for cell in cells:
        found[cell.problem].append(cell)
    return found


@cache
def read_names(file: str) -> dict[str, Any]:
    """A TOML file of this package: titles, texts of tables, published numbers."""
    return tomllib.loads((files("fewnode.report") / file).read_text(encoding="utf-8"))


def title(method: str, options: Mapping[str, Any]) -> str:
    """The name of a method in tables: from titles.toml if it is listed there, otherwise the key with its options."""
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


def p_value(a: np.ndarray, b: np.ndarray, paired: bool, seeds: Iterable[tuple[float, int]] = ()) -> float:
    """p-value of the two-sided t-test of accuracies per task: paired, or Welch's for accuracies on different tasks.

    ``seeds`` are variances of the means over training seeds and their degrees of freedom: they are added to the
    variance over tasks (Satterthwaite).
    """
    from scipy.special import stdtr

    samples = [x for x in ([a - b] if paired else [a, b]) if len(x) > 1]
    parts = [*((x.var(ddof=1) / len(x), len(x) - 1) for x in samples), *seeds]
    variance, difference = sum(part for part, _ in parts), abs(float(a.mean() - b.mean()))
    if variance < 1e-24:  # no spread at all: equal, or certainly different
        return float(difference < 1e-12)
    freedom = variance**2 / sum(part**2 / free for part, free in parts)
    return float(2 * stdtr(freedom, -difference / np.sqrt(variance)))


def p_of_cells(a: Cell, b: Cell) -> float:
    """The p-value of the difference of two cells, over tasks and training seeds."""
    seeds = [(cell.seeds[0] / len(cell.rows), cell.seeds[1]) for cell in (a, b) if cell.seeds is not None]
    return p_value(a.per_task, b.per_task, a.tasks == b.tasks, seeds)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm, 1979)."""
    p, order = np.asarray(p_values, float), np.argsort(p_values)
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, np.arange(len(p), 0, -1) * p[order]))
    return corrected.tolist()


def below(cells: Sequence[Cell], reference: Cell) -> set[Cell]:
    """The cells that are significantly worse than the reference, among those that are comparable with it."""
    tested = [cell for cell in cells if cell is not reference and cell.comparable(reference)]
    corrected = holm([p_of_cells(cell, reference) for cell in tested])
    pairs = zip(tested, corrected, strict=True)
    return {cell for cell, p in pairs if p < 0.05 and cell.accuracy < reference.accuracy}


def compare(before: Sequence[Row], after: Sequence[Row]) -> dict[str, Any]:
    """Cells of both sets of rows, the largest change first, and the cells that only one set has.

    Only seeds in both sets are compared, if there are any. A change exceeds the noise if it is significant over tasks
    and training seeds (paired if both have the same tasks; Holm-corrected, 5 %). With one seed, the variance over seeds
    is unknown, which ``one_seed`` reports.
    """
    old, new = ({(cell.problem, cell.title): cell for cell in gather(rows)} for rows in (before, after))
    pairs = [_shared_seeds(old[key], new[key]) for key in old if key in new]
    corrected = holm([p_of_cells(a, b) for a, b in pairs])
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
    left, right = (Cell(a.problem, [row for row in cell.rows if row["run"]["seed"] in shared]) for cell in (a, b))
    left.seeds, right.seeds = a.seeds, b.seeds
    return left, right


def _name(cell: Cell) -> dict[str, Any]:
    return {"dataset": cell.problem.dataset, "method": cell.title, "tasks": cell.problem.setting}


def _change(a: Cell, b: Cell, p: float) -> dict[str, Any]:
    return {
        **_name(a),
        "before": a.accuracy,
        "after": b.accuracy,
        "difference": b.accuracy - a.accuracy,
        "p": p,
        "paired": a.tasks == b.tasks,
        "seeds": [len(a.rows), len(b.rows)],
        "one_seed": not a.training_free and min(len(a.rows), len(b.rows)) == 1,
        "more_than_noise": p < 0.05,
        "seconds": [a.seconds, b.seconds],
    }


def _versions(rows: Sequence[Row]) -> dict[str, list[str]]:
    names = sorted({name for row in rows for name in row["versions"]})
    return {name: sorted({row["versions"].get(name, "?") for row in rows}) for name in names}
