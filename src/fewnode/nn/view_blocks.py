"""The views of a graph on disk, by blocks of columns: smoothing acts on every column alone, so a block needs the edges
and nothing else. What is finished is a file; work that was killed goes on with the blocks it has."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..graph import Graph
from ..graph.arrays import STEPS
from ..store import Columns, RowChunk, Space, by_rows
from .column_block import ColumnBlock, Way

COPIES = 2  # matrices as wide as a block that smoothing has in memory: the last step and the next


@dataclass(frozen=True)
class Work:
    """The making of the views of a graph in a ``space`` of their own; ``rank`` is the width of the links."""

    graph: Graph
    space: Space
    rank: int

    @classmethod
    def of(cls, graph: Graph, rank: int, *made_from: Tensor | str) -> "Work":
        """In a folder that belongs to what the views are made from: models that agree on that share them."""
        assert graph.space is not None
        sha = hashlib.sha256(f"{graph.fingerprint} {rank}".encode())
        for part in made_from:
            sha.update(part.encode() if isinstance(part, str) else part.cpu().contiguous().numpy().data)
        return cls(graph, graph.space.within(f"views-{sha.hexdigest()[:16]}"), rank)

    def raw(self, name: str, width: int) -> Columns:
        n = self.graph.num_nodes
        return Columns(self.space.passing("raw"), name, n, self.space.columns(n, width, COPIES))

    def words(self, rows_of: Callable[[slice], Tensor], width: int) -> Columns:
        """The coordinates of the features, which ``rows_of`` makes for some rows."""
        made = self.raw("words", width)
        made.fill(rows_of)
        return made

    def smooth(self, names: Sequence[str], source: Columns, how: Sequence[Way], half: bool) -> None:
        """Views with unit rows, each centred on its mean, from a source: as it is, by two-step means, or smoothed by
        so many steps with a restart."""
        left = [(name, way) for name, way in zip(names, how, strict=True) if not self.space.has(name)]
        for some in [[one] for one in left] if self.space.engine is None else [left]:  # all at once take more disk
            made = {name: source if way == "as_is" else self.raw(name, source.width) for name, way in some}
            blocks = [one for name, way in some if way != "as_is" for one in self._blocks(made[name], source, way)]
            self.space.each(ColumnBlock.make, blocks, f"views of {source.name}, by blocks of columns")
            for name, columns in made.items():
                self._finish(name, columns, half)
                if columns is not source:
                    columns.drop()

    def _blocks(self, target: Columns, source: Columns, way: Way, turn: Tensor | None = None) -> list[ColumnBlock]:
        """The blocks of ``target`` that are left to be made, each a piece of work of its own."""
        store, weighted = self.graph.space, self.graph.weights is not None
        assert store is not None
        blocks = range(len(target.blocks))
        return [ColumnBlock(store.place, weighted, way, source, target, i, turn) for i in blocks if not target.has(i)]

    def _made(self, target: Columns, source: Columns, way: Way, turn: Tensor) -> Columns:
        what = "directions of the links, by blocks of columns"
        self.space.each(ColumnBlock.make, self._blocks(target, source, way, turn), what)
        return target

    def _finish(self, name: str, made: Columns, half: bool) -> None:
        what, at = f"view {name.replace('_', ' ')}, by chunks of rows", 0
        full, total = torch.empty(made.n, dtype=torch.uint8), torch.zeros(made.width, dtype=torch.float64)
        for some, part in made.by_rows(filled_rows, what):
            full[at : at + len(some)] = some
            total, at = total + part, at + len(some)
        mean = (total / full.sum().clamp(min=1)).float()
        with self.space.writing(name, (made.n, made.width), torch.half if half else torch.float32) as out:
            dtype = out.dtype
            self.space.fill([out], lambda rows: centred_rows(RowChunk(made, rows), mean, dtype), made.chunks(), what)
            self.space.write(f"mean_{name}", mean)
            self.space.write(f"full_{name}", full)

    # --- links ------------------------------------------------------------------------------------------

    def links(self, start: Callable[[slice], Tensor], width: int) -> Columns:
        """The reduced neighbour lists; the ``directions [N, rank]`` they were reduced to are kept in half precision.

        Subspace iteration as in ``leading_eigenvectors``, of which each product is made by blocks of columns and each
        orthogonalisation from the inner products of all columns.
        """
        made = self.raw("links", self.rank)
        if not (made.complete() and self.space.has("directions")):
            last, turn = self._iterated(start, width)
            products = self._made(self.raw("lists", width), last, "lists", turn)
            values, vectors = torch.linalg.eigh(products.gram())
            top = vectors[:, values.abs().argsort(descending=True)[: self.rank]]
            top = F.pad(top, (0, self.rank - top.shape[1]))
            self._turned("directions", last, turn @ top)
            rows_of = products.opened()
            made.fill(lambda rows: (rows_of(rows).double() @ top).float())
            products.drop()
            last.drop()
        return made

    def _turned(self, name: str, columns: Columns, matrix: Tensor) -> None:
        rows_of, shape = columns.opened(), (columns.n, matrix.shape[1])
        by_rows(
            self.space,
            name,
            shape,
            torch.half,
            lambda rows: (rows_of(rows).double() @ matrix).half(),
            3 * columns.width,
        )

    def _iterated(self, start: Callable[[slice], Tensor], width: int) -> tuple[Columns, Tensor]:
        """The last block of the iteration on disk, and the matrix that makes its columns orthonormal."""
        steps = [self.raw(f"step{number}", width) for number in range(STEPS + 2)]
        at = max((number for number, step in enumerate(steps) if step.complete()), default=0)
        if at == 0:
            steps[0].fill(start)
        for number in range(at + 1, STEPS + 2):
            last = steps[number - 1]
            turn = torch.eye(width, dtype=torch.float64) if number == 1 else orthonormal(last.gram())
            # The last one is only made orthonormal, once more: rounding had its part in it.
            self._made(steps[number], last, "there_and_back" if number <= STEPS else "as_is", turn)
            last.drop()
        return steps[-1], orthonormal(steps[-1].gram())

    def clean(self) -> None:
        """Remove what only the making needed, also what a run before the machine was restarted left."""
        self.space.within("raw").clear()
        for left in self.space.folder.glob("raw-*"):
            self.space.within(left.name).clear()


def filled_rows(chunk: RowChunk) -> tuple[Tensor, Tensor]:
    """Which rows are not empty, and the sum of these."""
    rows = chunk.read()
    full = rows.norm(dim=1) > 1e-6
    return full.to(torch.uint8), (rows * full[:, None]).sum(0, dtype=torch.float64)


def centred_rows(chunk: RowChunk, mean: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows minus ``mean``, of length one; empty ones stay empty."""
    rows = chunk.read()
    full = rows.norm(dim=1) > 1e-6
    return F.normalize((rows - mean) * full[:, None], dim=1).to(dtype)


def orthonormal(gram: Tensor) -> Tensor:
    """The matrix that makes columns with these inner products orthonormal; those that are not there become zero."""
    scale = gram.diagonal().clamp(min=1e-300).rsqrt()
    values, vectors = torch.linalg.eigh(gram * scale[:, None] * scale)
    keep = values > 1e-14 * values[-1]
    root = torch.where(keep, values.clamp(min=1e-300).rsqrt(), 0.0)
    turned: Tensor = scale[:, None] * vectors * root
    return turned
