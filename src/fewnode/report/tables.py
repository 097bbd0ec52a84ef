"""The tables of a report, made from cells; each can be written as CSV, Markdown and LaTeX."""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from ..experiments.rows import SIZES
from ..files import guarded
from .results import SETTINGS, TEST, Cell, Problem, below, by_problem, dataset_title, p_of_cells, read_names, title
from .templating import render


@dataclass(frozen=True)
class ResultTable:
    """Texts in rows and columns. ``strong`` has the (row, column) of highlighted cells, ``note`` explains marks.

    The template of the results page shows it as HTML.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    strong: frozenset[tuple[int, int]] = frozenset()

    def csv(self) -> str:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(map(guarded, row) for row in (self.columns, *self.rows))
        return out.getvalue()

    def markdown(self) -> str:
        return render("table.md", table=self)

    def latex(self) -> str:
        """A ``tabular`` in a ``table``, with rules from the booktabs package."""
        return render("table.tex", table=self)


def _table(
    kind: str,
    rows: Sequence[Sequence[str]],
    columns: Iterable[str] = (),
    strong: frozenset[tuple[int, int]] = frozenset(),
    **facts: Any,
) -> list[ResultTable]:
    """A table with the texts of its ``kind`` in tables.toml, which ``facts`` fill in; none if it has no rows."""
    texts = {"name": kind} | read_names("tables.toml")[kind]
    name, title, note = (texts[part].format(test=TEST, **facts) for part in ("name", "title", "note"))
    return [ResultTable(name, title, [*texts["columns"], *columns], rows, note, strong)] if rows else []


def _pivot(texts: Mapping[tuple[Any, Any], str], columns: Sequence[Any]) -> list[list[str]]:
    """Rows of texts by (row, column), a dash where there is none; the parts of a row's key come first."""
    rows = dict.fromkeys(row for row, _ in texts)
    return [[*row, *(texts.get((row, column), "–") for column in columns)] for row in rows]


def _main(cells: Iterable[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.kind == "main"]


def best_of(cells: Iterable[Cell]) -> Cell | None:
    """The cell with the highest accuracy; None if there are no cells."""
    return max(cells, key=lambda cell: cell.accuracy, default=None)


def leaderboards(cells: Sequence[Cell]) -> list[ResultTable]:
    """One table for each shape of tasks: methods by data sets, the best on average first."""

    def order(cell: Cell) -> tuple[Any, ...]:
        p = cell.problem
        return (p.inductive, p.n_query != 10, p.given, replace(p, dataset=""), dataset_title(p.dataset), p.dataset)

    tables = []
    for _, group in groupby(sorted(_main(cells), key=order), key=lambda cell: replace(cell.problem, dataset="")):
        part = list(group)
        titles, problems, first = order_titles(part), by_problem(part), part[0].problem
        shown = [verdicts(found) for found in problems.values()]
        settings = {cell.title: cell.setting for cell in part}
        rows = [[name, settings[name], *(texts.get(name, "–") for texts, _ in shown)] for name in titles]
        heads = [dataset_title(problem.dataset) for problem in problems]
        strong = frozenset((titles.index(name), at) for at, (_, best) in enumerate(shown, 2) for name in best)
        given = ("inductive" * first.inductive, re.sub(r"\W+", "-", first.given))
        facts = {"more": "".join(f"_{word}" for word in given if word), "setting": first.setting}
        tables += _table("leaderboard", rows, heads, strong, **asdict(first) | facts)
    return tables


def order_titles(cells: Sequence[Cell]) -> list[str]:
    """Titles of methods by setting, then by their mean rank over the problems they took part in."""
    ranks = defaultdict(list)
    for found in by_problem(cells).values():
        for place, cell in enumerate(sorted(found, key=lambda cell: -cell.accuracy)):
            ranks[cell.title].append(place / len(found))
    settings = {cell.title: SETTINGS.index(cell.setting) for cell in cells}
    return sorted(ranks, key=lambda name: (settings[name], float(np.mean(ranks[name]))))


def verdicts(cells: Sequence[Cell]) -> tuple[dict[str, str], list[str]]:
    """The text of each cell of a problem, by its title, with the marks of the tests; and the best cell of each
    setting."""
    baseline = best_of(cell for cell in cells if cell.setting == "training-free")
    beaten = below(cells, baseline) if baseline else set()
    texts, winners = {}, []
    for setting in SETTINGS:
        group = [cell for cell in cells if cell.setting == setting]
        best = best_of(group)
        if best is None:
            continue
        winners.append(best.title)
        worse = below(group, best)
        for cell in group:
            like = cell is not best and cell not in worse and cell.comparable(best)
            texts[cell.title] = f"{cell}{' ≈' * like}{' ↓' * (cell in beaten and setting != 'training-free')}"
    return texts, winners


def ablations(cells: Sequence[Cell]) -> list[ResultTable]:
    """The loss of a method without each of its adaptations."""
    whole = {(cell.title, cell.problem): cell for cell in _main(cells)}
    reduced = [cell for cell in cells if cell.kind == "ablation"]
    levels = sorted({cell.without for cell in reduced}, key=lambda level: (len(level.split()), level))
    texts: dict[tuple[Any, Any], str] = {}
    for cell in sorted(reduced, key=lambda cell: (cell.whole, cell.problem)):
        if full := whole.get((cell.whole, cell.problem)):
            where = (dataset_title(cell.problem.dataset), cell.problem.setting, cell.whole, str(full))
            same = cell.comparable(full) and p_of_cells(cell, full) >= 0.05
            texts[where, cell.without] = f"{100 * (cell.accuracy - full.accuracy):+.1f}{' ≈' * same}"
    return _table("ablation", _pivot(texts, levels), (f"without {level} level" for level in levels))


def sensitivities(cells: Sequence[Cell]) -> list[ResultTable]:
    """Accuracy by the sizes of the training tasks: one row for each data set and varied size."""
    texts: dict[tuple[Any, Any], str] = {}
    for cell in cells:
        if cell.kind in SIZES:
            where = (dataset_title(cell.problem.dataset), cell.problem.setting, cell.whole, cell.kind)
            texts[where, int(cell.options[cell.kind])] = str(cell)
    values = sorted({value for _, value in texts})
    return _table("sensitivity", _pivot(dict(sorted(texts.items())), values), map(str, values))


def costs(cells: Sequence[Cell]) -> list[ResultTable]:
    """Time and memory of every method over its problems."""
    rows = []
    for name in order_titles(_main(cells)):
        part = [cell for cell in _main(cells) if cell.title == name]
        seconds, memory = [cell.seconds for cell in part], max(cell.memory for cell in part) / 2**20
        numbers = [str(len(part)), f"{np.median(seconds):.1f}", f"{max(seconds):.1f}", f"{memory:,.0f}"]
        rows.append([name, part[0].setting, *numbers])
    return _table("costs", rows)


def difficulties(cells: Sequence[Cell]) -> list[ResultTable]:
    """The hardest and the easiest classes of each data set."""
    rows = []
    for problem, found in main_problems(cells).items():
        shares = defaultdict(list)  # of each class with the trained methods
        for cell in [cell for cell in found if not cell.training_free] or found:
            for name in cell.rows[0]["per_class"]:
                right, asked = np.sum([row["per_class"][name] for row in cell.rows if name in row["per_class"]], axis=0)
                shares[name].append(right / asked)
        means = {name: float(np.mean(part)) for name, part in shares.items()}
        classes = [f"{name} {100 * means[name]:.0f}" for name in sorted(means, key=lambda name: means[name])]
        few = min(3, len(classes) // 2)  # no class is both hard and easy
        ends = classes[:few], classes[::-1][:few]
        rows.append([dataset_title(problem.dataset), problem.setting, *map(", ".join, ends)])
    return _table("classes", rows)


def main_problems(cells: Sequence[Cell]) -> dict[Problem, list[Cell]]:
    """For each data set, the problem that most methods have solved (5-way 5-shot if several are equal)."""
    main = by_problem(_main(cells))

    def weight(problem: Problem) -> tuple[int, bool, Problem]:
        return (len(main[problem]), (problem.n_way, problem.k_shot) == (5, 5), problem)

    chosen = {problem.dataset: problem for problem in sorted(main, key=weight)}  # the last one of a data set stays
    return {chosen[name]: main[chosen[name]] for name in sorted(chosen, key=dataset_title)}


def side_by_side(cells: Sequence[Cell]) -> list[ResultTable]:
    """One table for each data set of a paper: published and measured accuracy of every method and setting.

    The data sets of the first source appear even if they were not run; those of later ones only if they were.
    """
    main = [cell for cell in _main(cells) if not cell.problem.inductive and cell.problem.n_query == 10]
    run = {cell.problem.dataset for cell in main}
    tables, known = [], read_names("published.toml")
    for place, source in enumerate(known["source"]):
        for dataset in (key for key, value in source.items() if isinstance(value, dict)):
            stand_ins = (name for name, (of, _) in known["stand_in"].items() if of == dataset)
            measured = next((name for name in (dataset, *stand_ins) if name in run), None)
            if measured or place == 0:
                tables += _published(source, dataset, measured, main)
    return tables


def _published(
    source: Mapping[str, Any], dataset: str, measured: str | None, cells: Sequence[Cell]
) -> list[ResultTable]:
    texts: dict[tuple[Any, Any], str] = {}
    for method, numbers in source[dataset].items():
        for setting, number in zip(source["settings"], numbers, strict=True):
            texts[(title(method, {}),), f"{setting} paper"] = f"{number:.{source['decimals']}f}"
    for cell in cells:
        if cell.problem.dataset == measured and ((cell.title,), f"{source['settings'][0]} paper") in texts:
            setting = f"{cell.problem.n_way}w{cell.problem.k_shot}s"
            texts[(cell.title,), f"{setting} here"] = f"{100 * cell.accuracy:.1f}"
    sides = ("paper", "here") if measured else ("paper",)
    heads = [f"{setting} {side}" for setting in source["settings"] for side in sides]
    here = "" if measured else " This data set was not run here."
    if measured and measured != dataset:
        here = f" Here: a stand-in, {read_names('published.toml')['stand_in'][measured][1]}."
    facts = {"key": source["key"], "short": source["short"], "paper": source["title"], "here": here}
    return _table("published", _pivot(texts, heads), heads, dataset=dataset, shown=dataset_title(dataset), **facts)


def every_cell(cells: Sequence[Cell]) -> ResultTable:
    """All numbers, for other programs."""
    rows: list[dict[str, Any]] = [
        {
            **asdict(cell.problem),
            "setting": cell.setting,
            "method": cell.method,
            "options": " ".join(f"{key}={value}" for key, value in sorted(cell.options.items())),
            "accuracy": f"{cell.accuracy:.6f}",
            "interval": f"{cell.interval:.6f}",
            "sd_over_seeds": "" if cell.deviation is None else f"{cell.deviation:.6f}",
            "seeds": len(cell.rows),
            "tasks": len(cell.per_task),
            "train_seconds": f"{cell.seconds:.3f}",
            "peak_memory": cell.memory,
            "pool": cell.tasks[0],
        }
        for cell in sorted(cells, key=lambda cell: (cell.problem, cell.method, str(cell.options)))
    ]
    return ResultTable("cells", "Every cell", list(rows[0]) if rows else [], [list(row.values()) for row in rows])
