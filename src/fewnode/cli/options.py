"""The commands and options of ``commands.toml`` as argparse knows them, and what the values parse to."""

import argparse
import ast
import re
import shlex
from typing import Any

from ..errors import InputError

SHAPE = ("n_way", "k_shot", "n_query")
GRAPH = ("edges", "nodes", "features", "memory")  # another graph than that of the fit, and the memory for a store


def add_arguments(parser: Any, arguments: list[Any], declared: dict[str, Any]) -> None:
    """Declare the arguments of a command, or of a group of them."""
    for one in arguments:
        if isinstance(one, str):
            title = declared["title"].get(one)
            add_arguments(parser.add_argument_group(title) if title else parser, declared["group"][one], declared)
        elif isinstance(one[0], list):
            add_arguments(parser.add_mutually_exclusive_group(), one, declared)
        else:
            named, told, *more = one
            name, _, metavar = named.partition(" ")
            settings: dict[str, Any] = {"help": told or None, **(more[0] if more else {})}
            if metavar:
                kind = settings.get("type", type(settings.get("default")).__name__)
                settings |= {"metavar": metavar} | ({"type": TYPES[kind]} if kind in TYPES else {})
            elif name.startswith("--") and "choices" not in settings:
                settings["action"] = "store_true"
            parser.add_argument(name, **settings)


def picked(args: Any, *names: str) -> dict[str, Any]:
    """Some of the arguments (of the attributes of anything) by name."""
    return {name: getattr(args, name) for name in names}


def given_columns(args: argparse.Namespace) -> dict[str, Any]:
    """The column options that were given."""
    return {name: value for name, value in vars(args).items() if name.endswith("_column") and value is not None}


def with_flags(message: str, args: argparse.Namespace) -> str:
    """The message with the arguments of Python that it names (``force=True``, ``edges=``, ``label_column='a b'``) as
    options of the command, or of another one if they have a value."""

    def flag(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if name not in (args.first if value else vars(args)):
            return found[0]
        command = "" if name in vars(args) else f"{args.first[name]} "
        shown = "" if value in ("", "True") else f" {shlex.quote(str(ast.literal_eval(value)))}"
        return f"{command}--{'class' if name == 'label' else name.replace('_', '-')}{shown}"

    text = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
    return re.sub(rf"\b([a-z_]+)=({text}|True|\d+|(?=[\s,.;:)]|$))", flag, message)


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


def amounts(text: str) -> dict[str, float]:
    return dict(named_number(part.strip()) for part in text.split(",") if part.strip())


def count(text: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r}: write a number, for example 111e6") from None


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number of 1 or more")
    return int(text)


def memory(text: str) -> int:
    """A size such as 4GB, in bytes."""
    from ..store import parsed_memory

    try:
        return parsed_memory(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def names(text: str) -> list[str]:
    return [name for name in text.replace(" ", "").split(",") if name]


# The types of arguments in commands.toml, by name.
TYPES: dict[str, Any] = {
    kind.__name__: kind for kind in (int, positive, float, count, memory, names, named_number, amounts)
}
