"""The kernels: products with gradients, neighbour gathers, smoothing, passes over features. Nothing is dense [N, N]."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor
from torch.nn import functional as F

from ..store import MEMORY, Space, chunks, one_thread, pieces
from .arrays import csr_parts, csr_tensor, gather_rows, to_scipy, to_tensor, transposed
from .graph import Graph


@dataclass(frozen=True, eq=False)
class Operator:
    """``diag(left) (A or A + I) diag(right)`` for the CSR arcs A, in memory or mapped from disk; products with a dense
    matrix are differentiable in that.

    Unweighted arcs need no stored values, whatever the normalisation; ``weights`` are multiplied by ``unit``. A graph
    in a ``space`` is read from disk at every pass, in chunks of rows.
    """

    indptr: Tensor
    indices: Tensor
    weights: Tensor | None = None
    unit: float = 1.0
    left: Tensor | None = None
    right: Tensor | None = None
    loops: bool = False
    space: Space = MEMORY
    width: int | None = None  # number of columns, if not square
    symmetric: bool = True  # whether A is

    @classmethod
    def of(cls, matrix: Tensor) -> "Operator":
        """A CSR tensor as an operator."""
        return cls(*csr_parts(matrix), width=matrix.shape[1], symmetric=False)

    @property
    def shape(self) -> tuple[int, int]:
        rows = len(self.indptr) - 1
        return rows, rows if self.width is None else self.width

    @cached_property
    def T(self) -> "Operator":
        turned = replace(self, left=self.right, right=self.left)
        if self.symmetric:
            return turned
        indptr, indices, weights = csr_parts(transposed(self._arcs))
        turned = replace(turned, indptr=indptr, indices=indices, weights=weights, width=self.shape[0])
        turned.__dict__["T"] = self
        return turned

    @property
    def _arcs(self) -> Tensor:
        values = torch.ones(len(self.indices), device=self.indices.device) if self.weights is None else self.weights
        return csr_tensor(self.indptr, self.indices, values, self.shape)

    @cached_property
    def matrix(self) -> Tensor:
        """The operator as a CSR tensor."""
        found = to_scipy(self._arcs) * np.float32(self.unit)
        if self.loops:
            found = found + sp.identity(len(self.indptr) - 1, "float32")
            found.sort_indices()
        indptr, indices, values = csr_parts(to_tensor(found, self.indptr.device))
        for scale, at in ((self.right, indices), (self.left, torch.repeat_interleave(indptr.diff()))):
            values = values if scale is None else values * scale[at.long()]
        return csr_tensor(indptr, indices, values, self.shape)

    def __matmul__(self, dense: Tensor) -> Tensor:
        product: Tensor = _Product.apply(self, dense)  # type: ignore[no-untyped-call]
        return product

    def totals(self) -> Tensor:
        """The sum of each row."""
        return (self @ torch.ones(self.shape[1], 1, device=self.indptr.device))[:, 0]

    @torch.no_grad()
    def into(self, z: Tensor, out: Tensor) -> Tensor:
        """``self @ z``; ``z`` is overwritten if ``right`` is there, ``out`` unless all rows are computed at once."""
        return self._step(z if self.right is None else z.mul_(self.right[:, None]), out)

    @torch.no_grad()
    def smooth(self, h: Tensor, steps: int = 12, restart: float = 0.1) -> Tensor:
        """Personalised-PageRank smoothing, without gradients: ``z <- (1 - restart) * operator @ z + restart * h``, from
        ``z = h``. Two matrices ``[N, B]`` are in memory, the last step and the next. ``h`` is read at every step, so it
        may be on disk."""
        if h.is_cpu and not self.space.on_disk and h.shape[1] > 64:
            # Rows of 64 columns stay in the processor's cache for longer.
            return torch.cat([self.smooth(part.contiguous(), steps, restart) for part in h.split(64, 1)], 1)
        z, out = (h.new_empty(self.shape[0], h.shape[1]) for _ in range(2))
        for rows in self.space.rows(len(z), 8 * z.shape[1]):
            z[rows] = h[rows]
        if steps and self.right is not None:
            z *= self.right[:, None]
        for left in range(steps, 0, -1):
            z, out = self._step(z, out, h, restart, self.right if left > 1 else None), z
        return z

    def _step(
        self, z: Tensor, out: Tensor, h: Tensor | None = None, restart: float = 0.0, onward: Tensor | None = None
    ) -> Tensor:
        """``(1 - restart) * diag(left) (A or A + I) z + restart * h``, times ``onward [N]``, the first factor of the
        next step. It is in ``out [N, B]``, or a matrix of its own if all rows are computed at once.

        A row of A z is a sum of rows of ``z``, which ``embedding_bag`` computes faster than a sparse product and for
        any range of rows, so that all other work on these rows is done while they are in the processor's cache.
        """
        for chunk in self.space.rows(len(out), 16 * z.shape[1]):
            ends = self.indptr[chunk.start : chunk.stop + 1]
            for rows in pieces(chunk, z.shape[1]):
                at = ends[rows.start - chunk.start : rows.stop - chunk.start + 1]
                arcs = slice(int(at[0]), int(at[-1]))
                source = self.indices[arcs]
                each = None if self.weights is None else self.weights[arcs].to(z.dtype)
                each = each if each is None or self.unit == 1 else each * self.unit
                starts = (at - at[0]).to(source.dtype)
                with one_thread.all():
                    part = F.embedding_bag(
                        source, z, starts, mode="sum", include_last_offset=True, per_sample_weights=each
                    )
                if self.loops:
                    part += z[rows]
                if self.left is not None or restart:
                    part *= 1 - restart if self.left is None else (self.left[rows] * (1 - restart))[:, None]
                if h is not None:
                    part.add_(h[rows], alpha=restart)
                part = part if onward is None else part.mul_(onward[rows, None])
                if len(part) == len(out):  # all rows at once need no copy
                    return part
                out[rows] = part
        return out


class _Product(torch.autograd.Function):
    """``operator @ dense``; its backward is a product with the transpose."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, dense: Tensor) -> Tensor:
        ctx.operator = operator
        z = dense.detach()
        z = z.contiguous() if operator.right is None else z.clone(memory_format=torch.contiguous_format)
        return operator.into(z, z.new_empty(operator.shape[0], z.shape[1]))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, ctx.operator.T @ gradients[0]  # differentiable again, for MAML


def arcs_of(graph: Graph) -> Operator:
    """A, with weights scaled to mean one, or ones."""
    weights, unit = graph.weights, 1.0
    if weights is not None and len(weights):
        unit = 1.0 / float(weights.cpu().numpy().mean(dtype="float64"))
    return Operator(graph.indptr, graph.indices, weights, unit, space=graph.space, symmetric=not graph.directed)


def rows_of(graph: Graph) -> Tensor:
    """The row of every arc, [arcs]."""
    return torch.repeat_interleave(torch.arange(graph.num_nodes, device=graph.device), graph.degree)


def adjacency(graph: Graph) -> Operator:
    """A without weights: for sums and counts."""
    return graph.cache.get("adjacency", lambda: replace(arcs_of(graph), weights=None, unit=1.0))


def closed_adjacency(graph: Graph) -> Operator:
    """A + I without weights: the sum over a node and its neighbours."""
    return graph.cache.get("closed adjacency", lambda: replace(adjacency(graph), loops=True))


def mean_adjacency(graph: Graph) -> Operator:
    """D^-1 A: the (weighted) mean over the neighbours; zero without neighbours."""

    def build() -> Operator:
        arcs = arcs_of(graph)
        total = arcs.totals()
        return replace(arcs, left=torch.where(total > 0, 1 / total.clamp(min=1e-30), 0.0))

    return graph.cache.get("mean adjacency", build)


def normalized_adjacency(graph: Graph) -> Operator:
    """D^-1/2 (A + I) D^-1/2, the propagation of a GCN; degrees are weighted and count the self-loop."""

    def build() -> Operator:
        looped = replace(arcs_of(graph), loops=True)
        return replace(looped, left=looped.totals().rsqrt(), right=looped.T.totals().rsqrt())

    return graph.cache.get("normalized adjacency", build)


def project(graph: Graph, weight: Tensor, nodes: Tensor | None = None) -> Tensor:
    """``x @ weight`` of ``nodes [P]``, by default of all, for dense or sparse features and ``weight [F, d]``;
    differentiable in the weight."""
    if graph.x.layout != torch.sparse_csr:
        return (graph.x if nodes is None else graph.x[nodes]).to(weight.dtype) @ weight
    if nodes is None:
        return graph.cache.get("sparse features", lambda: Operator.of(graph.x)) @ weight
    indptr, columns, values = csr_parts(graph.x)
    owner, at = gather_rows(indptr, nodes)
    first = torch.searchsorted(owner, torch.arange(len(nodes), device=nodes.device))
    share = values[at].to(weight.dtype)
    return F.embedding_bag(columns[at].long(), weight, first, mode="sum", per_sample_weights=share)


def gather_neighbours(graph: Graph, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """All arcs into ``nodes [B]``: for each, its position in ``nodes`` and the neighbour's id, both [arcs]."""
    owner, at = gather_rows(graph.indptr, nodes)
    return owner, graph.indices[at].long()


def feature_rows(x: Tensor, rows: slice) -> Tensor:
    """A range of rows of dense or sparse features."""
    if x.layout != torch.sparse_csr:
        return x[rows]
    indptr, columns, values = csr_parts(x)
    ends = indptr[rows.start : rows.stop + 1]
    arcs = slice(int(ends[0]), int(ends[-1]))
    return csr_tensor(ends - ends[0], columns[arcs], values[arcs], (len(ends) - 1, x.shape[1]))


def row_bytes(x: Tensor) -> int:
    """Mean bytes of a row of features."""
    return 4 * x.shape[1] if x.layout != torch.sparse_csr else 16 * (1 + x.values().numel() // max(len(x), 1))


def column_means(x: Tensor, space: Space) -> Tensor:
    """The mean of each column of dense features."""
    return column_spread(x, space)[1].float()


def column_spread(x: Tensor, space: Space) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean of each column of dense features, in double precision."""
    means, count = x.new_zeros(x.shape[1], dtype=torch.float64), 0
    squares = torch.zeros_like(means)
    # Moments of chunks are merged, which avoids a small difference of large numbers.
    for rows in space.rows(len(x), 3 * row_bytes(x)):
        part = x[rows].double()
        mean, both = part.mean(0), count + len(part)
        squares += (part - mean).square().sum(0) + (mean - means).square() * (count * len(part) / both)
        means += (mean - means) * (len(part) / both)
        count = both
    return (squares / count).sqrt(), means


def standardised(x: Tensor, centre: Tensor, scale: Tensor, space: Space) -> Tensor:
    """``(x - centre) / scale``, kept in the ``space``."""
    own = space.within("standardised", centre, scale)
    return own.by_rows("x", (len(x), x.shape[1]), torch.float32, lambda rows: (x[rows] - centre).div_(scale))


def gram(h: Tensor, space: Space) -> Tensor:
    """Inner products of all columns, in double precision: a small one may be the difference of large ones."""
    total = h.new_zeros(h.shape[1], h.shape[1], dtype=torch.float64)
    for rows in space.rows(len(h), 12 * h.shape[1]):
        part = h[rows].double()
        total += part.T @ part
    return total


def gram_product(x: Tensor, space: Space, weighted: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """``v -> X^T X v`` for the rows X that ``weighted`` makes of features ``x``.

    Features that fit into memory are weighted once, on disk or not: rounding can flip the sign of a singular vector,
    and the subspace iteration for links starts from these vectors.
    """
    sparse = x.layout == torch.sparse_csr
    needed = 32 * x.values().numel() if sparse else 8 * x.numel()  # by rows and by columns; as read and centred
    if space.memory_for(needed + 256 * len(x), len(x)) <= space.memory:
        whole = weighted(x)
        back = transposed(whole) if sparse else whole.T
        return lambda v: torch.cat([back @ (whole @ some.contiguous()) for some in v.split(64, 1)], 1)

    def product(v: Tensor) -> Tensor:
        total = torch.zeros_like(v, dtype=torch.float64)
        for rows in space.rows(len(x), 2 * (row_bytes(x) + 4 * v.shape[1])):
            part = weighted(feature_rows(x, rows))
            total += columns_of(part, part @ v)
        return total.to(v.dtype)

    if sparse or x.shape[1] > 2048:
        return product
    gram = product(torch.eye(x.shape[1])).double()  # computed once instead of at every product
    return lambda v: (gram @ v.double()).to(v.dtype)


def columns_of(part: Tensor, z: Tensor) -> Tensor:
    """``part^T z`` without transposing a sparse matrix."""
    if part.layout != torch.sparse_csr:
        return part.T @ z
    return torch.from_numpy(to_scipy(part).T @ z.cpu().numpy()).to(z.device)


def times_rows(left: Tensor, rows: Tensor) -> Tensor:
    """``left [B, N] @ rows [N, W]``; rows in half precision, as on disk, are converted by chunks."""
    if rows.dtype == left.dtype:
        return left @ rows
    total = left.new_zeros(left.shape[0], rows.shape[1])
    for some in chunks(len(rows), 4 * rows.shape[1]):
        total += left[:, some] @ rows[some].float()
    return total


_STEP, _MIX_1, _MIX_2 = -7046029254386353131, -4658895280553007687, -7723592293110705685  # SplitMix64's constants


def hashed(numbers: Tensor, seed: int) -> Tensor:
    """Pseudo-random integers in [0, 2^53) from integers: SplitMix64 (Steele, Lea, Flood 2014) in int64."""
    z = numbers * _STEP + (seed + 1) * _STEP % 2**63
    z = (z ^ _shifted(z, 30)) * _MIX_1
    z = (z ^ _shifted(z, 27)) * _MIX_2
    return _shifted(z ^ _shifted(z, 31), 11)


def _shifted(z: Tensor, bits: int) -> Tensor:
    """An unsigned right shift."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)
