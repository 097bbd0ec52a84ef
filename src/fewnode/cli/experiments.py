"""Many runs: ``fewnode run``, ``report`` and ``compare``."""

import argparse
import os
import warnings
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .output import add_json, clock, emit, notes_said, printable, say
from .stores import add_engine, check_engine

# --- Experiments: ``fewnode run``.
if TYPE_CHECKING:
    from rich.console import Console

    from ..experiments.grid import Run
    from ..experiments.rows import Row
    from ..experiments.runners import Engine, Plan


def add_commands(commands: Any) -> None:
    run = commands.add_parser("run", help="do the runs of a grid; what is done already is skipped")
    run.add_argument("grid", help="a name of `fewnode ls grids`, or a TOML file")
    run.add_argument("--datasets", type=_names, default=[], metavar="A,B", help="these data sets instead of the grid's")
    run.add_argument("--methods", type=_names, default=[], metavar="A,B", help="only these of the grid's methods")
    run.add_argument("--seeds", type=int, metavar="N", help="seeds 0..N-1 instead of the grid's")
    run.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at the same time (1)")
    run.add_argument("--results", metavar="FILE", help="where the rows go (results/GRID.jsonl)")
    run.add_argument("--dry-run", action="store_true", help="list what would be done, and about how long it takes")
    add_engine(run, "runs are done", "run")
    run.add_argument("--data-dir", metavar="DIR", help="where to look for data first (else $FEWNODE_DATA)")
    add_json(run)
    run.set_defaults(run=run_grid)


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _names(text: str) -> list[str]:
    return [name for name in text.replace(" ", "").split(",") if name]


def run_grid(args: argparse.Namespace) -> int:
    from ..experiments.grid import load_grid

    grid = load_grid(args.grid)
    path = Path(args.results or f"results/{grid.name}.jsonl")
    _check(args)
    say(f"Looking at {grid.name} and what {path} has of it ...")
    from ..experiments.rows import read
    from ..experiments.runners import Sizes, make_plan

    with notes_said():
        rows = read(path) if path.exists() else []
    runs = grid.runs(datasets=args.datasets, methods=args.methods, seeds=args.seeds)
    plan = make_plan(runs, rows, Sizes(args.data_dir, fetch=not args.dry_run))
    rows += _beside(path)
    if args.dry_run:
        emit(args, _document(plan, rows, path), partial(_draw_plan, plan=plan, rows=rows))
        return 0
    _say_plan(plan, rows, args.jobs)
    return _perform(args, plan, rows, path)


def _beside(path: Path) -> "list[Row]":
    """Rows of the other files in the folder: they tell how long runs take. A file of other lines tells nothing."""
    from ..experiments.rows import read

    found: list[Row] = []
    for file in sorted(path.parent.glob("*.jsonl")):
        with suppress(InputError, OSError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found += read(file) if file != path else []
    return found


def _check(args: argparse.Namespace) -> None:
    from ..datasets import catalog

    for name in args.datasets:
        if not name.endswith(".npz"):
            catalog.entry(name)
    for flag, value in (("--jobs", args.jobs), ("--seeds", args.seeds)):
        if value is not None and value < 1:
            raise InputError(f"{flag} {value}: at least 1")
    check_engine(args, "run")


def _perform(args: argparse.Namespace, plan: "Plan", rows: "list[Row]", path: Path) -> int:
    from ..experiments.runners import Session
    from .run_table import RunTable

    session = Session(path, plan.todo)
    try:
        with RunTable(Path(path).stem, plan, rows, args.jobs) as table:
            for event in session.conduct(_engine(args)):
                table.show(event)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; {len(session.done)} new rows are in {path}, the same command goes on from there"
        ) from None
    document = {
        **_document(plan, rows, path),
        "done": len(session.done),
        "failed": [{"run": row["run"], "reason": row["reason"]} for row in session.failed],
        "elsewhere": len(session.elsewhere),
    }
    emit(args, document, _draw_end)
    return 1 if session.failed else 0


def _engine(args: argparse.Namespace) -> "Engine":
    if args.engine == "ray":
        from ..experiments import runners as cluster

        return partial(cluster.execute_ray, address=args.address, data_dir=args.data_dir, resources=args.per_run)
    from ..experiments import runners as local

    return partial(local.execute, jobs=min(args.jobs, 4 * (os.cpu_count() or 1)), data_dir=args.data_dir)


def _document(plan: "Plan", rows: "list[Row]", path: Path) -> dict[str, Any]:
    seconds, unknown = plan.seconds(rows)
    return {
        "results": str(path),
        "todo": [{"id": run.id, **run.settings()} for run in plan.todo],
        "done_before": len(plan.done),
        "not_run": plan.not_run,
        "not_possible": [{"run": str(run), "reason": reason} for run, reason in plan.not_possible],
        "seconds": round(seconds, 1),
        "without_estimate": unknown,
    }


def _say_plan(plan: "Plan", rows: "list[Row]", jobs: int) -> None:
    say(f"{_runs(len(plan.todo))} to do, {len(plan.done)} done before. {_estimate(plan, rows, jobs)}")
    for dataset, reason in plan.not_run.items():
        say(f"not run: {dataset}: {reason}")
    for reason, count in Counter(reason for _, reason in plan.not_possible).items():
        say(f"not possible: {count} runs: {reason}")


def _estimate(plan: "Plan", rows: "list[Row]", jobs: int) -> str:
    seconds, unknown = plan.seconds(rows)
    if not plan.todo or unknown == len(plan.todo):
        return "No earlier rows tell how long that takes." if plan.todo else ""
    rest = f", not counting {_runs(unknown)} of methods without earlier rows" if unknown else ""
    return f"About {clock(seconds / jobs)} with {jobs} at a time, judged by earlier rows{rest}."


def _draw_plan(console: "Console", document: dict[str, Any], plan: "Plan", rows: "list[Row]") -> None:
    from rich.table import Table

    from ..experiments.runners import Durations

    known = Durations(rows)
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in plan.todo:
        options = " ".join(f"{key}={value}" for key, value in run.options.items())
        groups.setdefault((run.dataset, f"{run.method} {options}".strip()), []).append(run)
    table = Table("data set", "method", "settings", "seeds", "runs", "about", box=None, pad_edge=False)
    for (dataset, method), runs in groups.items():
        guesses = [known.guess(run) for run in runs]
        about = "?" if None in guesses else clock(sum(guess or 0 for guess in guesses))
        settings = " ".join(dict.fromkeys(run.setting for run in runs))
        table.add_row(
            printable(dataset), printable(method), settings, str(len({run.seed for run in runs})), str(len(runs)), about
        )
    if groups:
        console.print(table)
    console.print(f"{_runs(len(plan.todo))} to do, {len(plan.done)} done before. {_estimate(plan, rows, 1)}")
    for dataset, reason in document["not_run"].items():
        console.print(f"not run: {dataset}: {reason}", markup=False)
    for reason, count in Counter(item["reason"] for item in document["not_possible"]).items():
        console.print(f"not possible: {count} runs: {reason}", markup=False)


def _draw_end(console: "Console", document: dict[str, Any]) -> None:
    others = f", {document['elsewhere']} left to other processes" if document["elsewhere"] else ""
    failed = f", {len(document['failed'])} failed" if document["failed"] else ""
    console.print(f"{_runs(document['done'])} done{failed}{others}; rows in {document['results']}", soft_wrap=True)
    for item in document["failed"]:
        run = item["run"]
        place = f"{run['method']} on {run['dataset']}, {run['n_way']}w{run['k_shot']}s, seed {run['seed']}"
        console.print(f"failed: {place}: {item['reason']}", markup=False, soft_wrap=True)
    console.print(f"Next: fewnode report {document['results']} --out report.html", soft_wrap=True)


# --- Looking at results: ``fewnode report`` and ``fewnode compare``.
if TYPE_CHECKING:
    from rich.console import Console


def add_commands_reports(commands: Any) -> None:
    report = commands.add_parser("report", help="turn result rows into one HTML page with tables and figures")
    report.add_argument("results", nargs="+", help="files of rows, or folders of them")
    report.add_argument("--out", default="report.html", metavar="FILE", help="the page (report.html)")
    add_json(report)
    report.set_defaults(run=make_report)

    compare = commands.add_parser("compare", help="say what changed between two sets of rows")
    compare.add_argument("before", help="a file of rows, or a folder")
    compare.add_argument("after", help="another")
    add_json(compare)
    compare.set_defaults(run=compare_results)


def make_report(args: argparse.Namespace) -> None:
    from ..experiments.rows import latest, read

    with notes_said():
        rows = latest(row for place in args.results for row in read(place))
    if not any(row["status"] == "ok" for row in rows):
        raise InputError(f"{', '.join(args.results)}: no run there has succeeded, so there is nothing to show")
    say(f"Drawing {len(rows)} rows ...")
    from ..report import write_report

    written = write_report(rows, Path(args.out))
    document = {"page": str(written[0]), "files": [str(path) for path in written[1:]], "rows": len(rows)}
    emit(args, document, _draw_report)


def _draw_report(console: "Console", document: dict[str, Any]) -> None:
    folder = Path(document["files"][0]).parent
    console.print(f"{document['page']}; its figures and tables as files in {folder}", soft_wrap=True)


def compare_results(args: argparse.Namespace) -> None:
    from ..experiments.rows import read
    from ..report.results import compare

    with notes_said():
        before, after = read(args.before), read(args.after)
    emit(args, compare(before, after), _draw_comparison)


def _draw_comparison(console: "Console", document: dict[str, Any]) -> None:
    from rich.table import Table

    from ..report.results import label

    table = Table("", "before", "after", "change", "p", "", box=None, pad_edge=False)
    for change in document["changes"]:
        verdict = "more than noise" if change["more_than_noise"] else "noise"
        verdict += " of tasks; one seed" if change["one_seed"] else ""
        before, after = (f"{100 * change[key]:.2f}" for key in ("before", "after"))
        table.add_row(
            label(change), before, after, f"{100 * change['difference']:+.2f}", f"{change['p']:.2g}",
            verdict if change["difference"] else "the same",
        )  # fmt: skip
    console.print(table)
    for key, words in (("only_before", "only before"), ("only_after", "only after")):
        for cell in document[key]:
            console.print(f"{words}: {label(cell)}")
    for name, old in document["versions_before"].items():
        new = document["versions_after"].get(name)
        if new != old:
            console.print(f"{name}: {', '.join(old)} before, {', '.join(new or ['none'])} after")
