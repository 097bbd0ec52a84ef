"""Products with the adjacency of a graph that is larger than memory: the edges are read from disk at every pass."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from ..store.space import Space
from .operators import Operator

if TYPE_CHECKING:
    from .graph import Graph

Pattern = tuple[Tensor, Tensor]  # row pointers and column indices


class BoundedOperator(Operator):
    """``left * (A or A + I) * right`` with scales of rows and columns: the values of the arcs need not be kept.

    A row of a product is a sum of rows, which is what ``embedding_bag`` does, two to three times as fast as a product
    with a sparse matrix and a chunk of rows at a time.
    """

    def __init__(
        self, forth: Pattern, back: Pattern, left: Tensor | None, right: Tensor | None, loops: bool, space: Space
    ) -> None:
        self.forth, self.back = forth, back
        self.left, self.right, self.loops, self.space = left, right, loops, space

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.forth[0]) - 1, len(self.forth[0]) - 1

    @property
    def T(self) -> "BoundedOperator":
        return BoundedOperator(self.back, self.forth, self.right, self.left, self.loops, self.space)

    def to(self, dtype: torch.dtype) -> "BoundedOperator":
        return self

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.product_(dense.clone(), torch.empty_like(dense))

    @torch.no_grad()
    def product_(self, z: Tensor, out: Tensor, scale: float = 1.0) -> Tensor:
        """``scale * self @ z`` in ``out [N, B]``; ``z`` is used up."""
        if self.right is not None:
            z *= self.right[:, None]
        indptr, indices = self.forth
        for rows in self.space.rows(len(z), 4 * z.shape[1] * 4):
            ends = indptr[rows.start : rows.stop + 1].long()
            arcs = indices[int(ends[0]) : int(ends[-1])]
            starts = (ends - ends[0]).to(arcs.dtype)
            out[rows] = F.embedding_bag(arcs, z, starts, mode="sum", include_last_offset=True)
        if self.loops:
            out += z
        if self.left is not None:
            out *= (self.left * scale)[:, None]
        elif scale != 1.0:
            out *= scale
        return out

    @torch.no_grad()
    def smooth(self, h: Tensor, steps: int, restart: float) -> Tensor:
        """``ppr_smooth`` with three matrices ``[N, B]`` in memory: ``h``, the last step and the next."""
        z, out = h.clone(), torch.empty_like(h)
        for _ in range(steps):
            self.product_(z, out, 1 - restart).add_(h, alpha=restart)
            z, out = out, z
        return z


def bounded_normalized(graph: "Graph", space: Space) -> BoundedOperator:
    """D^-1/2 (A + I) D^-1/2; degrees count the self-loop."""
    forth, back = patterns(graph)
    into, out = ((part[0][1:] - part[0][:-1] + 1).float().rsqrt() for part in (forth, back))
    return BoundedOperator(forth, back, into, out, True, space)


def bounded_mean(graph: "Graph", space: Space) -> BoundedOperator:
    """D^-1 A."""
    forth, back = patterns(graph)
    return BoundedOperator(forth, back, graph.degree.clamp(min=1).float().reciprocal(), None, False, space)


def patterns(graph: "Graph") -> tuple[Pattern, Pattern]:
    """The arcs by target and by source: the same where the graph is not directed."""
    forth = (graph.indptr, graph.indices)
    if not graph.directed:
        return forth, forth
    assert graph.space is not None
    return forth, (graph.space.open("back_indptr"), graph.space.open("back_indices"))
