"""Files and folders: written completely or not at all, checked when they are read, never executed."""

import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import numpy as np

from .errors import InputError, reason, refused

if TYPE_CHECKING:
    from torch import Tensor

fcntl: Any = None  # on Windows: there, what a killed writer left stays until it is removed by hand
with suppress(ImportError):
    fcntl = import_module("fcntl")

PathLike = str | os.PathLike[str]
NAME, FORMAT = "manifest.json", 1  # of the manifest of a folder
OURS = "fewnode-"  # in the names of temporary files and folders

T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]

# --- Writing: a temporary neighbour takes the place of the old file or folder in one step.


@contextmanager
def atomic_write(path: PathLike, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary neighbour of ``path`` and put it in place only if everything was written.

    After an error, a full disk or a kill the old file is unchanged. Leftovers of killed writers of the same file are
    removed.
    """
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    with atomic_path(path) as temporary, temporary.open(mode, **text) as file:  # type: ignore[call-overload]
        yield file


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """The same for writers that need a path: an empty neighbour of ``path`` to fill. Other processes, also on other
    machines, may write the same file at the same time; the last one wins. The content is synced before the rename."""
    target = Path(path)
    with _neighbour(target, Path.touch) as (temporary, _):
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)  # a writer such as safetensors puts another, private file in its place
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)


@contextmanager
def whole_folder(target: Path, *, new: bool = False) -> Iterator[Path]:
    """A new folder to write files into. It then gets a manifest and replaces ``target``; one that is there is refused
    if it must be ``new``.

    At every instant ``target`` is the old folder or the new one. The mode of the old folder and the files that others
    put into it are kept. Leftovers of killed writers beside it are removed.
    """
    if new and target.exists():
        raise InputError(f"{target} exists already; choose another name or remove it")
    target = target.resolve()  # the folder a link leads to is replaced, not the link
    with _neighbour(target, Path.mkdir) as (fresh, handle):
        yield fresh
        Manifest.write(fresh)
        with suppress(OSError):  # not every file system can
            os.fsync(handle)
        _put_in_place(fresh, target)


@contextmanager
def _neighbour(target: Path, make: Callable[..., None]) -> Iterator[tuple[Path, int]]:
    """A new file or folder beside ``target``, locked: nobody removes it while its writer lives. Whatever has its name
    at the end is removed, and so is what killed writers of ``target`` left."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in _ours(target, ".new") if fcntl else ():
        with suppress(OSError):  # held, gone already, or not ours to open or to remove
            unheld = _held(left)
            _remove(left)
            os.close(unheld)
    handle: int | None = None
    while handle is None:
        path = target.with_name(f".{target.name}.{OURS}{token_hex(4)}.new")
        make(path, exist_ok=False)
        with suppress(FileNotFoundError):
            handle = _held(path)
    try:
        with full_disk(path, target):
            yield path, handle
    finally:
        _remove(path)
        os.close(handle)


def _held(path: Path) -> int:
    """Open and lock a temporary file or folder; an error if another process holds it or has removed it."""
    if fcntl is None:  # Windows can neither lock nor open folders
        return os.open(os.devnull, os.O_RDONLY)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    if lock(handle) and path.exists():
        return handle
    os.close(handle)
    raise FileNotFoundError(path)


@contextmanager
def full_disk(path: Path, target: Path) -> Iterator[None]:
    """If the disk fills up while ``path`` is written, the error names the ``target`` and the bytes, whichever library
    raised it."""
    try:
        yield
    except Exception as error:
        if getattr(error, "errno", None) not in (errno.ENOSPC, errno.EDQUOT) and "No space left" not in str(error):
            raise  # libraries have their own classes for a full disk
        size = sum(part.stat().st_size for part in (path, *path.rglob("*")) if part.is_file())
        free = shutil.disk_usage(target.parent).free
        told = f"No space left on the disk: {size:,} bytes were written, more are needed, {free:,} are free"
        raise OSError(errno.ENOSPC, told, str(target)) from error


def _remove(path: Path) -> None:
    """Remove a file or a folder with its content; of a link only the link itself."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def lock(handle: int) -> bool:
    """Lock an open file or folder until it is closed or its holder dies; False if another process has it."""
    if fcntl is None:
        return True
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _ours(target: Path, ending: str) -> list[Path]:
    """Temporary files and folders of ``target`` beside it. A glob would read the target's name as a pattern."""
    beside = target.parent.iterdir() if target.parent.exists() else ()
    return [path for path in beside if path.name.startswith(f".{target.name}.{OURS}") and path.suffix == ending]


def _put_in_place(fresh: Path, target: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    ours = {NAME, *(path.name for path in fresh.iterdir())}
    with suppress(InputError):
        ours |= Manifest.read(target).files.keys()

    def ignored(folder: str, _: list[str]) -> set[str]:
        return ours if folder == str(target) else set()

    # The new folder gets the mode of the old one, and links to the files that others put there.
    shutil.copytree(target, fresh, symlinks=True, ignore=ignored, copy_function=_link, dirs_exist_ok=True)
    if not _exchange(fresh, target):
        aside = fresh.with_suffix(".old")
        target.rename(aside)
        fresh.rename(target)
        aside.rename(fresh)  # the caller removes it


def _link(path: str, other: str) -> None:
    try:
        os.link(path, other)
    except OSError:  # a file system without links
        shutil.copy2(path, other)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux's renameat2
    with suppress(OSError, AttributeError):
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)
    return False


def unchanged(folder: Path, read: Callable[[], T]) -> T:
    """The result of ``read``, which reads a folder; tried again if another process replaced the folder meanwhile."""
    for aside in () if folder.exists() else _ours(folder, ".old"):  # its writer was killed between two renames
        told = f"{folder} was being replaced when its writer was killed; the old one is whole"
        raise InputError(f"{told}: rename {aside} to {folder}")
    while True:
        before = _generation(folder)
        try:
            return read()
        except InputError:
            if _generation(folder) == before:
                raise


def _generation(folder: Path) -> tuple[int, ...]:
    with suppress(OSError):
        found = folder.stat()
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns
    return ()


def check_place(target: Path) -> None:
    """Refuse a file or folder that cannot be written, before the work that fills it."""
    place = next(parent for parent in target.absolute().parents if os.access(parent, os.F_OK))
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        why = "may not be written to" if place.is_dir() else "is a file, not a folder"
        raise InputError(f"{target} cannot be written: {place} {why}; choose another place")


def append_line(path: PathLike, text: str, sync: bool = True) -> None:
    """Append a line to a file in one write, under a lock; with ``sync`` it is on the disk when this returns.

    An incomplete line of a killed writer is removed first; a full disk leaves the file unchanged.
    """
    file, line = Path(path), f"{text}\n".encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and not file.is_file():
        raise InputError(f"{file} is not a file; lines cannot be kept there")
    with file.open("ab+", buffering=0) as out:
        if fcntl is not None:
            fcntl.flock(out, fcntl.LOCK_EX)
        end = file.read_bytes().rfind(b"\n") + 1
        out.truncate(end)
        try:
            written = os.write(out.fileno(), line)
            if written != len(line):
                raise OSError(f"{path}: only {written} of {len(line)} bytes could be written; is the disk full?")
            if sync:
                os.fsync(out.fileno())
        except OSError:
            out.truncate(end)
            raise


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


def write_tensors(path: PathLike, tensors: Mapping[str, "Tensor"], metadata: dict[str, str] | None = None) -> None:
    """Write torch tensors as safetensors, completely or not at all."""
    from safetensors.torch import save_file

    with atomic_path(path) as temporary:
        save_file({name: part.detach().cpu().contiguous() for name, part in tensors.items()}, temporary, metadata)


# --- Reading: every error names the file.


@contextmanager
def reading(path: PathLike, remedy: str) -> Iterator[None]:
    """Turn any error while a file is read into an ``InputError`` that names the file and the remedy."""
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path}: {error}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}); {remedy}") from error
    except Exception as error:  # parsers have dozens of words for "damaged"
        raise InputError(f"{path} is damaged ({type(error).__name__}: {reason(error)[:200]}); {remedy}") from error


def readable(path: PathLike) -> Path:
    """``path`` if it is a regular file that is not empty; else an error says what it is instead."""
    file = Path(path)
    try:
        found = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"there is no file {file}") from None
    except (OSError, ValueError) as error:  # a name too long or with a NUL, a folder closed to us
        raise InputError(f"{str(file)!r} cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if stat.S_ISDIR(found.st_mode):
        raise InputError(f"{file} is a folder, not a file")
    if not stat.S_ISREG(found.st_mode):  # reading a pipe or a device may never end
        raise InputError(f"{file} is a pipe or a device, not a file; write its content to a file first")
    if not found.st_size:
        raise InputError(f"{file} is empty (0 bytes)")
    return file


def read_npz(path: PathLike) -> dict[str, np.ndarray]:
    """All arrays of a NumPy archive. Pickled objects are refused."""
    file = readable(path)
    check_unpacked(file)
    remedy = "it may be truncated, or is not a readable .npz archive: fetch or write it again"
    if not zipfile.is_zipfile(file):  # NumPy would advise to load a pickle nevertheless
        raise InputError(f"{file} is damaged; {remedy}")
    with reading(file, remedy), np.load(file, allow_pickle=False) as archive:
        return dict(archive)


def checked_csr(held: Mapping[str, np.ndarray], prefix: str) -> Any:
    """The sparse matrix in the arrays ``{prefix}_data``, ``_indices``, ``_indptr`` and ``_shape`` of an archive, after
    a check that they fit together and that every index is in range."""
    from scipy import sparse as sp

    names = [f"{prefix}_{part}" for part in ("data", "indices", "indptr", "shape")]
    if missing := [name for name in names if name not in held]:
        raise InputError(f"lacks {missing[0]}, which belongs to its other arrays")
    data, *index = (held[name] for name in names)
    with refused(f"the parts of {prefix} do not fit together", ValueError):
        if data.dtype.kind not in "biuf" or any(part.dtype.kind not in "iu" or part.ndim != 1 for part in index):
            raise ValueError("they are not numbers, or not one-dimensional")
        indices, indptr, (rows, columns) = (part.astype(np.int64) for part in index)
        if rows != len(indptr) - 1 or columns > 1 << 24:
            raise ValueError(f"{rows:,} x {columns:,}; expected {len(indptr) - 1:,} rows, at most 16,777,216 columns")
        matrix = sp.csr_matrix((data, indices, indptr), shape=(rows, columns))
        matrix.check_format(full_check=True)
    return matrix


def check_unpacked(file: Path, least: int = 256 << 20) -> None:
    """Refuse a zip archive that unpacks to far more bytes than it has."""
    if not zipfile.is_zipfile(file):
        return  # the reader says what is wrong
    with reading(file, "fetch or write it again"), zipfile.ZipFile(file) as archive:
        check_bound(file, sum(part.file_size for part in archive.infolist()), least=least)


def check_bound(file: Path, found: int, what: str = "unpacked bytes", least: int = 256 << 20, each: int = 100) -> None:
    """Refuse a small file with far too much content: more than ``least`` and more than ``each`` per byte of the file,
    times $FEWNODE_RAISE_LIMITS, which ``fewnode --raise-limits`` sets."""
    raised = os.environ.get("FEWNODE_RAISE_LIMITS", "1")
    bound = max(least, each * file.stat().st_size) * (int(raised) if raised.isdecimal() else 1)
    if found > bound:
        told = f"{file} holds {found:,} {what} or more; at most {bound:,} are read from a file of its size"
        remedy = "raise the limit: fewnode --raise-limits N COMMAND, or FEWNODE_RAISE_LIMITS=N for Python"
        raise InputError(f"{told}. If this is intended, {remedy}")


def parse_json(data: bytes, kind: type[T], where: str, strict: bool = True) -> T:
    """JSON text as a ``kind``; an error names ``where`` it is from."""
    of_another_kind = refused(f"{where} is damaged or of another kind", msgspec.ValidationError)
    with refused(f"{where} is not a JSON file", RecursionError, ValueError), of_another_kind:
        return msgspec.json.decode(data, type=kind, strict=strict)


def convert(value: Any, kind: type[T], where: str) -> T:
    """A document already read, as a ``kind``."""
    with refused(where, msgspec.ValidationError, RecursionError):
        return msgspec.convert(value, kind)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    data = readable(path).read_bytes()
    with refused(f"{path} is not a TOML file", RecursionError, ValueError):  # nested too deep, no TOML, or no UTF-8
        return tomllib.loads(data.decode("utf-8"))


def check_finite(tensors: Mapping[Any, "Tensor"]) -> None:
    """Refuse weights that are NaN or infinite."""
    for name, part in tensors.items():
        if part.is_floating_point() and not bool(part.isfinite().all()):
            raise InputError(f"{name} holds NaN or infinity instead of weights. Train or fit the model again")


def cache_dir() -> Path:
    """Where parsed and downloaded data are kept: $FEWNODE_CACHE, else the user's cache folder."""
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # an account without a home: nothing can be kept
        caches = os.devnull
    return Path(os.environ.get("FEWNODE_CACHE") or Path(caches, "fewnode"))


def sha256(path: Path) -> str:
    """The hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Entry(msgspec.Struct, frozen=True):
    bytes: Count
    sha256: Hash


class Manifest(msgspec.Struct, frozen=True):
    """Length and SHA-256 of every file of a folder when it was written; files that differ are refused."""

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
        """The manifest of a folder; a folder without one is refused."""
        path = folder / NAME
        if not path.exists():
            told = "it was written by an earlier version of fewnode, or the file was lost"
            raise InputError(f"{folder} has no {NAME}: {told}. {remedy.capitalize()}")
        with reading(path, remedy):
            found = parse_json(readable(path).read_bytes(), cls, str(path))
        if found.format > FORMAT:
            raise InputError(f"{path} has format {found.format}; this version reads up to {FORMAT}: update fewnode")
        return found

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def check(self, folder: Path, name: str, remedy: str = "train or fit the model again") -> Path:
        """The path of a file, after a check that it is unchanged since it was written."""
        path = folder / name
        if name not in self.files or not path.exists():
            why = "is gone" if name in self.files else f"is not among the files of {folder / NAME}"
            raise InputError(f"{path} {why}; {remedy}")
        entry, size = self.files[name], readable(path).stat().st_size
        differs = f"it has {size:,} bytes, {entry.bytes:,} were written" if size != entry.bytes else ""
        if differs or sha256(path) != entry.sha256:
            differs = differs or "its SHA-256 is not the one that was written"
            raise InputError(f"{path} is damaged: {differs}. Restore it from a copy, or {remedy}")
        return path

    @contextmanager
    def checking(self, folder: Path, name: str, remedy: str = "train or fit the model again") -> Iterator[Path]:
        """The same as a context in which the caller reads the file: its errors name the file, too."""
        path = self.check(folder, name, remedy)
        with reading(path, remedy):
            yield path

    def read_bytes(self, folder: Path, name: str) -> bytes:
        """The content of a file that is unchanged since it was written."""
        return self.check(folder, name).read_bytes()


# --- Cells of a CSV file that a spreadsheet shows but does not run as formulas.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*([eE][+-]?[0-9]+)?( [≈↓%])*")


def guarded(value: Any) -> Any:
    """The cell to write for a value."""
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def unguarded(text: str) -> str:
    """The text of a cell that ``guarded`` made."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text[1:]) else text
