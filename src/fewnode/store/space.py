"""A folder for arrays that are as long as a graph, and how much of them may be in memory at once."""

import errno
import mmap
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from weakref import ref

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from .pages import write_array

Piece = TypeVar("Piece")
Progress = Callable[[str, float], None]  # told what is being done, and which part of it is done
Engine = Callable[[Callable[[Any], None], Sequence[Any], str], None]  # given a function, its arguments, what is done

CHUNK = 48 << 20  # bytes of a chunk of rows: large enough for quick products, small beside everything else
RUNTIME = 450 << 20  # bytes that Python and torch take before any work
PER_NODE = 64  # bytes of what is kept of every node all the time: label, degrees, scales, row pointers
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Space:
    """The ``folder`` of the arrays, and the bytes of ``memory`` that the whole program may take.

    An array is written under another name and gets its own when it is whole, so that whatever is there can be used:
    work that was killed goes on with the arrays it had finished.
    """

    folder: Path
    memory: int
    progress: Progress = field(default=lambda what, part: None, repr=False)
    engine: "Engine | None" = field(default=None, repr=False)  # does pieces of work; one after the other, if not given
    maps: list["ref[np.memmap]"] = field(default_factory=list, repr=False)  # those that are open, to be released

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: not who watches here, nor what is open."""
        return {"folder": self.folder, "memory": self.memory}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # a frozen dataclass has no other way to be filled

    def each(self, work: Callable[[Piece], None], pieces: Sequence[Piece], what: str) -> None:
        """Do the pieces of work, each of which leaves its result on disk."""
        if self.engine is not None:
            self.engine(work, pieces, what)
            return
        for number, piece in enumerate(pieces):
            self.progress(what, number / len(pieces))
            work(piece)

    def within(self, name: str) -> "Space":
        """A folder inside this one."""
        return replace(self, folder=self.folder / name)

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def has(self, name: str) -> bool:
        return self.path(name).exists()

    def open(self, name: str) -> Tensor:
        """A finished array, mapped into memory: pages of it are read when they are looked at."""
        return self.mapped(read_mapped(self.path(name)))

    def read(self, name: str) -> Tensor:
        """A finished array, copied into memory."""
        return torch.from_numpy(np.load(self.path(name), allow_pickle=False))

    @contextmanager
    def writing(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Iterator[Tensor]:
        """A new array to be filled; it is there under its name once everything was written."""
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(".part")
        needed = int(np.prod(shape)) * dtype.itemsize
        room(target.parent, needed)
        empty = np.zeros(0, dtype=str(dtype).removeprefix("torch."))
        array = np.lib.format.open_memmap(temporary, "w+", empty.dtype, shape)
        with full_disk(target.parent, needed), temporary.open("r+b") as file:
            if hasattr(os, "posix_fallocate"):  # or a disk that fills up later would end the program without a word
                os.posix_fallocate(file.fileno(), 0, temporary.stat().st_size)
        yield self.mapped(array)
        array.flush()
        temporary.replace(target)

    def write(self, name: str, value: Tensor) -> None:
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary, needed = target.with_suffix(".part"), value.numel() * value.dtype.itemsize
        room(target.parent, needed)
        with full_disk(target.parent, needed):
            write_array(temporary, value)
        temporary.replace(target)

    def drop(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    def mapped(self, array: np.memmap) -> Tensor:
        """The array as a tensor whose pages ``release`` lets go of."""
        self.maps.append(ref(array))
        return torch.from_numpy(array)

    def release(self) -> None:
        """Let go of the pages that were looked at: they stay in the system's cache as long as it has room for them."""
        self.maps[:] = [one for one in self.maps if one() is not None]
        for one in self.maps:
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

    def columns(self, n: int, width: int, copies: int) -> list[slice]:
        """Blocks of columns of ``width`` in all, of which ``copies`` in single precision fit into the memory."""
        least = RUNTIME + 2 * CHUNK + n * (PER_NODE + 4 * copies)
        if self.memory < least:
            raise InputError(
                f"{said(self.memory)} of memory are too few for {n:,} nodes: one column at a time takes {said(least)}. "
                f"Give --memory {said(least)} or more"
            )
        most = 1 + (self.memory - least) // (4 * n * copies)
        parts = -(-width // most)
        wide = -(-width // parts)
        wide = min(most, -(-wide // 16) * 16)  # a line of the processor's cache is 16 numbers
        return [slice(at, min(at + wide, width)) for at in range(0, width, wide)]


def read_mapped(path: Path) -> np.memmap:
    """An array of a file, mapped; a damaged file is named. Changes would stay in memory, but nobody makes any."""
    try:
        array = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}); make it again") from error
    assert isinstance(array, np.memmap)
    return array


def chunks(n: int, row_bytes: int) -> Iterator[slice]:
    """Ranges of ``n`` rows, each about ``CHUNK`` bytes."""
    size = max(256, CHUNK // max(row_bytes, 1))
    return (slice(at, min(at + size, n)) for at in range(0, n, size))


def by_rows(
    space: Space | None,
    name: str,
    shape: tuple[int, int],
    dtype: torch.dtype,
    make: Callable[[slice], Tensor],
    width: int = 0,
) -> Tensor:
    """``make(rows)`` for all rows: at once, or by chunks into an array of the ``space``, where memory is bounded.
    ``width`` is how many numbers the making of a row takes, if they are more than it has."""
    if space is None:
        return make(slice(None))
    if not space.has(name):
        with space.writing(name, shape, dtype) as out:
            for rows in space.rows(shape[0], 4 * max(shape[1], width)):
                out[rows] = make(rows)
    return space.open(name)


def scratch(space: Space, rows: int, width: int) -> Tensor:
    """A matrix of zeros in single precision, on disk, that nobody else sees and that goes with its last user."""
    space.folder.mkdir(parents=True, exist_ok=True)
    room(space.folder, 4 * rows * width)
    with tempfile.TemporaryFile(dir=space.folder) as file:
        file.truncate(4 * max(rows * width, 1))
        return space.mapped(np.memmap(file, np.float32, "r+", shape=(rows, width)))


def room(folder: Path, needed: int) -> None:
    """Refuse to begin an array for which the disk has no room."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"the disk of {folder} has {said(free)} free, {said(needed)} are needed: {said(needed - free)} are missing"
        )


@contextmanager
def full_disk(folder: Path, needed: int) -> Iterator[None]:
    """Say how much is missing, should the disk fill up while ``needed`` bytes are written."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        room(folder, needed)
        raise InputError(f"the disk of {folder} became full: make room for {said(needed)}") from error


def parsed_memory(text: str) -> int:
    """Bytes of ``4GB``, ``512M``, ``1.5g``, ``2000000000``."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    try:
        return int(float(found[1]) * UNITS[found[2].upper()]) if found else int(text)
    except ValueError:
        raise InputError(f"--memory {text!r}: write a size, for example 4GB or 512MB") from None


def free_memory() -> int:
    """Bytes that programs could still take on this machine."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):  # not Linux
        return 8 << 30


def said(size: float) -> str:
    """Bytes for people, and for ``--memory``; rounded up."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20)):
        if size >= scale:
            return f"{-(-size * 10 // scale) / 10:g}{unit}"
    return f"{int(size)}"


def default_memory() -> int:
    """Half of what is free."""
    return free_memory() // 2
