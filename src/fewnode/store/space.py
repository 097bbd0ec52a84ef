"""A folder for arrays that are as long as a graph, and how much of them may be in memory at once."""

import mmap
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from weakref import ref

import numpy as np
import torch
from torch import Tensor

from ..cluster import Engine
from ..errors import InputError
from ..storage.files import atomic_path
from .pages import RowWriter, read_mapped, write_array
from .remote import Remote
from .sending import Sent, files_by_name, returned
from .sizes import full_disk, room, said

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Progress = Callable[[str, float], None]  # told what is being done, and which part of it is done

CHUNK = 48 << 20  # bytes of a chunk of rows: large enough for quick products, small beside everything else
RUNTIME = 500 << 20  # bytes that Python and torch take before any work
WIDEST = 96  # columns of a block: rows of neighbours that are longer take more time for each column
LINE = 16  # numbers of a line of the processor's cache
PER_NODE = 64  # bytes of what is kept of every node all the time: label, degrees, scales, row pointers


@dataclass(frozen=True)
class Space:
    """The ``folder`` of the arrays, and the bytes of ``memory`` that the whole program may take.

    An array is written under another name and gets its own when it is whole, so that whatever is there can be used:
    work that was killed goes on with the arrays it had finished.
    """

    folder: Path
    memory: int
    progress: Progress = field(default=lambda what, part: None, repr=False)
    engine: Engine | None = field(default=None, repr=False)  # does pieces of work; one after the other, if not given
    remote: Remote | None = None  # the folder in object storage of which ``folder`` is this machine's copy
    maps: list[tuple["ref[np.memmap]", int]] = field(default_factory=list, repr=False)  # open ones, with their inodes
    durable: bool = True  # whether arrays outlive a machine that stops: they are on the disk before they have a name

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: not who watches here, nor what is open; another machine has its own cache."""
        folder = self.folder if self.remote is None else None
        return {"folder": folder, "memory": self.memory, "remote": self.remote, "durable": self.durable}

    def __setstate__(self, state: dict[str, Any]) -> None:
        remote: Remote | None = state["remote"]
        folder = state["folder"] if remote is None else remote.folder()
        durable = state["durable"]
        self.__init__(folder, state["memory"], remote=remote, durable=durable)  # type: ignore[misc]  # frozen: filled so

    @property
    def place(self) -> str:
        """Where all machines find the folder."""
        return str(self.folder) if self.remote is None else self.remote.url

    def each(self, work: Callable[[Piece], None], pieces: Sequence[Piece], what: str) -> None:
        """Do the pieces of work, each of which leaves its result on disk."""
        for _ in self.results(work, pieces, what):
            pass

    def results(self, work: Callable[[Piece], Result], pieces: Sequence[Piece], what: str) -> Iterator[Result]:
        """What the work gives back for each piece, in their order: the same sums, whoever does it. To be read only."""
        if self.engine is None:
            done: Iterable[Result] = map(work, pieces)
        else:
            with files_by_name(self.file_of):
                done = map(returned, self.engine(Sent(work), pieces))
        self.progress(what, 0.0)
        for number, result in enumerate(done, 1):
            yield result
            self.release()
            self.progress(what, number / len(pieces))

    def fill(
        self,
        arrays: Sequence[Tensor],
        make: Callable[[slice], Tensor],
        pieces: Sequence[slice],
        what: str,
        columns: Sequence[slice] = (slice(None),),
    ) -> None:
        """Make rows and put them into arrays that are being written, some of the ``columns`` into each. Whoever makes
        them writes them, unless every machine has a copy of the folder."""
        if self.engine is None or self.remote is not None:
            for rows, made in zip(pieces, self.results(make, pieces, what), strict=True):
                for array, some in zip(arrays, columns, strict=True):
                    array[rows] = made[:, some]
            return
        files = [found[1] for array in arrays if (found := self.file_of(array))]
        assert len(files) == len(arrays)
        self.each(RowWriter(make, files, columns), pieces, what)

    def within(self, name: str) -> "Space":
        """A folder inside this one."""
        return replace(self, folder=self.folder / name, remote=self.remote and self.remote.within(name))

    def passing(self, name: str) -> "Space":
        """A folder inside this one for arrays that only the work at hand needs. On one machine they do not wait for the
        disk: they are there until the machine stops, and the folder is called after the time it runs."""
        running = _boot()
        if running is None or self.remote is not None or not (self.engine is None or self.engine.alone):
            return self.within(name)
        return replace(self.within(f"{name}-{running}"), durable=False)

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def has(self, name: str) -> bool:
        return self.path(name).exists() if self.remote is None else self.remote.has(self.path(name).name)

    def local(self, name: str) -> Path:
        """The file of a finished array on this machine."""
        path = self.path(name)
        if self.remote is not None and not path.exists():
            self.remote.fetch(path.name)
        return path

    def open(self, name: str) -> Tensor:
        """A finished array, mapped into memory: pages of it are read when they are looked at."""
        return self.mapped(read_mapped(self.local(name)))

    def read(self, name: str) -> Tensor:
        """A finished array, copied into memory."""
        return torch.from_numpy(np.load(self.local(name), allow_pickle=False))

    def kept(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        """A small array that is made once, whoever asks for it first."""
        if not self.has(name):
            self.write(name, make())
        return self.read(name)

    @contextmanager
    def writing(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Iterator[Tensor]:
        """A new array to be filled; it is there under its name once everything was written."""
        empty = np.zeros(0, dtype=str(dtype).removeprefix("torch."))
        with self._whole(name, int(np.prod(shape)) * dtype.itemsize) as (temporary, needed):
            array = np.lib.format.open_memmap(temporary, "w+", empty.dtype, shape)
            with full_disk(temporary.parent, needed), temporary.open("r+b") as file:
                if hasattr(os, "posix_fallocate"):  # or a disk that fills up later would end the program without a word
                    os.posix_fallocate(file.fileno(), 0, temporary.stat().st_size)
            yield self.mapped(array)
            if self.durable:
                array.flush()

    def write(self, name: str, value: Tensor) -> None:
        needed = value.numel() * value.dtype.itemsize
        with self._whole(name, needed) as (temporary, _), full_disk(temporary.parent, needed):
            write_array(temporary, value, self.durable)

    @contextmanager
    def _whole(self, name: str, needed: int) -> Iterator[tuple[Path, int]]:
        """A file to be filled for an array of so many bytes, which gets its name once everything is in it."""
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        room(target.parent, needed)
        with atomic_path(target) as temporary:
            yield temporary, needed
            if self.remote is not None:
                self.remote.put(temporary, target.name)

    def drop(self, name: str) -> None:
        if self.remote is not None:
            self.remote.remove(self.path(name).name)
        self.path(name).unlink(missing_ok=True)

    def share(self, *files: str) -> None:
        """Let other machines have files that were written into the folder; the last one says that all are there."""
        if self.remote is not None:
            for name in files:
                self.remote.put(self.folder / name, name)

    def brought(self, last: str, *files: str) -> bool:
        """Whether such files are there; they are on this machine then."""
        if self.remote is None or not self.remote.has(last):
            return self.remote is None and (self.folder / last).exists()
        for name in (last, *files):
            self.remote.fetch(name)
        return True

    def clear(self) -> None:
        """Remove the folder and all that is in it."""
        if self.remote is not None:
            self.remote.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def mapped(self, array: np.memmap) -> Tensor:
        """The array as a tensor whose pages ``release`` lets go of."""
        named = array.filename is not None and Path(array.filename).exists()
        self.maps.append((ref(array), Path(str(array.filename)).stat().st_ino if named else 0))
        return torch.from_numpy(array)

    def file_of(self, array: Tensor | np.ndarray) -> tuple[Remote | None, str] | None:
        """The file that all of an array is mapped from, as any machine finds it; None for one in memory."""
        at = array.data_ptr() if isinstance(array, Tensor) else array.ctypes.data
        for found, inode in ((one(), inode) for one, inode in self.maps):
            if found is not None and found.size and found.ctypes.data == at and found.shape == array.shape:
                path = Path(str(found.filename))
                if not path.exists() or path.stat().st_ino != inode:
                    return None  # a file without a name, or another array has it now
                return (None, str(path)) if self.remote is None else self.remote.handle(path)
        return None

    def release(self) -> None:
        """Let go of the pages that were looked at: they stay in the system's cache as long as it has room for them."""
        self.maps[:] = [(one, inode) for one, inode in self.maps if one() is not None]
        for one, _ in self.maps:
            base = getattr(one(), "base", None)
            if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                base.madvise(mmap.MADV_DONTNEED)

    def rows(self, n: int, row_bytes: int) -> Iterator[slice]:
        """Ranges of rows that are a chunk each; pages are released after each."""
        for rows in chunks(n, row_bytes):
            yield rows
            self.release()

    def has_room(self, needed: int, n: int) -> bool:
        """Whether so many bytes fit into the memory, beside what is kept of every one of ``n`` nodes."""
        return self.memory_for(needed, n) <= self.memory

    @staticmethod
    def memory_for(needed: int, n: int) -> int:
        """The memory into which so many bytes fit beside that."""
        return needed + RUNTIME + PER_NODE * n

    @staticmethod
    def least(n: int, copies: int) -> int:
        """The memory into which one column at a time fits, ``copies`` times."""
        return RUNTIME + 2 * CHUNK + n * (PER_NODE + 4 * copies)

    def check(self, n: int, copies: int) -> int:
        """That least memory; refuse if there is not even so much."""
        if self.memory < (least := self.least(n, copies)):
            raise InputError(
                f"{said(self.memory)} of memory are too few for {n:,} nodes: one column at a time takes {said(least)}. "
                f"Give --memory {said(least)} or more"
            )
        return least

    def columns(self, n: int, width: int, copies: int) -> list[slice]:
        """Blocks of columns of ``width`` in all, of which ``copies`` in single precision fit into the memory: as many
        as are done at once, or a multiple of that, and as even as lines of the cache allow."""
        least = self.check(n, copies)
        most = min(WIDEST, 1 + (self.memory - least) // (4 * n * copies))
        unit = LINE if most >= LINE else 1
        units, slots = -(-width // unit), 1 if self.engine is None else self.engine.slots
        turns = -(-units // (slots * (most // unit)))
        parts = min(turns * slots, units)
        ends = [min(unit * -(-units * part // parts), width) for part in range(parts + 1)]
        return [slice(*pair) for pair in pairwise(ends)]


def _boot() -> str | None:
    """A name for the time since this machine was started; None where it cannot be told."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
    return None


def chunks(n: int, row_bytes: int) -> Iterator[slice]:
    """Ranges of ``n`` rows, each about ``CHUNK`` bytes."""
    size = max(256, CHUNK // max(row_bytes, 1))
    return (slice(at, min(at + size, n)) for at in range(0, n, size))
