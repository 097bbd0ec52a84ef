"""Products with the adjacency of a graph that is larger than memory: the edges are read from disk at every pass."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..store.pages import matrix
from ..store.rows import pieces
from ..store.space import Space
from .cache import CacheKey
from .graph import Graph
from .operators import Operator, normalized_adjacency

Then = Callable[[Tensor, slice], Tensor]  # given some rows of a product and which they are; what is kept of them
RowsOf = Callable[[slice], Tensor]  # some rows of a matrix


@dataclass(frozen=True)
class Pattern:
    """CSR arcs, mapped from disk; ``weights`` count ``unit`` times what they are."""

    indptr: Tensor
    indices: Tensor
    weights: Tensor | None = None
    unit: float = 1.0

    @torch.no_grad()
    def sums(self, z: Tensor, out: Tensor, space: Space, then: "Then | None" = None) -> Tensor:
        """``A @ z`` in ``out [N, B]``. A row of it is a sum of rows of ``z``, which is what ``embedding_bag`` makes:
        faster than the product with a sparse matrix, and any rows by themselves. ``then`` may change some rows while
        they are still in the processor's cache."""
        for chunk in space.rows(len(out), 16 * z.shape[1]):
            ends = self.indptr[chunk.start : chunk.stop + 1].long()
            for rows in pieces(chunk, z.shape[1]):
                at = ends[rows.start - chunk.start : rows.stop - chunk.start + 1]
                arcs = slice(int(at[0]), int(at[-1]))
                source = self.indices[arcs]
                each = None if self.weights is None else self.weights[arcs] * self.unit
                starts = (at - at[0]).to(source.dtype)
                part = F.embedding_bag(source, z, starts, mode="sum", include_last_offset=True, per_sample_weights=each)
                out[rows] = part if then is None else then(part, rows)
        return out

    def totals(self, space: Space) -> Tensor:
        """The (weighted) degree of each row, ``[N]``."""
        if self.weights is None:
            return (self.indptr[1:] - self.indptr[:-1]).float()
        ones = torch.ones(len(self.indptr) - 1, 1)
        return self.sums(ones, torch.empty_like(ones), space)[:, 0]


class BoundedOperator(Operator):
    """``left * (A or A + I) * right`` with a symmetric A and scales of rows and columns, so that arcs without weights
    need no values."""

    def __init__(self, pattern: Pattern, left: Tensor | None, right: Tensor | None, loops: bool, space: Space) -> None:
        self.pattern, self.left, self.right, self.loops, self.space = pattern, left, right, loops, space

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.pattern.indptr) - 1, len(self.pattern.indptr) - 1

    @property
    def T(self) -> "BoundedOperator":
        assert self.space is not None
        return BoundedOperator(self.pattern, self.right, self.left, self.loops, self.space)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.product_(dense.clone(), torch.empty_like(dense))

    @torch.no_grad()
    def product_(self, z: Tensor, out: Tensor) -> Tensor:
        """``self @ z`` in ``out [N, B]``; ``z`` is used up."""
        assert self.space is not None
        if self.right is not None:
            z *= self.right[:, None]
        return self.pattern.sums(z, out, self.space, lambda part, rows: self._scaled(part, z, rows, 1.0))

    @torch.no_grad()
    def smooth(self, h: "Tensor | RowsOf", steps: int, restart: float) -> Tensor:
        """``ppr_smooth`` with two matrices ``[N, B]`` in memory, the last step and the next: ``h`` is read at every
        step, so it may be on disk, or a function of some rows."""
        space, n = self.space, self.shape[0]
        assert space is not None
        given: RowsOf = h if callable(h) else h.__getitem__
        width = given(slice(0, 1)).shape[1]
        z, out = matrix(n, width), matrix(n, width)
        for rows in space.rows(n, 8 * width):
            z[rows] = given(rows)
        for step in range(steps):
            if step == 0 and self.right is not None:
                z *= self.right[:, None]
            onward = None if step == steps - 1 else self.right  # what the next step would begin with

            def then(part: Tensor, rows: slice, z: Tensor = z, onward: Tensor | None = onward) -> Tensor:
                part = self._scaled(part, z, rows, 1 - restart).add_(given(rows), alpha=restart)
                return part if onward is None else part.mul_(onward[rows, None])

            self.pattern.sums(z, out, space, then)
            z, out = out, z
        return z

    def _scaled(self, part: Tensor, z: Tensor, rows: slice, scale: float) -> Tensor:
        if self.loops:
            part += z[rows]
        return part.mul_(scale if self.left is None else (self.left[rows] * scale)[:, None])


BOUNDED = CacheKey[BoundedOperator]("bounded normalized adjacency")


def pattern_of(graph: Graph) -> Pattern:
    """The arcs of a graph on disk, which is not directed: by target or by source they are the same."""
    unit = 1.0 if graph.weights is None else 1.0 / max(float(graph.weights.numpy().mean(dtype="float64")), 1e-30)
    return Pattern(graph.indptr, graph.indices, graph.weights, unit)


def bounded_normalized(graph: Graph) -> BoundedOperator:
    """D^-1/2 (A + I) D^-1/2 of a graph on disk; degrees count the self-loop."""

    def build() -> BoundedOperator:
        assert graph.space is not None
        pattern = pattern_of(graph)
        scale = (pattern.totals(graph.space) + 1).rsqrt()
        return BoundedOperator(pattern, scale, scale, True, graph.space)

    return graph.cache.get(BOUNDED, build)


def bounded_mean(graph: Graph) -> BoundedOperator:
    """D^-1 A of a graph on disk; zero at a node without neighbours."""
    assert graph.space is not None
    pattern = pattern_of(graph)
    total = pattern.totals(graph.space)
    left = torch.where(total > 0, 1 / total.clamp(min=1e-30), 0.0)
    return BoundedOperator(pattern, left, None, False, graph.space)


def smoother(graph: Graph) -> Operator:
    """The normalized adjacency of a graph, wherever it is."""
    return normalized_adjacency(graph) if graph.space is None else bounded_normalized(graph)
