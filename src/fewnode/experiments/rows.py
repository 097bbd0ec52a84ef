"""Result rows: one JSON line for each finished run. Rows are appended completely and checked, without importing
torch."""

import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ..errors import InputError, refused
from ..files import Count, Positive, Share, append_line, fcntl, readable
from .grid import Run

FORMAT = 1
Row = dict[str, Any]
SIZES = ("train_way", "train_shot", "train_query")
SWITCHES = ("node_adaptation", "class_adaptation", "task_adaptation")


class _Header(msgspec.Struct, tag_field="status"):
    format: Literal[1]
    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
    run: Run
    finished: str
    versions: dict[str, str]

    def __post_init__(self) -> None:
        if self.run.id != self.id:
            raise ValueError("its id is not that of its settings")
        for key, value in self.run.options.items():
            size, switch = type(value) is int and value >= 1, type(value) is bool
            if (key in SIZES and not size) or (key in SWITCHES and not switch):
                raise ValueError(f"its option {key} is {json.dumps(value)}")


class Failed(_Header, tag="failed"):
    """The row of a run that failed."""

    reason: str


class Succeeded(_Header, tag="ok"):
    """A row of a run that was trained and tested. ``correct`` are counts per task, ``per_class`` [correct, of all].

    Its parts must agree, so most changes of a digit are detected.
    """

    accuracy: Share
    interval: Share
    pool: Annotated[str, msgspec.Meta(max_length=64)]
    queries: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
    correct: Annotated[list[Count], msgspec.Meta(min_length=1, max_length=1_000_000)]
    per_class: dict[str, tuple[Count, Positive]]
    seconds: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1e10)]]
    peak_memory: Count
    training_free: bool
    task_transductive: bool
    uses_labels: bool
    notes: list[str] = []
    curve: list[tuple[Count, Share]] = []
    best: Share | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not {"train", "total"} <= self.seconds.keys():
            raise ValueError("its seconds are not those of a training")
        if max(self.correct) > self.queries:
            raise ValueError(f"a task has {max(self.correct)} right answers of {self.queries}")
        if not math.isclose(sum(self.correct) / (self.queries * len(self.correct)), self.accuracy, abs_tol=2e-6):
            raise ValueError(f"its accuracy {self.accuracy} is not that of its tasks")
        for name, (right, asked) in self.per_class.items():
            if right > asked:
                raise ValueError(f"class {name!r} has {right} right answers of {asked}")


def parse_row(line: bytes) -> Row:
    """The row in a line of JSON; an invalid one raises an ``InputError``."""
    with refused("it is not a result row", msgspec.MsgspecError, RecursionError, ValueError, TypeError):
        row = msgspec.json.decode(line, type=dict[str, Any])
        if type(row.get("format")) is int and row["format"] > FORMAT:
            raise ValueError(f"it has format {row['format']}, this version reads up to {FORMAT}; upgrade fewnode")
        return row | {"run": msgspec.convert(row, Succeeded | Failed).run.settings()}


def append(path: str | os.PathLike[str], row: Row) -> None:
    """Add a row; other processes may append to the same file at the same time."""
    append_line(path, json.dumps(row, allow_nan=False, separators=(",", ":")))


def read(path: str | os.PathLike[str]) -> list[Row]:
    """The rows of a file, or of all ``*.jsonl`` files of a folder: one for each run, a successful one if there is
    one."""
    place = Path(path)
    if not place.exists():
        raise InputError(f"there are no results at {place}; `fewnode run` writes them")
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    if not files:
        raise InputError(f"the folder {place} holds no .jsonl file; `fewnode run` writes them")
    found = latest(row for file in files for row in _lines(file))
    if not found and any(file.stat().st_size for file in files):
        raise InputError(f"{place}: no line of it is a result row that this version can read")
    return found


def latest(rows: Iterable[Row]) -> list[Row]:
    """One row for each run, in order of first appearance. A later row replaces an earlier one, unless it failed."""
    kept: dict[str, Row] = {}
    for row in rows:
        old = kept.get(row["id"])
        if old is None or row["status"] == "ok" or old["status"] != "ok":
            kept[row["id"]] = row
    return list(kept.values())


def _lines(file: Path) -> Iterator[Row]:
    """The rows of a file; an invalid line is skipped with a warning."""
    text = b"" if file.is_file() and not file.stat().st_size else readable(file).read_bytes()
    whole = text[: text.rfind(b"\n") + 1]  # what follows is a line still being written, or a killed writer's
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        try:
            yield parse_row(line)
        except InputError as error:
            warnings.warn(f"{file}, line {number} is left out: {error}", stacklevel=2)


class Claims:
    """The runs of a results file that are in progress, so that several processes do not do the same run.

    A claim is a lock on one byte of a file beside the results. The system releases it when its holder ends for any
    reason, so there is nothing to clean up.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        self.handle = os.open(file.with_name(f".{file.name}.claims"), os.O_RDWR | os.O_CREAT, 0o666)

    def take(self, run_id: str) -> bool:
        """Claim a run until ``close``; False if another process has claimed it."""
        if fcntl is None:  # Windows: rows can be written by one process at a time
            return True
        offset = int(run_id[:15], 16)  # 60 bits: far apart for different runs
        try:
            fcntl.lockf(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
        except OSError:
            return False
        return True

    def close(self) -> None:
        os.close(self.handle)
