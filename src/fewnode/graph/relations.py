"""A graph's edges apart: by direction and by kind, each a graph of its own; and together, without either."""

from dataclasses import replace

import torch
from scipy import sparse as sp
from torch import Tensor

from .cache import CacheKey, GraphCache
from .edge_use import commonest_kinds
from .frozen import STRUCTURE
from .graph import Graph

FEW = 30  # arcs within and between classes that are too few to ask
MOST = 8  # kinds that may be views of their own: the commonest; the others count together with all edges

UNION = CacheKey[Graph]("edges without direction or kind")
RELATION = CacheKey[Graph]("edges of one direction or kind")


def relation_names(graph: Graph) -> tuple[str, ...]:
    """What the edges of a graph are told apart by: directions ("in", "out") and kinds ("kind " and its name, at most
    ``MOST``, the commonest); nothing for a plain graph."""
    ways = ("in", "out") if graph.directed else ()
    return (*ways, *(f"kind {name}" for name in commonest_kinds(graph, MOST)))


def relation(graph: Graph, name: str) -> Graph:
    """A graph of the same nodes for one of ``relation_names``: row ``v`` lists those with an edge *to* v ("in"), those
    to which v has one ("out"), or those with an edge of one kind, whatever its direction. Without edges, if there are
    none of the kind or no directions."""
    return graph.cache.get(RELATION.of(name), lambda: _apart(graph, name))


def union(graph: Graph) -> Graph:
    """The graph without directions and kinds, in which all edges, each with its weight, are one."""
    if not graph.directed and graph.kinds is None:
        return graph
    if not graph.directed:
        return graph.cache.get(UNION, lambda: replace(graph, kinds=None, cache=_structure(graph)))

    def build() -> Graph:
        arcs = graph.to_scipy()
        both = (arcs + arcs.T).tocsr()
        return _graph(graph, both, directed=False)

    return graph.cache.get(UNION, build)


def weights_tell(graph: Graph) -> bool:
    """Whether edges within a class weigh more than edges between classes, by Welch's test of their logarithms among
    the labelled nodes. Weights that do not would only make neighbours fewer. Without labels to ask, the user is
    believed."""
    if graph.weights is None:
        return True
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes, device=graph.device), graph.degree)
    ends = graph.y[rows], graph.y[graph.indices.long()]
    known = (ends[0] >= 0) & (ends[1] >= 0)
    same, weight = (ends[0] == ends[1])[known], graph.weights[known].double().log()
    within, between = weight[same], weight[~same]
    if min(len(within), len(between)) < FEW:
        return True
    error = (within.var() / len(within) + between.var() / len(between)).sqrt()
    return bool(within.mean() - between.mean() > 2 * error)


def _apart(graph: Graph, name: str) -> Graph:
    kinds = None if graph.kinds is None else graph.kinds.to("cpu")
    kind = name.removeprefix("kind ")
    if name in ("in", "out") and graph.directed:
        there = _graph(graph, graph.to_scipy(), directed=True)
        return there if name == "in" else there.reversed()
    if name in ("in", "out") or kinds is None or kind not in kinds.names:
        return _graph(graph, sp.csr_matrix((graph.num_nodes,) * 2, dtype="float32"), directed=False)
    chosen = kinds.kind == kinds.names.index(kind)
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.degree.cpu())[kinds.arc[chosen]]
    values = torch.ones(int(chosen.sum())) if kinds.weight is None else kinds.weight[chosen]
    ends = rows.numpy(), graph.indices.cpu()[kinds.arc[chosen]].numpy()
    arcs = sp.csr_matrix((values.numpy(), ends), shape=(graph.num_nodes,) * 2)
    return _graph(graph, (arcs + arcs.T).tocsr() if graph.directed else arcs, directed=False)


def _graph(graph: Graph, arcs: sp.csr_matrix, directed: bool) -> Graph:
    arcs.sort_indices()
    dtype = graph.indptr.dtype

    def tensor(part: object, kind: torch.dtype) -> Tensor:
        return torch.as_tensor(part).to(graph.device, kind)

    return replace(
        graph,
        indptr=tensor(arcs.indptr, dtype),
        indices=tensor(arcs.indices, dtype),
        weights=None if graph.weights is None else tensor(arcs.data, torch.float32),
        kinds=None,
        directed=directed,
        cache=_structure(graph),
    )


def _structure(graph: Graph) -> GraphCache:
    """A cache that holds the structural features of the whole graph, if it has no others."""
    cache = GraphCache()
    if not graph.has_features:
        cache.get(STRUCTURE, lambda: graph.x)
    return cache
