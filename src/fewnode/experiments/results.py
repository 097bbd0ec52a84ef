"""Result rows on disk: one JSON line for each finished run, appended whole, never lost, read without torch."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import InputError

fcntl: Any  # None on Windows: there, rows can be read, and written by one process at a time
try:
    fcntl = import_module("fcntl")
except ImportError:
    fcntl = None

FORMAT = 1
Row = dict[str, Any]


def append(path: str | os.PathLike[str], row: Row) -> None:
    """Add one line, in one write, under a lock: other processes may append to the same file at the same time.

    What a killed writer left of a line is removed first; a full disk leaves the file as it was.
    """
    line = (json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n").encode()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with _locked(path) as handle:
        end = _repair(handle)
        try:
            written = os.write(handle, line)
            if written != len(line):
                raise OSError(f"{path}: only {written} of {len(line)} bytes could be written; is the disk full?")
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, end)
            raise


@contextmanager
def _locked(path: str | os.PathLike[str]) -> Iterator[int]:
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _repair(handle: int) -> int:
    """Cut off what follows the last line end (nobody is writing: the lock is ours); returns the file's new size."""
    size = os.fstat(handle).st_size
    at = size
    while at > 0:
        start = max(0, at - 65536)
        found = os.pread(handle, at - start, start).rfind(b"\n")
        if found >= 0:
            at = start + found + 1
            break
        at = start
    if at != size:
        os.ftruncate(handle, at)
    return at


def read(path: str | os.PathLike[str]) -> list[Row]:
    """The rows of a file, or of all ``*.jsonl`` files of a folder: one a run, a success if there is one."""
    place = Path(path)
    if not place.exists():
        raise InputError(f"there are no results at {place}; `fewnode run` writes them")
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    if not files:
        raise InputError(f"the folder {place} holds no .jsonl file; `fewnode run` writes them")
    return latest(row for file in files for row in _lines(file))


def latest(rows: Iterable[Row]) -> list[Row]:
    """One row for each run, in order of first appearance: a later one replaces an earlier, unless it only failed."""
    kept: dict[str, Row] = {}
    for row in rows:
        old = kept.get(row["id"])
        if old is None or row["status"] == "ok" or old["status"] != "ok":
            kept[row["id"]] = row
    return list(kept.values())


def _lines(file: Path) -> Iterator[Row]:
    text = file.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]  # what follows is a line still being written, or a killed writer's
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            row = json.loads(line)
            if row["format"] > FORMAT:
                raise InputError(
                    f"{file}, line {number} has format {row['format']}, this version reads up to {FORMAT}: "
                    "upgrade fewnode to read it"
                )
            row["id"], row["status"], row["run"]["dataset"]
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{file}, line {number} is not a result row ({type(error).__name__}: {error}); delete that line"
            ) from error
        yield row


class Claims:
    """Which runs of a results file are being done, so that several processes do not do the same one.

    A claim is a lock on one byte of a file beside the results; the system drops it when its holder dies, however that
    happens, so there is nothing to clean up.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        self.handle = os.open(file.with_name(f".{file.name}.claims"), os.O_RDWR | os.O_CREAT, 0o666)

    def take(self, run_id: str) -> bool:
        """Claim a run; False if another process has it."""
        if fcntl is None:
            return True
        try:
            fcntl.lockf(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(run_id))
        except OSError:
            return False
        return True

    def drop(self, run_id: str) -> None:
        if fcntl is not None:
            fcntl.lockf(self.handle, fcntl.LOCK_UN, 1, _place(run_id))

    def close(self) -> None:
        os.close(self.handle)


def _place(run_id: str) -> int:
    return int(run_id[:15], 16)  # 60 bits: a file offset, far apart for different runs
