"""Methods and data sets of the catalog: ``fewnode ls``, ``info``, ``train``, ``evaluate`` and ``check``; and what is
fetched or printed once."""

import argparse
import shlex
import sys
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..datasets import catalog
from ..errors import InputError
from ..files import check_place
from ..methods import check, describe, find
from . import options
from .output import Bar, emit, load_with_bar, percent, say

if TYPE_CHECKING:
    from ..training.loop import TrainingProgress


def list_names(args: argparse.Namespace) -> None:
    from ..experiments.grid import grid_names, load_grid

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
    dataset = args.dataset if args.dataset.endswith(".npz") else catalog.entry(args.dataset).name
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
        found, facts = evaluate_tables(args.folder, **shape, n_tasks=args.tasks, seed=args.seed, say=say)
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
