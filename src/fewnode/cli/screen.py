"""Printing: one JSON document or a picture for people on standard output; progress on standard error."""

import argparse
import json
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


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
    """A bar on standard error that appears with the first byte; called with file, bytes so far, bytes in all."""

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
