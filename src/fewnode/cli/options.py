"""Options that several commands share, each declared once, and what they parse to."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import InputError
from .output import say

COLUMNS = {
    "id_column": "column of node ids",
    "label_column": "column of classes ('' if there are no labels)",
    "source_column": "column of the nodes that edges start from",
    "target_column": "column of the nodes that edges lead to",
    "weight_column": "column of edge weights, numbers above zero",
    "edge_type_column": "column of edge types",
}
NODE_COLUMNS = {
    "text_column": "a text to learn words from",
    "category_column": "one of a few values",
    "number_column": "a number or a date",
    "ignore_column": "of no use",
}
JSON = {"--json": "print one JSON document and nothing else"}
DATA_DIR = {"--data-dir DIR": "where to look for data files first (else $FEWNODE_DATA)"}
MEMORY = {"--memory SIZE": "memory to use for a store, e.g. 4GB (half of what is free)"}
TASK_SHAPE = {
    "n_way": ("N", "classes in a task", 5),
    "k_shot": ("K", "examples of each class", 5),
    "n_query": ("Q", "nodes of each class to classify", 10),
}


def add_command(commands: Any, name: str, run: Callable[..., Any], told: str, **more: Any) -> argparse.ArgumentParser:
    """A new command, which calls ``run`` with its parsed arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=told, **more)
    parser.set_defaults(run=run)
    return parser


def add_options(parser: Any, options: Mapping[str, Any], **how: Any) -> None:
    """Declare options as ``{"--flag VALUE": help}``, or ``{"--flag": help}`` for one without a value.

    Instead of ``help`` there may be a pair: ``(help, default)``, whose type is that of the value; ``(help, type)``; or
    ``(help, choices)`` with a tuple.
    """
    for declared, told in options.items():
        flag, _, metavar = declared.partition(" ")
        text, kind = (told, None) if isinstance(told, str) else told
        settings: dict[str, Any] = {"help": text, **how} | ({"metavar": metavar} if metavar else {})
        if isinstance(kind, tuple):
            settings["choices"] = kind
        elif callable(kind):
            settings["type"] = kind
        elif kind is not None:
            settings |= {"type": type(kind), "default": kind}
        elif not metavar:
            settings["action"] = "store_true"
        parser.add_argument(flag, **settings)


def add_task_shape(parser: argparse.ArgumentParser, *names: str, trained: bool = False) -> None:
    """``--n-way``, ``--k-shot`` and ``--n-query``; of a ``trained`` model they default to those of its training."""
    for name in names:
        metavar, what, value = TASK_SHAPE[name]
        told = (f"{what} (as trained)", int) if trained else (f"{what} ({value})", value)
        add_options(parser, {f"{_flag(name)} {metavar}": told})


def add_training(parser: argparse.ArgumentParser) -> None:
    """What ``train`` and ``fit`` share."""
    told = "an option of the method or its training; may be repeated"
    add_options(parser, {"--seed S": ("random seed of initial weights and training tasks (0)", 0)})
    add_options(parser, {"--set OPTION=VALUE": told}, action="append", default=[])
    add_options(parser, {"--device NAME": ("cpu, cuda, ... (auto)", "auto")})
    add_options(parser, {"--out DIR": "where to save the model"}, required=True)
    add_options(parser, {"--resume": "continue a training for DIR that was stopped or killed"})


def add_tables(parser: argparse.ArgumentParser, default: str = "") -> None:
    """Where the graph is."""
    tables = {
        "--edges FILE": f"edge table (source, target) in one or more files, or a store{default}",
        "--nodes FILE": f"node table: id, label (may be empty), attributes{default}",
    }
    add_options(parser, tables, nargs="+", action="extend")
    add_options(parser, {"--features FILE": "features in a file of their own: a table, .npy, .npz or .parquet"})
    add_options(parser, MEMORY)
    add_engine(parser, "task")


def add_columns(parser: argparse.ArgumentParser) -> None:
    """What the columns of the tables are, where it cannot be inferred."""
    add_options(parser, {f"{_flag(name)} NAME": what for name, what in COLUMNS.items()})
    several = {f"{_flag(name)} NAME": f"node column: {what}; may be repeated" for name, what in NODE_COLUMNS.items()}
    add_options(parser, several, action="append")
    more = {
        "--directed": "edges have a direction",
        "--multi-label": ("what to do with several labels in a cell", ("first", "none", "one")),
        "--decimal": ("decimal mark, where it cannot be inferred", (",", ".")),
    }
    add_options(parser, more)


def picked(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Some of the arguments by name."""
    return {name: getattr(args, name) for name in names}


def given_columns(args: argparse.Namespace) -> dict[str, Any]:
    """The column options that were given."""
    return {name: value for name, value in picked(args, *COLUMNS, *NODE_COLUMNS).items() if value is not None}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def option_pairs(texts: list[str]) -> dict[str, str]:
    """Names and values of every ``--set``."""
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InputError(f"--set {text!r}: write option=value, for example --set hidden_channels=32")
        found[name.strip().replace("-", "_")] = value.strip()
    return found


def named_number(text: str) -> tuple[str, float]:
    """``NAME=NUMBER``; a number alone has the empty name."""
    name, _, value = text.rpartition("=")
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write a number, or NAME=NUMBER") from None


def _amounts(text: str) -> dict[str, float]:
    return dict(named_number(part.strip()) for part in text.split(",") if part.strip())


def given_memory(args: argparse.Namespace) -> int | None:
    """``--memory`` in bytes."""
    from ..store import parsed_memory

    return None if args.memory is None else parsed_memory(args.memory)


def add_engine(parser: argparse.ArgumentParser, unit: str) -> None:
    """Where the work is done, in pieces called ``unit``."""
    engine = {
        "--engine": ("run here or on Ray (local)", ("local", "ray")),
        "--address HOST:PORT": "Ray cluster (default: a new one on this machine)",
        f"--per-{unit} cpu=1,..": (f"resources that Ray reserves for a {unit} (cpu=1)", _amounts),
    }
    add_options(parser, engine)


def check_engine(args: argparse.Namespace, unit: str) -> None:
    if args.engine != "ray" and (args.address or getattr(args, f"per_{unit}")):
        raise InputError(f"--address and --per-{unit} are for --engine ray")


def given_resources(args: argparse.Namespace) -> dict[str, Any]:
    """The memory for the work on a store, and the engine that does it: None for this process."""
    check_engine(args, "task")
    memory, engine = given_memory(args), None
    if args.engine == "ray":
        from ..store import RayPieces

        say("Connecting to Ray ...")
        engine = RayPieces(args.address, memory, args.per_task or {})
    return {"memory": memory, "engine": engine}
