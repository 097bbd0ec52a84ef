"""Arrays larger than memory: folders of arrays, and work by blocks of rows or columns."""

import hashlib
import mmap
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from inspect import isfunction, isgeneratorfunction
from itertools import pairwise
from pathlib import Path
from threading import local
from typing import Any, Self, TypeVar
from weakref import ref

import msgspec
import numpy as np
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor

from .errors import InputError
from .files import Manifest, PathLike, atomic_path, parse_json, readable, reading, write_json

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Progress = Callable[[str, float], None]  # called with what is being done and the finished share

CHUNK = 48 << 20  # bytes of a chunk of rows: large enough for quick products, small beside everything else
STORE, FORMAT, REMEDY = "store.json", 2, "import the graph again"


# Sizes in bytes


def format_bytes(size: float) -> str:
    """Bytes for people, and for ``--memory``; rounded up."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= scale:
            return f"{-(-size * 10 // scale) / 10:g}{unit}"
    return f"{int(size)}B"


def parsed_memory(text: str) -> int:
    """Bytes of ``4GB``, ``512M``, ``1.5g``, ``2000000000``."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if found is None:
        raise InputError(f"{text!r}: write a size, for example 4GB or 512MB")
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))


def default_memory() -> int:
    """Half of the memory that is available on this machine."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 512 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):  # not Linux
        return 4 << 30


def check_disk(folder: Path, needed: int) -> None:
    """Refuse to begin an array for which the disk has too little space."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        told = f"{format_bytes(needed)} are needed: {format_bytes(needed - free)} are missing"
        raise InputError(f"the disk of {folder} has {format_bytes(free)} free, {told}")


# Threads


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> ThreadpoolController:
    """The libraries with their own threads. Finding them takes milliseconds, so it is repeated only when more
    ``modules`` have been imported."""
    return ThreadpoolController()


class OneThread(ContextDecorator, local):
    """A context, or decorator, in which results do not depend on the number of threads: sums and factorisations, whose
    rounding depends on it, run in one thread. ``with one_thread.all()`` uses all threads again, for work in which one
    thread computes the whole sum of a row."""

    depth, threads = 0, 1

    def __enter__(self) -> Self:
        if self.depth == 0:
            self.threads, self.limits = torch.get_num_threads(), _thread_pools(len(sys.modules)).limit(limits=1)
            torch.set_num_threads(1)
        self.depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if self.depth == 0:
            torch.set_num_threads(self.threads)
            self.limits.restore_original_limits()

    @contextmanager
    def all(self) -> Iterator[None]:
        """All threads within this context."""
        before = torch.get_num_threads()
        torch.set_num_threads(max(before, self.threads))
        try:
            yield
        finally:
            torch.set_num_threads(before)


one_thread = OneThread()


def in_threads(work: Callable[[Piece], Result], pieces: Iterable[Piece], space: "Space") -> Iterator[Result]:
    """The results of the work on each piece, in order. Each is computed in one thread, so it does not depend on how
    many are computed at the same time; where the ``space`` bounds memory, that is one."""
    workers = 1 if space.on_disk or not one_thread.depth else one_thread.threads
    if workers == 1:
        yield from map(work, pieces)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(work, pieces)


def methods_in_one_thread(cls: type[Result]) -> type[Result]:
    """Make all public methods of a class compute in one thread, except generators."""
    for name, method in vars(cls).copy().items():
        if isfunction(method) and not isgeneratorfunction(method) and not name.startswith("_"):
            setattr(cls, name, one_thread(method))
    return cls


# Files of arrays


def digest(*parts: Tensor | str) -> str:
    """SHA-256 of tensors and texts."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part.encode() if isinstance(part, str) else part.cpu().contiguous().numpy().data)
    return sha.hexdigest()


def read_mapped(path: Path) -> np.memmap:
    """The array in a file, mapped copy-on-write."""
    with reading(path, "make it again"):
        return np.lib.format.open_memmap(readable(path), mode="c")


_CHECKED: set[tuple[int, ...]] = set()  # files that this process wrote, or has compared with their hash


def _identity(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _check_hash(path: Path) -> None:
    """Refuse a file whose last 32 bytes are not the SHA-256 of the bytes before them."""
    if (identity := _identity(readable(path))) in _CHECKED:
        return
    with path.open("rb") as file:
        sha, end = hashlib.sha256(), identity[2] - 32
        for at in range(0, end, 1 << 20):
            sha.update(file.read(min(1 << 20, end - at)))
        if file.read() != sha.digest():
            raise InputError(f"{path} is damaged: it has another SHA-256. Remove it; it will be made again")
    _CHECKED.add(identity)


class StoredNames(Sequence[str]):
    """The names of millions of nodes: ``letters`` in UTF-8, the i-th at ``ends[i] : ends[i + 1]``, and an index for
    lookups. All four ``arrays`` may be mapped from disk, so that processes share them; without the index (the last
    two) it is made when needed."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.arrays = arrays
        self.ends, self.letters = arrays[0].data, arrays[1].data  # faster to index one by one
        if len(index := arrays[2:]) == 2:
            self.by_hash = np.asarray(index[0]), np.asarray(index[1])

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], what: str) -> "StoredNames | None":
        """The names (or titles: ``what``) among the arrays of a store, if there are any."""
        found = [arrays.get(f"{what}_{part}") for part in ("ends", "letters", "order", "hashes")]
        return None if found[0] is None else cls(*(part for part in found if part is not None))

    @cached_property
    def by_hash(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes in the order of the hashes of their names, and these hashes, ``[N]`` each."""
        hashes = name_hashes(self)
        order = np.argsort(hashes, kind="stable")
        return order, hashes[order]

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, at: Any) -> Any:
        """The name of a node, or the names of a range of them."""
        chosen = range(len(self))[at]
        if isinstance(chosen, int):
            return str(self.letters[self.ends[chosen] : self.ends[chosen + 1]], "utf-8", "replace")
        assert chosen.step == 1
        ends = self.ends[chosen.start : chosen.stop + 1].tolist()
        return tuple(str(self.letters[a:b], "utf-8", "replace") for a, b in pairwise(ends))

    def __iter__(self) -> Iterator[str]:
        for at in range(0, len(self), 1 << 16):
            yield from self[at : at + (1 << 16)]

    def find(self, names: Iterable[str]) -> dict[str, int]:
        """The positions of those ``names`` that exist."""
        (order, hashes), wanted, found = self.by_hash, list(dict.fromkeys(names)), dict[str, int]()
        own = name_hashes(wanted)
        for name, hashed, at in zip(wanted, own.tolist(), np.searchsorted(hashes, own).tolist(), strict=True):
            while name not in found and at < len(order) and hashes[at] == hashed:  # two names may have one hash
                if self[node := int(order[at])] == name:
                    found[name] = node
                at += 1
        return found


def name_hashes(names: Iterable[str]) -> np.ndarray:
    """63-bit hashes of names, the same in every process."""
    digests = (hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names)
    return (np.frombuffer(b"".join(digests), ">u8") >> 1).astype(np.int64)


def name_arrays(names: Sequence[str], what: str = "name") -> dict[str, np.ndarray]:
    """The first two arrays of ``StoredNames``."""
    encoded = [name.encode() for name in names]
    ends = np.concatenate([[0], np.cumsum([len(part) for part in encoded])]).astype(np.int64)
    return {f"{what}_ends": ends, f"{what}_letters": np.frombuffer(b"".join(encoded), np.uint8)}


def write_name_index(folder: Path) -> None:
    """Write the index of the names in a folder into the same folder."""
    names = StoredNames(*(read_mapped(folder / f"name_{part}.npy") for part in ("ends", "letters")))
    for part, array in zip(("order", "hashes"), names.by_hash, strict=True):
        np.save(folder / f"name_{part}.npy", array, allow_pickle=False)


# Stores: folders with the arrays of a graph


class Facts(msgspec.Struct, frozen=True):
    """What a store holds beside arrays."""

    format: int
    self_loops: int = 0
    duplicates: int = 0
    width: int | None = None  # of sparse features
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    blocks: dict[str, int] = {}
    directed: bool = False  # only of a graph in the folder of a model
    edge_type_names: tuple[str, ...] = ()
    encoder: dict[str, Any] = {}  # fitted to the columns of the node table
    columns: dict[str, Any] = {}  # roles of the columns, to read the next tables in the same way
    roles: tuple[dict[str, str], ...] = ()  # what each column was taken for, and why
    notes: tuple[str, ...] = ()

    @classmethod
    def write(cls, folder: Path, graph: Mapping[str, Any]) -> None:
        """Describe the ``graph`` whose arrays are in a folder; with a manifest, the folder is a store."""
        write_json(folder / STORE, {"format": FORMAT, **graph})


class Store:
    """The arrays of a store by name, mapped, after a check of their hashes."""

    def __init__(self, path: PathLike, manifest: Manifest | None = None) -> None:
        self.folder = Path(path).absolute()
        if not (self.folder / STORE).exists():
            there = f"has no {STORE}" if self.folder.is_dir() else "does not exist"
            raise InputError(f"{path} is not a store: it {there}. Make one with `fewnode import --out {path}`")
        self.remedy = REMEDY if manifest is None else "fit the model again"  # whose folder it is
        self.manifest = manifest or Manifest.read(self.folder, REMEDY)
        with self.manifest.checking(self.folder, STORE, self.remedy) as file:
            self.facts = parse_json(file.read_bytes(), Facts, str(file))
        if self.facts.format != FORMAT:
            raise InputError(f"{path} is a store of format {self.facts.format}, this version reads {FORMAT}: {REMEDY}")

    @cached_property
    def arrays(self) -> dict[str, np.memmap]:
        names = [name for name in self.manifest.files if name.endswith(".npy")]
        for name in names:
            self.manifest.check(self.folder, name, self.remedy)
        return {name.removesuffix(".npy"): read_mapped(self.folder / name) for name in names}

    def digest(self) -> str:
        """A hash of structure and features, without labels and names."""
        files = {name: entry.sha256 for name, entry in self.manifest.files.items()}
        files = {name: sha for name, sha in files.items() if not name.startswith(("y.", "name_", "title_", STORE))}
        return hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()


def is_store(path: PathLike | None) -> bool:
    """Whether a path means a store: it ends in ``.store`` or is the folder of one."""
    return path is not None and (Path(path).suffix == ".store" or (Path(path) / STORE).exists())


# Spaces: folders for arrays that are as long as a graph


@dataclass(frozen=True)
class Space:
    """A ``folder`` for arrays, and the bytes of ``memory`` that the whole program may take.

    An array is written under a temporary name and renamed when it is complete: work that was killed goes on with the
    arrays it had finished. A file ends with the SHA-256 of its content, which is compared the first time that a process
    opens it. Without a folder, arrays are held in memory by their names, and all columns are one block.
    """

    folder: Path | None = None
    memory: int = 1 << 62
    maps: list["ref[np.memmap]"] = field(default_factory=list, repr=False)  # open ones
    held: dict[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def on_disk(self) -> bool:
        return self.folder is not None

    def results(self, work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> Iterator[Result]:
        """The results of the work on each piece, in order; pages are released after each."""
        for piece in pieces:
            yield work(piece)
            self.release()

    def by_rows(
        self, name: str, shape: tuple[int, int], dtype: torch.dtype, make: Callable[[slice], Tensor], width: int = 0
    ) -> Tensor:
        """``make(rows)`` for all rows, by chunks, because it takes several times the memory of its result. ``width`` is
        the number of values that making a row needs, if that is more than the row has."""
        pieces = self.rows(shape[0], 4 * max(shape[1], width))
        if self.folder is None:
            return torch.cat([make(rows).to(dtype) for rows in pieces])
        if not self.has(name):
            with self.writing(name, shape, dtype) as out:
                for rows in pieces:
                    out[rows] = make(rows)
        return self.open(name)

    def by_columns(
        self, name: str, shape: tuple[int, int], dtype: torch.dtype, make: Callable[[slice], Tensor], copies: int
    ) -> Tensor:
        """``make(block) [rows, columns of the block]`` for all columns, by blocks of which ``copies`` fit into
        memory."""
        if self.folder is None:
            return make(slice(0, shape[1])).to(dtype)
        if not self.has(name):
            with self.writing(name, shape, dtype) as out:
                for block in self.columns(*shape, copies):
                    part = make(block)
                    for rows in self.rows(shape[0], 4 * shape[1]):
                        out[rows, block] = part[rows]
        return self.open(name)

    def kept(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        """An array that is made by the first caller only."""
        if not self.has(name):
            self.write(name, make())
        return self.open(name)

    def within(self, name: str, *made_from: Tensor | str) -> "Space":
        """A folder inside this one. Its name includes a hash of what its arrays are ``made_from``, if given, so that
        models with the same inputs share them."""
        if self.folder is None:
            return Space()
        return replace(self, folder=self.folder / (f"{name}-{digest(*made_from)[:16]}" if made_from else name))

    def path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name}.npy"

    def has(self, name: str) -> bool:
        return name in self.held if self.folder is None else self.path(name).exists()

    def open(self, name: str) -> Tensor:
        """A finished array, mapped: pages are read when they are accessed."""
        if self.folder is None:
            return self.held[name]
        _check_hash(path := self.path(name))
        return self.mapped(read_mapped(path))

    def write(self, name: str, value: Tensor) -> None:
        if self.folder is None:
            self.held[name] = value
            return
        with self.writing(name, tuple(value.shape), value.dtype) as out:
            out.copy_(value)

    @contextmanager
    def writing(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Iterator[Tensor]:
        """A new array to fill; it gets its name when everything is written."""
        empty, target = np.zeros(0, dtype=str(dtype).removeprefix("torch.")), self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        check_disk(target.parent, int(np.prod(shape)) * dtype.itemsize)
        with atomic_path(target) as temporary:
            array = np.lib.format.open_memmap(temporary, "w+", empty.dtype, shape)
            with temporary.open("r+b") as file:
                if hasattr(os, "posix_fallocate"):  # otherwise a full disk would end the program with SIGBUS
                    os.posix_fallocate(file.fileno(), 0, temporary.stat().st_size)
                yield self.mapped(array)
                array.flush()
                file.write(hashlib.file_digest(file, "sha256").digest())
        _CHECKED.add(_identity(target))

    def drop(self, name: str) -> None:
        if self.held.pop(name, None) is None and self.folder is not None:
            self.path(name).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the folder and all that is in it."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def mapped(self, array: np.memmap) -> Tensor:
        """The array as a tensor whose pages ``release`` drops."""
        self.maps.append(ref(array))
        return torch.from_numpy(array)

    def release(self) -> None:
        """Drop the mapped pages; the system caches them as long as memory is free."""
        self.maps[:] = [one for one in self.maps if one() is not None]
        for one in self.maps:
            base = getattr(one(), "base", None)
            if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                base.madvise(mmap.MADV_DONTNEED)

    def rows(self, n: int, row_bytes: int) -> Iterator[slice]:
        """Ranges of rows, one chunk each; pages are released after each."""
        for rows in chunks(n, row_bytes):
            yield rows
            self.release()

    @staticmethod
    def memory_for(needed: int, n: int) -> int:
        """The memory needed for so many bytes beside Python and torch (500 MB) and the values kept for every node:
        label, degrees, scales, row pointers (64 bytes)."""
        return needed + (500 << 20) + 64 * n

    @classmethod
    def least(cls, n: int, copies: int) -> int:
        """The memory needed for ``copies`` of one column."""
        return cls.memory_for(column_bytes(n, copies), n)

    def check(self, needed: int, n: int, what: str) -> None:
        """Refuse work (``what``) whose bytes do not fit into memory."""
        if self.memory < (bound := self.memory_for(needed, n)):
            told, least = f"{format_bytes(self.memory)} of memory is too little", format_bytes(bound)
            raise InputError(f"{told} for {n:,} nodes: {what} needs {least}. Give memory= {least} or more")

    def columns(self, n: int, width: int, copies: int) -> list[slice]:
        """``width`` columns in blocks of which ``copies`` in single precision fit into memory, as even as cache lines
        (16 values) allow. A block has at most 96 columns: with longer rows the time per column grows."""
        if self.folder is None:
            return [slice(0, width)]
        self.check(column_bytes(n, copies), n, "one column at a time")
        most = min(96, 1 + (self.memory - self.least(n, copies)) // (4 * n * copies))
        unit = 16 if most >= 16 else 1
        units = -(-width // unit)
        parts = -(-units // (most // unit))
        ends = [min(unit * -(-units * part // parts), width) for part in range(parts + 1)]
        return [slice(*pair) for pair in pairwise(ends)]


def column_bytes(n: int, copies: int) -> int:
    """The bytes for work on one column."""
    return 2 * CHUNK + 4 * n * copies


MEMORY = Space()  # for arrays in memory that are not kept by name


def rows_at(x: Tensor, nodes: Tensor, space: Space) -> Tensor:
    """``x[nodes]``; if x is on disk, its pages are dropped again, because scattered rows touch most of them."""
    found = x[nodes]
    space.release()
    return found


def chunks(n: int, row_bytes: int) -> Iterator[slice]:
    """Ranges of ``n`` rows, each about ``CHUNK`` bytes."""
    size = max(256, CHUNK // max(row_bytes, 1))
    return (slice(at, min(at + size, n)) for at in range(0, max(n, 1), size))


def pieces(rows: slice, width: int) -> Iterator[slice]:
    """Small parts of a range of rows, which fit into the processor's cache."""
    size = max(64, (1 << 19) // width)
    return (slice(at, min(at + size, rows.stop)) for at in range(rows.start, rows.stop, size))
