"""Data sets and methods of the catalog, one run or many: ``fewnode ls``, ``info``, ``train``, ``evaluate``, ``check``,
``run``, ``report`` and ``compare``; and what is fetched or printed once."""

import argparse
import os
import shlex
import sys
import warnings
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..datasets import catalog
from ..errors import InputError
from ..experiments.grid import Run, grid_names, load_grid
from ..experiments.rows import Row, latest, read
from ..files import check_place
from ..methods import check, describe, find
from . import options
from .output import Bar, emit, fill, load_with_bar, percent, say

if TYPE_CHECKING:
    from ..experiments.runners import Plan
    from ..training.loop import TrainingProgress


def list_names(args: argparse.Namespace) -> None:
    rows: list[dict[str, Any]]
    if args.what == "datasets":
        counted = ("nodes", "edges", "features", "classes")
        found = catalog.entries().values()
        rows = [{"name": one.name, **options.picked(one.counts, *counted), "description": one.title} for one in found]
    else:
        lines = describe() if args.what == "methods" else {name: load_grid(name).description for name in grid_names()}
        rows = [{"name": name, "description": line} for name, line in lines.items()]
    emit(args, rows, "names")


def get_encoder(args: argparse.Namespace) -> None:
    """Fetch the default text encoder, once the user has agreed."""
    from ..datasets.download import fetch_encoder

    if not args.yes:
        if not sys.stdin.isatty():
            raise InputError("no terminal to ask on: --yes fetches the encoder from huggingface.co without asking")
        say("potion-base-8M (31 MB, MIT licence, by MinishLab) will be fetched from huggingface.co. Go on? [y/N] ")
        if input().strip().lower() not in ("y", "yes"):
            raise InputError("nothing was fetched")
    emit(args, {"folder": str(fetch_encoder())}, "encoder")


def show_info(args: argparse.Namespace) -> None:
    entry = catalog.entry(args.dataset)  # refuses a wrong name before torch is imported
    graph, split = load_with_bar(entry.name, args.data_dir)
    from ..graph.graph import summary

    document = {
        "name": entry.name,
        "description": entry.title,
        "note": entry.note,
        **summary(graph, asdict(split)),
        "license": entry.license,
        "citation": entry.citation,
    }
    emit(args, document, "info", every=args.all)


def print_completion(args: argparse.Namespace) -> None:
    import shtab

    sys.stdout.write(shtab.complete(args.parser, shell=args.shell) + "\n")


def train_method(args: argparse.Namespace) -> int:
    method = check(args.method)  # refuses wrong names before torch is imported
    dataset = str(Path(args.dataset).resolve()) if args.dataset.endswith(".npz") else catalog.entry(args.dataset).name
    given = options.option_pairs(args.set)
    folder = Path(args.out)
    check_place(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; name a folder")
    held = [name for name in ("model.json", "training.safetensors") if (folder / name).exists()]
    if held and not args.resume:
        raise InputError(
            f"{folder} already holds {' and '.join(held)}: add --resume to continue that training, "
            "or choose another --out"
        )
    try:
        say(f"Preparing {method} ...")
        from ..methods.base import checked_options
        from ..tasks import ClassSplit
        from ..training.checkpoint import save
        from ..training.loop import TensorBoardLog, fit, ranks

        more = checked_options(find(method), given)
        graph, split = load_with_bar(dataset, args.data_dir)
        if args.split is not None:
            split = ClassSplit.load(args.split)
        shape = options.picked(args, *options.SHAPE, "seed", "inductive", "device")
        with ranks() if args.ranks == "auto" else nullcontext(0) as rank, Bar() as bar:
            written = None if args.tensorboard is None or rank else TensorBoardLog(args.tensorboard)

            accuracy = ""

            def tell(now: "TrainingProgress") -> None:
                nonlocal accuracy
                accuracy = accuracy if now.accuracy is None else f"  validation {percent(now.accuracy)}"
                text = f"step {now.step}/{now.steps}  loss {now.loss:.4f}{accuracy}  {now.steps_per_second:.1f} steps/s"
                bar.show("training", now.step, now.steps, text)
                if written is not None:
                    written(now)

            model = fit(method, graph, split, **shape, callback=None if rank else tell, resume=folder, **more)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped before there was a model; nothing new is kept") from None
    if rank:
        return 0  # all processes have the same model: the first one saves it
    model.card = replace(model.card, dataset=dataset)
    save(model, folder)
    keys = ("method", "title", "dataset", "options", "n_way", "k_shot", "n_query", "seed", "interrupted")
    document = {
        "folder": str(folder),
        **options.picked(model.card, *keys),
        "notes": list(model.card.notes),
        "steps": model.card.stopped_at,
        "validation_accuracy": model.card.best,
        "seconds": model.card.training_seconds,
    }
    emit(args, document, "train", quoted=shlex.quote(str(folder)))
    return 130 if model.card.interrupted else 0


def evaluate_model(args: argparse.Namespace) -> None:
    say(f"Loading the model in {args.folder} ...")
    from ..tasks import ClassSplit, Tasks
    from ..training.checkpoint import load
    from ..training.evaluate import evaluate

    model = load(args.folder)
    card = model.card
    if card.dataset is None:
        from ..classifier.commands import evaluate_tables

        if args.pool is not None:
            raise InputError("--pool is for models of a data set; tasks of your own graph are drawn (--tasks, --seed)")
        shape = options.picked(args, *options.SHAPE)
        found, facts = evaluate_tables(args.folder, **shape, n_tasks=args.tasks, seed=args.seed)
        more = {"seed": args.seed, **facts}
    else:
        tasks = None if args.pool is None else Tasks.load(args.pool)
        graph, split = load_with_bar(card.dataset, args.data_dir)
        if graph.fingerprint != card.graph and not card.inductive:
            say(f"note: {card.dataset} is not the graph this model was trained on (other edges or features)")
        split = split if card.split is None else ClassSplit(**card.split)
        drawn: dict[str, Any] = {"balanced": not args.unbalanced, "allow_seen": args.allow_seen}
        if tasks is None:
            drawn |= {name: getattr(args, name) or getattr(card, name) for name in options.SHAPE}
            drawn |= {"n_tasks": args.tasks, "seed": args.seed}
        found = evaluate(model, graph, split.novel if tasks is None else None, tasks=tasks, **drawn)
        more = {"options": card.options, "n_query": drawn.get("n_query"), "seed": drawn.get("seed"), "pool": args.pool}
    document = {"method": card.method, "dataset": card.dataset, **more}
    if found is not None:
        document |= options.picked(found, "accuracy", "interval", "metrics", "per_class", "n_way", "k_shot", "n_tasks")
        document["per_task"] = found.per_task.tolist()
    emit(args, document, "evaluate", title=card.title, found=found)


def check_contract(args: argparse.Namespace) -> int:
    from ..methods.base import checked_options

    kind = find(args.method)
    say(f"Checking {args.method} on a small planted graph ...")
    from ..training.contract import check_method

    found = check_method(kind, checked_options(kind, options.option_pairs(args.set)))
    emit(args, {"method": args.method, "checks": found}, "check")
    return 1 if any(told.startswith("failed") for told in found.values()) else 0


# --- many runs --------------------------------------------------------------------------------------------------------


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
    if not (plan.todo or plan.done):
        raise InputError(f"no run of {args.grid} can be done, for the reasons above")
    if args.engine == "ray":
        engine: Cluster | Workers = Cluster(args.address, args.data_dir, args.per_run)
    else:
        engine = Workers(min(args.jobs, 4 * (os.cpu_count() or 1)), args.data_dir)
    session = Session(path, plan.todo)
    try:
        with Bar() as bar:
            for run, row in session.conduct(engine):
                show_run(bar, run, row, len(session.done) + len(session.failed), len(plan.todo))
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


def show_run(bar: Bar, run: Run, row: Row | None, done: int, total: int) -> None:
    """Say that a run has ended, with its row, or has begun: a line for each that has ended; in a terminal also bars."""
    name = str(run)
    if row is not None:
        bar.remove(name)
        if row["status"] == "ok":
            told = f"{percent(row['accuracy'])} ± {100 * row['interval']:.1f} in {row['seconds']['total']:.1f} s"
        else:
            told = f"failed: {row['reason']}"
        say(f"[{done}/{total}] {name}: {told}")
    if bar.live:
        bar.show("all runs", done, total, f"{done}/{total}")
        if row is None:
            bar.show(name, 0, None, "")


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

    tables = is_table(args.before), is_table(args.after)
    if tables[0] != tables[1]:
        raise InputError(
            f"of {args.before} and {args.after} one is a table, the other result rows; compare like with like"
        )
    if tables[0]:
        return emit(args, compare_predictions(args.before, args.after, args.top), "changes")
    from ..report.results import compare, dataset_title

    emit(args, compare(read(args.before), read(args.after)), "compare", dataset_title=dataset_title)
