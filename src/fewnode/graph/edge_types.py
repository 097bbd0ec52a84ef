"""How a model uses directions, types and weights of edges."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from .arrays import GraphCache, sorted_arcs
from .graph import STRUCTURE, Graph
from .operators import rows_of


@dataclass(frozen=True)
class EdgeUse:
    """How edges count: by their own weights (``weighted``) and by ``weights`` learned for their types (all equal if
    empty); and which ``types`` are counted at each node as one more view. The default is for a plain graph."""

    weighted: bool = True
    weights: dict[str, float] = field(default_factory=dict)
    types: tuple[str, ...] = ()

    @classmethod
    def learned(cls, graph: Graph) -> "EdgeUse":
        """Learned from the labels of a graph."""
        return cls(weights_tell(graph), type_weights(graph), commonest_types(graph))

    def seen(self, graph: Graph) -> Graph:
        """The graph without directions and types, whose edges count as described here."""
        weights = {} if graph.edge_types is None else self.weights
        if not _several(graph) and (self.weighted or graph.weights is None):
            return graph
        key = ("edges as a model counts them", self.weighted, tuple(weights.items()))
        return graph.cache.get(key, lambda: _joined(graph, self.weighted, weights))


def _several(graph: Graph) -> bool:
    return graph.directed or graph.edge_types is not None


def union(graph: Graph) -> Graph:
    """The graph without directions and types; edges between two nodes are joined, their weights added."""
    return EdgeUse().seen(graph)


def _joined(graph: Graph, weighted: bool, weights: Mapping[str, float]) -> Graph:
    """The graph without directions and types. The weight of an edge is multiplied by the one of its type in
    ``weights``; edges between two nodes are joined."""
    types, (target, source) = graph.edge_types, _ends(graph)
    own = graph.weights if types is None else types.weight
    values = torch.ones(len(target), device=graph.device) if own is None or not weighted else own
    if types is not None and weights:
        mean = sum(weights.values()) / len(weights)
        factor = torch.tensor([weights.get(name, mean) for name in types.names], device=graph.device)
        values = factor[types.ids] * values
    counted = values.cpu().numpy() if weights or (own is not None and weighted) else None
    ends = torch.stack([source, target]).cpu().numpy()
    arcs = sorted_arcs(ends, graph.num_nodes, not graph.directed, counted, None, ())  # undirected: both ways are there
    joined = {name: arcs[name] for name in ("indptr", "indices", "weights")}
    found = replace(graph, **joined, edge_types=None, directed=False, cache=GraphCache()).to(graph.device)
    if _several(graph) and not graph.has_features:
        found.cache.get(STRUCTURE, lambda: graph.x)  # as of the whole graph
    return found


def _ends(graph: Graph) -> tuple[Tensor, Tensor]:
    """Target and source of each arc; of each arc and type, if the graph has edge types."""
    target, source = rows_of(graph), graph.indices.long()
    if graph.edge_types is None:
        return target, source
    return target[graph.edge_types.arc], source[graph.edge_types.arc]


def type_weights(graph: Graph) -> dict[str, float]:
    """The adjusted homophily of each type (how much more often than by chance its edges join nodes of one class),
    relative to the largest; empty if no type is homophilous. A type with fewer than 30 edges between labelled nodes
    gets the mean of the others. The least weight is 0.05, so that uninformative types still connect the graph."""
    if graph.edge_types is None:
        return {}
    names, n_classes = graph.edge_types.names, graph.num_classes
    ends = graph.y[torch.stack(_ends(graph))]
    known = (ends >= 0).all(0)
    (a, b), ids = ends[:, known], graph.edge_types.ids[known]
    count = torch.bincount(ids, minlength=len(names)).double()
    share = (torch.bincount(ids * n_classes + end, minlength=len(names) * n_classes) for end in (a, b))
    left, right = (part.view(len(names), n_classes) / count[:, None].clamp(min=1) for part in share)
    chance = (left * right).sum(1)
    same = torch.bincount(ids, (a == b).double(), minlength=len(names)) / count.clamp(min=1)
    lift = (same - chance) / (1 - chance).clamp(min=1e-6)
    asked = (count >= 30) & (chance < 0.999)
    if not bool(asked.any()) or float(lift[asked].max()) <= 0.05:
        return {}
    lift = torch.where(asked, lift, lift[asked].clamp(min=0).mean())
    found = (lift / lift.max()).clamp(0.05, 1)
    return dict(zip(names, (round(value, 3) for value in found.tolist()), strict=True))


def weights_tell(graph: Graph) -> bool:
    """Whether edges within a class weigh more than edges between classes, by Welch's test of their logarithms among
    labelled nodes. Other weights would only reduce the effective number of neighbours. With fewer than 30 edges of
    either kind, weights are used."""
    if graph.weights is None:
        return True
    ends = graph.y[torch.stack(_ends(replace(graph, edge_types=None)))]
    known = (ends >= 0).all(0)
    same, weight = (ends[0] == ends[1])[known], graph.weights[known].double().log()
    within, between = weight[same], weight[~same]
    if min(len(within), len(between)) < 30:
        return True
    error = (within.var() / len(within) + between.var() / len(between)).sqrt()
    return bool(within.mean() - between.mean() > 2 * error)


def commonest_types(graph: Graph, most: int = 128) -> tuple[str, ...]:
    """The names of the types with the most edges, in the graph's order."""
    if graph.edge_types is None:
        return ()
    counts = torch.bincount(graph.edge_types.ids, minlength=len(graph.edge_types.names))
    chosen = torch.argsort(counts, descending=True, stable=True)[:most].tolist()
    return tuple(graph.edge_types.names[i] for i in sorted(chosen))


def type_counts(graph: Graph, types: tuple[str, ...]) -> Tensor:
    """The number of edges of each of these ``types`` at each node, ``[N, 2 * types]``: in a directed graph incoming,
    then outgoing edges; counts above one as 1 + log, as for words; rows have length one."""
    counts = torch.zeros(graph.num_nodes, 2 * len(types), device=graph.device)
    if graph.edge_types is not None:
        column = {name: at for at, name in enumerate(types)}
        place = torch.tensor([column.get(name, -1) for name in graph.edge_types.names], device=graph.device)
        columns = place[graph.edge_types.ids]
        there = columns >= 0
        for way, node in enumerate(_ends(graph) if graph.directed else _ends(graph)[:1]):
            cell = (node * counts.shape[1] + columns + way * len(types))[there]
            counts.view(-1).index_add_(0, cell, torch.ones_like(cell, dtype=torch.float))
    return F.normalize(torch.where(counts > 1, 1 + counts.clamp(min=1).log(), counts), dim=1)
