"""Printing: one JSON document or a picture for people on standard output; progress on standard error."""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from ..training import Progress


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def emit(args: argparse.Namespace, document: Any, draw: "Callable[[Console, Any], None]") -> None:
    """Print ``document`` as JSON if asked for, else let ``draw(console, document)`` show it."""
    if args.json:
        sys.stdout.write(json.dumps(finite(document), ensure_ascii=False, allow_nan=False) + "\n")
        return
    from rich.console import Console

    draw(Console(highlight=False), document)


def finite(value: Any) -> Any:
    """``value`` with NaN and infinity as None: JSON has no word for them."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(message: str) -> None:
    """A line on standard error at once: a person waits behind it."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def load_dataset(name: str, data_dir: str | None) -> Any:
    """Graph and split of a data set; a download, if one is needed, shows a bar."""
    say(f"Loading {name} ...")
    from ..datasets import load_dataset as load

    bar = DownloadBar()
    try:
        return load(name, data_dir, bar)
    finally:
        bar.close()


class DownloadBar:
    """A bar on standard error that appears with the first byte; told the file, bytes so far, bytes in all."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.bar: Any = None

    def __call__(self, file: str, done: int, total: int | None) -> None:
        if self.bar is None:
            from rich import progress
            from rich.console import Console

            columns = progress.BarColumn(), progress.DownloadColumn(), progress.TimeRemainingColumn()
            self.bar = progress.Progress("{task.description}", *columns, console=Console(stderr=True))
            self.bar.start()
        if file not in self.files:
            self.files[file] = self.bar.add_task(file, total=total)
        self.bar.update(self.files[file], completed=done, total=total)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


class TrainingBar:
    """A training's progress on standard error: a live bar in a terminal, else a line every few seconds."""

    PAUSE = 5.0  # seconds between lines where there is no terminal

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        columns = progress.BarColumn(), progress.MofNCompleteColumn(), "{task.fields[facts]}"
        self.bar = progress.Progress(*columns, progress.TimeRemainingColumn(), console=console, transient=True)
        self.live = console.is_terminal
        self.task: Any = None
        self.said = -math.inf
        self.accuracy: float | None = None

    def __enter__(self) -> "TrainingBar":
        if self.live:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.bar.stop()

    def __call__(self, now: "Progress") -> None:
        self.accuracy = self.accuracy if now.accuracy is None else now.accuracy
        checked = "" if self.accuracy is None else f"  validation {100 * self.accuracy:.1f} %"
        facts = f"loss {now.loss:.4f}{checked}  {now.steps_per_second:.1f} steps/s"
        if self.live:
            if self.task is None:
                self.task = self.bar.add_task("", total=now.steps, facts=facts)
            self.bar.update(self.task, completed=now.step, facts=facts)
        elif time.monotonic() - self.said >= self.PAUSE or now.step == now.steps:
            left = (now.steps - now.step) / max(now.steps_per_second, 1e-9)
            say(f"step {now.step}/{now.steps}  {facts}  at most {left:.0f} s left")
            self.said = time.monotonic()
