"""``fewnode completion``: what a shell needs to complete commands, options, methods and data sets."""

import argparse
import sys
from typing import Any

SHELLS = ("bash", "zsh", "tcsh")


def add_commands(commands: Any) -> None:
    parser = commands.add_parser(
        "completion",
        help="print a completion script for your shell",
        description='Print a completion script. For bash: eval "$(fewnode completion bash)"',
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=print_completion)


def print_completion(args: argparse.Namespace) -> None:
    import shtab

    sys.stdout.write(shtab.complete(args.parser, shell=args.shell) + "\n")
