"""Where work is done: ``--engine``, ``--address`` and what a task of it needs."""

import argparse
from typing import TYPE_CHECKING

from ..errors import InputError
from .output import say

if TYPE_CHECKING:
    from ..cluster import Engine


def add_engine(parser: argparse.ArgumentParser, what: str, unit: str) -> None:
    """The flags; ``what`` is done, in tasks that are called ``unit``."""
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help=f"where {what} (local)")
    parser.add_argument("--address", metavar="HOST:PORT", help="of the Ray cluster (none: this machine alone)")
    parser.add_argument(
        f"--per-{unit}", type=_amounts, default={}, metavar="cpu=1,..", help=f"what Ray sets aside for a {unit} (cpu=1)"
    )


def check_engine(args: argparse.Namespace, unit: str) -> None:
    if args.engine == "local" and (args.address or getattr(args, f"per_{unit}")):
        raise InputError(f"--address and --per-{unit} are for --engine ray")


def given_memory(args: argparse.Namespace) -> int | None:
    """``--memory`` in bytes, if it was given."""
    from ..store.sizes import parsed_memory

    return None if args.memory is None else parsed_memory(args.memory)


def given_engine(args: argparse.Namespace) -> "Engine | None":
    """Who does the work on a store, if not this process alone."""
    check_engine(args, "task")
    if args.engine == "local":
        return None
    from ..cluster import RayPieces

    say("Reaching Ray ...")
    return RayPieces(args.address, given_memory(args), args.per_task)


def _amounts(text: str) -> dict[str, float]:
    try:
        pairs = (part.split("=") for part in text.replace(" ", "").split(",") if part)
        return {key: float(value) for key, value in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write cpu=2,memory=4e9") from None
