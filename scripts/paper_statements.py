"""What the TENT paper says about its own parts (Fig. 3, 4 and 5), beside what the rows of TENT show."""

from collections.abc import Iterable, Sequence
from statistics import mean

from fewnode.report.results import Cell, Problem, dataset_title, title
from fewnode.report.tables import ResultTable

NODE = "Fig. 3: without class-ego graphs accuracy decreases much"
CLASS = "Fig. 3: the class adapter improves considerably, most when there are many classes"
TASK = "Fig. 3: without the task level accuracy decreases rapidly as the support set grows"
WAY = "Fig. 4: training with more classes (N_t) is better, and matters most"
SHOT = "Fig. 4: training with more supports (K_t) is better"
QUERY = "Fig. 5: more queries (Q) in training are better, too many are worse again"
ABLATED = {NODE: "node", CLASS: "class", TASK: "task"}
VARIED = {WAY: "train_way", SHOT: "train_shot", QUERY: "train_query"}


def statements(cells: Sequence[Cell]) -> str:
    """A table: the statement, and for each form of TENT the means of its rows over the graphs that have all of them."""
    forms = {title(method, {}): method for method in ("tent", "tent_residual")}
    columns = []
    for name, method in forms.items():
        own = [cell for cell in cells if cell.method == method and cell.whole == name]
        found = [
            *(_without(own, level) for level in ABLATED.values()),
            *(_by_size(own, size) for size in VARIED.values()),
        ]
        if any(found):
            columns.append([f"the rows of {name}", *(text or "–" for text in found)])
    heads, *lines = zip(["the paper says", *ABLATED, *VARIED], *columns, strict=True)
    lines = [list(line) for line in lines if set(line[1:]) - {"–"}]
    return ResultTable("statements", "", list(heads), lines, "").markdown() if lines else "No rows are stored yet.\n"


def _without(cells: Sequence[Cell], level: str) -> str:
    """The mean change without a level for each shape of tasks, and the least and the greatest."""
    whole = {cell.problem: cell for cell in cells if cell.kind == "main"}
    changes: dict[tuple[int, int], dict[str, float]] = {}
    for cell in cells:
        problem = cell.problem
        if cell.kind == "ablation" and cell.without == level and problem in whole:
            change = 100 * (cell.accuracy - whole[problem].accuracy)
            changes.setdefault((problem.n_way, problem.k_shot), {})[problem.dataset] = change
    if not changes:
        return ""
    means = [f"{mean(found.values()):+.1f} at {way}w{shot}s" for (way, shot), found in sorted(changes.items())]
    every = [change for found in changes.values() for change in found.values()]
    return f"without it {', '.join(means)} (from {min(every):+.1f} to {max(every):+.1f}; {_graphs(changes.values())})"


def _by_size(cells: Sequence[Cell], size: str) -> str:
    """The mean accuracy for each value of a size, over the graphs that have all values."""
    found: dict[Problem, dict[int, float]] = {}
    for cell in cells:
        if cell.kind == size:
            found.setdefault(cell.problem, {})[int(cell.options[size])] = 100 * cell.accuracy
    if not found:
        return ""
    values = sorted(set().union(*found.values()))
    full = {problem.dataset: by for problem, by in found.items() if len(by) == len(values)}
    if not full:
        return ""
    means = [f"{mean(by[value] for by in full.values()):.1f} at {value}" for value in values]
    return f"{', '.join(means)} (mean; {_graphs([full])})"


def _graphs(groups: Iterable[Iterable[str]]) -> str:
    return ", ".join(sorted({dataset_title(name) for group in groups for name in group}))
