"""Every step of a session as a line of a file, on the disk before it is answered: a kill loses nothing."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import InputError

JOURNAL, LOCK, CUT = "labels.jsonl", "labels.lock", "labels.jsonl.cut"
FORMAT = 1


class Journal:
    """The journal in a model's folder; while it is open, no other process can open it.

    ``entries`` are the steps that were there, ``notes`` what had to be said about them.
    """

    def __init__(self, folder: Path, graph: str) -> None:
        self.path = folder / JOURNAL
        self.notes: list[str] = []
        self._lock = _locked(folder)
        try:
            self.entries = self._read(folder / CUT)
            self._file = self.path.open("ab")
        except BaseException:
            self._lock.close()
            raise
        if not self.entries and not self._file.tell():
            self.append({"fewnode": "labels", "format": FORMAT, "graph": graph})
            _sync_folder(folder)
        elif self.entries and self.entries[0].get("graph", graph) != graph:
            self.notes.append("the graph has changed since these labels were given; they are kept by the nodes' names")
        self.entries = [entry for entry in self.entries if "fewnode" not in entry]

    def append(self, entry: dict[str, Any], sync: bool = True) -> None:
        """Write one line; when this returns it is on the disk, and if it fails nothing of it stays."""
        line = json.dumps(entry, ensure_ascii=True, allow_nan=False).encode() + b"\n"
        start = self._file.tell()
        try:
            self._file.write(line)
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())
        except OSError:
            self._file = _reopened(self._file, self.path, start)
            raise

    def announce(self, url: str) -> None:
        """Say where the session can be seen, for whoever tries to open it again."""
        _write_owner(self._lock, url)

    def close(self) -> None:
        self._file.close()
        self._lock.close()

    def _read(self, cut: Path) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")
        tail = lines.pop()  # nothing, if the last line is whole
        entries = []
        for number, line in enumerate(lines, 1):
            entry = _parsed(line)
            if entry is None and number == len(lines) and not tail:
                tail, lines = line, lines[:-1]
            elif entry is None:
                raise InputError(
                    f"{self.path}, line {number} is damaged: {line[:40]!r}. Repair or delete that line, or move the "
                    "file away to start anew; nothing was changed"
                )
            else:
                entries.append(entry)
        if tail:
            self._cut_off(cut, tail, sum(len(line) + 1 for line in lines))
        return entries

    def _cut_off(self, cut: Path, tail: bytes, whole: int) -> None:
        with cut.open("ab") as file:
            file.write(tail + b"\n")
            os.fsync(file.fileno())
        os.truncate(self.path, whole)
        self.notes.append(f"the last line of {self.path} was cut off while it was written; it is kept in {cut.name}")


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _reopened(file: Any, path: Path, size: int) -> Any:
    with suppress(OSError):  # the disk is full: what was buffered cannot be written either
        file.close()
    os.truncate(path, size)
    return path.open("ab")


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _locked(folder: Path) -> Any:
    """The open lock file; the system lets go of it when the process ends, however it ends."""
    file = (folder / LOCK).open("a+", encoding="utf-8")
    try:
        _take(file)
    except OSError:
        file.seek(0)
        owner = _parsed(file.read().encode()) or {}
        file.close()
        where = f" at {owner['url']}" if owner.get("url") else ""
        raise InputError(
            f"{folder} is being labelled already by process {owner.get('pid', '?')}{where}: use that window, or stop it"
        ) from None
    _write_owner(file, None)
    return file


def _take(file: Any) -> None:
    if os.name == "posix":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:  # a byte far behind the text, which others must be able to read
        import msvcrt

        file.seek(1 << 20)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]


def _write_owner(file: Any, url: str | None) -> None:
    file.seek(0)
    file.truncate()
    file.write(json.dumps({"pid": os.getpid(), "url": url}))
    file.flush()
