"""The figures of a report. Colours by Okabe and Ito, which the colour-blind can tell apart; shapes repeat them.

Each function draws one figure from cells, or returns None if they hold no data for it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import InputError
from ..experiments.rows import SIZES
from .results import Cell, Problem, dataset_title
from .tables import class_accuracies, main_problems, order_titles
from .templating import short

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
Figure = Any


def _panels(
    groups: Sequence[tuple[str, Any]], draw: Callable[[Any, Any], None], height: float = 2.6, legend: bool = True
) -> Figure | None:
    """A figure with one panel for each title and group, drawn by ``draw(axis, group)``, and one legend for all."""
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise InputError("a report needs matplotlib: pip install 'fewnode[report]'") from error
    if not groups:
        return None
    columns = min(3, len(groups))
    rows = -(-len(groups) // columns)
    figure = Canvas(figsize=(max(3.6 * columns, 4.4), height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    labels: dict[str, Any] = {}
    for axis, (title, group) in zip(axes, groups, strict=False):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.set_title(_text(title), fontsize=9)
        draw(axis, group)
        labels |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    for spare in axes[len(groups) :]:
        spare.remove()
    if legend:
        style = {"ncols": 2 if len(groups) == 1 else 4, "fontsize": 8, "frameon": False}
        figure.legend(labels.values(), labels.keys(), loc="outside lower center", **style)
    return figure


def _text(name: str) -> str:
    """A name as matplotlib should show it: its dollars are no formulas."""
    return short(name, 80).replace("$", r"\$")


def _name(problem: Problem) -> str:
    return f"{dataset_title(problem.dataset)}, {problem.setting}"


def _styles(titles: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {
        title: {"color": COLOURS[place % len(COLOURS)], "marker": SHAPES[place % len(SHAPES)]}
        for place, title in enumerate(titles)
    }


def _by_data_set(cells: Sequence[Cell]) -> list[tuple[str, list[Cell]]]:
    return [(_name(problem), part) for problem, part in main_problems(cells).items()]


def draw_accuracy(cells: Sequence[Cell]) -> Figure | None:
    """Accuracy of every method, with its interval."""
    groups = _by_data_set(cells)
    titles = order_titles([cell for _, part in groups for cell in part])

    def draw(axis: Any, part: Sequence[Cell]) -> None:
        for cell in part:
            style = {"fmt": "s", "color": "#666666"} if cell.training_free else {"fmt": "o", "color": COLOURS[0]}
            y = -titles.index(cell.title)
            axis.errorbar(100 * cell.accuracy, y, xerr=100 * cell.interval, capsize=2, **style)
        first = axis.get_subplotspec().is_first_col()
        axis.set_yticks([-place for place in range(len(titles))], [_text(title) if first else "" for title in titles])
        axis.set(ylim=(0.6 - len(titles), 0.6), xlabel="accuracy (%)")

    return _panels(groups, draw, height=0.9 + 0.22 * len(titles), legend=False)


def draw_cost(cells: Sequence[Cell]) -> Figure | None:
    """Accuracy against seconds of training."""
    groups = [group for group in _by_data_set(cells) if not all(cell.training_free for cell in group[1])]
    styles = _styles(order_titles([cell for _, part in groups for cell in part]))

    def draw(axis: Any, part: Sequence[Cell]) -> None:
        for cell in part:
            style = styles[cell.title]
            axis.scatter(max(cell.seconds, 0.01), 100 * cell.accuracy, s=30, label=_text(cell.title), **style)
        axis.set(xscale="log", xlabel="seconds of training", ylabel="accuracy (%)")

    return _panels(groups, draw)


def _lines(axis: Any, lines: Mapping[str, Mapping[int, Cell]], styles: Mapping[str, Mapping[str, Any]]) -> None:
    """Lines of accuracies by a whole number, each with a title."""
    for title, line in lines.items():
        xs = sorted(line)
        ys, bars = [100 * line[x].accuracy for x in xs], [100 * line[x].interval for x in xs]
        axis.errorbar(xs, ys, bars, capsize=2, markersize=4, linewidth=1.2, label=_text(title), **styles[title])
    axis.set_xticks(sorted({x for line in lines.values() for x in line}))
    axis.set_ylabel("accuracy (%)")


def draw_shots(cells: Sequence[Cell]) -> Figure | None:
    """Accuracy by the number of examples, where at least three numbers were tried."""
    series: dict[Problem, list[Cell]] = {}
    for cell in cells:
        if cell.kind == "main":
            series.setdefault(replace(cell.problem, k_shot=0), []).append(cell)
    found = {key: part for key, part in series.items() if len({cell.problem.k_shot for cell in part}) >= 3}
    titles = order_titles([cell for part in found.values() for cell in part])

    def draw(axis: Any, part: Sequence[Cell]) -> None:
        lines = {name: {c.problem.k_shot: c for c in part if c.title == name} for name in titles}
        _lines(axis, {name: line for name, line in lines.items() if line}, _styles(titles))
        axis.set_xlabel("examples of each class")

    return _panels([(f"{dataset_title(key.dataset)}, {key.n_way}-way", part) for key, part in found.items()], draw)


def draw_ablation(cells: Sequence[Cell]) -> Figure | None:
    """Accuracy without each level of adaptation."""
    reduced = [cell for cell in cells if cell.kind == "ablation"]
    levels = ["", *sorted({cell.without for cell in reduced}, key=lambda level: (len(level.split()), level))]
    pairs = sorted({(cell.whole, cell.problem.dataset) for cell in reduced})
    parts = [[cell for cell in cells if (cell.whole, cell.problem.dataset) == pair] for pair in pairs]
    groups = [(f"{name}: {dataset_title(data)}", part) for (name, data), part in zip(pairs, parts, strict=True)]

    def draw(axis: Any, part: Sequence[Cell]) -> None:
        problems = sorted({cell.problem for cell in part if cell.kind == "ablation"})
        for place, level in enumerate(levels):
            kind = "ablation" if level else "main"
            bars = [c for c in part if c.kind == kind and c.without == level and c.problem in problems]
            axis.bar(
                [problems.index(cell.problem) + 0.2 * place for cell in bars],
                [100 * cell.accuracy for cell in bars],
                0.18,
                yerr=[100 * cell.interval for cell in bars],
                label=f"without {level} level" if level else "whole",
                color=COLOURS[place % len(COLOURS)],
                hatch=("", "//", "..", "xx")[place % 4],
                edgecolor="white",
            )
        axis.set_xticks([x + 0.3 for x in range(len(problems))], [f"{p.n_way}w{p.k_shot}s" for p in problems])
        axis.set_ylabel("accuracy (%)")

    return _panels(groups, draw)


def draw_sensitivity(cells: Sequence[Cell]) -> Figure | None:
    """Accuracy by the size of the training tasks."""
    words = ("classes in a training task", "examples of each class", "queries of each class")
    groups: dict[str, dict[str, dict[int, Cell]]] = {}
    for size, title in zip(SIZES, words, strict=True):
        part = [cell for cell in cells if cell.kind == size]
        for cell in part if len(part) >= 2 else ():
            line = groups.setdefault(title, {}).setdefault(f"{cell.whole}: {_name(cell.problem)}", {})
            line[int(cell.options[size])] = cell
    styles = _styles(sorted({name for lines in groups.values() for name in lines}))
    return _panels(list(groups.items()), lambda axis, lines: _lines(axis, dict(sorted(lines.items())), styles))


def draw_classes(cells: Sequence[Cell]) -> Figure | None:
    """The twelve hardest classes of each data set."""

    def draw(axis: Any, part: Sequence[Cell]) -> None:
        worst = list(class_accuracies(part).items())[:12]
        for place, (_, (mean, low, high)) in enumerate(worst):
            axis.plot([100 * low, 100 * high], [-place, -place], color=COLOURS[5], linewidth=3, alpha=0.6)
            axis.plot(100 * mean, -place, "o", color=COLOURS[0], markersize=5)
        axis.set_yticks([-place for place in range(len(worst))], [_text(name[:24]) for name, _ in worst], fontsize=8)
        axis.set_xlabel("accuracy (%), mean and range of methods")

    return _panels(_by_data_set(cells), draw, height=3.2, legend=False)
