"""Arrays larger than memory: a folder of them, blocks of columns, and where the work on them is done."""

import copyreg
import errno
import hashlib
import mmap
import os
import pickle
import re
import shutil
import socket
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload
from weakref import ref

import msgspec
import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from .errors import InputError
from .files import NAME, Manifest, PathLike, atomic_path, cache_dir, lock, parse_json, sha256, write_json

# --- Ray: a cluster that was asked for, or one of this machine alone, and pieces of work as its tasks.
RETRIES = 3  # of a task that was lost with its machine
PER_SLOT = 4  # tasks of a call for each that the cluster can do at once: small pieces are handed over together
AHEAD = 2  # tasks handed to the cluster for each that it can do at once: no machine waits for the next one
PATIENCE = 10.0  # seconds for an address to answer


def connected(address: str | None) -> Any:
    """Ray's module, connected to the cluster at ``address`` (None: a cluster of this machine alone)."""
    where = _start(address)
    try:
        import ray
    except ImportError as error:
        raise InputError("the engine ray needs Ray: pip install 'fewnode[ray]'") from error
    if ray.is_initialized():
        return ray
    if address is not None:
        _check_address(address)
    try:
        ray.init(**where, log_to_driver=False, configure_logging=False, include_dashboard=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"--address {address}: Ray does not start there ({_first_line(error)})") from error
    return ray


def _start(address: str | None) -> dict[str, Any]:
    """How to reach Ray: a cluster that was asked for, or one of this machine alone, which only this machine can reach.

    Whoever talks to the latter must know its token (Ray 2.52 or later); a cluster has the rule it was started with.
    """
    if address is not None:
        return {"address": address}
    if "ray" not in sys.modules:  # Ray looks at these when it is imported
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # on every system: no clusters, so loopback
    return {"address": "local", "_node_ip_address": "127.0.0.1"}


def _check_address(address: str) -> None:
    """Refuse an address where nobody answers: Ray would wait for many minutes."""
    if address in ("auto", "local"):
        return
    remedy = "start a cluster with `ray start --head --port 6379`, and give the address that it prints"
    found = re.fullmatch(r"(?:ray://)?([^:/]+|\[[^]]+\]):(\d+)", address)
    if not found or not 0 < int(found[2]) < 1 << 16:
        raise InputError(f"--address {address}: write HOST:PORT; {remedy}")
    try:
        socket.create_connection((found[1].strip("[]"), int(found[2])), PATIENCE).close()
    except OSError as error:
        raise InputError(f"--address {address}: nobody answers there ({_first_line(error)}); {remedy}") from error


def task_options(needs: Mapping[str, float]) -> dict[str, Any]:
    """Ray's options of a task with such needs: ``{"cpu": 1, "gpu": 0.5, "memory": 4e9}`` and resources of one's own."""
    known = {"cpu": "num_cpus", "gpu": "num_gpus", "memory": "memory"}
    own = {known[key]: value for key, value in needs.items() if key in known}
    other = {key: value for key, value in needs.items() if key not in known}
    return {**own, "resources": other, "max_retries": RETRIES}


class Engine(Protocol):
    """Does work on pieces, maybe elsewhere: ``slots`` of them at a time, each of which may take ``memory`` bytes.
    ``alone``: all of it on this machine."""

    slots: int
    memory: int
    alone: bool

    def __call__(self, work: Callable[[Any], Any], pieces: Sequence[Any]) -> Iterator[Any]: ...

    def check(self, path: str) -> None: ...


@dataclass(frozen=True)
class Lack:
    """What a machine says that it cannot do."""

    host: str
    why: str


class RayPieces:
    """Pieces of work as tasks: each takes files and leaves files, or gives back what is small; one that was lost with
    its machine is done again elsewhere.

    Args:
        address: of the cluster; None for one of this machine alone.
        memory: bytes that a task may take; Ray puts no more of them on a machine than it has room for.
        needs: what else a task needs, ``{"cpu": 1}``.
    """

    def __init__(self, address: str | None = None, memory: int | None = None, needs: Mapping[str, float] = {}) -> None:
        if "memory" in needs:
            raise InputError("--per-task memory: what a task may take is said with --memory")
        self.ray = connected(address)
        alive = [node for node in self.ray.nodes() if node["Alive"]]
        self.alone = {node["NodeManagerHostname"] for node in alive} == {socket.gethostname()}
        machines = [node["Resources"] for node in alive]
        self.needs = {"cpu": 1.0, **needs}
        self.memory = memory or int(min(_for_each_task(one, self.needs["cpu"]) for one in machines))
        largest = int(max(one.get("memory", 0) for one in machines))
        if self.memory > largest:
            raise InputError(
                f"--memory {self.memory >> 20}MB: no machine of the cluster has so much for a task, the largest has "
                f"{largest >> 20}MB; give less"
            )
        self.slots = max(1, sum(_tasks_at_once(one, self.needs["cpu"], self.memory) for one in machines))
        self.task = self.ray.remote(_do).options(**task_options({**self.needs, "memory": self.memory}))

    def __call__(self, work: Callable[[Any], Any], pieces: Sequence[Any]) -> Iterator[Any]:
        """What the work gives back for each piece, in their order. The work is handed over at once, and once to every
        machine instead of with every piece."""
        return self._results(self.ray.put(work), pieces)

    def _results(self, shared: Any, pieces: Sequence[Any]) -> Iterator[Any]:
        threads, waiting = max(1, int(self.needs["cpu"])), deque[Any]()
        size = max(1, len(pieces) // (PER_SLOT * self.slots))
        left = (pieces[at : at + size] for at in range(0, len(pieces), size))
        try:
            while True:
                while len(waiting) < AHEAD * self.slots and (some := next(left, None)) is not None:
                    waiting.append(self.task.remote(shared, some, threads))
                if not waiting:
                    return
                yield from self._result(waiting.popleft())
        finally:
            for reference in waiting:
                self.ray.cancel(reference, force=True)

    def _result(self, reference: Any) -> list[Any]:
        try:
            found: list[Any] | Lack = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            raise InputError(
                f"a piece of work was lost on the cluster more than {RETRIES} times, or failed ({_first_line(cause)}); "
                "the same command goes on with the pieces that are done"
            ) from error
        if isinstance(found, Lack):
            raise InputError(f"the machine {found.host} of the cluster says: {found.why}")
        return found

    def check(self, path: str) -> None:
        """Refuse a path that some machine of the cluster does not see."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        for node in self.ray.nodes():
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1:
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                task = self.ray.remote(_sees).options(num_cpus=1, scheduling_strategy=there, max_retries=RETRIES)
                seen = True
                with suppress(self.ray.exceptions.RayError):  # a machine that was lost meanwhile gets no work either
                    seen = self.ray.get(task.remote(path))
                if not seen:
                    raise InputError(
                        f"the machine {node['NodeManagerHostname']} of the cluster does not see {path}: give a folder "
                        "that all machines share under the same name, or a store in object storage (s3://..., gs://...)"
                    )


def _for_each_task(resources: Mapping[str, float], cpus: float) -> float:
    """Half of the memory of a machine, divided among the tasks that its processors can do at once."""
    return resources.get("memory", 0) / 2 / max(1, resources.get("CPU", 0) // max(cpus, 0.01))


def _tasks_at_once(resources: Mapping[str, float], cpus: float, memory: int) -> int:
    return int(min(resources.get("CPU", 0) / max(cpus, 0.01), resources.get("memory", 0) / memory))


def _do(work: Callable[[Any], Any], pieces: Sequence[Any], threads: int) -> list[Any] | Lack:
    import torch

    torch.set_num_threads(threads)
    try:
        return [work(piece) for piece in pieces]
    except InputError as error:
        return Lack(socket.gethostname(), str(error))


def _sees(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - the path comes from another machine


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


# --- The names of millions of nodes, on disk: bytes one after the other, and where each ends.
FEW = 100  # names that are looked for one by one; for more, all names are gone through once
BATCH = 1 << 16


class StoredNames(Sequence[str]):
    """``letters`` are the names in UTF-8, the i-th at ``ends[i] : ends[i + 1]``; both may be mapped from disk."""

    def __init__(self, ends: np.ndarray, letters: np.ndarray) -> None:
        self.ends, self.letters = ends, letters

    def __len__(self) -> int:
        return len(self.ends) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            assert step == 1
            ends = self.ends[start : stop + 1].tolist()
            if len(ends) < 2:
                return ()
            text = self.letters[ends[0] : ends[-1]].tobytes()
            first = ends[0]
            return tuple(text[a - first : b - first].decode() for a, b in pairwise(ends))
        at = at + len(self) if at < 0 else at
        if not 0 <= at < len(self):
            raise IndexError(at)
        name: bytes = self.letters[self.ends[at] : self.ends[at + 1]].tobytes()
        return name.decode()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.find([name]))

    def __iter__(self) -> Iterator[str]:
        for at in range(0, len(self), BATCH):
            yield from self[at : at + BATCH]

    def find(self, names: Iterable[str]) -> dict[str, int]:
        """Where those of the ``names`` are that there are."""
        wanted = set(names)
        if len(wanted) > FEW:
            return {name: i for i, name in enumerate(self) if name in wanted}
        found = ((name, self._place(name.encode())) for name in wanted)
        return {name: at for name, at in found if at is not None}

    def _place(self, name: bytes) -> int | None:
        """All names of that length, narrowed down letter by letter."""
        ends = np.asarray(self.ends)
        left = np.flatnonzero(ends[1:] - ends[:-1] == len(name))
        for k in range(len(name) - 1, -1, -1):  # ids differ in their last letters
            left = left[self.letters[ends[left] + k] == name[k]]
        return int(left[0]) if len(left) else None


def name_arrays(names: Sequence[str]) -> dict[str, np.ndarray]:
    """The two arrays of ``StoredNames``."""
    encoded = [name.encode() for name in names]
    ends = np.concatenate([[0], np.cumsum([len(part) for part in encoded])]).astype(np.int64)
    return {"name_ends": ends, "name_letters": np.frombuffer(b"".join(encoded), np.uint8)}


# --- Large matrices in memory, and their way from and to files without a second copy of them in memory.
LARGE = 64 << 20  # bytes from which pages of two megabytes are asked for
PORTION = 8 << 20  # bytes written at a time


def matrix(rows: int, width: int, like: Tensor | None = None) -> Tensor:
    """An empty matrix in single precision, or of the type of another. On large pages where the system has them: rows of
    a neighbour are anywhere in it, and with small pages finding out where takes as long as reading them."""
    size = 4 * rows * width
    if like is not None and (like.dtype != torch.float32 or not like.is_cpu):
        return like.new_empty(rows, width)
    if size < LARGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(rows, width)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.from_numpy(np.frombuffer(pages, np.float32).reshape(rows, width))


def read_matrix(path: Path) -> Tensor:
    """A matrix of a ``.npy`` file in single precision."""
    with path.open("rb") as file:
        npy.read_magic(file)
        shape, _, dtype = npy.read_array_header_1_0(file)
        assert dtype == np.float32 and len(shape) == 2
        out = matrix(*shape)
        left = _bytes(out)
        while len(left) and (count := file.readinto(left)):
            left = left[count:]
    if len(left):
        raise InputError(f"{path} is damaged (its last {len(left):,} bytes are missing); make it again")
    return out


def read_mapped(path: Path) -> np.memmap:
    """An array of a file, mapped; a damaged file is named. Changes would stay in memory, but nobody makes any."""
    try:
        array = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}); make it again") from error
    assert isinstance(array, np.memmap)
    return array


def write_array(path: Path, value: Tensor, durable: bool = True) -> None:
    """A ``.npy`` file; on the disk when this returns, if it is to be ``durable``."""
    array, flat = value.contiguous().numpy(), _bytes(value.contiguous())
    with path.open("wb") as file:
        told = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
        npy.write_array_header_1_0(file, told)
        for at in range(0, len(flat), PORTION):
            file.write(flat[at : at + PORTION])
        file.flush()
        if durable:
            os.fsync(file.fileno())


def write_rows(path: Path, first: int, value: Tensor) -> None:
    """Rows from ``first`` on of a ``.npy`` file that is as long as it will be.

    Written, not mapped, by a handle that cannot read: machines that fill a shared file side by side must not write
    back the rest of a page, which is another's.
    """
    with path.open("rb") as file:
        npy.read_magic(file)
        _, _, dtype = npy.read_array_header_1_0(file)
        start = file.tell()
    array = np.ascontiguousarray(value.numpy(), dtype)
    left, at = memoryview(array.reshape(-1).view(np.uint8).data), start + first * array[0].nbytes
    handle = os.open(path, os.O_WRONLY)
    try:
        while len(left):
            count = os.pwrite(handle, left, at)
            left, at = left[count:], at + count
    finally:
        os.close(handle)


@dataclass(frozen=True)
class RowWriter:
    """Makes some rows, and writes some ``columns`` of them into each of the ``files``."""

    make: Callable[[slice], Tensor]
    files: Sequence[str]
    columns: Sequence[slice]

    def __call__(self, rows: slice) -> None:
        made = self.make(rows)
        for file, some in zip(self.files, self.columns, strict=True):
            write_rows(Path(file), rows.start, made[:, some])


def _bytes(value: Tensor) -> memoryview:
    return memoryview(value.numpy().reshape(-1).view(np.uint8).data)


# --- Folders in object storage (s3, gs, ...), of which every machine keeps the files it has looked at.
URL = re.compile(r"[a-z][a-z0-9+.-]+://")
WAIT = 0.2  # seconds until it is looked again whether another process has fetched a file


def is_url(path: PathLike | None) -> bool:
    """Whether a path names object storage."""
    return path is not None and bool(URL.match(str(path))) and not str(path).startswith("file://")


def absolute(path: PathLike) -> str:
    """A path as it is found from anywhere: a URL, or an absolute path (of ``file://``, too)."""
    return str(path) if is_url(path) else str(Path(str(path).removeprefix("file://")).absolute())


@dataclass(frozen=True)
class Remote:
    """The folder ``inside`` the store at ``root``; ``key`` tells one state of that store from another."""

    root: str
    key: str
    inside: str = ""

    @classmethod
    def of(cls, url: str) -> "Remote":
        """The store at a URL, as it is now; its manifest is on this machine."""
        found = cls(url.rstrip("/"), "")
        with _told(f"{found.root}/{NAME}"):
            fs, path = _file_system(found.root)
            if not fs.exists(f"{path}/{NAME}"):
                raise InputError(f"{url} holds no {NAME}, so it is no store: copy the folder of one there, all of it")
            manifest = fs.cat_file(f"{path}/{NAME}")
        key = hashlib.sha256(found.root.encode() + manifest).hexdigest()[:16]
        found = replace(found, key=key)
        found.folder().mkdir(parents=True, exist_ok=True)
        if not (found.folder() / NAME).exists():
            with atomic_path(found.folder() / NAME) as temporary:
                temporary.write_bytes(manifest)
        return found

    @property
    def url(self) -> str:
        return f"{self.root}/{self.inside}".rstrip("/")

    def folder(self) -> Path:
        """The copy on this machine."""
        return cache_dir() / "stores" / f"{self.root.rpartition('/')[2]}-{self.key}" / self.inside

    def handle(self, path: Path) -> tuple["Remote", str]:
        """How another machine names a file of this one's copy of the store."""
        whole = replace(self, inside="")
        return whole, str(path.relative_to(whole.folder()))

    def within(self, name: str) -> "Remote":
        return replace(self, inside=f"{self.inside}/{name}".lstrip("/"))

    def has(self, name: str) -> bool:
        with _told(f"{self.url}/{name}"):
            fs, path = _file_system(self.url)
            found: bool = fs.exists(f"{path}/{name}")
            return found

    def fetch(self, name: str, manifest: Manifest | None = None) -> Path:
        """A file on this machine; one of the ``manifest`` is refused if it is not as it was written. Of several
        processes that want it, one fetches it."""
        target = self.folder() / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f".{target.name}.lock").open("wb") as held:
            while not lock(held.fileno()):
                time.sleep(WAIT)
            if not target.exists():
                self._tidy()
                with _told(f"{self.url}/{name}"), atomic_path(target) as temporary:
                    fs, path = _file_system(self.url)
                    fs.get_file(f"{path}/{name}", str(temporary))
                    if manifest is not None and sha256(temporary) != manifest.files[name].sha256:
                        raise InputError(f"{self.url}/{name} is damaged: its SHA-256 is not the one that was written")
        return target

    def put(self, file: Path, name: str) -> None:
        """Copy a file into the folder: it is there when all of it is."""
        with _told(f"{self.url}/{name}"):
            fs, path = _file_system(self.url)
            fs.put_file(str(file), f"{path}/{name}")

    def remove(self, name: str | None = None) -> None:
        """Remove a file, or all of the folder, if it is there."""
        with _told(self.url), suppress(FileNotFoundError):
            fs, path = _file_system(self.url)
            fs.rm(path, recursive=True) if name is None else fs.rm_file(f"{path}/{name}")

    def _tidy(self) -> None:
        """Remove this machine's copies of files that are no longer in the storage: steps that are over."""
        if not self.inside:
            return
        now, (fs, path) = time.time(), _file_system(self.url)
        with suppress(FileNotFoundError):
            there = {found.rpartition("/")[2] for found in fs.ls(path, detail=False)}
            for file in self.folder().glob("*.npy"):
                if file.name not in there and file.stat().st_mtime < now - 60:  # a fresh one may be newer than the list
                    file.unlink(missing_ok=True)


@lru_cache(maxsize=8)
def _opened(protocol: str) -> Any:
    try:
        import fsspec

        return fsspec.filesystem(protocol, use_listings_cache=False)
    except ImportError as error:
        extra = {"s3": "'fewnode[s3]'", "gs": "'fewnode[gs]'", "gcs": "'fewnode[gs]'"}.get(protocol)
        raise InputError(
            f"{protocol}:// needs more: pip install {extra or f'what fsspec needs for {protocol}'}"
        ) from error
    except ValueError as error:
        raise InputError(f"{protocol}:// is not known to fsspec; s3://BUCKET/FOLDER, gs://BUCKET/FOLDER are") from error


def _file_system(url: str) -> tuple[Any, str]:
    protocol, _, path = url.partition("://")
    fs = _opened(protocol)
    fs.invalidate_cache()
    return fs, fs._strip_protocol(url) or path


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Whatever goes wrong in the storage is an ``InputError`` that names the URL."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # every kind of storage has its own words
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise InputError(f"{url} cannot be reached ({type(error).__name__}: {reason})") from error


# --- What a store says of itself: what graph it holds, and shape, length and hash of every array.
FORMAT = 1
STORE = "store.json"
REMEDY = "import the graph again"
OF_NODES = ("features", "x_", "name_")  # what edges do not need


class Facts(msgspec.Struct, frozen=True):
    """What is known of a graph beside its arrays, and of each array its type and shape."""

    format: int
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    self_loops: int = 0
    duplicates: int = 0
    width: int | None = None  # of sparse features
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()  # what was not used of the tables

    @classmethod
    def write(cls, folder: Path, graph: Mapping[str, Any]) -> None:
        """Describe the arrays in a folder, and the ``graph`` they are; with the hashes, the folder is a store."""
        arrays = {path.stem: _kind(read_mapped(path)) for path in sorted(folder.glob("*.npy"))}
        write_json(folder / STORE, {"format": FORMAT, "arrays": arrays, **graph})
        Manifest.write(folder)


class Store:
    """The arrays of a store by name, mapped; what is not as it was written is refused."""

    def __init__(self, path: PathLike, verify: bool = False) -> None:
        self.verify, self.remote = verify, Remote.of(str(path)) if is_url(path) else None
        self.folder = Path(absolute(path)) if self.remote is None else self.remote.folder()
        self.manifest = self._manifest(path)
        if self.remote is not None:
            self.remote.fetch(STORE, self.manifest)
        with self.manifest.checking(self.folder, STORE, REMEDY) as file:
            document = file.read_bytes()
        told = msgspec.json.decode(document)
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            found = told.get("format") if isinstance(told, dict) else None
            raise InputError(f"{path} is a store of format {found}, this version reads {FORMAT}: {REMEDY}")
        self.facts = parse_json(document, Facts, str(self.folder / STORE))

    def _manifest(self, path: PathLike) -> Manifest:
        if self.remote is None and not (self.folder / STORE).exists():
            there = f"has no {STORE}, so it is none" if self.folder.is_dir() else "does not exist"
            raise InputError(f"{path} is to be a store but {there}: make one with `fewnode import --out {path}`")
        return Manifest.read(self.folder, REMEDY)

    @cached_property
    def arrays(self) -> dict[str, np.memmap]:
        return self.opened()

    def opened(self, structure: bool = False) -> dict[str, np.memmap]:
        """All arrays; or, for work that looks at the edges alone, all but features and names."""
        return {name: self._array(name) for name in self.facts.arrays if not (structure and name.startswith(OF_NODES))}

    def _array(self, name: str) -> np.memmap:
        path, told = self.folder / f"{name}.npy", self.facts.arrays[name]
        if self.remote is not None:
            self.remote.fetch(path.name, self.manifest)
        elif not path.exists():
            raise InputError(f"{path} is gone, so the store is damaged: {REMEDY}")
        elif self.verify:
            with self.manifest.checking(self.folder, path.name, REMEDY):
                pass
        array = read_mapped(path)
        if _kind(array) != told or path.stat().st_size != self.manifest.files[path.name].bytes:
            raise InputError(f"{path} holds {_kind(array)}, the store says {told}: {REMEDY}")
        return array

    def digest(self, labels: bool = True) -> str:
        """What tells one store from another; without ``labels``, one structure with its features from another."""
        files = {name: entry.sha256 for name, entry in self.manifest.files.items()}
        if not labels:
            files = {name: sha for name, sha in files.items() if not name.startswith(("y.", "name_", STORE))}
        return hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()


def is_store(path: PathLike | None) -> bool:
    """Whether a path is meant to be a store: a URL, a folder that holds one, or a name that ends so."""
    if path is None or is_url(path):
        return path is not None
    return Path(path).suffix == ".store" or (Path(path) / STORE).exists()


def _kind(array: np.ndarray) -> tuple[str, tuple[int, ...]]:
    return str(array.dtype), array.shape


# --- Work that is sent to other processes: arrays that are mapped from files go as the names of these.
FileOf = Callable[[Any], tuple[Remote | None, str] | None]  # given an array; as any machine finds the file


class Sent:
    """A function of a piece, to be called elsewhere."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work

    def __call__(self, piece: Any) -> Any:
        found = self.work(piece)
        return found.numpy() if isinstance(found, Tensor) else found  # which Ray hands over without a copy


@contextmanager
def files_by_name(file_of: FileOf) -> Iterator[None]:
    """While work is handed to Ray: arrays that are mapped from files, which ``file_of`` knows, go as their names."""

    def reduced(value: Any) -> Any:
        mapped = isinstance(value, np.memmap) or value.layout == torch.strided
        if mapped and (file := file_of(value)):
            return (_opened_sending if isinstance(value, np.memmap) else _tensor), file
        return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)

    before = {kind: copyreg.dispatch_table.get(kind) for kind in (np.memmap, Tensor)}
    copyreg.dispatch_table.update(dict.fromkeys(before, reduced))
    try:
        yield
    finally:
        for kind, former in before.items():
            if former is None:
                del copyreg.dispatch_table[kind]
            else:
                copyreg.dispatch_table[kind] = former


def returned(found: Any) -> Any:
    """What the work gave back elsewhere; a tensor may be looked at, not changed: it is in Ray's own memory."""
    if not isinstance(found, np.ndarray):
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it may not be changed
        return torch.from_numpy(found)


def _opened_sending(remote: Remote | None, path: str) -> np.memmap:
    """The array of a file: one of the store in object storage, if there is one."""
    if remote is None:
        return read_mapped(Path(path))
    target = remote.folder() / path
    return read_mapped(target if target.exists() else remote.fetch(path))


def _tensor(remote: Remote | None, path: str) -> Tensor:
    return torch.from_numpy(_opened_sending(remote, path))


# --- Bytes of memory and of disk: how many there are, and how people write them.
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def check_disk(folder: Path, needed: int) -> None:
    """Refuse to begin an array for which the disk has no room."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"the disk of {folder} has {format_bytes(free)} free, {format_bytes(needed)} are needed: "
            f"{format_bytes(needed - free)} are missing"
        )


@contextmanager
def full_disk(folder: Path, needed: int) -> Iterator[None]:
    """Say how much is missing, should the disk fill up while ``needed`` bytes are written."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        check_disk(folder, needed)
        raise InputError(f"the disk of {folder} became full: make room for {format_bytes(needed)}") from error


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


def format_bytes(size: float) -> str:
    """Bytes for people, and for ``--memory``; rounded up."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= scale:
            return f"{-(-size * 10 // scale) / 10:g}{unit}"
    return f"{int(size)}B"


def default_memory() -> int:
    """Half of what is free."""
    return free_memory() // 2


# --- A folder for arrays that are as long as a graph, and how much of them may be in memory at once.
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
        check_disk(target.parent, needed)
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

    def fits(self, needed: int, n: int) -> bool:
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
                f"{format_bytes(self.memory)} of memory are too few for {n:,} nodes: one column at a time takes "
                f"{format_bytes(least)}. Give --memory {format_bytes(least)} or more"
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


MEMORY = Space(Path("memory"), 1 << 62)  # for work on arrays in memory, where nothing is kept under a name


def _boot() -> str | None:
    """A name for the time since this machine was started; None where it cannot be told."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
    return None


def chunks(n: int, row_bytes: int) -> Iterator[slice]:
    """Ranges of ``n`` rows, each about ``CHUNK`` bytes."""
    size = max(256, CHUNK // max(row_bytes, 1))
    return (slice(at, min(at + size, n)) for at in range(0, n, size))


# --- Rows of matrices: made in order, a chunk at a time, or wanted here and there.
ROWS = 1 << 17  # made at once where memory is not bounded
PIECE = 1 << 19  # numbers that stay in the processor's cache


def pieces(rows: slice, width: int) -> Iterator[slice]:
    """Small ranges of a range of rows."""
    size = max(64, PIECE // width)
    return (slice(at, min(at + size, rows.stop)) for at in range(rows.start, rows.stop, size))


def rows_at(x: Tensor, nodes: Tensor, space: Space | None) -> Tensor:
    """``x[nodes]``; where x is on disk, its pages are let go of again, as rows anywhere are on most of them."""
    found = x[nodes]
    if space is not None:
        space.release()
    return found


def scratch(space: Space, rows: int, width: int) -> Tensor:
    """A matrix of zeros in single precision, on disk, that nobody else sees and that goes with its last user."""
    space.folder.mkdir(parents=True, exist_ok=True)
    check_disk(space.folder, 4 * rows * width)
    with tempfile.TemporaryFile(dir=space.folder) as file:
        file.truncate(4 * max(rows * width, 1))
        return space.mapped(np.memmap(file, np.float32, "r+", shape=(rows, width)))


def on_disk(space: Space | None, name: str, make: Callable[[], Tensor]) -> Tensor:
    """``make()``; where there is a space, made once and mapped from it."""
    if space is None:
        return make()
    if not space.has(name):
        space.write(name, make())
    return space.open(name)


def by_rows(
    space: Space | None,
    name: str,
    shape: tuple[int, int],
    dtype: torch.dtype,
    make: Callable[[slice], Tensor],
    width: int = 0,
) -> Tensor:
    """``make(rows)`` for all rows: by chunks into an array of a ``space``, where memory is bounded; else many at once.
    ``width`` is how many numbers the making of a row takes, if they are more than it has."""
    if space is None:
        return _in_memory(shape[0], make)
    if not space.has(name):
        every = list(chunks(shape[0], 4 * max(shape[1], width)))
        with space.writing(name, shape, dtype) as out:
            space.fill([out], make, every, f"{name}, by chunks of rows")
    return space.open(name)


def _in_memory(n: int, make: Callable[[slice], Tensor]) -> Tensor:
    """Rows of a large graph are made in pieces even so: what their making takes is several times what is kept."""
    first = make(slice(0, ROWS))
    if n <= ROWS:
        return first
    out = first.new_empty(n, *first.shape[1:])
    out[:ROWS] = first
    for at in range(ROWS, n, ROWS):
        out[at : at + ROWS] = make(slice(at, at + ROWS))
    return out


# --- A matrix on disk as files of column blocks: a block is a piece of work, and rows can be read across all of them.
@dataclass(frozen=True)
class Columns:
    """``[n, width]`` in single precision, cut into ``blocks``; each is a file of the ``space`` once it is finished."""

    space: Space
    name: str
    n: int
    blocks: Sequence[slice]

    @property
    def width(self) -> int:
        last: int = self.blocks[-1].stop
        return last

    def file(self, i: int) -> str:
        return f"{self.name}.{self.blocks[i].start}-{self.blocks[i].stop}"

    def has(self, i: int) -> bool:
        return self.space.has(self.file(i))

    def complete(self) -> bool:
        return all(self.has(i) for i in range(len(self.blocks)))

    def read(self, i: int) -> Tensor:
        """A block in memory."""
        return read_matrix(self.space.local(self.file(i)))

    def open(self, i: int) -> Tensor:
        """A block, mapped."""
        return self.space.open(self.file(i))

    def opened(self) -> Callable[[slice], Tensor]:
        """A function that reads rows of all blocks side by side."""
        parts = [self.space.open(self.file(i)) for i in range(len(self.blocks))]
        return lambda rows: torch.cat([part[rows] for part in parts], 1)

    def write(self, i: int, value: Tensor) -> None:
        self.space.write(self.file(i), value)

    def fill(self, make: Callable[[slice], Tensor]) -> None:
        """All blocks at once from ``make(rows) [rows, width]``, a chunk of rows at a time."""
        if self.complete():
            return
        with ExitStack() as stack:
            parts = [
                stack.enter_context(self.space.writing(self.file(i), (self.n, b.stop - b.start), torch.float32))
                for i, b in enumerate(self.blocks)
            ]
            every = list(chunks(self.n, 8 * self.width))
            self.space.fill(parts, make, every, f"{self.name}, by chunks of rows", self.blocks)

    def gram(self) -> Tensor:
        """Inner products of all columns, in double precision: a small one may be the difference of large ones."""
        total = torch.zeros(self.width, self.width, dtype=torch.float64)
        for part in self.by_rows(RowChunk.gram, "inner products of columns, by chunks of rows"):
            total += part
        return total

    def chunks(self) -> list[slice]:
        """Ranges of rows that are a chunk each."""
        return list(chunks(self.n, 12 * self.width))

    def by_rows(self, work: Callable[["RowChunk"], Result], what: str) -> Iterator[Result]:
        """What the work gives back for each chunk of rows, in their order."""
        return self.space.results(work, [RowChunk(self, rows) for rows in self.chunks()], what)

    def times(self, turn: Tensor) -> Tensor:
        """``self @ turn [width, B]`` in memory."""
        rows_of, out = self.opened(), matrix(self.n, turn.shape[1])
        for chunk in self.space.rows(self.n, 12 * self.width):
            for rows in pieces(chunk, self.width):
                out[rows] = (rows_of(rows).double() @ turn).float()
        return out

    def drop(self) -> None:
        for i in range(len(self.blocks)):
            self.space.drop(self.file(i))


@dataclass(frozen=True)
class RowChunk:
    """Some rows of all columns, as a piece of work of its own."""

    columns: Columns
    rows: slice

    def read(self) -> Tensor:
        """The rows, in memory."""
        found = self.columns.opened()(self.rows)
        self.columns.space.release()
        return found

    def gram(self) -> Tensor:
        part = self.read().double()
        return part.T @ part
