"""The figures of a report. Colours by Okabe and Ito, which colour-blind people can distinguish; shapes repeat them.

Each function draws one figure from cells, or returns None if they hold no data for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import refused
from .results import Cell, Problem, dataset_title
from .tables import main_problems, order_titles
from .templating import short

if TYPE_CHECKING:
    from ..classifier.drift import Drift

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
Figure = Any


def _panels(groups: Sequence[tuple[str, Any]], draw: Callable[[Any, Any], None], height: float = 2.6) -> Figure | None:
    """A figure with one panel for each title and group, drawn by ``draw(axis, group)``, and one legend for what they
    label."""
    with refused("a report needs matplotlib", ImportError, remedy="pip install 'fewnode[report]'"):
        from matplotlib.figure import Figure as Canvas
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
    if labels:
        style = {"ncols": 2 if len(groups) == 1 else 4, "fontsize": 8, "frameon": False}
        figure.legend(labels.values(), labels.keys(), loc="outside lower center", **style)
    return figure


def _text(name: str) -> str:
    """A name as matplotlib should show it: its dollars are no formulas."""
    return short(name, 80).replace("$", r"\$")


def _styles(titles: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {
        title: {"color": COLOURS[place % len(COLOURS)], "marker": SHAPES[place % len(SHAPES)], "label": _text(title)}
        for place, title in enumerate(titles)
    }


def _by_data_set(cells: Sequence[Cell]) -> list[tuple[str, list[Cell]]]:
    problems = main_problems(cells).items()
    return [(f"{dataset_title(problem.dataset)}, {problem.setting}", part) for problem, part in problems]


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

    return _panels(groups, draw, height=0.9 + 0.22 * len(titles))


def draw_cost(cells: Sequence[Cell]) -> Figure | None:
    """Accuracy against seconds of training."""
    groups = [group for group in _by_data_set(cells) if not all(cell.training_free for cell in group[1])]
    styles = _styles(order_titles([cell for _, part in groups for cell in part]))

    def draw(axis: Any, part: Sequence[Cell]) -> None:
        for cell in part:
            axis.scatter(max(cell.seconds, 0.01), 100 * cell.accuracy, s=30, **styles[cell.title])
        axis.set(xscale="log", xlabel="seconds of training", ylabel="accuracy (%)")

    return _panels(groups, draw)


def draw_shots(cells: Sequence[Cell]) -> Figure | None:
    """Accuracy by the number of examples, if there are at least three different numbers."""
    series: dict[Problem, list[Cell]] = {}
    for cell in cells:
        if cell.kind == "main":
            series.setdefault(replace(cell.problem, k_shot=0), []).append(cell)
    found = {key: part for key, part in series.items() if len({cell.problem.k_shot for cell in part}) >= 3}
    titles = order_titles([cell for part in found.values() for cell in part])

    def draw(axis: Any, part: Sequence[Cell]) -> None:
        for title, style in _styles(titles).items():
            line = sorted((cell for cell in part if cell.title == title), key=lambda cell: cell.problem.k_shot)
            if line:
                shots = [cell.problem.k_shot for cell in line]
                ys, bars = [100 * cell.accuracy for cell in line], [100 * cell.interval for cell in line]
                axis.errorbar(shots, ys, bars, capsize=2, markersize=4, linewidth=1.2, **style)
        axis.set_xticks(sorted({cell.problem.k_shot for cell in part}))
        axis.set(xlabel="examples of each class", ylabel="accuracy (%)")

    return _panels([(f"{dataset_title(key.dataset)}, {key.n_way}-way", part) for key, part in found.items()], draw)


def draw_drift(drift: "Drift") -> Figure:
    """The columns with the largest shift, and the classes, before and after."""
    most = 15
    classes = sorted(drift.classes.items(), key=lambda item: -abs(item[1][1] - item[1][0]))[:most]
    columns = {one.name: one.psi for one in drift.columns[:most]}

    def draw(axis: Any, bars: dict[str, dict[str, float]]) -> None:
        for i, (label, values) in enumerate(bars.items()):
            places = [-at + 0.2 - 0.4 * i for at in range(len(values))]
            axis.barh(places, list(values.values()), 0.35, color=COLOURS[i], label=label)
        axis.set_yticks([-at for at in range(len(values))], [_text(name) for name in values])

    groups = [(f"AUC {drift.auc:.2f}; stability of columns (0.25 is a shift)", {"index": columns})]
    shares = {when: {name: both[i] for name, both in classes} for i, when in enumerate(("before", "now"))}
    groups += [("predicted classes", shares)] if classes else []
    return _panels(groups, draw, height=1.2 + 0.22 * most)
