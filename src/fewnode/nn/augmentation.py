"""Random views of a graph for self-supervised training: edges dropped, feature columns masked."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..graph import Graph, operators
from ..graph.arrays import CacheKey, csr_parts, csr_tensor, gather_rows
from .graph_layers import Around, Inputs, SparseRows, next_to, take_rows

TRANSPOSITION = CacheKey[Tensor]("order of the normalized adjacency's transpose")
ROWS = CacheKey[Tensor]("rows of the normalized adjacency")


@dataclass(frozen=True)
class AugmentedView:
    """A graph seen otherwise: another propagation over its nodes, or over ``nodes [P]`` of it, and how much each input
    column counts, [width]."""

    smooth: operators.Operator
    columns: Tensor
    nodes: Tensor | None = None


def cut_around(graph: Graph, chosen: Tensor) -> tuple[Graph, Tensor]:
    """The graph induced on the nodes ``chosen [P]`` and all that two layers read there, without features; and which
    nodes of the whole graph these are, in rising order."""
    near = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    near[chosen] = True
    for _ in range(2):
        near[graph.indices[gather_rows(graph.indptr, near.nonzero()[:, 0])[1]].long()] = True
    bare = replace(graph.with_features(None), node_names=None)
    return bare.subgraph(near), near.nonzero()[:, 0]


def random_view(
    graph: Graph,
    width: int,
    dtype: torch.dtype,
    edge_drop: float,
    feature_drop: float,
    nodes: Tensor | None = None,
) -> AugmentedView:
    """Each edge is left out with probability ``edge_drop``, each of the ``width`` input columns with ``feature_drop``.

    ``nodes`` says which nodes of a larger graph these are, if they are. Drawn from torch's global random state, which
    the training loop seeds.
    """
    columns = (torch.rand(width, device=graph.device) >= feature_drop).to(dtype)
    kept = torch.rand(len(graph.indices), device=graph.device) >= edge_drop
    return AugmentedView(dropped_adjacency(graph, kept), columns, nodes)


def read_around(inputs: Inputs, graph: Graph, view: AugmentedView, chosen: Tensor) -> Around:
    """What an encoder reads in a view to embed the nodes ``chosen [P]``, positions in the view.

    Reduced inputs are propagated here, once for all encoders and without a gradient; raw ones after their weight.
    """
    near, rows = next_to(view.smooth, chosen)
    first = take_rows(view.smooth, near)
    if inputs.reduced is None:
        return Around(lambda weight: first @ inputs.project(graph, weight * view.columns[:, None], view.nodes), rows)
    x = _gathered(first, inputs.unit(graph), view.nodes) * view.columns
    return Around(x.__matmul__, rows)


def _gathered(rows: SparseRows, x: Tensor, nodes: Tensor | None) -> Tensor:
    """``rows @ x`` by a sparse product, which is faster than messages where no gradient is wanted."""
    column = rows.column if nodes is None else nodes[rows.column]
    first = torch.searchsorted(rows.owner, torch.arange(rows.size + 1, device=x.device))
    return csr_tensor(first, column, rows.share, (rows.size, len(x))) @ x


def dropped_adjacency(graph: Graph, keep: Tensor) -> operators.Operator:
    """``D^-1/2 (A + I) D^-1/2`` of the arcs where ``keep [arcs]``; both arcs of an edge follow the first one's.

    Dropped arcs stay in the pattern with the value zero, so nothing is sorted or built anew at a step.
    """
    whole = operators.normalized_adjacency(graph)
    indptr, columns, _ = csr_parts(whole.matrix)
    back = graph.cache.get(TRANSPOSITION, lambda: torch.argsort(columns.long(), stable=True))
    rows = graph.cache.get(ROWS, lambda: _rows(indptr))
    loop = rows == columns
    kept = torch.ones(len(columns), device=columns.device)
    kept[~loop] = keep.to(kept.dtype)
    if not graph.directed:  # the pattern is symmetric: the k-th arc of the transpose is the twin of the k-th arc
        kept = kept[torch.minimum(back, torch.arange(len(back), device=back.device))]
    if graph.weights is not None:
        kept[~loop] *= operators.arc_values(graph)
    into, out = (kept.new_zeros(graph.num_nodes).index_add_(0, end, kept).rsqrt() for end in (rows, columns.long()))
    values = kept * into[rows] * out[columns.long()]
    matrix = csr_tensor(indptr, columns, values, whole.shape)
    if not graph.directed:
        return operators.Operator(matrix, matrix)
    pointers, sources, _ = csr_parts(whole.transpose)
    return operators.Operator(matrix, csr_tensor(pointers, sources, values[back], whole.shape))


def _rows(indptr: Tensor) -> Tensor:
    counts = (indptr[1:] - indptr[:-1]).long()
    return torch.repeat_interleave(torch.arange(len(counts), device=indptr.device), counts)
