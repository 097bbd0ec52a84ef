"""A graph's edges apart: by direction and by kind, each a graph of its own; and together, without either."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from scipy import sparse as sp
from torch import Tensor

from .cache import CacheKey, GraphCache
from .frozen import STRUCTURE
from .graph import Graph

FEW = 30  # arcs within and between classes that are too few to ask
MOST = 8  # kinds that are told apart: the commonest; the others count together with all edges

UNION = CacheKey[Graph]("edges without direction or kind")
RELATIONS = CacheKey[dict[str, Graph]]("edges by direction and kind")


def relation_names(graph: Graph) -> tuple[str, ...]:
    """What the edges of a graph are told apart by: directions, kinds or both; nothing for a plain graph."""
    kinds = [None] if graph.kinds is None else [graph.kinds.names[kind] for kind in _commonest(graph)]
    ways = ["in", "out"] if graph.directed else [None]
    return tuple(" ".join(part for part in (kind, way) if part) for kind in kinds for way in ways if kind or way)


def relations(graph: Graph) -> dict[str, Graph]:
    """A graph of the same nodes for each of ``relation_names``: row ``v`` lists those with an edge *to* v ("in"), those
    to which v has one ("out"), or both, of one kind or of all."""
    return graph.cache.get(RELATIONS, lambda: dict(zip(relation_names(graph), _apart(graph), strict=True)))


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


def _apart(graph: Graph) -> Iterator[Graph]:
    if not graph.directed and graph.kinds is None:
        return
    for arcs in _adjacencies(graph):
        there = _graph(graph, arcs, graph.directed)
        yield there
        if graph.directed:
            yield there.reversed()


def _adjacencies(graph: Graph) -> Iterator[sp.csr_matrix]:
    if graph.kinds is None:
        yield graph.to_scipy()
        return
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.degree.cpu())
    kinds = graph.kinds.to("cpu")
    source = graph.indices.cpu()[kinds.arc]
    for kind in _commonest(graph):
        chosen = kinds.kind == kind
        values = torch.ones(int(chosen.sum())) if kinds.weight is None else kinds.weight[chosen]
        ends = rows[kinds.arc[chosen]].numpy(), source[chosen].numpy()
        yield sp.csr_matrix((values.numpy(), ends), shape=(graph.num_nodes,) * 2)


def _commonest(graph: Graph) -> list[int]:
    """The kinds with the most edges, at most ``MOST``, in their own order."""
    assert graph.kinds is not None
    counts = torch.bincount(graph.kinds.kind, minlength=len(graph.kinds.names))
    return sorted(torch.argsort(counts, descending=True, stable=True)[:MOST].tolist())


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
