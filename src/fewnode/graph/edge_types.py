"""Directions, types and weights of edges: the graph of each relation, and which of them a model uses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor
from torch.nn import functional as F

from .arrays import CacheKey, GraphCache
from .graph import STRUCTURE, Graph

# --- What a model makes of the weights, directions and edge types.
FEW = 30  # edges between labelled nodes that are too few to ask
LEAST = 0.05  # of what an edge of the most telling type counts: those that tell nothing still hold the graph together
COUNTED = 128  # types whose edges at a node are counted: the commonest

SEEN = CacheKey[Graph]("edges as a model counts them")


@dataclass(frozen=True)
class EdgeUse:
    """How edges count: whether by their own weights (``weighted``), and by those that were learned for types
    (``weights``, all alike if empty); which ``relations`` (of ``graph.relations``) are views of their own; and which
    ``types`` are counted at each node, as one more view. Such views are ``length`` times as long as others in the open
    question. An EdgeUse without any of these is that of a plain graph."""

    weighted: bool = True
    weights: dict[str, float] = field(default_factory=dict)
    relations: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    length: float = 1.0

    @classmethod
    def of(cls, given: "EdgeUse | Mapping[str, Any] | None") -> "EdgeUse":
        """From what a model's card holds."""
        if given is None or isinstance(given, EdgeUse):
            return given or cls()
        return cls(**{**given, "relations": tuple(given["relations"]), "types": tuple(given["types"])})

    @property
    def n_views(self) -> int:
        """Views beside those of a plain graph."""
        return 2 * len(self.relations) + bool(self.types)

    def seen(self, graph: Graph) -> Graph:
        """The graph with edges that count as they are used."""
        if self.weighted and not (self.weights and graph.edge_types is not None):
            return graph
        key = SEEN.of(self.weighted, tuple(self.weights.items()))

        def build() -> Graph:
            plain = graph if self.weighted else graph.without_weights()
            return reweighted(plain, self.weights) if self.weights and graph.edge_types is not None else plain

        return graph.cache.get(key, build)


def reweighted(graph: Graph, weights: Mapping[str, float]) -> Graph:
    """The graph in which an edge of each type counts its weight times what ``weights`` say of the type."""
    assert graph.edge_types is not None
    usual = sum(weights.values()) / len(weights)
    factor = torch.tensor([weights.get(name, usual) for name in graph.edge_types.names], device=graph.device)
    own = factor[graph.edge_types.ids] * (1 if graph.edge_types.weight is None else graph.edge_types.weight)
    total = torch.zeros(len(graph.indices), device=graph.device).index_add_(0, graph.edge_types.arc, own)
    cache = GraphCache()
    if not graph.has_features:
        cache.get(STRUCTURE, lambda: graph.x)
    return replace(graph, weights=total, edge_types=replace(graph.edge_types, weight=own), cache=cache)


def type_weights(graph: Graph) -> dict[str, float]:
    """How much oftener than by chance the edges of each type join nodes of one class (its adjusted homophily), against
    the type that does so most; empty if no type does. Types with few labelled ends count as the mean of the others."""
    if graph.edge_types is None:
        return {}
    types, n_types, n_classes = graph.edge_types, len(graph.edge_types.names), graph.num_classes
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes, device=graph.device), graph.degree)[types.arc]
    ends = torch.stack([graph.y[rows], graph.y[graph.indices.long()[types.arc]]])
    known = (ends >= 0).all(0)
    (a, b), ids = ends[:, known], types.ids[known]
    count = torch.bincount(ids, minlength=n_types).double()
    share = (torch.bincount(ids * n_classes + end, minlength=n_types * n_classes) for end in (a, b))
    left, right = (part.view(n_types, n_classes) / count[:, None].clamp(min=1) for part in share)
    chance = (left * right).sum(1)
    same = torch.bincount(ids, (a == b).double(), minlength=n_types) / count.clamp(min=1)
    lift = (same - chance) / (1 - chance).clamp(min=1e-6)
    asked = (count >= FEW) & (chance < 0.999)
    if not bool(asked.any()) or float(lift[asked].max()) <= LEAST:
        return {}
    lift = torch.where(asked, lift, lift[asked].clamp(min=0).mean())
    found = (lift / lift.max()).clamp(LEAST, 1)
    return dict(zip(types.names, (round(value, 3) for value in found.tolist()), strict=True))


def commonest_types(graph: Graph, most: int = COUNTED) -> tuple[str, ...]:
    """The names of the types with the most edges, in their own order."""
    if graph.edge_types is None:
        return ()
    counts = torch.bincount(graph.edge_types.ids, minlength=len(graph.edge_types.names))
    chosen = torch.argsort(counts, descending=True, stable=True)[:most].tolist()
    return tuple(graph.edge_types.names[i] for i in sorted(chosen))


def type_counts(graph: Graph, types: tuple[str, ...]) -> Tensor:
    """How many edges of each of these ``types`` a node has, ``[N, 2 * types]``: in a directed graph those that come in,
    then those that go out; damped, and of length one."""
    n, width = graph.num_nodes, len(types)
    if graph.edge_types is None:
        return torch.zeros(n, 2 * width, device=graph.device)
    column = {name: at for at, name in enumerate(types)}
    place = np.array([column.get(name, -1) for name in graph.edge_types.names])[graph.edge_types.ids.cpu().numpy()]
    arc = graph.edge_types.arc.cpu().numpy()
    target, source = np.repeat(np.arange(n), graph.degree.cpu().numpy())[arc], graph.indices.cpu().numpy()[arc]
    there = place >= 0
    rows = [target[there], source[there]] if graph.directed else [target[there]]
    columns = [place[there] + way * width for way in range(len(rows))]
    one = np.ones(len(rows) * int(there.sum()), np.float32)
    counts = sp.csr_matrix((one, (np.concatenate(rows), np.concatenate(columns))), shape=(n, 2 * width))
    return damped(torch.from_numpy(counts.toarray()).to(graph.device))


def damped(counts: Tensor) -> Tensor:
    """Counts above one as 1 + log, as those of words are; rows of length one."""
    return F.normalize(torch.where(counts > 1, 1 + counts.clamp(min=1).log(), counts), dim=1)


def types_at(graph: Graph, types: tuple[str, ...], node: int, cuts: Sequence[Sequence[int]]) -> Tensor:
    """The row of ``type_counts`` of one node without its edges to the neighbours in each cut, ``[cuts, 2 * types]``."""
    counts = torch.zeros(len(cuts), 2 * len(types), device=graph.device)
    if graph.edge_types is None or not types:
        return counts
    column = {name: at for at, name in enumerate(types)}
    place = torch.tensor([column.get(name, -1) for name in graph.edge_types.names], device=graph.device)
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes, device=graph.device), graph.degree)[
        graph.edge_types.arc
    ]
    ends = rows, graph.indices.long()[graph.edge_types.arc]
    for way, (own, other) in enumerate((ends, ends[::-1])[: 1 + graph.directed]):
        mine = own == node
        others, columns = other[mine], place[graph.edge_types.ids[mine]]
        for at, cut in enumerate(cuts):
            left = (columns >= 0) & ~torch.isin(others, torch.tensor(cut, dtype=torch.long, device=graph.device))
            counts[at].index_add_(0, columns[left] + way * len(types), torch.ones(int(left.sum()), device=graph.device))
    return damped(counts)


# --- A graph's edges apart: by direction and by type, each a graph of its own; and together, without either.
RELATIONS_FEW = 30  # arcs within and between classes that are too few to ask
MOST = 8  # types that may be views of their own: the commonest; the others count together with all edges

UNION = CacheKey[Graph]("edges without direction or type")
RELATION = CacheKey[Graph]("edges of one direction or type")


def relation_names(graph: Graph) -> tuple[str, ...]:
    """What the edges of a graph are told apart by: directions ("in", "out") and types ("type " and its name, at most
    ``MOST``, the commonest); nothing for a plain graph."""
    ways = ("in", "out") if graph.directed else ()
    return (*ways, *(f"type {name}" for name in commonest_types(graph, MOST)))


def relation(graph: Graph, name: str) -> Graph:
    """A graph of the same nodes for one of ``relation_names``: row ``v`` lists those with an edge *to* v ("in"), those
    to which v has one ("out"), or those with an edge of one type, whatever its direction. Without edges, if there are
    none of the type or no directions."""
    return graph.cache.get(RELATION.of(name), lambda: _apart(graph, name))


def union(graph: Graph) -> Graph:
    """The graph without directions and types, in which all edges, each with its weight, are one."""
    if not graph.directed and graph.edge_types is None:
        return graph
    if not graph.directed:
        return graph.cache.get(UNION, lambda: replace(graph, edge_types=None, cache=_structure(graph)))

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
    if min(len(within), len(between)) < RELATIONS_FEW:
        return True
    error = (within.var() / len(within) + between.var() / len(between)).sqrt()
    return bool(within.mean() - between.mean() > 2 * error)


def _apart(graph: Graph, name: str) -> Graph:
    types = None if graph.edge_types is None else graph.edge_types.to("cpu")
    edge_type = name.removeprefix("type ")
    if name in ("in", "out") and graph.directed:
        there = _graph(graph, graph.to_scipy(), directed=True)
        return there if name == "in" else there.reversed()
    if name in ("in", "out") or types is None or edge_type not in types.names:
        return _graph(graph, sp.csr_matrix((graph.num_nodes,) * 2, dtype="float32"), directed=False)
    chosen = types.ids == types.names.index(edge_type)
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.degree.cpu())[types.arc[chosen]]
    values = torch.ones(int(chosen.sum())) if types.weight is None else types.weight[chosen]
    ends = rows.numpy(), graph.indices.cpu()[types.arc[chosen]].numpy()
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
        edge_types=None,
        directed=directed,
        cache=_structure(graph),
    )


def _structure(graph: Graph) -> GraphCache:
    """A cache that holds the structural features of the whole graph, if it has no others."""
    cache = GraphCache()
    if not graph.has_features:
        cache.get(STRUCTURE, lambda: graph.x)
    return cache
