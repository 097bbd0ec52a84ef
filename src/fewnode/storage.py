"""Files on disk: written whole or not at all, read without ever running what is in them."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from .errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

PathLike = str | os.PathLike[str]


@contextmanager
def atomic_write(path: PathLike, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary neighbour of ``path`` and put it in place only if everything was written.

    Whatever goes wrong before that (an error, a full disk, a kill), the old file stays as it was.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    text = None if "b" in mode else "utf-8"
    try:
        os.fchmod(handle, 0o666 & ~_umask())  # mkstemp is private; a result file need not be
        with os.fdopen(handle, mode, encoding=text, newline=None if text is None else "") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)  # the only way to read it is to set it
    os.umask(current)
    return current


def read_npz(path: PathLike) -> dict[str, np.ndarray]:
    """All arrays of a NumPy archive; a broken file is named as what it is. Pickled objects are refused."""
    file = readable(path)
    try:
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


def write_npz(path: PathLike, arrays: Mapping[str, np.ndarray], compress: bool = True) -> None:
    """Write arrays as .npz; equal arrays give equal bytes. Objects, which would be pickled, are refused."""
    whole = {name: np.asanyarray(array) for name, array in arrays.items()}
    for name, array in whole.items():
        if array.dtype.hasobject:
            raise InputError(f"array {name!r} holds Python objects; only numbers and text can be written")
    with atomic_write(path) as file:
        (np.savez_compressed if compress else np.savez)(file, **whole)  # type: ignore[arg-type]


def write_tensors(path: PathLike, tensors: "Mapping[str, Tensor]", metadata: dict[str, str] | None = None) -> None:
    """Write torch tensors as safetensors, whole or not at all."""
    from safetensors.torch import save_file

    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        save_file({name: part.detach().cpu().contiguous() for name, part in tensors.items()}, temporary, metadata)
        temporary.chmod(0o666 & ~_umask())  # it is made for its owner alone; a model need not be
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def read_json(path: PathLike) -> Any:
    """The document in a JSON file."""
    file = readable(path)
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{file} is not a JSON file ({error})") from error


def write_json(path: PathLike, value: Any) -> None:
    """Write a JSON document atomically; NaN and infinity are refused, they are not JSON."""
    text = json.dumps(value, indent=2, allow_nan=False)
    with atomic_write(path, "w") as file:
        file.write(text + "\n")


def readable(path: PathLike) -> Path:
    """``path`` if it is a file with something in it; else an error that says which of the two fails."""
    file = Path(path)
    if not file.exists():
        raise InputError(f"there is no file {file}")
    if not file.is_file():
        raise InputError(f"{file} is a folder, not a file")
    if file.stat().st_size == 0:
        raise InputError(f"{file} is empty (0 bytes)")
    return file


def cache_dir() -> Path:
    """Where parsed and downloaded data are kept: $FEWNODE_CACHE, else the user's cache folder."""
    if chosen := os.environ.get("FEWNODE_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fewnode"
