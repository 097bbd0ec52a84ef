"""Options that several commands share, each declared once, and what they parse to."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .output import say

if TYPE_CHECKING:
    from ..store import Engine

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
TASK_SHAPE = {
    "n_way": ("N", "classes in a task", 5),
    "k_shot": ("K", "examples of each class", 5),
    "n_query": ("Q", "nodes of each class to classify", 10),
}


def add_options(parser: argparse.ArgumentParser, options: Mapping[str, str], **how: Any) -> None:
    """Declare options as ``{"--flag VALUE": help}``, or ``{"--flag": help}`` for one without a value."""
    for declared, told in options.items():
        flag, _, metavar = declared.partition(" ")
        kind: dict[str, Any] = {"metavar": metavar} if metavar else {"action": "store_true"}
        parser.add_argument(flag, help=told, **kind, **how)


def add_json(parser: argparse.ArgumentParser) -> None:
    add_options(parser, {"--json": "print one JSON document and nothing else"})


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    add_options(parser, {"--data-dir DIR": "where to look for data files first (else $FEWNODE_DATA)"})


def add_memory(parser: argparse.ArgumentParser) -> None:
    add_options(parser, {"--memory SIZE": "memory to use for a store, e.g. 4GB (half of what is free)"})


def add_task_shape(parser: argparse.ArgumentParser, *names: str, trained: bool = False) -> None:
    """``--n-way``, ``--k-shot`` and ``--n-query``; of a ``trained`` model they default to those of its training."""
    for name in names:
        metavar, what, value = TASK_SHAPE[name]
        default = None if trained else value
        told = f"{what} ({default or 'as trained'})"
        parser.add_argument(_flag(name), type=int, default=default, metavar=metavar, help=told)


def add_training(parser: argparse.ArgumentParser) -> None:
    """What ``train`` and ``fit`` share."""
    add_options(parser, {"--seed S": "random seed of initial weights and training tasks (0)"}, type=int, default=0)
    told = "an option of the method or its training; may be repeated"
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help=told)
    add_options(parser, {"--device NAME": "cpu, cuda, ... (auto)"}, default="auto")
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
    add_memory(parser)
    add_engine(parser, "task")


def add_columns(parser: argparse.ArgumentParser) -> None:
    """What the columns of the tables are, where it cannot be inferred."""
    add_options(parser, {f"{_flag(name)} NAME": what for name, what in COLUMNS.items()})
    several = {f"{_flag(name)} NAME": f"node column: {what}; may be repeated" for name, what in NODE_COLUMNS.items()}
    add_options(parser, several, action="append")
    add_options(parser, {"--directed": "edges have a direction"})
    several_labels = "what to do with several labels in a cell"
    parser.add_argument("--multi-label", choices=("first", "none", "one"), help=several_labels)
    parser.add_argument("--decimal", choices=(",", "."), help="decimal mark, where it cannot be inferred")


def given_columns(args: argparse.Namespace) -> dict[str, Any]:
    """The column options that were given."""
    return {name: value for name in (*COLUMNS, *NODE_COLUMNS) if (value := getattr(args, name)) is not None}


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


def number_of_class(text: str) -> tuple[str, float]:
    """``CLASS=NUMBER``; a number alone has the empty class."""
    name, _, value = text.rpartition("=")
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write a number, or CLASS=NUMBER for one class") from None


def given_memory(args: argparse.Namespace) -> int | None:
    """``--memory`` in bytes."""
    from ..store import parsed_memory

    return None if args.memory is None else parsed_memory(args.memory)


def add_engine(parser: argparse.ArgumentParser, unit: str) -> None:
    """Where the work is done, in pieces called ``unit``."""
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="run here or on Ray (local)")
    add_options(parser, {"--address HOST:PORT": "Ray cluster (default: a new one on this machine)"})
    told = f"resources that Ray reserves for a {unit} (cpu=1)"
    add_options(parser, {f"--per-{unit} cpu=1,..": told}, type=_amounts, default={})


def _amounts(text: str) -> dict[str, float]:
    try:
        pairs = (part.split("=") for part in text.replace(" ", "").split(",") if part)
        return {key: float(value) for key, value in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write cpu=2,memory=4e9") from None


def check_engine(args: argparse.Namespace, unit: str) -> None:
    if args.engine == "local" and (args.address or getattr(args, f"per_{unit}")):
        raise InputError(f"--address and --per-{unit} are for --engine ray")


def given_engine(args: argparse.Namespace) -> "Engine | None":
    """What does the work on a store: None for this process."""
    check_engine(args, "task")
    if args.engine == "local":
        return None
    from ..store import RayPieces

    say("Connecting to Ray ...")
    return RayPieces(args.address, given_memory(args), args.per_task)
