"""Single files: written whole or not at all, read without ever running what is in them."""

import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError

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
