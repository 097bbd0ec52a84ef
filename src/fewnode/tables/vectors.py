"""Features in a file of their own, a row for each node: copied into a store some rows at a time."""

import mmap
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..files import readable
from ..store import Progress, chunks
from .growing import Growing


def check_vectors(path: Path) -> tuple[int, int]:
    """Rows and columns of an array of features; refused if it is none."""
    return _shape(_opened(path))


def read_vectors(path: Path, nodes: Path, listed: int, out: Path, progress: Progress) -> None:
    """Write the features of the ``listed`` rows of the table ``nodes`` to ``out``, in single precision."""
    array = _opened(path)
    rows, width = _shape(array)
    if rows != listed:
        raise InputError(f"{path} has {rows:,} feature rows, but {nodes} has {listed:,} nodes")
    file = Growing(out, np.float32, (width,))
    for some in chunks(rows, 8 * width):
        progress("reading features", some.start / rows)
        with np.errstate(over="ignore"):  # what is too large for single precision becomes infinite, and is refused
            part = array[some].astype(np.float32)
        if len(wrong := np.flatnonzero(~np.isfinite(part).all(1))):
            raise InputError(
                f"{path}, row {some.start + wrong[0] + 1}: a feature is NaN or infinite (as float32); write a number"
            )
        file.append(part)
        base = getattr(array, "_mmap", None)
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            base.madvise(mmap.MADV_DONTNEED)  # pages that were read are of no use any more
    file.close()


def _opened(path: Path) -> np.ndarray:
    if path.suffix.lower() != ".npy":
        raise InputError(f"{path}: the features of a store are read from an array [nodes, columns]; save it as .npy")
    try:
        found: np.ndarray = np.load(readable(path), mmap_mode="r", allow_pickle=False)
        return found
    except InputError:
        raise
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} is not a readable .npy array ({error}); write it with numpy.save") from error


def _shape(array: np.ndarray) -> tuple[int, int]:
    if array.ndim != 2 or array.dtype.kind not in "iufb" or not array.shape[1]:
        name = getattr(array, "filename", "features")
        raise InputError(f"{name} holds {array.dtype} of shape {array.shape}; features are numbers [nodes, columns]")
    return array.shape[0], array.shape[1]
