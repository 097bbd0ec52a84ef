"""The journal of a session: every step is a line of a file, which is on disk before the step is answered."""

import json
import os
import time
from pathlib import Path
from typing import Any, TextIO

import msgspec

from ..errors import InputError
from ..files import append_line, lock

JOURNAL, LOCK = "labels.jsonl", "labels.lock"


class Journal:
    """The journal in a model's folder. While it is open, no other process can open it, unless ``read_only``.

    ``entries`` are the earlier steps, and ``notes`` are remarks about them. If another process has the journal open,
    opening it waits at most ``wait`` seconds. A journal that is read only is never changed: appended steps are lost.
    The same holds without a ``folder``.
    """

    def __init__(self, folder: Path | None, graph: str = "", *, read_only: bool = False, wait: float = 0.0) -> None:
        self.path = (folder or Path()) / JOURNAL
        self.notes: list[str] = []
        self._lock = None if read_only or folder is None else _locked(folder, wait)
        try:
            entries = [] if folder is None else self._read()
            self.announce(None)
            if not entries:
                self.append({"fewnode": "labels", "format": 1, "graph": graph})
            elif entries[0].get("graph", graph) != graph:
                told = "the graph has changed since these labels were given; they are kept by the nodes' names"
                self.notes.append(told)
        except BaseException:
            self.close()
            raise
        self.entries = [entry for entry in entries if "fewnode" not in entry]

    def append(self, entry: dict[str, Any], sync: bool = True) -> None:
        """Write one line. It is on disk when this returns; after an error, no part of it remains."""
        if self._lock is not None:
            append_line(self.path, json.dumps(entry, allow_nan=False), sync)

    def announce(self, url: str | None) -> None:
        """Record the address of the session, for a process that tries to open it again."""
        if self._lock is not None:
            self._lock.seek(0)
            self._lock.truncate()
            self._lock.write(f"process {os.getpid()}{f' at {url}' if url else ''}")
            self._lock.flush()

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _read(self) -> list[dict[str, Any]]:
        """The whole lines; what follows them is being written, or its writer was killed and told nobody of it."""
        lines = self.path.read_bytes().split(b"\n")[:-1] if self.path.exists() else []
        found = []
        for number, line in enumerate(lines, 1):
            try:
                found.append(msgspec.convert(json.loads(line), dict[str, Any]))
            except ValueError as error:
                raise InputError(
                    f"{self.path}, line {number} is damaged: {line[:40]!r}. Repair or delete that line, or move the "
                    "file away to start anew; nothing was changed"
                ) from error
        return found


def _locked(folder: Path, wait: float) -> TextIO:
    """The open lock file; the system releases the lock when the process ends, however it ends."""
    file, until = (folder / LOCK).open("a+", encoding="utf-8"), time.monotonic() + wait
    while not (ours := lock(file.fileno())) and time.monotonic() < until:
        time.sleep(0.01)
    if not ours:
        file.seek(0)
        owner = file.read() or "another process"
        file.close()
        raise InputError(f"{folder} is being labelled already by {owner}: use that window, or stop it")
    return file
