"""Run the commands of the pages under docs/ and write down what they print; ``--check`` only compares.

A block that begins with three backticks and ``console`` is a session in a folder with the files that
``examples/own_graph.py`` writes: lines with ``$`` are typed, what follows is printed. All blocks of a page are one
session. Words must agree to the letter; seconds may be any, other numbers may differ a little from machine to machine.
"""

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from fewnode import cli

ROOT = Path(__file__).parents[1]
PAGES = ("docs/your-graph.md",)
BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
SECONDS = re.compile(r"\b\d+(\.\d+)? s\b")
TOKEN = re.compile(r"p\d{4}|[-+]?\d[\d,]*(?:\.\d+)?|\S+?(?=[\d\s]|$)|\S")
NAME, NUMBER = re.compile(r"p\d{4}$"), re.compile(r"[-+]?\d[\d,]*(\.\d+)?$")
WIDTH = 100


@contextlib.contextmanager
def session() -> Iterator[Path]:
    """A folder with the files of the example, to work in."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        runpy.run_path(str(ROOT / "examples/own_graph.py"))["write_files"](Path(folder))
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def printed(command: str) -> str:
    """What a command prints: of fewnode, or of ``head -N FILE``."""
    words = shlex.split(command, comments=True)
    if words[0] == "head":
        lines = Path(words[2]).read_text(encoding="utf-8").splitlines(keepends=True)
        return "".join(lines[: int(words[1].removeprefix("-"))])
    if words[0] != "fewnode":
        raise SystemExit(f"{command}: only fewnode and head can be in a transcript")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(words[1:])
        except SystemExit as end:  # --help
            code = int(end.code or 0)
    said = [line for line in err.getvalue().splitlines() if line.startswith("fewnode: " if code else "note: ")]
    text = "".join(f"{line.rstrip()}\n" for line in [*said, *out.getvalue().splitlines()])
    return text.replace(f"{Path.cwd()}/", "")


def replayed(page: str) -> str:
    """The page with its commands run again."""

    def again(block: re.Match[str]) -> str:
        commands = [line[2:] for line in block[0].splitlines() if line.startswith("$ ")]
        started = time.perf_counter()
        texts = [f"$ {command}\n{printed(command)}" for command in commands]
        clocked = block[0].rstrip().splitlines()[-1].startswith("# ")  # a last line with # says how long it all took
        return "\n".join(texts) + (f"\n# {time.perf_counter() - started:.0f} s\n" if clocked else "")

    os.environ["COLUMNS"] = str(WIDTH)
    with session():
        return BLOCK.sub(again, page)


def differences(stored: str, fresh: str) -> list[str]:
    """Lines that say something else."""
    pairs = zip_longest(stored.splitlines(), fresh.splitlines(), fillvalue="")
    return [f"{old!r} is now {new!r}" for old, new in pairs if not alike(old, new)]


def alike(old: str, new: str) -> bool:
    parts = [TOKEN.findall(SECONDS.sub("# s", line)) for line in (old, new)]
    return len(parts[0]) == len(parts[1]) and all(map(_same, *parts))


def _same(old: str, new: str) -> bool:
    if NUMBER.match(old) and NUMBER.match(new):
        a, b = (float(text.replace(",", "")) for text in (old, new))
        return abs(a - b) <= max(5.0, 0.1 * abs(a))
    return old == new or bool(NAME.match(old) and NAME.match(new))


def main(check: bool) -> int:
    wrong = 0
    for name in PAGES:
        path = ROOT / name
        stored = path.read_text(encoding="utf-8")
        fresh = replayed(stored)
        found = differences(stored, fresh)
        wrong += bool(found)
        print(f"{name}: {'as stored' if not found else 'other'}", *found, sep="\n  ")
        if not check:
            path.write_text(fresh, encoding="utf-8")
    return 1 if check and wrong else 0


if __name__ == "__main__":
    from update_benchmarks import checking

    sys.exit(main(checking(__doc__)))
