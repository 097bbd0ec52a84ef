"""Printing: one JSON document or a picture for people on standard output; progress on standard error."""

import argparse
import json
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from ..training.callbacks import TrainingProgress


# Control characters (escape sequences begin with one), but not line ends and tabs; marks that turn the order of
# letters; and surrogates, which cannot be printed at all.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def emit(args: argparse.Namespace, document: Any, draw: "Callable[[Console, Any], None]") -> None:
    """Print ``document`` as JSON if asked for, else let ``draw(console, document)`` show it."""
    if args.json:
        text = json.dumps(finite(document), ensure_ascii=False, allow_nan=False)
        sys.stdout.write(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
        return
    draw(console(), printable(document))


def console(stderr: bool = False) -> "Console":
    """Where people look; names in square brackets or between colons are names, not markup."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def printable(value: Any) -> Any:
    """``value`` with every character of its texts visible: an escape sequence in a label must not reach a terminal."""
    if isinstance(value, str):
        return _UNSEEN.sub(lambda found: f"\\x{ord(found[0]):02x}", value)
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    return [printable(item) for item in value] if isinstance(value, list | tuple) else value


def finite(value: Any) -> Any:
    """``value`` with NaN and infinity as None: JSON has no word for them."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(message: str) -> None:
    """A line on standard error at once: a person waits behind it."""
    sys.stderr.write(f"{printable(message)}\n")
    sys.stderr.flush()


def stages() -> Callable[[str, float], None]:
    """A listener that says once what is being done, each time it is something else."""
    last = ""

    def tell(what: str, part: float) -> None:
        nonlocal last
        if what not in (last, "done"):
            say(f"{what} ...")
        last = what

    return tell


def clock(seconds: float) -> str:
    """Seconds for people: 42 s, 7 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def pair(text: str) -> tuple[str, str]:
    """Name and value of a ``--set``."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise InputError(f"--set {text!r}: write option=value, for example --set hidden_channels=32")
    return name.strip().replace("-", "_"), value.strip()


@contextmanager
def notes_said() -> Iterator[None]:
    """The library's warnings as plain lines; those of the packages below it are left out."""

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any) -> None:
        if Path(__file__).parents[1] in Path(filename).parents:
            say(f"note: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]  # takes more than it needs
        yield


def load_with_bar(name: str, data_dir: str | None) -> Any:
    """Graph and split of a data set; a download, if one is needed, shows a bar."""
    say(f"Loading {name} ...")
    from ..datasets import load_dataset

    with DownloadBar() as bar:
        return load_dataset(name, data_dir, bar)


class Bar:
    """Progress on standard error: a live bar in a terminal, else a line every few seconds.

    ``columns`` follow the bar itself; they may show ``{task.description}`` and ``{task.fields[facts]}``.
    """

    PAUSE = 5.0  # seconds between lines where there is no terminal

    def __init__(self, *columns: Any, transient: bool = True) -> None:
        from rich import progress

        screen = console(stderr=True)
        texts = [progress.TextColumn(part, markup=False) if isinstance(part, str) else part for part in columns]
        shown = progress.BarColumn(), *texts, progress.TimeRemainingColumn()
        name = progress.TextColumn("{task.description}", markup=False)
        self.bar = progress.Progress(name, *shown, console=screen, transient=transient)
        self.live, self.said = screen.is_terminal, -math.inf
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.tasks:
            self.bar.stop()

    def show(self, name: str, done: int, total: int | None, facts: str = "", line: str = "") -> None:
        """Say how far ``name`` is: on the bar, or as ``line`` where there is no terminal."""
        if self.live:
            if not self.tasks:
                self.bar.start()
            if name not in self.tasks:
                self.tasks[name] = self.bar.add_task(printable(name), total=total, facts=facts)
            self.bar.update(self.tasks[name], completed=done, total=total, facts=facts)
        elif line and (time.monotonic() - self.said >= self.PAUSE or done == total):
            say(line)
            self.said = time.monotonic()


class DownloadBar(Bar):
    """Told the file, bytes so far, bytes in all."""

    def __init__(self) -> None:
        from rich.progress import DownloadColumn

        super().__init__(DownloadColumn(), transient=False)

    def __call__(self, file: str, done: int, total: int | None) -> None:
        share = "" if not total else f" of {total / 1e6:,.1f}"
        self.show(file, done, total, line=f"{file}: {done / 1e6:,.1f}{share} MB")


class NodeBar(Bar):
    """Told how many nodes are classified, and of how many."""

    def __init__(self) -> None:
        from rich.progress import MofNCompleteColumn

        super().__init__(MofNCompleteColumn())

    def __call__(self, done: int, total: int) -> None:
        self.show("classifying", done, total, line=f"{done:,} of {total:,} nodes classified" if self._long() else "")

    def _long(self) -> bool:
        """Whether it takes long enough to be worth a line."""
        self.said = time.monotonic() if self.said == -math.inf else self.said
        return time.monotonic() - self.said >= self.PAUSE


class TrainingBar(Bar):
    """Told how far a training is."""

    def __init__(self) -> None:
        from rich.progress import MofNCompleteColumn

        super().__init__(MofNCompleteColumn(), "{task.fields[facts]}")
        self.accuracy: float | None = None

    def __call__(self, now: "TrainingProgress") -> None:
        self.accuracy = self.accuracy if now.accuracy is None else now.accuracy
        checked = "" if self.accuracy is None else f"  validation {100 * self.accuracy:.1f} %"
        facts = f"loss {now.loss:.4f}{checked}  {now.steps_per_second:.1f} steps/s"
        left = (now.steps - now.step) / max(now.steps_per_second, 1e-9)
        line = f"step {now.step}/{now.steps}  {facts}  at most {left:.0f} s left"
        self.show("training", now.step, now.steps, facts, line)
