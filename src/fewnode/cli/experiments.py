"""Many runs: ``fewnode run``, ``report`` and ``compare``."""

import argparse
import os
import shlex
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..datasets import catalog
from ..errors import InputError
from ..experiments.grid import Run, load_grid
from ..experiments.rows import Row, latest, read
from .output import Bar, emit, fill, percent, say

if TYPE_CHECKING:
    from ..experiments.runners import Plan


def run_grid(args: argparse.Namespace) -> int:
    grid = load_grid(args.grid)
    path = Path(args.results or f"results/{grid.name}.jsonl")
    for name in args.datasets or ():
        if not name.endswith(".npz"):
            catalog.entry(name)
    if args.engine != "ray" and (args.address or args.per_run):
        raise InputError("--address and --per-run are for --engine ray")
    say(f"Looking for finished runs of {grid.name} in {path} ...")
    from ..experiments.runners import Cluster, Session, Sizes, Workers, make_plan

    rows = read(path) if path.exists() else []
    runs = grid.runs(datasets=args.datasets or (), methods=args.methods or (), seeds=args.seeds)
    plan = make_plan(runs, rows, Sizes(args.data_dir, fetch=not args.dry_run))
    document = _document(plan, path)
    if args.dry_run:
        emit(args, document, "dry_run", groups=_by_method(document["todo"]), jobs=1)
        return 0
    say(fill("todo", **document, jobs=args.jobs).rstrip())
    if args.engine == "ray":
        engine: Cluster | Workers = Cluster(args.address, args.data_dir, args.per_run)
    else:
        engine = Workers(min(args.jobs, 4 * (os.cpu_count() or 1)), args.data_dir)
    session = Session(path, plan.todo)
    try:
        with RunBar(len(plan.todo)) as bar:
            for run, row in session.conduct(engine):
                bar(run, row)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; {len(session.done)} new rows are in {path}, the same command continues from there"
        ) from None
    document |= {
        "done": len(session.done),
        "failed": [{"run": row["run"], "reason": row["reason"]} for row in session.failed],
        "elsewhere": len(session.elsewhere),
    }
    emit(args, document, "run", quoted=shlex.quote(str(path)))
    return 1 if session.failed else 0


class RunBar(Bar):
    """Called with every run that begins or ends: a line for each finished one; in a terminal also bars."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self.done, self.total = 0, total

    def __call__(self, run: Run, row: Row | None) -> None:
        name = str(run)
        if row is not None:
            self.done += 1
            self.remove(name)
            if row["status"] == "ok":
                told = f"{percent(row['accuracy'])} ± {100 * row['interval']:.1f} in {row['seconds']['total']:.1f} s"
            else:
                told = f"failed: {row['reason']}"
            say(f"[{self.done}/{self.total}] {name}: {told}")
        if self.live:
            self.show("all runs", self.done, self.total, f"{self.done}/{self.total}")
            if row is None:
                self.show(name, 0, None, "")


def _document(plan: "Plan", path: Path) -> dict[str, Any]:
    from ..experiments.runners import Durations

    known = Durations([])
    with suppress(InputError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = Durations(read(path.parent))  # all rows of the folder tell how long runs take
    todo = [{"id": run.id, **run.settings(), "seconds": known.guess(run)} for run in plan.todo]
    return {
        "results": str(path),
        "todo": todo,
        "done_before": len(plan.done),
        "not_run": plan.not_run,
        "not_possible": [{"run": str(run), "reason": reason} for run, reason in plan.not_possible],
        "seconds": round(sum(one["seconds"] or 0 for one in todo), 1),
        "without_estimate": sum(one["seconds"] is None for one in todo),
    }


def _by_method(todo: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The runs by data set and method with its options."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in todo:
        options = "".join(f" {key}={value}" for key, value in run["options"].items())
        setting = f"{run['n_way']}w{run['k_shot']}s"
        groups.setdefault((run["dataset"], run["method"] + options), []).append(run | {"setting": setting})
    return groups


def make_report(args: argparse.Namespace) -> None:
    rows = latest(row for place in args.results for row in read(place))
    if not any(row["status"] == "ok" for row in rows):
        raise InputError(f"{', '.join(args.results)}: no run there has succeeded, so there is nothing to show")
    say(f"Drawing {len(rows)} rows ...")
    from ..report import write_report

    page, *files = map(str, write_report(rows, Path(args.out)))
    document = {"page": page, "files": files, "rows": len(rows)}
    emit(args, document, "report", folder=Path(files[0]).parent)


def compare_results(args: argparse.Namespace) -> None:
    from ..report.changes import compare_predictions, is_table

    if is_table(args.before) != is_table(args.after):
        raise InputError(
            f"of {args.before} and {args.after} one is a table, the other result rows; compare like with like"
        )
    if is_table(args.before):
        return emit(args, compare_predictions(args.before, args.after, args.top), "changes")
    from ..report.results import compare, dataset_title

    emit(args, compare(read(args.before), read(args.after)), "compare", dataset_title=dataset_title)
