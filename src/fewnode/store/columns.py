"""A matrix on disk as files of column blocks: a block is a piece of work, and rows can be read across all of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from .pages import matrix, read_matrix
from .rows import pieces
from .space import Result, Space, chunks


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
