"""The hot kernels: CSR products with gradients, neighbour gathers, smoothing. Nothing here is ever N x N dense."""

from collections.abc import Callable
from typing import Any

import torch
from scipy import sparse as sp
from torch import Tensor
from torch.nn import functional as F

from ..store.space import Space
from .cache import CacheKey
from .csr import csr_parts, csr_tensor, gather_rows, transposed
from .graph import Graph

Kernel = Callable[[Tensor, Tensor], Tensor]
WIDE = 64  # columns that are smoothed at once
LARGE = 4_000_000  # entries from which every product goes by bags: the stored results are of smaller graphs and torch's


def bags(matrix: Tensor, dense: Tensor) -> Tensor:
    """``matrix @ dense`` of a CSR matrix as weighted bags of rows: on a CPU two to four times as fast as torch's own
    product where the dense side is narrow (benchmarks/kernels.py)."""
    indptr, indices, values = csr_parts(matrix)
    # Without the detach torch also prepares a backward of its own, which nobody calls.
    dense = dense.detach().contiguous()
    return F.embedding_bag(indices, dense, indptr, mode="sum", per_sample_weights=values, include_last_offset=True)


class _Product(torch.autograd.Function):
    """``matrix @ dense`` whose backward uses the stored transpose: torch's own transposes at every call."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transpose: Tensor, dense: Tensor, kernel: Kernel) -> Tensor:
        ctx.transpose, ctx.matrix, ctx.kernel = transpose, matrix, kernel
        return kernel(matrix, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor, None]:
        # Through apply again, so that second derivatives (MAML) work.
        return None, None, _product(ctx.transpose, ctx.matrix, gradients[0], ctx.kernel), None


def _product(matrix: Tensor, transpose: Tensor, dense: Tensor, kernel: Kernel) -> Tensor:
    product: Tensor = _Product.apply(matrix, transpose, dense, kernel)  # type: ignore[no-untyped-call]
    return product


class Operator:
    """A sparse matrix kept with its transpose; ``operator @ dense`` is differentiable in the dense operand."""

    space: Space | None = None  # where products that do not fit into memory are kept

    def __init__(self, matrix: Tensor, transpose: Tensor, kernel: Kernel | None = None) -> None:
        large = matrix.device.type == "cpu" and len(matrix.values()) > LARGE
        self.matrix, self.transpose = matrix, transpose
        self.kernel: Kernel = kernel or (bags if large else torch.matmul)
        self._typed: dict[torch.dtype, Operator] = {matrix.dtype: self}

    @classmethod
    def from_csr(
        cls, indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, int], symmetric: bool
    ) -> "Operator":
        """An operator from CSR parts; a symmetric one is its own transpose."""
        matrix = csr_tensor(indptr, indices, values, shape)
        return cls(matrix, matrix if symmetric else transposed(matrix))

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def T(self) -> "Operator":
        return Operator(self.transpose, self.matrix, self.kernel)

    def to(self, dtype: torch.dtype) -> "Operator":
        """The operator in another precision, converted once."""
        if dtype not in self._typed:
            matrix = self.matrix.to(dtype)
            same = self.transpose is self.matrix
            self._typed[dtype] = Operator(matrix, matrix if same else self.transpose.to(dtype), self.kernel)
        return self._typed[dtype]

    def __matmul__(self, dense: Tensor) -> Tensor:
        typed = self.to(dense.dtype)
        return _product(typed.matrix, typed.transpose, dense, self.kernel)

    def smooth(self, h: Tensor, steps: int, restart: float) -> Tensor:
        """See ``ppr_smooth``. Some columns at a time, whose rows stay in the processor's cache for longer."""
        if h.is_cpu and not h.requires_grad and h.shape[1] > WIDE:
            return torch.cat([self.smooth(part.contiguous(), steps, restart) for part in h.split(WIDE, 1)], 1)
        z = h
        for _ in range(steps):
            if h.requires_grad:
                z = (1 - restart) * (self @ z) + restart * h
            elif self.kernel is bags:
                z = (self @ z).mul_(1 - restart).add_(h, alpha=restart)
            else:  # one fused pass over memory instead of three
                z = torch.addmm(h, self.to(h.dtype).matrix, z, beta=restart, alpha=1 - restart)
        return z


ADJACENCY = CacheKey[Operator]("adjacency")
CLOSED_ADJACENCY = CacheKey[Operator]("closed adjacency")
WEIGHTED_ADJACENCY = CacheKey[Operator]("weighted adjacency")
MEAN_ADJACENCY = CacheKey[Operator]("mean adjacency")
NORMALIZED_ADJACENCY = CacheKey[Operator]("normalized adjacency")
FEATURES = CacheKey[Operator]("sparse features")


def _operator(graph: Graph, indptr: Tensor, indices: Tensor, values: Tensor, symmetric: bool) -> Operator:
    return Operator.from_csr(indptr, indices, values, (graph.num_nodes,) * 2, symmetric and not graph.directed)


def rows_of(graph: Graph) -> Tensor:
    """The row of every stored arc, [arcs]: the CSR pointers written out."""
    return torch.repeat_interleave(torch.arange(graph.num_nodes, device=graph.device), graph.degree)


def arc_values(graph: Graph) -> Tensor:
    """What each arc counts, float32 [arcs]: its weight, scaled to a mean of one, or one."""
    return torch.from_numpy(graph.to_scipy(scaled=True).data).to(graph.device)


def adjacency(graph: Graph) -> Operator:
    """A, with ones: for sums and counts, in which every edge is one."""

    def build() -> Operator:
        ones = torch.ones(len(graph.indices), device=graph.device)
        return _operator(graph, graph.indptr, graph.indices, ones, symmetric=True)

    return graph.cache.get(ADJACENCY, build)


def closed_adjacency(graph: Graph) -> Operator:
    """A + I, with ones: the sum over a node and its neighbours."""

    def build() -> Operator:
        nodes = torch.arange(graph.num_nodes, device=graph.device)
        rows, columns = torch.cat([rows_of(graph), nodes]), torch.cat([graph.indices.long(), nodes])
        order = torch.argsort(rows * graph.num_nodes + columns)
        pointers = graph.indptr + torch.arange(graph.num_nodes + 1, dtype=graph.indptr.dtype, device=graph.device)
        ones, dtype = torch.ones(len(rows), device=graph.device), graph.indices.dtype
        matrix = csr_tensor(pointers, columns[order].to(dtype), ones, (graph.num_nodes,) * 2)
        return Operator(matrix, transposed(matrix) if graph.directed else matrix, bags)

    return graph.cache.get(CLOSED_ADJACENCY, build)


def weighted_adjacency(graph: Graph) -> Operator:
    """A, with weights of mean one; ones, where the graph has none."""
    if graph.weights is None:
        return adjacency(graph)
    values = arc_values(graph)
    return graph.cache.get(
        WEIGHTED_ADJACENCY, lambda: _operator(graph, graph.indptr, graph.indices, values, symmetric=True)
    )


def mean_adjacency(graph: Graph) -> Operator:
    """D^-1 A: the (weighted) mean over the neighbours; zero at a node that has none."""

    def build() -> Operator:
        rows = rows_of(graph)
        if graph.weights is None:
            values = 1.0 / graph.degree.clamp(min=1).float()[rows]
        else:
            given = arc_values(graph)
            values = given / given.new_zeros(graph.num_nodes).index_add_(0, rows, given)[rows]
        return _operator(graph, graph.indptr, graph.indices, values, symmetric=False)

    return graph.cache.get(MEAN_ADJACENCY, build)


def normalized_adjacency(graph: Graph) -> Operator:
    """D^-1/2 (A + I) D^-1/2, the propagation of a GCN; degrees are weighted and count the self-loop."""

    def build() -> Operator:
        loops = graph.to_scipy(scaled=True) + sp.identity(graph.num_nodes, dtype="float32", format="csr")
        loops.sort_indices()
        into, out = (torch.from_numpy(loops.sum(axis)).ravel().rsqrt().to(graph.device) for axis in (1, 0))
        dtype = graph.indices.dtype
        indptr, indices = (torch.from_numpy(part).to(graph.device, dtype) for part in (loops.indptr, loops.indices))
        rows = torch.repeat_interleave(torch.arange(graph.num_nodes, device=graph.device), graph.degree + 1)
        values = into[rows] * out[indices.long()]
        if graph.weights is not None:
            values = values * torch.from_numpy(loops.data).to(graph.device)
        return _operator(graph, indptr, indices, values, symmetric=True)

    return graph.cache.get(NORMALIZED_ADJACENCY, build)


def project(graph: Graph, weight: Tensor, nodes: Tensor | None = None) -> Tensor:
    """``x @ weight`` of ``nodes [P]``, by default of all, for dense or sparse features and ``weight [F, d]``;
    differentiable in the weight."""
    if graph.x.layout != torch.sparse_csr:
        return (graph.x if nodes is None else graph.x[nodes]).to(weight.dtype) @ weight
    if nodes is None:
        return feature_operator(graph) @ weight
    indptr, columns, values = csr_parts(graph.x)
    owner, at = gather_rows(indptr, nodes)
    first = torch.searchsorted(owner, torch.arange(len(nodes), device=nodes.device))
    share = values[at].to(weight.dtype)
    return F.embedding_bag(columns[at].long(), weight, first, mode="sum", per_sample_weights=share)


def feature_operator(graph: Graph) -> Operator:
    """The sparse features as an operator."""
    return graph.cache.get(FEATURES, lambda: Operator(graph.x, transposed(graph.x), bags))


def gather_neighbours(graph: Graph, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """All arcs into ``nodes [B]``: for each, its position in ``nodes`` and the neighbour's id, both [arcs]."""
    owner, at = gather_rows(graph.indptr, nodes)
    return owner, graph.indices[at].long()


def ppr_smooth(operator: Operator, h: Tensor, steps: int = 12, restart: float = 0.1) -> Tensor:
    """Personalised-PageRank smoothing: ``z <- (1 - restart) * operator @ z + restart * h``, from ``z = h``."""
    return operator.smooth(h, steps, restart)
