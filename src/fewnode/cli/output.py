"""What commands print: one JSON document or text and tables on standard output, progress on standard error."""

import argparse
import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.console import Console

    from ..training.loop import TrainingProgress

# Control characters (escape sequences begin with one) except line ends and tabs, marks that change the writing
# direction, and surrogates, which cannot be encoded.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def emit(args: argparse.Namespace, document: Any, draw: Callable[[Any], None]) -> None:
    """Print ``document`` as JSON if ``--json`` was given, else let ``draw(document)`` show it,
    and the command in ``document["next"]``."""
    if not args.json:
        draw(document)
        if isinstance(document, dict) and document.get("next"):
            show("  {next}", document, wrap=False)
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


def show(text: str, facts: Mapping[str, Any] | None = None, *, wrap: bool = True, style: str = "") -> None:
    """Print a line of text, or the template ``text`` filled in from ``facts``; what is to be copied is not wrapped."""
    filled = text if facts is None else _fill(text, facts)
    _console().print(printable(filled), soft_wrap=not wrap, style=style)


def show_table(
    columns: Mapping[str, str], records: Sequence[Mapping[str, Any]], most: int | None = None, rest: str = ""
) -> None:
    """Print a table: its ``columns`` map titles to templates, which are filled in from each record.

    A title with a leading ``>`` aligns its column to the right. A narrow terminal wraps the columns that are aligned to
    the left; elsewhere (a pipe, a file) nothing is wrapped or cut. Of more than ``most`` records the others are counted
    in a last line, which calls them ``rest``.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=any(title.strip("> ") for title in columns))
    for title in columns:
        figures = title.startswith(">")
        name = printable(title.removeprefix(">"))
        table.add_column(name, justify="right" if figures else "left", no_wrap=figures)
    for record in records[:most]:
        table.add_row(*(printable(_fill(template, record)) for template in columns.values()))
    console = _console()
    if not console.is_terminal:
        console.width = 1 << 16
    if records:
        console.print(table)
    if most is not None and len(records) > most:
        show(f"... {len(records) - most} {rest}")


class _Filler(Formatter):
    """``str.format`` with "" for None and a space before the percent sign."""

    def format_field(self, value: Any, spec: str) -> str:
        if value is None:
            return ""
        text = format(value, spec)
        return f"{text[:-1]} %" if spec.endswith("%") else text


def _fill(template: str, facts: Mapping[str, Any]) -> str:
    return _Filler().vformat(template, (), facts)


def _console(stderr: bool = False) -> "Console":
    """Square brackets and colons in names are no markup."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def clock(seconds: float) -> str:
    """A duration: 42 s, 7 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print the library's warnings as lines; drop those of other packages."""

    def note(message: Warning | str, category: type[Warning], filename: str, *_: Any) -> None:
        if Path(__file__).parents[1] in Path(filename).parents:
            say(f"note: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = note  # type: ignore[assignment]  # takes more arguments than it needs
        yield


class Bar:
    """Progress on standard error: live bars in a terminal, else a line every few seconds and at the end."""

    pause = 5.0  # seconds between lines

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = _console(stderr=True)
        name, text = (TextColumn(f"{{task.{part}}}", markup=False) for part in ("description", "fields[text]"))
        self.progress = Progress(name, BarColumn(), text, TimeRemainingColumn(), console=console, transient=True)
        self.live, self.last = console.is_terminal, time.monotonic()
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress.live.is_started:
            self.progress.stop()

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


class DownloadBar(Bar):
    """Called with the file, the bytes so far and the bytes in all."""

    def __call__(self, file: str, done: int, total: int | None) -> None:
        share = f" of {total / 1e6:,.1f}" if total else ""
        self.show(file, done, total, f"{done / 1e6:,.1f}{share} MB")


class NodeBar(Bar):
    """Called with the number of nodes that are classified so far, and of all."""

    def __call__(self, done: int, total: int) -> None:
        self.show("classifying", done, total, f"{done:,} of {total:,} nodes")


class StageBar(Bar):
    """Called with what is being done and the share of it that is done."""

    def __call__(self, what: str, part: float) -> None:
        if what != "done":
            self.show(what, part, 1.0, f"{100 * part:.0f} %")


class TrainingBar(Bar):
    """Called with the progress of a training."""

    accuracy: float | None = None

    def __call__(self, now: "TrainingProgress") -> None:
        self.accuracy = self.accuracy if now.accuracy is None else now.accuracy
        checked = "" if self.accuracy is None else f"  validation {percent(self.accuracy)}"
        text = f"step {now.step}/{now.steps}  loss {now.loss:.4f}{checked}  {now.steps_per_second:.1f} steps/s"
        self.show("training", now.step, now.steps, text)


def load_with_bar(name: str, data_dir: str | None) -> Any:
    """Graph and split of a data set; a download shows its progress."""
    say(f"Loading {name} ...")
    from ..datasets import load_dataset

    with DownloadBar() as bar:
        return load_dataset(name, data_dir, bar)
