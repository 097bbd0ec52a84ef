"""Rows of matrices: made in order, a chunk at a time, or wanted here and there."""

import tempfile
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from .sizes import room
from .space import Space, chunks

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
    room(space.folder, 4 * rows * width)
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
