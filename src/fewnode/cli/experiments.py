"""Many runs: ``fewnode run``, ``report`` and ``compare``."""

import argparse
import os
import shlex
import warnings
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .options import check_engine
from .output import Bar, clock, emit, percent, say, show, show_table, warnings_as_notes

if TYPE_CHECKING:
    from ..experiments.rows import Row
    from ..experiments.runners import Engine, Plan
    from ..experiments.worker import Event


def run_grid(args: argparse.Namespace) -> int:
    from ..experiments.grid import load_grid

    grid = load_grid(args.grid)
    path = Path(args.results or f"results/{grid.name}.jsonl")
    _check(args)
    say(f"Looking for finished runs of {grid.name} in {path} ...")
    from ..experiments.rows import read
    from ..experiments.runners import Sizes, make_plan

    with warnings_as_notes():
        rows = read(path) if path.exists() else []
    runs = grid.runs(datasets=args.datasets or (), methods=args.methods or (), seeds=args.seeds)
    plan = make_plan(runs, rows, Sizes(args.data_dir, fetch=not args.dry_run))
    document = _document(plan, [*rows, *_rows_beside(path)], path)
    if args.dry_run:
        emit(args, document, _draw_plan)
        return 0
    for line in _plan_lines(document, args.jobs):
        say(line)
    return _perform(args, plan, document)


def _check(args: argparse.Namespace) -> None:
    from ..datasets import catalog

    for name in args.datasets or ():
        if not name.endswith(".npz"):
            catalog.entry(name)
    for flag, value in (("--jobs", args.jobs), ("--seeds", args.seeds)):
        if value is not None and value < 1:
            raise InputError(f"{flag} {value}: at least 1")
    check_engine(args, "run")


def _rows_beside(path: Path) -> "list[Row]":
    """Rows of the other files in the folder, which tell how long runs take; files of another kind are skipped."""
    from ..experiments.rows import read

    found: list[Row] = []
    for file in sorted(path.parent.glob("*.jsonl")):
        with suppress(InputError, OSError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found += read(file) if file != path else []
    return found


def _perform(args: argparse.Namespace, plan: "Plan", document: dict[str, Any]) -> int:
    from ..experiments.runners import Session

    path = document["results"]
    session = Session(Path(path), plan.todo)
    try:
        with RunBar(len(plan.todo)) as bar:
            for event in session.conduct(_engine(args)):
                bar(event)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; {len(session.done)} new rows are in {path}, the same command continues from there"
        ) from None
    document |= {
        "done": len(session.done),
        "failed": [{"run": row["run"], "reason": row["reason"]} for row in session.failed],
        "elsewhere": len(session.elsewhere),
    }
    emit(args, document, _draw_end)
    return 1 if session.failed else 0


def _engine(args: argparse.Namespace) -> "Engine":
    from ..experiments import runners

    if args.engine == "ray":
        return partial(runners.execute_ray, address=args.address, data_dir=args.data_dir, resources=args.per_run or {})
    return partial(runners.execute, jobs=min(args.jobs, 4 * (os.cpu_count() or 1)), data_dir=args.data_dir)


class RunBar(Bar):
    """Called with every event of a grid: a line for each finished run; in a terminal also bars of those that run."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self.done, self.total = 0, total

    def __call__(self, event: "Event") -> None:
        name = str(event.run)
        if event.row is not None:
            self.done += 1
            self.remove(name)
            say(f"[{self.done}/{self.total}] {name}: {_outcome(event.row)}")
        if self.live:
            self.show("all runs", self.done, self.total, f"{self.done}/{self.total}")
            if event.steps:
                checked = "" if event.accuracy is None else f"validation {percent(event.accuracy)}"
                self.show(name, event.step, event.steps, checked)


def _outcome(row: "Row") -> str:
    if row["status"] != "ok":
        return f"failed: {row['reason']}"
    return f"{percent(row['accuracy'])} ± {100 * row['interval']:.1f} in {row['seconds']['total']:.1f} s"


def _document(plan: "Plan", rows: "list[Row]", path: Path) -> dict[str, Any]:
    from ..experiments.runners import Durations

    known = Durations(rows)
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


def _plan_lines(document: dict[str, Any], jobs: int) -> list[str]:
    todo, unknown = len(document["todo"]), document["without_estimate"]
    reasons = Counter(item["reason"] for item in document["not_possible"])
    about = " There are no earlier rows to estimate the time from." if todo else ""
    if unknown < todo:
        rest = f", not counting {_runs(unknown)} of methods without earlier rows" if unknown else ""
        about = f" About {clock(document['seconds'] / jobs)} with {jobs} at a time, estimated from earlier rows{rest}."
    return [
        f"{_runs(todo)} to do, {document['done_before']} done before.{about}",
        *(f"not run: {dataset}: {reason}" for dataset, reason in document["not_run"].items()),
        *(f"not possible: {_runs(count)}: {reason}" for reason, count in reasons.items()),
    ]


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _draw_plan(document: dict[str, Any]) -> None:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in document["todo"]:
        options = "".join(f" {key}={value}" for key, value in run["options"].items())
        groups.setdefault((run["dataset"], run["method"] + options), []).append(run)
    records = [
        {
            "dataset": dataset,
            "method": method,
            "settings": " ".join(dict.fromkeys("{n_way}w{k_shot}s".format(**run) for run in runs)),
            "seeds": len({run["seed"] for run in runs}),
            "runs": len(runs),
            "about": "?" if None in (seconds := [run["seconds"] for run in runs]) else clock(sum(seconds)),
        }
        for (dataset, method), runs in groups.items()
    ]
    columns = {"data set": "{dataset}", "method": "{method}", "settings": "{settings}"}
    show_table({**columns, ">seeds": "{seeds}", ">runs": "{runs}", ">about": "{about}"}, records)
    for line in _plan_lines(document, 1):
        show(line)


def _draw_end(document: dict[str, Any]) -> None:
    others = f", {document['elsewhere']} left to other processes" if document["elsewhere"] else ""
    failed = f", {len(document['failed'])} failed" if document["failed"] else ""
    show(f"{_runs(document['done'])} done{failed}{others}; rows in {document['results']}", wrap=False)
    for item in document["failed"]:
        run = item["run"]
        place = f"{run['method']} on {run['dataset']}, {run['n_way']}w{run['k_shot']}s, seed {run['seed']}"
        show(f"failed: {place}: {item['reason']}", wrap=False)
    show(f"Next: fewnode report {shlex.quote(document['results'])} --out report.html", wrap=False)


def make_report(args: argparse.Namespace) -> None:
    from ..experiments.rows import latest, read

    with warnings_as_notes():
        rows = latest(row for place in args.results for row in read(place))
    if not any(row["status"] == "ok" for row in rows):
        raise InputError(f"{', '.join(args.results)}: no run there has succeeded, so there is nothing to show")
    say(f"Drawing {len(rows)} rows ...")
    from ..report import write_report

    page, *files = map(str, write_report(rows, Path(args.out)))
    words = f"{page}; its figures and tables as files in {Path(files[0]).parent}"
    emit(args, {"page": page, "files": files, "rows": len(rows)}, lambda _: show(words, wrap=False))


def compare_results(args: argparse.Namespace) -> None:
    from ..experiments.rows import read
    from ..report.results import compare

    with warnings_as_notes():
        before, after = read(args.before), read(args.after)
    emit(args, compare(before, after), _draw_comparison)


def _draw_comparison(document: dict[str, Any]) -> None:
    from ..report.results import label

    records = []
    for change in document["changes"]:
        verdict = "more than noise" if change["more_than_noise"] else "noise"
        verdict += " of tasks; one seed" if change["one_seed"] else ""
        verdict = verdict if change["difference"] else "the same"
        records.append({**change, "name": label(change), "verdict": verdict})
    shares = {">before": "{before:.2%}", ">after": "{after:.2%}", ">change": "{difference:+.2%}", ">p": "{p:.2g}"}
    show_table({"": "{name}", **shares, " ": "{verdict}"}, records)
    for key, words in (("only_before", "only before"), ("only_after", "only after")):
        for cell in document[key]:
            show(f"{words}: {label(cell)}")
    for name, old in document["versions_before"].items():
        new = document["versions_after"].get(name)
        if new != old:
            show(f"{name}: {', '.join(old)} before, {', '.join(new or ['none'])} after")
