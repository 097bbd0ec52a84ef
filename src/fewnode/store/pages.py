"""Large matrices in memory, and their way from and to files without a second copy of them in memory."""

import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from ..errors import InputError

LARGE = 64 << 20  # bytes from which pages of two megabytes are asked for
PORTION = 8 << 20  # bytes written at a time


def matrix(rows: int, width: int) -> Tensor:
    """An empty matrix in single precision, on large pages where the system has them: rows of a neighbour are anywhere
    in it, and with small pages finding out where takes as long as reading them."""
    size = 4 * rows * width
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
