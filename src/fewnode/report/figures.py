"""The figures of a report. Colours by Okabe and Ito, which the colour-blind can tell apart; shapes repeat them."""

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import InputError
from ..experiments.rows import SIZES
from .results import Cell, Problem, class_accuracies, dataset_title, order_titles, telling
from .templating import short

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
WORST = 12  # classes shown for each data set
LONGEST = 80  # letters of a name
Figure = Any


def draw_all(cells: Sequence[Cell]) -> dict[str, tuple[str, Figure]]:
    """Every figure the cells have data for: name -> (title, matplotlib figure)."""
    makers: dict[str, tuple[str, Callable[[Sequence[Cell]], Figure | None]]] = {
        "accuracy": ("Accuracy of every method", _accuracy),
        "cost": ("Accuracy against seconds of training", _cost),
        "shots": ("Accuracy by number of examples", _shots),
        "ablation": ("Without a level of adaptation", _ablation),
        "sensitivity": ("By the size of the training tasks", _sensitivity),
        "classes": ("The hardest classes", _classes),
    }
    drawn = {name: (title, make(cells)) for name, (title, make) in makers.items()}
    return {name: (title, figure) for name, (title, figure) in drawn.items() if figure is not None}


def _panels(count: int, width: float = 3.6, height: float = 2.6, across: int = 3) -> tuple[Figure, list[Any]]:
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise InputError("a report needs matplotlib: pip install 'fewnode[report]'") from error
    columns = min(across, count)
    rows = -(-count // columns)
    figure = Canvas(figsize=(max(width * columns, 4.4), height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for spare in axes[count:]:
        spare.remove()
    for axis in axes[:count]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.6)
    return figure, axes[:count]


def _styles(titles: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {
        title: {"color": COLOURS[place % len(COLOURS)], "marker": SHAPES[place % len(SHAPES)]}
        for place, title in enumerate(titles)
    }


def _accuracy(cells: Sequence[Cell]) -> Figure | None:
    found = telling(cells)
    if not found:
        return None
    titles = order_titles([cell for part in found.values() for cell in part])
    figure, axes = _panels(len(found), height=0.9 + 0.22 * len(titles))
    for axis, (problem, part) in zip(axes, found.items(), strict=True):
        for cell in part:
            y, faint = -titles.index(cell.title), cell.training_free
            colour = "#666666" if faint else COLOURS[0]
            axis.errorbar(
                100 * cell.accuracy, y, xerr=100 * cell.interval, fmt="s" if faint else "o", color=colour, capsize=2
            )
        first = axis.get_subplotspec().is_first_col()
        axis.set_yticks(
            [-place for place in range(len(titles))],
            [_text(title) for title in titles] if first else [""] * len(titles),
        )
        axis.set_ylim(0.6 - len(titles), 0.6)
        axis.set_xlabel("accuracy (%)")
        axis.set_title(_text(_name(problem)), fontsize=9)
    return figure


def _name(problem: Problem) -> str:
    return f"{dataset_title(problem.dataset)}, {problem.setting}"


def _text(name: str) -> str:
    """A name as matplotlib shall show it: its dollars are no formulas."""
    return short(name, LONGEST).replace("$", r"\$")


def _cost(cells: Sequence[Cell]) -> Figure | None:
    found = {problem: part for problem, part in telling(cells).items() if any(not cell.training_free for cell in part)}
    if not found:
        return None
    styles = _styles(order_titles([cell for part in found.values() for cell in part]))
    figure, axes = _panels(len(found))
    for axis, (problem, part) in zip(axes, found.items(), strict=True):
        for cell in part:
            axis.scatter(
                max(cell.seconds, 0.01), 100 * cell.accuracy, s=30, label=_text(cell.title), **styles[cell.title]
            )
        axis.set_xscale("log")
        axis.set_xlabel("seconds of training")
        axis.set_ylabel("accuracy (%)")
        axis.set_title(_text(_name(problem)), fontsize=9)
    _legend(figure, axes)
    return figure


def _legend(figure: Figure, axes: Sequence[Any]) -> None:
    """One legend for all panels, below them."""
    found = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    columns = 2 if len(axes) == 1 else 4
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def _shots(cells: Sequence[Cell]) -> Figure | None:
    series: dict[tuple[str, int, int, bool], list[Cell]] = {}
    for cell in cells:
        if cell.kind == "main":
            p = cell.problem
            series.setdefault((p.dataset, p.n_way, p.n_query, p.inductive), []).append(cell)
    series = {key: part for key, part in series.items() if len({cell.problem.k_shot for cell in part}) >= 3}
    if not series:
        return None
    styles = _styles(order_titles([cell for part in series.values() for cell in part]))
    figure, axes = _panels(len(series))
    for axis, ((dataset, way, *_), part) in zip(axes, series.items(), strict=True):
        for title, style in styles.items():
            line = sorted((cell for cell in part if cell.title == title), key=lambda cell: cell.problem.k_shot)
            _line(axis, [cell.problem.k_shot for cell in line], line, style, title)
        axis.set_xlabel("examples of each class")
        axis.set_title(_text(f"{dataset_title(dataset)}, {way}-way"), fontsize=9)
    _legend(figure, axes)
    return figure


def _line(axis: Any, xs: Sequence[float], cells: Sequence[Cell], style: dict[str, Any], label: str) -> None:
    if not cells:
        return
    ys, bars = [100 * cell.accuracy for cell in cells], [100 * cell.interval for cell in cells]
    axis.errorbar(xs, ys, yerr=bars, capsize=2, markersize=4, linewidth=1.2, label=_text(label), **style)
    axis.set_xticks(sorted({*axis.get_lines()[0].get_xdata(), *xs}))
    axis.set_ylabel("accuracy (%)")


def _ablation(cells: Sequence[Cell]) -> Figure | None:
    cut = [cell for cell in cells if cell.kind == "ablation"]
    if not cut:
        return None
    groups = sorted({(cell.whole, cell.problem.dataset) for cell in cut})
    levels = ["", *sorted({cell.without for cell in cut}, key=lambda level: (len(level.split()), level))]
    figure, axes = _panels(len(groups))
    for axis, (title, dataset) in zip(axes, groups, strict=True):
        own = [cell for cell in cells if cell.whole == title and cell.problem.dataset == dataset]
        problems = sorted({cell.problem for cell in own if cell.kind == "ablation"})
        for place, level in enumerate(levels):
            kind = "ablation" if level else "main"
            bars = {cell.problem: cell for cell in own if cell.kind == kind and cell.without == level}
            at = [x for x, problem in enumerate(problems) if problem in bars]
            name = f"without {level} level" if level else "whole"
            axis.bar(
                [x + 0.2 * place for x in at], [100 * bars[problems[x]].accuracy for x in at], 0.18, label=name,
                yerr=[100 * bars[problems[x]].interval for x in at],
                color=COLOURS[place % len(COLOURS)], hatch=("", "//", "..", "xx")[place % 4], edgecolor="white",
            )  # fmt: skip
        axis.set_xticks([x + 0.3 for x in range(len(problems))], [f"{p.n_way}w{p.k_shot}s" for p in problems])
        axis.set_ylabel("accuracy (%)")
        axis.set_title(_text(f"{title}: {dataset_title(dataset)}"), fontsize=9)
    _legend(figure, axes)
    return figure


def _sensitivity(cells: Sequence[Cell]) -> Figure | None:
    sizes = [size for size in SIZES if sum(cell.kind == size for cell in cells) >= 2]
    if not sizes:
        return None
    words = {
        "train_way": "classes in a training task",
        "train_shot": "examples of each",
        "train_query": "queries of each",
    }
    part = [cell for cell in cells if cell.kind in sizes]
    styles = _styles(sorted({_line_name(cell) for cell in part}))
    figure, axes = _panels(len(sizes))
    for axis, size in zip(axes, sizes, strict=True):
        for name, style in styles.items():
            line = [cell for cell in part if cell.kind == size and _line_name(cell) == name]
            line.sort(key=lambda cell: int(cell.options[size]))
            _line(axis, [cell.options[size] for cell in line], line, style, name)
        axis.set_xlabel(words[size])
    _legend(figure, axes)
    return figure


def _line_name(cell: Cell) -> str:
    return f"{cell.whole}: {_name(cell.problem)}"


def _classes(cells: Sequence[Cell]) -> Figure | None:
    found = telling(cells)
    if not found:
        return None
    figure, axes = _panels(len(found), height=3.2)
    for axis, (problem, part) in zip(axes, found.items(), strict=True):
        worst = list(class_accuracies(part).items())[:WORST]
        for place, (_, (mean, low, high)) in enumerate(worst):
            axis.plot([100 * low, 100 * high], [-place, -place], color=COLOURS[5], linewidth=3, alpha=0.6)
            axis.plot(100 * mean, -place, "o", color=COLOURS[0], markersize=5)
        axis.set_yticks([-place for place in range(len(worst))], [_text(name[:24]) for name, _ in worst], fontsize=8)
        axis.set_xlabel("accuracy (%), mean and range of methods")
        axis.set_title(_text(_name(problem)), fontsize=9)
    return figure
