"""Rows gathered into cells: all seeds of one method, with its options, in one setting on one data set."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from ..experiments.rows import SIZES as SIZES
from ..experiments.rows import SWITCHES, Row

ADAPTATIONS = {name: name.removesuffix("_adaptation") for name in SWITCHES}


@dataclass(frozen=True, order=True)
class Problem:
    """What is to be solved: cells of one problem can be set side by side."""

    dataset: str
    n_way: int
    k_shot: int
    n_query: int
    inductive: bool

    @property
    def setting(self) -> str:
        queries = "" if self.n_query == 10 else f", {self.n_query} queries"
        return f"{self.n_way}-way {self.k_shot}-shot{queries}{', inductive' * self.inductive}"

    @property
    def shape(self) -> tuple[int, int, int, bool]:
        return (self.n_way, self.k_shot, self.n_query, self.inductive)


@dataclass(frozen=True, eq=False)
class Cell:
    """A method's result on a problem. ``per_task [T]`` is the mean over seeds; ``interval`` is over tasks (half-width,
    95 %), ``deviation`` over training seeds (None for one seed)."""

    problem: Problem
    method: str
    options: Mapping[str, Any]
    rows: Sequence[Row]
    per_task: np.ndarray

    @property
    def title(self) -> str:
        return title(self.method, self.options)

    @property
    def accuracy(self) -> float:
        return float(self.per_task.mean())

    @property
    def interval(self) -> float:
        n = len(self.per_task)
        return float(1.96 * self.per_task.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0

    @property
    def by_seed(self) -> np.ndarray:
        return np.array([np.sum(row["correct"]) / (row["queries"] * len(row["correct"])) for row in self.rows])

    @property
    def deviation(self) -> float | None:
        return float(self.by_seed.std(ddof=1)) if len(self.rows) > 1 else None

    @property
    def seconds(self) -> float:
        return float(np.mean([row["seconds"]["train"] for row in self.rows]))

    @property
    def memory(self) -> int:
        return max(int(row["peak_memory"]) for row in self.rows)

    @property
    def pool(self) -> str:
        return str(self.rows[0]["pool"])

    @property
    def tasks(self) -> tuple[str, int]:
        """What two cells must share to be compared task by task."""
        return _tasks(self.rows[0])

    @property
    def training_free(self) -> bool:
        return bool(self.rows[0]["training_free"])

    @property
    def task_transductive(self) -> bool:
        return bool(self.rows[0]["task_transductive"])

    @property
    def kind(self) -> str:
        """Where a cell belongs: ``ablation``, the name of a training size that was varied, or ``main``."""
        if any(key in ADAPTATIONS for key in self.options):
            return "ablation"
        varied = [key for key in self.options if key in SIZES]
        return varied[0] if len(varied) == 1 else "main"

    @property
    def whole(self) -> str:
        """The title of what is varied or cut down in the cell: the same method without such options."""
        rest = {key: value for key, value in self.options.items() if key not in (*ADAPTATIONS, *SIZES)}
        return title(self.method, rest)

    @property
    def without(self) -> str:
        """The levels of adaptation that are switched off."""
        return " and ".join(level for key, level in ADAPTATIONS.items() if self.options.get(key) is False)


def gather(rows: Iterable[Row]) -> list[Cell]:
    """The cells of all successful rows. Rows of another pool of tasks than a cell's newest are left out."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["status"] == "ok":
            run = row["run"]
            options = tuple(sorted((key, str(value)) for key, value in run["options"].items()))
            groups.setdefault((_problem(run), run["method"], options), []).append(row)
    return [_cell(problem, method, group) for (problem, method, _), group in groups.items()]


def _problem(run: Mapping[str, Any]) -> Problem:
    return Problem(run["dataset"], run["n_way"], run["k_shot"], run["n_query"], run["inductive"])


def _cell(problem: Problem, method: str, group: list[Row]) -> Cell:
    newest = _tasks(max(group, key=lambda row: row["finished"]))
    same = sorted((row for row in group if _tasks(row) == newest), key=lambda row: row["run"]["seed"])
    per_task = np.mean([np.array(row["correct"]) / row["queries"] for row in same], axis=0)
    return Cell(problem, method, same[0]["run"]["options"], same, per_task)


def _tasks(row: Row) -> tuple[str, int]:
    return str(row["pool"]), len(row["correct"])


def by_problem(cells: Iterable[Cell]) -> dict[Problem, list[Cell]]:
    found: dict[Problem, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.problem, []).append(cell)
    return found


def title(method: str, options: Mapping[str, Any]) -> str:
    """The name a reader knows: from titles.toml if it is there, else the key with its options."""
    known = _titles()
    for entry in known["variant"]:
        if entry["method"] == method and entry["options"] == dict(options):
            return str(entry["title"])
    name = str(known["methods"].get(method, method))
    inner = ", ".join(f"{key}={value}" for key, value in sorted(options.items()))
    return f"{name} ({inner})" if inner else name


def dataset_title(name: str) -> str:
    return str(_titles()["datasets"].get(name, name.rsplit("/", 1)[-1]))


@cache
def _titles() -> dict[str, Any]:
    return tomllib.loads((files("fewnode.report") / "titles.toml").read_text(encoding="utf-8"))
