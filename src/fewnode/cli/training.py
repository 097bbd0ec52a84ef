"""Training and testing: ``fewnode train`` and ``fewnode evaluate``."""

import argparse
import shlex
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .output import TrainingBar, add_json, emit, load_with_bar, notes_said, pair, printable, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..card import ModelCard


def add_commands(commands: Any) -> None:
    train = commands.add_parser("train", help="teach a method on the base classes of a data set")
    train.add_argument("method", help="a name of `fewnode ls methods`")
    train.add_argument("dataset", help="a name of `fewnode ls datasets`")
    train.add_argument("--n-way", type=int, default=5, metavar="N", help="classes in a task (5)")
    train.add_argument("--k-shot", type=int, default=5, metavar="K", help="examples of each class (5)")
    train.add_argument("--n-query", type=int, default=10, metavar="Q", help="nodes of each class to classify (10)")
    train.add_argument("--seed", type=int, default=0, help="of the first weights and the training tasks (0)")
    train.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="an option of the method; may be repeated",
    )
    train.add_argument("--out", required=True, metavar="DIR", help="where the model goes")
    train.add_argument("--resume", action="store_true", help="go on where a training in DIR was stopped")
    train.add_argument("--inductive", action="store_true", help="train without the nodes of the novel classes")
    train.add_argument("--tensorboard", metavar="DIR", help="write the training curves there too (extra [log])")
    train.add_argument(
        "--ranks",
        choices=("1", "auto"),
        default="1",
        help="auto: share the tasks of a step among torchrun's processes (1)",
    )
    train.add_argument("--device", default="auto", help="cpu, cuda, ... (auto)")
    _add_data_dir(train)
    add_json(train)
    train.set_defaults(run=train_method)

    test = commands.add_parser("evaluate", help="score a trained model on tasks of classes it did not learn")
    test.add_argument("folder", metavar="DIR", help="what `fewnode train --out` or `fewnode fit --out` wrote")
    tasks = test.add_mutually_exclusive_group()
    tasks.add_argument("--tasks", default="500", metavar="N", help="how many tasks to draw (500)")
    tasks.add_argument("--pool", metavar="FILE", help="an .npz of tasks to take instead (Tasks.save)")
    test.add_argument("--n-way", type=int, metavar="N", help="classes in a task (as trained)")
    test.add_argument("--k-shot", type=int, metavar="K", help="examples of each class (as trained)")
    test.add_argument("--n-query", type=int, metavar="Q", help="nodes of each class to classify (as trained)")
    test.add_argument("--seed", type=int, default=0, help="of the tasks: the same for every model (0)")
    _add_data_dir(test)
    add_json(test)
    test.set_defaults(run=evaluate_model)


def _add_data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", metavar="DIR", help="where to look for data first (else $FEWNODE_DATA)")


def train_method(args: argparse.Namespace) -> int:
    from ..datasets import catalog
    from ..errors import one_of
    from ..methods import find, names

    method = one_of("method", args.method, names())  # wrong names are answered before torch is imported
    dataset = catalog.entry(args.dataset).name
    given = dict(pair(text) for text in args.set)
    folder = _usable(Path(args.out), args.resume)
    try:
        say(f"Preparing {method} ...")
        from .. import fit, save
        from ..methods.options import parse_options
        from ..training.loop import ranks

        options = parse_options(find(method), given)
        graph, split = load_with_bar(dataset, args.data_dir)
        shape: dict[str, Any] = {"n_way": args.n_way, "k_shot": args.k_shot, "n_query": args.n_query, "seed": args.seed}
        with ranks() if args.ranks == "auto" else nullcontext(0) as rank, notes_said(), TrainingBar() as bar:
            shape |= {"callback": None if rank else _listeners(bar, args.tensorboard), "inductive": args.inductive}
            model = fit(method, graph, split, **shape, device=args.device, resume=folder, **options)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped before there was a model; nothing new is kept") from None
    if rank:
        return 0  # all have the same model: the first process keeps it
    model.card = replace(model.card, dataset=dataset)
    save(model, folder)
    emit(args, {"folder": str(folder), **_facts(model.card)}, _draw_training)
    return 130 if model.card.interrupted else 0


def _listeners(bar: TrainingBar, log: str | None) -> Callable[[Any], None]:
    """The callback of every step: the bar, and TensorBoard if it is wanted."""
    if log is None:
        return bar
    from ..training.loop import TensorBoardLog

    written = TensorBoardLog(log)

    def tell(progress: Any) -> None:
        bar(progress)
        written(progress)

    return tell


def _usable(folder: Path, resume: bool) -> Path:
    """The folder to write to; one that holds a model or half a training is only touched if that is wanted."""
    from ..files import check_place

    check_place(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; name a folder")
    held = [name for name in ("model.json", "training.safetensors") if (folder / name).exists()]
    if held and not resume:
        raise InputError(
            f"{folder} already holds {' and '.join(held)}: add --resume to go on with that training, "
            "or choose another --out"
        )
    return folder


def _facts(card: "ModelCard") -> dict[str, Any]:
    keys = ("method", "dataset", "options", "n_way", "k_shot", "n_query", "seed", "interrupted")
    return {
        **{key: getattr(card, key) for key in keys},
        "notes": list(card.notes),
        "steps": card.stopped_at,
        "validation_accuracy": card.best,
        "seconds": card.training_seconds,
    }


def _draw_training(console: "Console", facts: dict[str, Any]) -> None:
    best = facts["validation_accuracy"]
    reached = "" if best is None else f", best validation accuracy {100 * best:.2f} %"
    if facts["interrupted"]:
        console.print(f"Stopped at step {facts['steps']:,}{reached}; the best weights so far are kept.")
        console.print("The same command with --resume goes on from the last check.")
    elif facts["steps"]:
        console.print(f"{facts['method']}: {facts['steps']:,} steps in {facts['seconds']:.1f} s{reached}")
    folder = shlex.quote(facts["folder"])
    console.print(f"Model in {folder}; next: fewnode evaluate {folder}", soft_wrap=True)


def evaluate_model(args: argparse.Namespace) -> None:
    say(f"Loading the model in {args.folder} ...")
    from .. import Tasks, evaluate, load

    model = load(args.folder)
    card = model.card
    pool, n_tasks = _pool_or_number(args)
    if card.dataset is None:
        return _evaluate_own(args, pool, n_tasks)
    tasks = None if pool is None else Tasks.load(pool)
    graph, split = load_with_bar(card.dataset, args.data_dir)
    if graph.fingerprint != card.graph and not card.inductive:
        say(f"note: {card.dataset} is not the graph this model was trained on (other edges or features)")
    wanted = {key: getattr(args, key) or getattr(card, key) for key in ("n_way", "k_shot", "n_query")}
    drawn = {} if tasks is not None else {**wanted, "n_tasks": n_tasks, "seed": args.seed}
    found = evaluate(model, graph, None if tasks is not None else split.novel, tasks=tasks, **drawn)
    document = {
        "method": card.method,
        "dataset": card.dataset,
        "accuracy": found.accuracy,
        "interval": found.interval,
        "n_way": found.n_way,
        "k_shot": found.k_shot,
        "n_tasks": found.n_tasks,
        "n_query": drawn.get("n_query"),
        "seed": drawn.get("seed"),
        "pool": None if pool is None else str(pool),
        "per_task": found.per_task.tolist(),
    }
    line = printable(f"{card.method}, {card.dataset}: {found}")
    emit(args, document, lambda console, _: console.print(line, soft_wrap=True))


def _evaluate_own(args: argparse.Namespace, pool: str | None, n_tasks: int) -> None:
    from ..classifier.commands import evaluate_tables

    if pool is not None:
        raise InputError("--pool is for models of a data set; tasks of your own graph are drawn (--tasks, --seed)")
    shape = {key: getattr(args, key) for key in ("n_way", "k_shot", "n_query")}
    done = evaluate_tables(args.folder, **shape, n_tasks=n_tasks, seed=args.seed, say=say)
    found, kind = done.found, "unseen" if done.unseen else "validation"
    document = {
        "method": done.classifier.method,
        "dataset": None,
        "accuracy": found.accuracy,
        "interval": found.interval,
        "n_way": found.n_way,
        "k_shot": found.k_shot,
        "n_tasks": found.n_tasks,
        "classes": list(done.classes),
        "kind": kind,
        "seed": args.seed,
        "per_task": found.per_task.tolist(),
    }
    emit(args, document, partial(_draw_own_evaluation, found=str(found)))


def _draw_own_evaluation(console: "Console", document: dict[str, Any], found: str) -> None:
    console.print(f"{document['method']}, your graph: {found}", soft_wrap=True)
    console.print(f"Tasks of {document['kind']} classes: {', '.join(document['classes'])}.", markup=False)
    if document["kind"] == "validation":
        console.print("No weight was trained on these, but the best weights were chosen on them: a little flattering.")


def _pool_or_number(args: argparse.Namespace) -> tuple[str | None, int]:
    """``--tasks`` is a number; a file there is taken as the pool it must be."""
    if args.pool is not None:
        return args.pool, 0
    try:
        return None, int(args.tasks)
    except ValueError:
        if args.tasks.endswith(".npz"):
            return args.tasks, 0
        raise InputError(f"--tasks {args.tasks!r}: expected how many, or an .npz of tasks") from None
