"""Products with the adjacency of a graph that is larger than memory: the edges are read from disk at every pass."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..store.space import Space
from .cache import CacheKey
from .graph import Graph
from .operators import Operator, normalized_adjacency


@dataclass(frozen=True)
class Pattern:
    """CSR arcs, mapped from disk; ``weights`` count ``unit`` times what they are."""

    indptr: Tensor
    indices: Tensor
    weights: Tensor | None = None
    unit: float = 1.0

    @torch.no_grad()
    def sums(self, z: Tensor, out: Tensor, space: Space) -> Tensor:
        """``A @ z`` in ``out [N, B]``. A row of it is a sum of rows of ``z``, which is what ``embedding_bag`` makes:
        faster than the product with a sparse matrix, and any chunk of rows by itself."""
        for rows in space.rows(len(out), 16 * z.shape[1]):
            ends = self.indptr[rows.start : rows.stop + 1].long()
            first, last = int(ends[0]), int(ends[-1])
            arcs = self.indices[first:last]
            each = None if self.weights is None else self.weights[first:last] * self.unit
            starts = (ends - first).to(arcs.dtype)
            out[rows] = F.embedding_bag(arcs, z, starts, mode="sum", include_last_offset=True, per_sample_weights=each)
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
    def product_(self, z: Tensor, out: Tensor, scale: float = 1.0) -> Tensor:
        """``scale * self @ z`` in ``out [N, B]``; ``z`` is used up."""
        assert self.space is not None
        if self.right is not None:
            z *= self.right[:, None]
        self.pattern.sums(z, out, self.space)
        if self.loops:
            out += z
        out *= scale if self.left is None else (self.left * scale)[:, None]
        return out

    @torch.no_grad()
    def smooth(self, h: Tensor, steps: int, restart: float) -> Tensor:
        """``ppr_smooth`` with three matrices ``[N, B]`` in memory: ``h``, the last step and the next."""
        z, out = h.clone(), torch.empty_like(h)
        for _ in range(steps):
            self.product_(z, out, 1 - restart).add_(h, alpha=restart)
            z, out = out, z
        return z


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
