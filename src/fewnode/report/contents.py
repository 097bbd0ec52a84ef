"""The tables of a report, made from cells."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..storage.spreadsheet import guarded
from .cells import SIZES, Cell, Problem, by_problem, dataset_title
from .significance import TEST, below, paired_p
from .tables import ResultTable

DEFAULT = "vantage"  # the method that is used where none is named
MARKS = (
    "Accuracy in %, ± half-width of its 95 % interval over tasks, in brackets the standard deviation over training "
    f"seeds. Bold: the highest. ≈: not distinguishable from it; ↓: below the best training-free row ({TEST})."
)
COLUMNS = (
    "dataset", "method", "options", "n_way", "k_shot", "n_query", "inductive", "accuracy", "interval",
    "sd_over_seeds", "seeds", "tasks", "train_seconds", "peak_memory", "pool",
)  # fmt: skip


def leaderboards(cells: Sequence[Cell]) -> list[ResultTable]:
    """One table for each shape of tasks: methods by data sets, the best on average first."""
    main = by_problem(cell for cell in cells if cell.kind == "main")
    ordered = sorted(main, key=lambda p: (p.inductive, p.n_query != 10, p.shape))
    shapes = dict.fromkeys(problem.shape for problem in ordered)
    return [_leaderboard({p: found for p, found in main.items() if p.shape == shape}) for shape in shapes]


def _leaderboard(problems: dict[Problem, list[Cell]]) -> ResultTable:
    columns = sorted(problems, key=lambda problem: dataset_title(problem.dataset))
    titles = order_titles([cell for cells in problems.values() for cell in cells])
    texts = [verdicts(problems[problem]) for problem in columns]
    best = [max(problems[problem], key=lambda cell: cell.accuracy).title for problem in columns]
    rows = [[title, *(column.get(title, "–") for column in texts)] for title in titles]
    strong = {(titles.index(name), place + 1) for place, name in enumerate(best)}
    first = columns[0]
    name = f"leaderboard_{first.n_way}w{first.k_shot}s_{first.n_query}q{'_inductive' * first.inductive}"
    heads = ["method", *(dataset_title(problem.dataset) for problem in columns)]
    return ResultTable(name, first.setting, heads, rows, MARKS, frozenset(strong))


def order_titles(cells: Sequence[Cell]) -> list[str]:
    """Titles of methods by their mean rank over the problems they took part in, the floors last."""
    ranks: dict[str, list[float]] = {}
    for found in by_problem(cells).values():
        ordered = sorted(found, key=lambda cell: -cell.accuracy)
        for place, cell in enumerate(ordered):
            ranks.setdefault(cell.title, []).append(place / len(ordered))
    free = {cell.title for cell in cells if cell.training_free}
    return sorted(ranks, key=lambda title: (title in free, float(np.mean(ranks[title]))))


def verdicts(cells: Sequence[Cell]) -> dict[str, str]:
    """The text of each cell of a problem, by its title, with the marks it earned."""
    best = max(cells, key=lambda cell: cell.accuracy)
    floors = [cell for cell in cells if cell.training_free]
    worse = below(cells, best)
    beaten = below(cells, max(floors, key=lambda cell: cell.accuracy)) if floors else [False] * len(cells)
    found = {}
    for cell, is_worse, is_beaten in zip(cells, worse, beaten, strict=True):
        like = " ≈" if cell is not best and not is_worse and cell.tasks == best.tasks else ""
        found[cell.title] = number(cell) + like + (" ↓" if is_beaten and not cell.training_free else "")
    return found


def number(cell: Cell) -> str:
    seeds = "" if cell.deviation is None else f" ({100 * cell.deviation:.1f})"
    return f"{100 * cell.accuracy:.1f} ± {100 * cell.interval:.1f}{seeds}"


def gains(cells: Sequence[Cell]) -> list[ResultTable]:
    """The default method against the best training-free row, TENT and the best other method of each problem, and what
    it loses when it is trained without the nodes of novel classes."""
    main = by_problem(cell for cell in cells if cell.kind == "main" and cell.problem.n_query == 10)
    own, tent = (_plain(cells, method) for method in (DEFAULT, "tent"))
    rows, found = [], {}
    for problem in sorted(main, key=lambda p: (dataset_title(p.dataset), p.shape)):
        floor = best_of(cell for cell in main[problem] if cell.training_free)
        if problem.inductive or floor is None or problem not in own:
            continue
        full, unseen = own[problem], own.get(replace(problem, inductive=True))
        other = best_of(cell for cell in main[problem] if _other(cell))
        found[problem] = 100 * (full.accuracy - floor.accuracy)
        beside = "–" if other is None else f"{number(other)} {other.title}"
        printed = "–" if problem not in tent else number(tent[problem])
        apart = "–" if unseen is None else f"{number(unseen)}, {100 * (unseen.accuracy - full.accuracy):+.1f}"
        where = (dataset_title(problem.dataset), problem.setting)
        rows.append([*where, number(full), number(floor), f"{found[problem]:+.1f}", printed, beside, apart])
    shots = sorted({problem.k_shot for problem in found})
    means = {k: np.mean([gain for problem, gain in found.items() if problem.k_shot == k]) for k in shots}
    told = ", ".join(f"{mean:+.1f} at {k} shot{'s' * (k > 1)}" for k, mean in means.items())
    note = (
        f"Mean gain over the best training-free row, which is chosen on the very tasks it is tested on: {told}. "
        "Inductive: trained without the nodes of novel classes; then the gap to the usual setting."
    )
    heads = ["data set", "tasks", DEFAULT, "best training-free", "gain", "TENT", "best other trained", "inductive"]
    return [ResultTable("gains", f"{DEFAULT} against the floors", heads, rows, note)] if rows else []


def _plain(cells: Sequence[Cell], method: str) -> dict[Problem, Cell]:
    """The cells of a method with its default options, by problem."""
    return {cell.problem: cell for cell in cells if cell.method == method and not cell.options}


def _other(cell: Cell) -> bool:
    """Whether a cell is of a trained method that is neither the default nor a form of TENT."""
    return not cell.training_free and cell.method not in (DEFAULT, "tent", "tent_released")


def best_of(cells: Iterable[Cell]) -> Cell | None:
    return max(cells, key=lambda cell: cell.accuracy, default=None)


def ablations(cells: Sequence[Cell]) -> list[ResultTable]:
    """What a method loses without each of its adaptations."""
    cut = [cell for cell in cells if cell.kind == "ablation"]
    whole = {(cell.problem, cell.title): cell for cell in cells if cell.kind == "main"}
    levels = sorted({cell.without for cell in cut}, key=lambda level: (len(level.split()), level))
    changes: dict[tuple[Problem, str], dict[str, str]] = {}
    for cell in cut:
        key = (cell.problem, cell.whole)
        if key in whole:
            changes.setdefault(key, {})[cell.without] = _change(cell, whole[key])
    rows = [
        [dataset_title(problem.dataset), problem.setting, title, number(whole[problem, title])]
        + [parts.get(level, "–") for level in levels]
        for (problem, title), parts in sorted(changes.items(), key=lambda item: (item[0][1], item[0][0]))
    ]
    test = TEST.split(",")[0]
    note = f"The change in points without a level of adaptation; ≈: not distinguishable from none ({test}, 5 %)."
    heads = ["data set", "tasks", "method", "whole", *(f"without {level} level" for level in levels)]
    return [ResultTable("ablation", "Ablation", heads, rows, note)] if rows else []


def _change(cell: Cell, reference: Cell) -> str:
    same = cell.tasks == reference.tasks and paired_p(cell.per_task, reference.per_task) >= 0.05
    return f"{100 * (cell.accuracy - reference.accuracy):+.1f}{' ≈' * same}"


def sensitivities(cells: Sequence[Cell]) -> list[ResultTable]:
    """How the sizes of the training tasks matter: one row for each data set and size that was varied."""
    part = [cell for cell in cells if cell.kind in SIZES]
    values = sorted({int(cell.options[cell.kind]) for cell in part})
    found: dict[tuple[str, ...], dict[int, str]] = {}
    for cell in part:
        where = (dataset_title(cell.problem.dataset), cell.problem.setting, cell.whole, cell.kind)
        found.setdefault(where, {})[int(cell.options[cell.kind])] = number(cell)
    rows = [[*where, *(texts.get(value, "–") for value in values)] for where, texts in sorted(found.items())]
    heads = ["data set", "tested on", "method", "varied", *map(str, values)]
    note = "Trained on tasks of the sizes at the top. Accuracy in %, ± 95 % over tasks, (sd over seeds)."
    return [ResultTable("sensitivity", "Sizes of the training tasks", heads, rows, note)] if rows else []


def costs(cells: Sequence[Cell]) -> list[ResultTable]:
    """Time and memory of every method, over its problems."""
    main = [cell for cell in cells if cell.kind == "main"]
    rows = []
    for title in order_titles(main):
        own = [cell for cell in main if cell.title == title]
        seconds = [cell.seconds for cell in own]
        alone = "task-transductive" if own[0].task_transductive else "one query at a time"
        memory = max(cell.memory for cell in own) / 2**20
        rows.append([title, str(len(own)), f"{np.median(seconds):.1f}", f"{max(seconds):.1f}", f"{memory:,.0f}", alone])
    heads = ["method", "cells", "median s", "most s", "peak MiB", "queries"]
    note = "Seconds of a training, its validation checks included; memory of the whole process, data included."
    return [ResultTable("costs", "Time and memory", heads, rows, note)] if rows else []


def class_accuracies(cells: Sequence[Cell]) -> dict[str, tuple[float, float, float]]:
    """For each class of a problem: mean, lowest and highest accuracy over the methods that were trained."""
    found: dict[str, list[float]] = {}
    for cell in [cell for cell in cells if not cell.training_free] or cells:
        for name in cell.rows[0]["per_class"]:
            right, asked = np.sum([row["per_class"][name] for row in cell.rows if name in row["per_class"]], axis=0)
            found.setdefault(name, []).append(float(right / asked))
    means = {name: (float(np.mean(v)), min(v), max(v)) for name, v in found.items()}
    return dict(sorted(means.items(), key=lambda item: item[1][0]))


def difficulties(cells: Sequence[Cell]) -> list[ResultTable]:
    """The hardest and the easiest classes of each data set, in its most telling setting."""
    rows = []
    for problem, found in telling(cells).items():
        classes = [f"{name} {100 * mean:.0f}" for name, (mean, _, _) in class_accuracies(found).items()]
        rows.append(
            [dataset_title(problem.dataset), problem.setting, ", ".join(classes[:3]), ", ".join(classes[:-4:-1])]
        )
    note = "Accuracy in % on the queries of a class, averaged over the trained methods."
    heads = ["data set", "tasks", "hardest classes", "easiest classes"]
    return [ResultTable("classes", "Hard and easy classes", heads, rows, note)] if rows else []


def telling(cells: Sequence[Cell]) -> dict[Problem, list[Cell]]:
    """For each data set the one problem that most methods have solved (5-way 5-shot if there is a choice)."""
    main = by_problem(cell for cell in cells if cell.kind == "main")

    def weight(problem: Problem) -> tuple[int, bool, Problem]:
        return (len(main[problem]), (problem.n_way, problem.k_shot) == (5, 5), problem)

    names = sorted({problem.dataset for problem in main}, key=dataset_title)
    chosen = [max((p for p in main if p.dataset == name), key=weight) for name in names]
    return {problem: main[problem] for problem in chosen}


def every_cell(cells: Sequence[Cell]) -> str:
    """All numbers as one CSV, for other programs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cell in sorted(cells, key=lambda cell: (cell.problem, cell.method, str(cell.options))):
        p = cell.problem
        options = " ".join(f"{key}={value}" for key, value in sorted(cell.options.items()))
        deviation = "" if cell.deviation is None else f"{cell.deviation:.6f}"
        numbers = [f"{cell.accuracy:.6f}", f"{cell.interval:.6f}", deviation, len(cell.rows), len(cell.per_task)]
        where = [p.dataset, cell.method, options, p.n_way, p.k_shot, p.n_query, p.inductive]
        writer.writerow(map(guarded, [*where, *numbers, f"{cell.seconds:.3f}", cell.memory, cell.pool]))
    return out.getvalue()
