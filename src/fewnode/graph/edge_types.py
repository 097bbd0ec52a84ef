"""Directions, types and weights of edges, and what a model makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import torch
from torch import Tensor
from torch.nn import functional as F

from .arrays import GraphCache, sorted_arcs
from .graph import STRUCTURE, Graph
from .operators import rows_of

SEEN = "edges as a model counts them"


@dataclass(frozen=True)
class EdgeUse:
    """How edges count: whether by their own weights (``weighted``), and by those that were learned for types
    (``weights``, all alike if empty); and which ``types`` are counted at each node, as one more view. An EdgeUse
    without any of these is that of a plain graph."""

    weighted: bool = True
    weights: dict[str, float] = field(default_factory=dict)
    types: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> "EdgeUse":
        """From what a model's card holds."""
        return msgspec.convert(given or {}, cls)

    @classmethod
    def learned(cls, graph: Graph) -> "EdgeUse":
        """What to make of the weights and types of edges, by the labels of a graph."""
        return cls(weights_tell(graph), type_weights(graph), commonest_types(graph))

    def seen(self, graph: Graph) -> Graph:
        """The graph with edges that count as they are used, without directions and types."""
        weights = {} if graph.edge_types is None else self.weights
        if graph.directed or graph.edge_types is not None:
            key = (SEEN, self.weighted, tuple(weights.items()))
            return graph.cache.get(key, lambda: _joined(graph, self.weighted, weights))
        if self.weighted or graph.weights is None:
            return graph
        return graph.cache.get((SEEN, False), graph.without_weights)


def union(graph: Graph) -> Graph:
    """The graph without directions and types, in which all edges, each with its weight, are one."""
    return EdgeUse().seen(graph)


def _joined(graph: Graph, weighted: bool, weights: Mapping[str, float]) -> Graph:
    """The graph without directions and types, in which an edge of each type counts its weight times what ``weights``
    say of the type; edges between the same nodes are one."""
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
    cache = GraphCache()
    if not graph.has_features:
        cache.get(STRUCTURE, lambda: graph.x)  # the structural features are those of the whole graph
    joined = {name: arcs[name] for name in ("indptr", "indices", "weights")}
    moved: dict[str, Any] = {name: part if part is None else part.to(graph.device) for name, part in joined.items()}
    return replace(graph, **moved, edge_types=None, directed=False, cache=cache)


def _ends(graph: Graph) -> tuple[Tensor, Tensor]:
    """Target and source of each arc; of each arc and type, if the graph has edge types."""
    target, source = rows_of(graph), graph.indices.long()
    if graph.edge_types is None:
        return target, source
    return target[graph.edge_types.arc], source[graph.edge_types.arc]


def type_weights(graph: Graph) -> dict[str, float]:
    """How much oftener than by chance the edges of each type join nodes of one class (its adjusted homophily), relative
    to the type that does so most; empty if no type does. A type with fewer than 30 edges between labelled nodes gets
    the mean of the others. No weight is below 0.05: types that tell nothing still hold the graph together."""
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
    the labelled nodes. Weights that do not would only make neighbours fewer. Without labels to ask, the user is
    believed."""
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
    """The names of the types with the most edges, in their own order."""
    if graph.edge_types is None:
        return ()
    counts = torch.bincount(graph.edge_types.ids, minlength=len(graph.edge_types.names))
    chosen = torch.argsort(counts, descending=True, stable=True)[:most].tolist()
    return tuple(graph.edge_types.names[i] for i in sorted(chosen))


def type_counts(graph: Graph, types: tuple[str, ...]) -> Tensor:
    """How many edges of each of these ``types`` a node has, ``[N, 2 * types]``: in a directed graph those that come in,
    then those that go out; counts above one as 1 + log, as those of words are, and rows of length one."""
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
