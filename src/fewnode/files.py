"""Files and folders: written whole or not at all, checked when they are read, never executed."""

import ctypes
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import numpy as np

from .errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

# --- Single files: written whole or not at all, read without ever running what is in them.
fcntl: Any  # None on Windows: there, what a killed writer left stays until it is removed by hand
try:
    fcntl = import_module("fcntl")
except ImportError:
    fcntl = None

PathLike = str | os.PathLike[str]
UNPACKED, RATIO = 1 << 30, 100  # an archive may unpack to so many bytes, or to so many times its own size


@contextmanager
def atomic_write(path: PathLike, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary neighbour of ``path`` and put it in place only if everything was written.

    Whatever goes wrong before that (an error, a full disk, a kill), the old file stays as it was. What killed writers
    of the same file left is removed.
    """
    text = None if "b" in mode else "utf-8"
    with (
        atomic_path(path) as temporary,
        temporary.open(mode, encoding=text, newline=None if text is None else "") as file,
    ):
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """The same for whoever needs a path: an empty neighbour of ``path`` to be filled. Others may write the same file at
    the same time, here or on other machines; the last one stays."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target)
    handle, temporary = _temporary(target)
    try:
        os.fchmod(handle, 0o666 & ~umask())  # mkstemp is private; a result file need not be
        yield temporary
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def _temporary(target: Path) -> tuple[int, Path]:
    """A new file beside ``target``, locked: nobody who sweeps takes it for a dead writer's."""
    while True:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".new")
        if lock(handle) and os.fstat(handle).st_nlink:  # else it was swept before it could be locked
            return handle, Path(name)
        os.close(handle)


def lock(handle: int) -> bool:
    """Lock an open file or folder until it is closed or its holder dies; False if another process has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sweep(target: Path) -> None:
    """Remove what killed writers of ``target`` left beside it: temporary files and folders that nobody holds."""
    if fcntl is None:
        return
    prefix, ending = f".{target.name}.", ".new"
    for name in os.listdir(target.parent):  # noqa: PTH208 - a glob would read the name as a pattern
        if name.startswith(prefix) and name.endswith(ending):
            _remove_unheld(target.parent / name)


def _remove_unheld(path: Path) -> None:
    from shutil import rmtree

    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:  # gone already, or not ours to open
        return
    try:
        if lock(handle):
            rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    except OSError:  # a folder we may not write: then nothing of ours is left in it
        return
    finally:
        os.close(handle)


def umask() -> int:
    current = os.umask(0)  # the only way to read it is to set it
    os.umask(current)
    return current


@contextmanager
def reading(path: PathLike, remedy: str) -> Iterator[None]:
    """Whatever goes wrong while a file is read is an ``InputError`` that names the file and says what to do."""
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path}: {error}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}); {remedy}") from error
    except Exception as error:  # parsers have dozens of words for "damaged"
        reason = str(error).splitlines()[0] if str(error) else ""
        raise InputError(f"{path} is damaged ({type(error).__name__}: {reason[:200]}); {remedy}") from error


def read_npz(path: PathLike) -> dict[str, np.ndarray]:
    """All arrays of a NumPy archive; a broken file is named as what it is. Pickled objects are refused."""
    file = readable(path)
    try:
        check_unpacked(file)
        with np.load(file, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise InputError(f"{file} is a single .npy array, not an .npz archive")
            return {key: archive[key] for key in archive.files}
    except InputError:
        raise
    except Exception as error:  # zipfile, zlib, struct and NumPy each have their own words for "damaged"
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{file} ({file.stat().st_size:,} bytes) is not a readable .npz archive ({reason}). "
            "It may be truncated or of another format; fetch or write it again."
        ) from error


def check_unpacked(file: Path) -> None:
    """Refuse a zip archive that would fill the memory: one that unpacks to far more than it is."""
    if not zipfile.is_zipfile(file):
        return  # the reader says what is wrong
    with reading(file, "fetch or write it again"), zipfile.ZipFile(file) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())
    bound = unpacked_bound(file)
    if unpacked > bound:
        raise InputError(f"{file} unpacks to {unpacked:,} bytes; at most {bound:,} are read from a file of its size")


def check_content(file: Path, content: bytes) -> bytes:
    """What was unpacked from a file, if that is not too much."""
    if len(content) > unpacked_bound(file):
        raise InputError(f"{file} unpacks to more than {unpacked_bound(file):,} bytes, the most that is read from it")
    return content


def unpacked_bound(file: Path) -> int:
    """How many bytes a packed file may unpack to."""
    return max(UNPACKED, RATIO * file.stat().st_size)


def write_npz(path: PathLike, arrays: Mapping[str, np.ndarray], compress: bool = True) -> None:
    """Write arrays as .npz; equal arrays give equal bytes. Objects, which would be pickled, are refused."""
    whole = {name: np.asanyarray(array) for name, array in arrays.items()}
    for name, array in whole.items():
        if array.dtype.hasobject:
            raise InputError(f"array {name!r} holds Python objects; only numbers and text can be written")
    with atomic_write(path) as file:
        (np.savez_compressed if compress else np.savez)(file, **whole)  # type: ignore[arg-type]


def write_json(path: PathLike, value: Any) -> None:
    """Write a JSON document atomically; NaN and infinity are refused, they are not JSON."""
    text = json.dumps(value, indent=2, allow_nan=False)
    with atomic_write(path, "w") as file:
        file.write(text + "\n")


def readable(path: PathLike) -> Path:
    """``path`` if it is a file with something in it; else an error that says which of the two fails."""
    file = Path(path)
    try:
        if not file.exists():
            raise InputError(f"there is no file {file}")
        if file.is_dir():
            raise InputError(f"{file} is a folder, not a file")
        if not file.is_file():  # reading a pipe or a device may never end
            raise InputError(f"{file} is a pipe or a device, not a file; write its content to a file first")
        if file.stat().st_size == 0:
            raise InputError(f"{file} is empty (0 bytes)")
    except InputError:
        raise
    except OSError as error:  # a name too long, a folder closed to us
        raise InputError(f"{file} cannot be read ({error.strerror or error})") from error
    except ValueError as error:  # a NUL in a name
        raise InputError(f"{str(file)!r} is not the name of a file ({error})") from error
    return file


def cache_dir() -> Path:
    """Where parsed and downloaded data are kept: $FEWNODE_CACHE, else the user's cache folder."""
    if chosen := os.environ.get("FEWNODE_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fewnode"


# --- JSON and TOML documents, read into the types they must have.
DEPTH = 64  # lists and tables within one another
T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]

_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(rb"[\[{]|[\]}]")


def parse_json(data: bytes, kind: type[T], where: str) -> T:
    """JSON text that must be a ``kind``; ``where`` it stands is named if it is not."""
    try:
        check_depth(data)
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{where} is damaged or of another kind: {plain(error)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"{where} is not a JSON file ({error})") from error


def convert(value: Any, kind: type[T], where: str) -> T:
    """A document already read, as a ``kind``."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{where}: {plain(error)}") from error


def check_depth(data: bytes) -> None:
    """Refuse JSON nested deeper than ``DEPTH``: readers that call themselves would run out of stack."""
    if data.count(b"[") + data.count(b"{") <= DEPTH:
        return
    depth = deepest = 0
    for mark in _BRACKETS.finditer(_QUOTED.sub(b"", data)):
        depth += 1 if mark[0] in b"[{" else -1
        deepest = max(deepest, depth)
    if deepest > DEPTH:
        raise ValueError(f"nested {deepest} deep, at most {DEPTH}")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    file = readable(path)
    return parse_toml(file.read_bytes(), str(file))


def parse_toml(data: bytes, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise InputError(f"{where} is not a TOML file: it is nested too deep, at most {DEPTH} is sensible") from error
    except ValueError as error:  # tomllib's own error, and text that is not UTF-8
        raise InputError(f"{where} is not a TOML file: {error}") from error


def plain(error: Exception) -> str:
    """msgspec's words with the place first: "run.n_way: expected ..."."""
    text, _, place = str(error).partition(" - at `$")
    return f"{place.rstrip('`').lstrip('.')}: {text}" if place.rstrip("`") else text


# --- The manifest of a folder: length and SHA-256 of every file in it, so that damage is never taken for a model.
NAME, FORMAT = "manifest.json", 1
BLOCK = 1 << 20  # bytes hashed at a time


class Entry(msgspec.Struct, frozen=True):
    bytes: Count
    sha256: Hash


class Manifest(msgspec.Struct, frozen=True):
    """What the files of a folder were when they were written."""

    format: Positive
    files: Mapping[str, Entry]

    @classmethod
    def write(cls, folder: Path) -> None:
        """Describe every file that is in the folder now."""
        files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != NAME)
        entries = {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files}
        write_json(folder / NAME, {"format": FORMAT, "files": entries})

    @classmethod
    def read(cls, folder: Path, remedy: str = "train or fit the model again") -> "Manifest":
        """The manifest of a folder; one without is refused, because nothing in it could be trusted."""
        path = folder / NAME
        if not path.exists():
            raise InputError(
                f"{folder} has no {NAME}: it was written by an earlier version of fewnode, or the file was lost. "
                f"{remedy.capitalize()}"
            )
        with reading(path, remedy):
            found = parse_json(readable(path).read_bytes(), cls, str(path))
        if found.format > FORMAT:
            raise InputError(f"{path} has format {found.format}; this version reads up to {FORMAT}: update fewnode")
        return found

    def __contains__(self, name: str) -> bool:
        return name in self.files

    @contextmanager
    def checking(self, folder: Path, name: str, remedy: str = "train or fit the model again") -> Iterator[Path]:
        """The file of that name, hashed in a second thread while the caller reads it.

        A file that differs is refused by name, whatever the caller made of it; other errors while reading are, too.
        """
        path = folder / name
        if name not in self.files:
            raise InputError(f"{path} is not among the files of {folder / NAME}; {remedy}")
        readable(path)
        with ThreadPoolExecutor(1) as thread, reading(path, remedy):
            found = thread.submit(self._differs, path)
            try:
                yield path
            finally:
                if differs := found.result():
                    raise InputError(f"{path} is damaged: {differs}. Restore it from a copy, or {remedy}")

    def read_bytes(self, folder: Path, name: str) -> bytes:
        """The content of a file, as it was written."""
        with self.checking(folder, name) as path:
            return path.read_bytes()

    def _differs(self, path: Path) -> str:
        entry, size = self.files[path.name], path.stat().st_size
        if size != entry.bytes:
            return f"it has {size:,} bytes, {entry.bytes:,} were written"
        return "" if sha256(path) == entry.sha256 else "its SHA-256 is not the one that was written"


def sha256(path: Path) -> str:
    """The hash of a file, read in blocks."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            sha.update(block)
    return sha.hexdigest()


# --- Folders written whole: a new one is made beside the old and takes its place in one step.
EXCHANGE, AT_FDCWD = 2, -100  # of Linux's renameat2


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A new folder to write files into; when that is done it gets a manifest and takes the place of ``target``.

    At every instant ``target`` is the old folder or the new one. What others put into the old
    folder is kept. What killed writers left beside it is removed.
    """
    target = target.resolve()  # the folder a link leads to is replaced, not the link
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target)
    fresh, handle = _fresh(target)
    try:
        yield fresh
        Manifest.write(fresh)
        fresh.chmod(0o755)  # mkdtemp is private; a model need not be
        _sync(handle)
        _put_in_place(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # what is under this name now: the old folder, or half a new one
        if handle >= 0:
            os.close(handle)


def _fresh(target: Path) -> tuple[Path, int]:
    """A new folder beside ``target``, locked: as long as its writer lives nobody sweeps it."""
    while True:
        fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".new"))
        if os.name != "posix":
            return fresh, -1
        with suppress(FileNotFoundError):  # swept before it could be locked
            handle = os.open(fresh, os.O_RDONLY)
            if lock(handle) and fresh.exists():
                return fresh, handle
            os.close(handle)


def _sync(handle: int) -> None:
    if handle >= 0:
        with suppress(OSError):  # not every file system can
            os.fsync(handle)


def _put_in_place(fresh: Path, target: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    kept = _others(target, fresh)
    for path in kept:
        if path.is_file():
            _link(path, fresh / path.name)
    if not _exchange(fresh, target):
        _in_two_steps(fresh, target)
    for path in kept:  # folders cannot be linked: they follow
        if not (target / path.name).exists() and (fresh / path.name).exists():
            (fresh / path.name).rename(target / path.name)


def _others(target: Path, fresh: Path) -> list[Path]:
    """What is in the old folder and was not written by us."""
    ours: set[str] = {NAME}
    with suppress(InputError):
        ours |= Manifest.read(target).files.keys()
    return [path for path in target.iterdir() if path.name not in ours and not (fresh / path.name).exists()]


def _link(path: Path, other: Path) -> None:
    try:
        other.hardlink_to(path)
    except OSError:  # a file system without links
        shutil.copy2(path, other)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    if sys.platform != "linux":
        return False
    with suppress(OSError, AttributeError):
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        return bool(rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), EXCHANGE) == 0)
    return False


def _in_two_steps(fresh: Path, target: Path) -> None:
    """Where folders cannot be swapped: the old one steps aside under a name that ``check_aside`` knows."""
    aside = _aside(target)
    shutil.rmtree(aside, ignore_errors=True)
    target.rename(aside)
    try:
        fresh.rename(target)
    except OSError:
        aside.rename(target)
        raise
    aside.rename(fresh)  # the caller removes it


def check_place(target: Path) -> None:
    """Refuse a file or folder that could not be written: to be asked before the work that fills it."""
    try:
        place = next(parent for parent in target.absolute().parents if parent.exists())
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror or error}); choose another place") from error
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        why = "may not be written to" if place.is_dir() else "is a file, not a folder"
        raise InputError(f"{target} cannot be written: {place} {why}; choose another place")


def check_aside(folder: Path) -> None:
    """Say where a folder is that stepped aside for a writer who was then killed."""
    if not folder.exists() and _aside(folder).exists():
        raise InputError(
            f"{folder} was being replaced when its writer was killed; the old one is whole: rename {_aside(folder)} "
            f"to {folder}"
        )


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


# --- Cells of a CSV file that a spreadsheet shows and never runs.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*([eE][+-]?[0-9]+)?( [≈↓%])*")


def guarded(value: Any) -> Any:
    """A cell as it is written."""
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def unguarded(text: str) -> str:
    """The text that a cell was made from."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text[1:]) else text


# --- Tensors in safetensors files.
def write_tensors(path: PathLike, tensors: Mapping[str, "Tensor"], metadata: dict[str, str] | None = None) -> None:
    """Write torch tensors as safetensors, whole or not at all."""
    from safetensors.torch import save_file

    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        save_file({name: part.detach().cpu().contiguous() for name, part in tensors.items()}, temporary, metadata)
        temporary.chmod(0o666 & ~umask())  # it is made for its owner alone; a model need not be
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def check_finite(tensors: Mapping[Any, "Tensor"]) -> None:
    """Refuse numbers that are none: whatever a model made of them would be nonsense."""
    import torch

    for name, part in tensors.items():
        if part.is_floating_point() and not bool(torch.isfinite(part).all()):
            raise InputError(f"{name} holds NaN or infinity: these are no usable weights. Train or fit the model again")
