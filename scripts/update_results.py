"""Write the tables of README.md and docs/ from the rows under results/, and the figure of the shots; ``--check`` only
compares the tables.

A generated part stands between ``<!-- results:begin NAME -->`` and ``<!-- results:end -->``; the rest is prose.
"""

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean

from paper_statements import statements
from update_benchmarks import checking

from fewnode import methods
from fewnode.datasets import catalog
from fewnode.experiments import rows as results
from fewnode.files import atomic_write
from fewnode.report.figures import draw_shots
from fewnode.report.page import all_tables, svg
from fewnode.report.results import Cell, by_problem, dataset_title, gather, title
from fewnode.report.tables import ResultTable, best_of

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/results.md", "docs/tent.md")
FIGURE = "docs/figures/shots.svg"
GRIDS = ("standard", "paper_table", "tent", "ablation", "support_size", "query_size", "shots", "texts")
PART = re.compile(r"(<!-- results:begin ?(\w*) -->\n).*?(<!-- results:end -->)", re.DOTALL)
NOTHING = "No rows are stored yet.\n"
TASKS = "5-way 5-shot"
TWIN = "wordnet30"  # WordNet a second time
NOT_BUILT = ("nell_partial", "wordnet30_lexnames")  # nothing here builds these: README leaves them out
READING = f"{TASKS} accuracy in percent on 500 tasks of novel classes, mean over training seeds."


def stored_rows(folder: Path) -> list[results.Row]:
    files = (folder / f"{grid}.jsonl" for grid in GRIDS)
    return results.latest(row for file in files if file.exists() for row in results.read(file))


def parts(rows: list[results.Row]) -> dict[str, Callable[[], str]]:
    """What each name stands for; the unnamed one is README's."""
    cells = gather(rows)
    tables = all_tables(cells)
    tables["leaderboard"] = [
        table for table in tables["leaderboard"] if "_10q" in table.name
    ]  # a figure has the others
    tables["published"] = [table for table in tables["published"] if "not run here" not in table.note]
    chapters = {name: (lambda group=group: _chapter(group)) for name, group in tables.items()}
    more = {
        "": lambda: _summary(cells),
        "findings": lambda: _findings(cells),
        "missing": lambda: _missing(cells, rows),
        "means": lambda: _means(cells),
        "origin": lambda: _origin(rows),
        "statements": lambda: statements(cells),
    }
    return more | chapters


def _findings(cells: list[Cell]) -> str:
    """What the leaderboard says, in sentences."""
    main = [cell for cell in cells if cell.kind == "main" and cell.problem.n_query == 10 and not cell.problem.given]
    usual = {key: part for key, part in by_problem(main).items() if not key.inductive}
    plain = {(cell.method, cell.problem): cell for cell in main if not cell.options}
    ours = {key: plain["vantage", key] for key in usual if ("vantage", key) in plain}
    behind = {key: best_of(c for c in part if c.setting != "task-transductive") for key, part in usual.items()}
    behind = {key: cell for key, cell in behind.items() if key in ours and cell is not ours[key]}
    if not ours:
        return NOTHING
    told = [f"{dataset_title(key.dataset)} {key.setting} ({cell.title})" for key, cell in sorted(behind.items())]
    lines = [
        "`vantage` has the highest accuracy of all that see one query at a time in "
        f"{len(ours) - len(behind)} of {len(ours)} columns" + (f"; not in {', '.join(told)}." if told else ".")
    ]
    free = {key: best_of(cell for cell in part if cell.setting == "training-free") for key, part in usual.items()}
    gains: dict[int, list[float]] = {}
    for key in ours:
        if free[key] is not None:
            gains.setdefault(key.k_shot, []).append(100 * (ours[key].accuracy - free[key].accuracy))
    means = ", ".join(f"{mean(gains[k]):+.1f} at {k} shot{'s' * (k > 1)}" for k in sorted(gains))
    lines.append(f"Its mean gain over the best training-free row, which is chosen on the very tasks: {means}.")
    others = {
        key: [c for c in part if not c.training_free and c.method != "vantage" and not c.method.startswith("tent")]
        for key, part in usual.items()
        if not key.dataset.startswith("planted") and free[key] is not None
    }
    ahead = sum(max(map(_accuracy, part)) > _accuracy(free[key]) for key, part in others.items() if part)
    number = sum(map(bool, others.values()))
    lines.append(
        "On real graphs, the best of the other trained methods (TENT's forms apart) is above the best training-free "
        f"row in {ahead} of {number} columns."
    )
    apart = [
        100 * (cell.accuracy - plain[method, replace(key, inductive=False)].accuracy)
        for (method, key), cell in plain.items()
        if method == "vantage" and key.inductive and not key.dataset.startswith("planted")
    ]
    if apart:
        lines.append(
            f"Trained without the nodes of novel classes (inductive), `vantage` changes by {min(apart):+.1f} to "
            f"{max(apart):+.1f} points on real graphs."
        )
    for method in ("pn", "maml"):
        pairs = [
            100 * (cell.accuracy - plain[method, cell.problem].accuracy)
            for cell in main
            if cell.method == method and cell.options == {"use_graph": False} and (method, cell.problem) in plain
        ]
        if pairs:
            lines.append(f"Without the graph, `{method}` changes by {min(pairs):+.1f} to {max(pairs):+.1f} points.")
    return "".join(f"- {line}\n" for line in lines)


def _accuracy(cell: Cell) -> float:
    return cell.accuracy


def _chapter(tables: list[ResultTable]) -> str:
    """The tables of a chapter; a note they share is said once, at the end."""
    shared = len({table.note for table in tables}) == 1
    texts = [f"### {table.title}\n\n{table.markdown()}" + ("" if shared else f"\n{table.note}\n") for table in tables]
    return "\n".join(texts + ([f"{tables[0].note}\n"] if shared else [])) or NOTHING


def _summary(cells: list[Cell]) -> str:
    """One line for each real data set: the default method, the forms of TENT, the best other trained method and the
    best training-free baseline."""
    main = [cell for cell in cells if cell.kind == "main" and cell.problem.setting == TASKS]
    named = {"vantage": ("vantage", {}), "TENT": ("tent", {}), "TENT, printed": ("tent", {"preset": "paper"})}
    named["residual TENT"] = ("tent_residual", {})
    lines = []
    for problem, part in sorted(by_problem(main).items(), key=lambda item: dataset_title(item[0].dataset)):
        if problem.dataset.startswith("planted") or problem.dataset in NOT_BUILT:
            continue
        plain = {(cell.method, str(cell.options)): cell for cell in part}
        shown = [plain.get((method, str(options))) for method, options in named.values()]
        trained = [cell for cell in part if not cell.training_free]
        other = best_of(cell for cell in trained if cell.method != "vantage" and not cell.method.startswith("tent"))
        baseline = best_of(cell for cell in part if cell.setting == "training-free")
        texts = ["–" if cell is None else f"{100 * cell.accuracy:.1f}" for cell in (*shown, other, baseline)]
        texts[-2] += f" {other.title}" if other else ""
        lines.append([dataset_title(problem.dataset), *texts])
    if not lines:
        return NOTHING
    heads = ["data set", *named, "best other trained", "best training-free"]
    return f"{ResultTable('summary', '', heads, lines, '').markdown()}\n{READING}\n"


def _means(cells: list[Cell]) -> str:
    """Mean accuracies over the real graphs on which every trained method that was run with its default options on more
    than half of them, at 3 and at 5 shots, has such rows."""
    plain = {
        (cell.problem.k_shot, cell.problem.dataset, cell.method): cell
        for cell in cells
        if not cell.options and (cell.problem.n_way, cell.problem.n_query, cell.problem.inductive) == (5, 10, False)
    }
    ran = Counter((method, k) for (k, _, method), cell in plain.items() if not cell.training_free)
    often = {key for key, number in ran.items() if 2 * number > max(ran.values())}
    trained = {method for method, _ in often if {(method, 3), (method, 5)} <= often}
    shown, lines = {}, {method: [title(method, {})] for method in trained}
    for shots in (3, 5):
        held = {(name, method) for k, name, method in plain if k == shots}
        names = sorted({name for name, _ in held if not name.startswith(("planted", TWIN))})
        shown[shots] = [name for name in names if all((name, method) in held for method in trained)]
        for method in trained if shown[shots] else ():
            found = [plain[shots, name, method].accuracy for name in shown[shots]]
            lines[method].append(f"{100 * sum(found) / len(found):.1f}")
    if not all(shown.values()):
        return NOTHING
    rows = sorted(lines.values(), key=lambda line: (-float(line[-1]), line[0]))
    heads = ["method", *(f"5-way {shots}-shot" for shots in shown)]
    listed = "; ".join(f"{k} shots: {', '.join(map(dataset_title, names))}" for k, names in shown.items())
    table = ResultTable("means", "", heads, rows, "").markdown()
    return f"{table}\nMeans over graphs on which every method ran ({listed}).\n"


def _missing(cells: list[Cell], rows: list[results.Row]) -> str:
    if not cells:
        return NOTHING
    text = (ROOT / "src/fewnode/experiments/grids/paper_table.toml").read_text(encoding="utf-8")
    grid, run = tomllib.loads(text), {cell.problem.dataset for cell in cells}
    absent = [dataset_title(name) for name in grid["datasets"] if name not in run]
    lines = [f"Not run: {', '.join(absent)}."] if absent else []
    for name in sorted(run & set(grid["datasets"])):
        held = {cell.method for cell in cells if cell.problem.dataset == name}
        if lacking := [title(method, {}) for method in methods.names() if method not in held]:
            lines.append(f"No rows on {dataset_title(name)}: {'; '.join(lacking)}.")
    for name in run & set(catalog.entries()):
        novel = len(catalog.entry(name).split[2])
        small = [setting for setting in grid["settings"] if int(setting.split("w")[0]) > novel]
        if small:
            lines.append(f"Not possible: {', '.join(small)} on {dataset_title(name)}, which has {novel} novel classes.")
    lines += [
        f"Failed: {row['run']['method']} on {row['run']['dataset']}: {row['reason']}"
        for row in rows
        if row["status"] != "ok"
    ]
    return "".join(f"- {line}\n" for line in sorted(lines)) or "Every data set of the grid was run.\n"


def _origin(rows: list[results.Row]) -> str:
    """How many rows name the commit at which they can be repeated, and which methods the others are of."""
    old = Counter(title(row["run"]["method"], {}) for row in rows if not row.get("commit"))
    if not old:
        return f"All {len(rows):,} rows name their commit.\n"
    named = ", ".join(f"{name} ({count:,})" for name, count in sorted(old.items()))
    counted = f"{len(rows) - old.total():,} of {len(rows):,} rows name their commit. The others are of {named}."
    why = "made before the signs of singular vectors were fixed"
    return f"{counted}\nThey were {why}: repeated today, such a run begins from other inputs, as with another seed.\n"


def shots_figure(cells: list[Cell]) -> str | None:
    """The curves of vantage and the training-free baselines over the number of shots, as SVG."""
    few = [cell for cell in cells if cell.problem.n_query == 5 and not cell.problem.inductive]
    chosen = [cell for cell in few if cell.method == "probe" or (cell.method == "vantage" and not cell.options)]
    drawn = draw_shots(chosen)
    return None if drawn is None else svg(drawn, "shots") + "\n"


def updated(text: str, known: dict[str, Callable[[], str]]) -> str:
    return PART.sub(lambda match: match[1] + known[match[2]]() + match[3], text)


def outdated(root: Path = ROOT, write: bool = False) -> list[str]:
    """The pages whose generated parts differ from what the rows say; with ``write`` they are put right."""
    known, wrong = parts(stored_rows(root / "results")), []
    for page in PAGES:
        old = (root / page).read_text(encoding="utf-8")
        new = updated(old, known)
        if new != old:
            wrong.append(page)
            if write:
                with atomic_write(root / page, "w") as file:
                    file.write(new)
    return wrong


if __name__ == "__main__":
    check = checking(__doc__)
    pages = outdated(write=not check)
    if not check and (picture := shots_figure(gather(stored_rows(ROOT / "results")))):
        with atomic_write(ROOT / FIGURE, "w") as file:
            file.write(picture)
    print("\n".join(f"{page}: {'out of date' if check else 'written'}" for page in pages) or "all current")
    sys.exit(bool(pages) if check else 0)
