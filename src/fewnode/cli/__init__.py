"""The command line: each command parses, calls one library function and prints.

``commands.toml`` declares the commands; each is one function in the module of its group. Nothing heavy is imported
before a command runs, so that ``--help`` and completion answer at once.
"""

import argparse
import os
import re
import sys
import time
import tomllib
import warnings
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from statistics import median
from typing import NoReturn

from .. import __version__
from ..errors import InputError
from .options import add_arguments, with_flags
from .output import say, show_warning

LOAD = Path("/proc/loadavg")


class Parser(argparse.ArgumentParser):
    """A parser that answers a misspelt word with the closest one it knows."""

    words: Sequence[str] = ()  # of the command line

    def error(self, message: str) -> NoReturn:
        if found := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            close = get_close_matches(found[1], re.findall(r"[\w-]+", found[2]), n=1)
            super().error(f"{message}. Did you mean {close[0]!r}?" if close else message)
        command = self.prog.rpartition(" ")[2]
        given = self.words[self.words.index(command) :] if command in self.words else []
        flags = [word.partition("=")[0] for word in given if re.match("--?[a-z]", word)]
        if wrong := [flag for flag in flags if not any(one.startswith(flag) for one in self._option_string_actions)]:
            close = get_close_matches(wrong[0], self._option_string_actions, n=1)
            hint = f"did you mean {close[0]}?" if close else f"{self.prog} --help lists what there is"
            message = f"unrecognized arguments: {' '.join(wrong)} ({hint})"
        super().error(message)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line as one argparse parser."""
    parser = Parser(
        prog="fewnode",
        description="Few-shot node classification: name a new class with a handful of example nodes.",
        epilog="fewnode COMMAND --help explains a command.",
    )
    parser.set_defaults(parser=parser)  # completion describes the whole of it
    parser.add_argument("--version", action="version", version=f"fewnode {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    declared = tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))
    add_arguments(parser, declared["group"]["program"], declared)
    first: dict[str, str] = {}  # the first command with an option
    for name, facts in declared["command"].items():
        about = facts["help"][:1].upper() + facts["help"][1:] + "."
        command = commands.add_parser(name, help=facts["help"], description=facts.get("description", about))
        command.set_defaults(run=facts["run"], command=command, first=first)
        add_arguments(command, facts["arguments"], declared)
        command.usage = f"fewnode {name} [options]"
        for one in command._actions:
            first.setdefault(one.dest, command.prog)
            if one.required:  # the rest is listed below the usage
                value = one.metavar or (f"{{{','.join(one.choices)}}}" if one.choices else one.dest)
                command.usage = " ".join([command.usage, *one.option_strings, str(value)])
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 fine, 1 failed, 2 wrong input, 130 stopped by Ctrl-C."""
    if isinstance(sys.stdout, TextIOWrapper):  # a name that the terminal's encoding lacks is no reason to end
        sys.stdout.reconfigure(errors="backslashreplace")
    parser, Parser.words = build_parser(), list(sys.argv[1:] if argv is None else argv)
    args, unknown = parser.parse_known_args(Parser.words or ["--help"])
    if unknown:
        args.command.error(f"unrecognized arguments: {' '.join(unknown)} (several names are joined by commas: A,B)")
    if "OMP_NUM_THREADS" not in os.environ:  # for the libraries that a command will load
        os.environ["OMP_NUM_THREADS"] = str(free_cores())
    if args.raise_limits:
        os.environ["FEWNODE_RAISE_LIMITS"] = str(args.raise_limits)
    try:
        module, _, command = args.run.partition(".")
        with warnings.catch_warnings():
            warnings.showwarning = show_warning  # type: ignore[assignment]  # takes more arguments than it needs
            function = getattr(import_module(f".{module}", __name__), command)
            args.started = time.perf_counter()
            code: int | None = function(args)
        sys.stdout.flush()
        return code or 0
    except InputError as error:
        return _complain(with_flags(str(error), args), 2)
    except KeyboardInterrupt as stop:
        return _complain(str(stop) or "stopped", 130)
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}", 1)
    except FloatingPointError as error:
        return _complain(str(error), 1)


def free_cores() -> int:
    """Cores this process may use less those that others keep busy right now, so that it does not fight other programs;
    at least one."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    running = [1]  # this task; the fourth field of the file is "running/all" tasks
    with suppress(OSError, ValueError, IndexError):  # where the system does not tell
        for _ in range(5):
            running.append(int(LOAD.read_text().split()[3].partition("/")[0]))
            time.sleep(0.004)
    return min(allowed, max(1, allowed + 1 - round(median(running[1:] or running))))


def _complain(message: str, code: int) -> int:
    say(f"fewnode: {' '.join(message.split())}")
    return code
