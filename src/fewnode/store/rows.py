"""Rows of matrices on disk that are wanted here and there, rather than in order."""

import tempfile

import numpy as np
from torch import Tensor

from .sizes import room
from .space import Space


def rows_at(x: Tensor, nodes: Tensor, space: Space | None) -> Tensor:
    """``x[nodes]``; where x is on disk, its pages are let go of again, as rows anywhere are on most of them."""
    found = x[nodes]
    if space is not None:
        space.release()
    return found


def scratch(space: Space, rows: int, width: int) -> Tensor:
    """A matrix of zeros in single precision, on disk, that nobody else sees and that goes with its last user."""
    space.folder.mkdir(parents=True, exist_ok=True)
    room(space.folder, 4 * rows * width)
    with tempfile.TemporaryFile(dir=space.folder) as file:
        file.truncate(4 * max(rows * width, 1))
        return space.mapped(np.memmap(file, np.float32, "r+", shape=(rows, width)))
