"""Arrays that grow at their end, as .npy files whose length is known only when all rows have come."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy


class Growing:
    """An array ``[rows, ...]`` on disk to which rows are appended; ``close`` writes how many there are."""

    def __init__(self, path: Path, dtype: Any, width: tuple[int, ...] = ()) -> None:
        self.dtype, self.width, self.rows = np.dtype(dtype), width, 0
        self.file = path.open("wb")
        self._header()

    def append(self, values: np.ndarray) -> None:
        part = np.ascontiguousarray(values, self.dtype)
        assert part.shape[1:] == self.width
        part.tofile(self.file)
        self.rows += len(part)

    def close(self) -> None:
        self.file.flush()
        self.file.seek(0)
        self._header()
        self.file.close()

    def _header(self) -> None:
        """NumPy leaves room in it for a first axis of any length, so the one written last fits over the first."""
        told = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.rows, *self.width)}
        npy.write_array_header_1_0(self.file, told)
