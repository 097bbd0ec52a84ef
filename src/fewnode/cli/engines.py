"""Where work is done: ``--engine``, ``--address`` and what a task of it needs."""

import argparse

from ..errors import InputError


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


def _amounts(text: str) -> dict[str, float]:
    try:
        pairs = (part.split("=") for part in text.replace(" ", "").split(",") if part)
        return {key: float(value) for key, value in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write cpu=2,memory=4e9") from None
