"""What commands print: one JSON document or text and tables on standard output, progress on standard error."""

import argparse
import json
import re
import sys
import textwrap
import time
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from rich.console import Console

# Control characters (escape sequences begin with one) except line ends and tabs, marks that change the writing
# direction, and surrogates, which cannot be encoded.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BAR = "\ue000"  # stands for | in a value, until the cells of a table have been told apart


def emit(args: argparse.Namespace, document: Any, template: str, **more: Any) -> None:
    """Print ``document`` as JSON if ``--json`` was given, else by a template, which may need ``more``. A document says
    how many ``seconds`` the command took, unless it has others."""
    if isinstance(document, dict):
        document = {**document, "seconds": document.get("seconds", round(time.perf_counter() - args.started, 3))}
    if not args.json:
        sys.stdout.write(fill(template, **(document if isinstance(document, dict) else {"rows": document}), **more))
        return
    finite = json.loads(json.dumps(document), parse_constant=lambda _: None)  # JSON lacks NaN and infinity
    text = json.dumps(finite, ensure_ascii=False)
    sys.stdout.write(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def printable(text: str) -> str:
    """``text`` with every character visible: an escape sequence in a label must not reach the terminal."""
    return _UNSEEN.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def say(message: str) -> None:
    """Print a line on standard error at once."""
    sys.stderr.write(f"{printable(message)}\n")
    sys.stderr.flush()


def fill(template: str, **facts: Any) -> str:
    """``texts/{template}.txt``, filled in from ``facts``."""
    return texts().get_template(f"{template}.txt").render(facts).replace(_BAR, "|")


@cache
def texts() -> "Environment":
    """The templates of what commands print. Values are made printable; None is shown as nothing."""
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.PackageLoader("fewnode.cli", "texts"),
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: "" if value is None else printable(str(value)).replace("\n", "\\x0a").replace("|", _BAR),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= dict(table=_table, wrap=_wrap, number=number, percent=percent, clock=clock, size=_size)
    return found


def _size(number: int) -> str:
    from ..store import format_bytes

    return format_bytes(number)


def _table(text: str) -> str:
    """Lines with ``|`` between their cells as columns; one whose title begins with ``>`` is aligned to the right.

    A narrow terminal wraps the columns that are aligned to the left; elsewhere (a pipe, a file) nothing is wrapped or
    cut.
    """
    from rich.table import Table

    titles, *rows = ([cell.strip() for cell in line.split("|")] for line in text.strip("\n").split("\n"))
    table = Table(box=None, pad_edge=False, show_header=any(title.strip(">") for title in titles))
    for title in titles:
        figures = title.startswith(">")
        table.add_column(title.removeprefix(">"), justify="right" if figures else "left", no_wrap=figures)
    for row in rows:
        table.add_row(*row)
    console = _console()
    if not console.is_terminal:
        console.width = 1 << 16
    with console.capture() as drawn:
        console.print(table)
    return re.sub(" +\n", "\n", drawn.get()) if rows else ""


def _wrap(text: str) -> str:
    """Lines that fit into the terminal."""
    width = get_terminal_size().columns
    lines = (textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n"))
    return "\n".join("\n".join(line) for line in lines)


def _console(stderr: bool = False) -> "Console":
    """Square brackets and colons in names are no markup."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def number(value: float | None, spec: str = ",") -> str:
    return "" if value is None else format(value, spec)


def percent(share: float | None, spec: str = ".1f") -> str:
    return "" if share is None else f"{100 * share:{spec}} %"


def clock(seconds: float) -> str:
    """A duration: 42 s, 7 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def show_warning(message: Warning | str, category: type[Warning], filename: str, *_: Any) -> None:
    """Print a warning of the library as a line; those of other packages are dropped."""
    if Path(__file__).parents[1] in Path(filename).parents:
        say(f"note: {message}")


class Bar(AbstractContextManager["Bar"]):
    """Progress on standard error: live bars in a terminal, else a line every few seconds and at the end."""

    pause = 5.0  # seconds between lines

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = _console(stderr=True)
        name, text = (TextColumn(f"{{task.{part}}}", markup=False) for part in ("description", "fields[text]"))
        self.progress = Progress(name, BarColumn(), text, TimeRemainingColumn(), console=console, transient=True)
        self.live, self.last = console.is_terminal, time.monotonic()
        self.tasks: dict[str, Any] = {}

    def __exit__(self, *_: object) -> None:
        if self.progress.live.is_started:
            self.progress.stop()

    def stage(self, what: str, part: float) -> None:
        """Show what is being done, and the share of it that is done."""
        if what != "done":
            self.show(what, part, 1.0, f"{100 * part:.0f} %")

    def count_nodes(self, done: int, total: int) -> None:
        self.show("classifying", done, total, f"{done:,} of {total:,} nodes")

    def show(self, name: str, done: float, total: float | None, text: str) -> None:
        """Show how far the task ``name`` is."""
        if self.live:
            if name not in self.tasks:
                self.progress.start()
                self.tasks[name] = self.progress.add_task(printable(name), text="")
            self.progress.update(self.tasks[name], completed=done, total=total, text=text)
        elif time.monotonic() - self.last >= self.pause or done == total:
            say(f"{name}: {text}")
            self.last = time.monotonic()

    def remove(self, name: str) -> None:
        """Take the bar of a finished task away."""
        if name in self.tasks:
            self.progress.remove_task(self.tasks.pop(name))


def load_with_bar(name: str, data_dir: str | None) -> Any:
    """Graph and split of a data set; a download shows its progress."""
    say(f"Loading {name} ...")
    from ..datasets.loading import open_dataset

    def tell(file: str, done: int, total: int | None) -> None:
        share = f" of {total / 1e6:,.1f}" if total else ""
        bar.show(file, done, total, f"{done / 1e6:,.1f}{share} MB")

    with Bar() as bar:
        return open_dataset(name, data_dir, progress=tell)
