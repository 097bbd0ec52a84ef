"""Rows gathered into cells, compared and tested: everything a report says, before it is shown."""

import csv
import io
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from ..experiments.rows import SIZES, SWITCHES, Row
from ..files import guarded
from .templating import clean

# --- Rows gathered into cells: all seeds of one method, with its options, in one setting on one data set.
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


# --- Is a difference more than noise? Paired tests over shared tasks, corrected for how many are made.
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


# --- Two sets of rows: what changed between them, and whether it is more than noise.
def compare(before: Sequence[Row], after: Sequence[Row]) -> dict[str, Any]:
    """Cells that both have, the largest change first, and those only one has.

    Seeds that both have are compared, if there are any. A change is more than noise if the tasks say so (paired t-test
    where both met the same tasks, else Welch's; Holm-corrected, 5 %) and if it exceeds two standard errors over
    training seeds; with one seed the latter is unknown, and ``one_seed`` says so.
    """
    old, new = ({_key(cell): cell for cell in gather(rows)} for rows in (before, after))
    pairs = [_shared_seeds(old[key], new[key]) for key in old if key in new]
    corrected = holm([_p(a, b) for a, b in pairs])
    changes = [_change(a, b, p) for (a, b), p in zip(pairs, corrected, strict=True)]
    return {
        "changes": sorted(changes, key=lambda change: (-change["more_than_noise"], -abs(change["difference"]))),
        "only_before": [_name(cell) for key, cell in old.items() if key not in new],
        "only_after": [_name(cell) for key, cell in new.items() if key not in old],
        "versions_before": _versions(before),
        "versions_after": _versions(after),
    }


def _key(cell: Cell) -> tuple[Any, ...]:
    return (cell.problem, cell.method, tuple(sorted((key, str(value)) for key, value in cell.options.items())))


def _shared_seeds(a: Cell, b: Cell) -> tuple[Cell, Cell]:
    shared = {row["run"]["seed"] for row in a.rows} & {row["run"]["seed"] for row in b.rows}
    if not shared:
        return a, b
    chosen = ([row for row in cell.rows if row["run"]["seed"] in shared] for cell in (a, b))
    left, right = (gather(rows)[0] for rows in chosen)
    return left, right


def _name(cell: Cell) -> dict[str, Any]:
    return {"dataset": cell.problem.dataset, "method": cell.title, "tasks": cell.problem.setting}


def _p(a: Cell, b: Cell) -> float:
    return paired_p(a.per_task, b.per_task) if a.tasks == b.tasks else unpaired_p(a.per_task, b.per_task)


def _change(a: Cell, b: Cell, p: float) -> dict[str, Any]:
    difference = b.accuracy - a.accuracy
    return {
        **_name(a),
        "before": a.accuracy,
        "after": b.accuracy,
        "difference": difference,
        "p": p,
        "paired": a.tasks == b.tasks,
        "seeds": [len(a.rows), len(b.rows)],
        "one_seed": not a.training_free and min(len(a.rows), len(b.rows)) == 1,
        "more_than_noise": p < LEVEL and abs(difference) > _seed_noise(a, b),
        "seconds": [a.seconds, b.seconds],
    }


def _seed_noise(a: Cell, b: Cell) -> float:
    """Two standard errors of the difference over training seeds; 0 where a side has one seed and cannot tell."""
    if a.deviation is None or b.deviation is None:
        return 0.0
    return float(2 * np.sqrt(a.deviation**2 / len(a.rows) + b.deviation**2 / len(b.rows)))


def _versions(rows: Sequence[Row]) -> dict[str, list[str]]:
    names = sorted({name for row in rows for name in row["versions"]})
    return {name: sorted({row["versions"].get(name, "?") for row in rows}) for name in names}


def label(change: dict[str, Any]) -> str:
    return f"{change['method']} on {dataset_title(change['dataset'])}, {change['tasks']}"


# --- A table as CSV, Markdown and LaTeX; ``templates/results_page.html`` shows it on the page.
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
    "^": r"\^{}", "~": r"\~{}", "±": r"$\pm$", "≈": r"$\approx$", "↓": r"$\downarrow$", "·": r"$\cdot$", "–": "--",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
}  # fmt: skip
_MARKDOWN = {letter: f"\\{letter}" for letter in "|*_\\`[]#!"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


@dataclass(frozen=True)
class ResultTable:
    """Texts in rows and columns; ``strong`` has the (row, column) of those that stand out, ``note`` explains marks."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    strong: frozenset[tuple[int, int]] = field(default_factory=frozenset)

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(map(guarded, self.columns))
        writer.writerows(map(guarded, row) for row in self.rows)
        return out.getvalue()

    def markdown(self) -> str:
        head = [_line(map(_plain, self.columns)), _line(["---"] + ["---:"] * (len(self.columns) - 1))]
        body = [
            _line([f"**{_plain(text)}**" if (r, c) in self.strong else _plain(text) for c, text in enumerate(row)])
            for r, row in enumerate(self.rows)
        ]
        return "\n".join(head + body) + "\n"

    def latex(self) -> str:
        """A ``tabular`` in a ``table``, rules from the booktabs package."""
        lines = [
            [rf"\textbf{{{latex(text)}}}" if (r, c) in self.strong else latex(text) for c, text in enumerate(row)]
            for r, row in enumerate(self.rows)
        ]
        body = "\n".join(" & ".join(line) + r" \\" for line in lines)
        head = " & ".join(map(latex, self.columns))
        return (
            f"% needs \\usepackage{{booktabs}}\n\\begin{{table}}\n\\centering\n\\caption{{{latex(self.title)}. "
            f"{latex(self.note)}}}\n\\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}\n\\toprule\n{head} \\\\\n"
            f"\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
        )


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _plain(text: str) -> str:
    """Text in which Markdown sees nothing to interpret."""
    return "".join(_MARKDOWN.get(letter, letter) for letter in clean(text))


def latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in clean(text))


# --- What papers have printed, beside what was measured here.
@cache
def published() -> dict[str, Any]:
    return tomllib.loads((files("fewnode.report") / "published.toml").read_text(encoding="utf-8"))


def side_by_side(cells: Sequence[Cell]) -> list[ResultTable]:
    """One table for each data set of a paper: printed and measured accuracy of every method and setting.

    The data sets of the first source appear even if they were not run; those of later ones only if they were.
    """
    main = [cell for cell in cells if cell.kind == "main" and not cell.problem.inductive and cell.problem.n_query == 10]
    first, *later = published()["source"]
    tables = [_table(first, dataset, main) for dataset in _datasets(first)]
    return tables + [
        _table(source, dataset, main) for source in later for dataset in _datasets(source) if _measured(dataset, main)
    ]


def _datasets(source: dict[str, Any]) -> list[str]:
    return [key for key, value in source.items() if isinstance(value, dict)]


def _measured(dataset: str, cells: Sequence[Cell]) -> str | None:
    """The data set whose cells stand beside the printed ones: itself, else one that stands in for it."""
    stands = [name for name, (original, _) in published()["stand_in"].items() if original == dataset]
    run = {cell.problem.dataset for cell in cells}
    return next((name for name in [dataset, *stands] if name in run), None)


def _table(source: dict[str, Any], dataset: str, cells: Sequence[Cell]) -> ResultTable:
    measured, settings = _measured(dataset, cells), source["settings"]
    ours = {
        (cell.title, f"{cell.problem.n_way}w{cell.problem.k_shot}s"): f"{100 * cell.accuracy:.1f}"
        for cell in cells
        if cell.problem.dataset == measured
    }
    printed = {title(method, {}): numbers for method, numbers in source[dataset].items()}
    others = dict.fromkeys(name for name, _ in ours if name not in printed)
    rows = []
    for name in [*printed, *others]:
        paper = (
            [f"{number:.{source['decimals']}f}" for number in printed[name]]
            if name in printed
            else ["–"] * len(settings)
        )
        here = [ours.get((name, setting), "–") for setting in settings]
        pairs = zip(paper, here, strict=True) if measured else zip(paper, strict=True)
        rows.append([name, *(text for pair in pairs for text in pair)])
    kinds = ["paper", "here"] if measured else ["paper"]
    heads = ["method", *(f"{setting} {kind}" for setting in settings for kind in kinds)]
    name = f"published_{source['key']}_{dataset}"
    return ResultTable(
        name, f"{dataset_title(dataset)}, {source['short']}", heads, rows, _note(source, dataset, measured)
    )


def _note(source: dict[str, Any], dataset: str, measured: str | None) -> str:
    text = f"Accuracy in %. Paper: {source['title']}."
    if measured is None:
        return f"{text} This data set was not run here."
    if measured != dataset:
        return f"{text} Here: a stand-in, {published()['stand_in'][measured][1]}."
    return text


# --- The tables of a report, made from cells.
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
    own, tent = (_plain_contents(cells, method) for method in (DEFAULT, "tent"))
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


def _plain_contents(cells: Sequence[Cell], method: str) -> dict[Problem, Cell]:
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
            changes.setdefault(key, {})[cell.without] = _change_contents(cell, whole[key])
    rows = [
        [dataset_title(problem.dataset), problem.setting, title, number(whole[problem, title])]
        + [parts.get(level, "–") for level in levels]
        for (problem, title), parts in sorted(changes.items(), key=lambda item: (item[0][1], item[0][0]))
    ]
    test = TEST.split(",")[0]
    note = f"The change in points without a level of adaptation; ≈: not distinguishable from none ({test}, 5 %)."
    heads = ["data set", "tasks", "method", "whole", *(f"without {level} level" for level in levels)]
    return [ResultTable("ablation", "Ablation", heads, rows, note)] if rows else []


def _change_contents(cell: Cell, reference: Cell) -> str:
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
