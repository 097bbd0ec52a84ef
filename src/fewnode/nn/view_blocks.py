"""The views of a graph on disk, by blocks of columns: smoothing acts on every column alone, so a block needs the edges
and nothing else. What is finished is a file; work that was killed goes on with the blocks it has."""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..graph import Graph
from ..graph.bounded import BoundedOperator, Pattern, bounded_mean, bounded_normalized
from ..graph.spectral import STEPS
from ..store.columns import Columns
from ..store.space import Space

COPIES = 4  # matrices as wide as a block that smoothing has in memory: the start, two steps, and what is copied


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
        return Columns(self.space.within("raw"), name, n, self.space.columns(n, width, COPIES))

    def words(self, rows_of: Callable[[slice], Tensor], width: int) -> Columns:
        """The coordinates of the features, which ``rows_of`` makes for some rows."""
        made = self.raw("words", width)
        made.fill(rows_of)
        return made

    def smooth(
        self, names: Sequence[str], source: Columns, how: Sequence[tuple[int, float] | str | None], half: bool
    ) -> None:
        """Views with unit rows, each centred on its mean, from a source: as it is, by two-step means, or smoothed by
        so many steps with a restart."""
        for name, way in zip(names, how, strict=True):
            if self.space.has(name):
                continue
            made = source if way is None else self.raw(name, source.width)
            for i in range(len(made.blocks)):
                self.space.progress(f"view {name.replace('_', ' ')}", i / len(made.blocks))
                if not made.has(i):
                    made.write(i, self._smoothed(source.read(i), way))
            self._finish(name, made, half)
            if way is not None:
                made.drop()

    def _smoothed(self, z: Tensor, way: tuple[int, float] | str | None) -> Tensor:
        if isinstance(way, tuple):
            return bounded_normalized(self.graph).smooth(z, *way)
        mean, out = bounded_mean(self.graph), torch.empty_like(z)
        return mean.product_(mean.product_(z, out), z)

    def _finish(self, name: str, made: Columns, half: bool) -> None:
        rows_of, n = made.opened(), made.n
        full = torch.empty(n, dtype=torch.uint8)
        total = torch.zeros(made.width, dtype=torch.float64)
        for rows in self.space.rows(n, 12 * made.width):
            part = rows_of(rows)
            full[rows] = part.norm(dim=1) > 1e-6
            total += (part * full[rows, None]).sum(0, dtype=torch.float64)
        mean = (total / full.sum().clamp(min=1)).float()
        with self.space.writing(name, (n, made.width), torch.half if half else torch.float32) as out:
            for rows in self.space.rows(n, 12 * made.width):
                out[rows] = F.normalize((rows_of(rows) - mean) * full[rows, None], dim=1).to(out.dtype)
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
            lists = neighbour_lists(self.graph)
            last, turn = self._iterated(lists, start, width)
            products = self.raw("lists", width)
            for i in range(len(products.blocks)):
                if not products.has(i):
                    z = last.times(turn[:, products.blocks[i]])
                    products.write(i, lists.product_(z, torch.empty_like(z)))
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
        rows_of = columns.opened()
        with self.space.writing(name, (columns.n, matrix.shape[1]), torch.half) as out:
            for rows in self.space.rows(columns.n, 12 * columns.width):
                out[rows] = (rows_of(rows).double() @ matrix).half()

    def _iterated(self, lists: BoundedOperator, start: Callable[[slice], Tensor], width: int) -> tuple[Columns, Tensor]:
        """The last block of the iteration on disk, and the matrix that makes its columns orthonormal."""
        steps = [self.raw(f"step{number}", width) for number in range(STEPS + 2)]
        at = max((number for number, step in enumerate(steps) if step.complete()), default=0)
        if at == 0:
            steps[0].fill(start)
        for number in range(at + 1, STEPS + 2):
            self.space.progress("directions of the links", number / (STEPS + 2))
            last, step = steps[number - 1], steps[number]
            turn = torch.eye(width, dtype=torch.float64) if number == 1 else orthonormal(last.gram())
            for i in range(len(step.blocks)):
                if not step.has(i):
                    z = last.times(turn[:, step.blocks[i]])
                    if number <= STEPS:
                        z = lists.T.product_(lists.product_(z, torch.empty_like(z)), z)
                    step.write(i, z)  # the last one is only made orthonormal, once more: rounding had its part in it
            last.drop()
        return steps[-1], orthonormal(steps[-1].gram())

    def clean(self) -> None:
        """Remove what only the making needed."""
        shutil.rmtree(self.space.within("raw").folder, ignore_errors=True)


def neighbour_lists(graph: Graph) -> BoundedOperator:
    """The neighbour lists, each with the node itself, as bags of words: TF-IDF, as in ``reduced_links``."""
    assert graph.space is not None
    pattern = Pattern(graph.indptr, graph.indices)
    idf = torch.log((1 + graph.num_nodes) / (2 + pattern.totals(graph.space))) + 1
    squares = idf.square()[:, None]
    lengths = (pattern.sums(squares, torch.empty_like(squares), graph.space) + squares).clamp(min=1e-24).rsqrt()
    return BoundedOperator(pattern, lengths[:, 0], idf, True, graph.space)


def orthonormal(gram: Tensor) -> Tensor:
    """The matrix that makes columns with these inner products orthonormal; those that are not there become zero."""
    scale = gram.diagonal().clamp(min=1e-300).rsqrt()
    values, vectors = torch.linalg.eigh(gram * scale[:, None] * scale)
    keep = values > 1e-14 * values[-1]
    root = torch.where(keep, values.clamp(min=1e-300).rsqrt(), 0.0)
    turned: Tensor = scale[:, None] * vectors * root
    return turned
