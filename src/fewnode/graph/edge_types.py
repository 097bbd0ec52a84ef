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

# --- What a model makes of the weights, directions and kinds of edges.
FEW = 30  # edges between labelled nodes that are too few to ask
LEAST = 0.05  # of what an edge of the most telling kind counts: those that tell nothing still hold the graph together
COUNTED = 128  # kinds whose edges at a node are counted: the commonest

SEEN = CacheKey[Graph]("edges as a model counts them")


@dataclass(frozen=True)
class EdgeUse:
    """How edges count: whether by their own weights (``weighted``), and by those that were learned for kinds
    (``weights``, all alike if empty); which ``relations`` (of ``graph.relations``) are views of their own; and which
    ``kinds`` are counted at each node, as one more view. Such views are ``length`` times as long as others in the open
    question. An EdgeUse without any of these is that of a plain graph."""

    weighted: bool = True
    weights: dict[str, float] = field(default_factory=dict)
    relations: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    length: float = 1.0

    @classmethod
    def of(cls, given: "EdgeUse | Mapping[str, Any] | None") -> "EdgeUse":
        """From what a model's card holds."""
        if given is None or isinstance(given, EdgeUse):
            return given or cls()
        return cls(**{**given, "relations": tuple(given["relations"]), "kinds": tuple(given["kinds"])})

    @property
    def n_views(self) -> int:
        """Views beside those of a plain graph."""
        return 2 * len(self.relations) + bool(self.kinds)

    def seen(self, graph: Graph) -> Graph:
        """The graph with edges that count as they are used."""
        if self.weighted and not (self.weights and graph.kinds is not None):
            return graph
        key = SEEN.of(self.weighted, tuple(self.weights.items()))

        def build() -> Graph:
            plain = graph if self.weighted else graph.without_weights()
            return reweighted(plain, self.weights) if self.weights and graph.kinds is not None else plain

        return graph.cache.get(key, build)


def reweighted(graph: Graph, weights: Mapping[str, float]) -> Graph:
    """The graph in which an edge of each kind counts its weight times what ``weights`` say of the kind."""
    assert graph.kinds is not None
    usual = sum(weights.values()) / len(weights)
    factor = torch.tensor([weights.get(name, usual) for name in graph.kinds.names], device=graph.device)
    own = factor[graph.kinds.kind] * (1 if graph.kinds.weight is None else graph.kinds.weight)
    total = torch.zeros(len(graph.indices), device=graph.device).index_add_(0, graph.kinds.arc, own)
    cache = GraphCache()
    if not graph.has_features:
        cache.get(STRUCTURE, lambda: graph.x)
    return replace(graph, weights=total, kinds=replace(graph.kinds, weight=own), cache=cache)


def kind_weights(graph: Graph) -> dict[str, float]:
    """How much oftener than by chance the edges of each kind join nodes of one class (its adjusted homophily), against
    the kind that does so most; empty if no kind does. Kinds with few labelled ends count as the mean of the others."""
    if graph.kinds is None:
        return {}
    kinds, n_kinds, n_classes = graph.kinds, len(graph.kinds.names), graph.num_classes
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes, device=graph.device), graph.degree)[kinds.arc]
    ends = torch.stack([graph.y[rows], graph.y[graph.indices.long()[kinds.arc]]])
    known = (ends >= 0).all(0)
    (a, b), kind = ends[:, known], kinds.kind[known]
    count = torch.bincount(kind, minlength=n_kinds).double()
    share = (torch.bincount(kind * n_classes + end, minlength=n_kinds * n_classes) for end in (a, b))
    left, right = (part.view(n_kinds, n_classes) / count[:, None].clamp(min=1) for part in share)
    chance = (left * right).sum(1)
    same = torch.bincount(kind, (a == b).double(), minlength=n_kinds) / count.clamp(min=1)
    lift = (same - chance) / (1 - chance).clamp(min=1e-6)
    asked = (count >= FEW) & (chance < 0.999)
    if not bool(asked.any()) or float(lift[asked].max()) <= LEAST:
        return {}
    lift = torch.where(asked, lift, lift[asked].clamp(min=0).mean())
    found = (lift / lift.max()).clamp(LEAST, 1)
    return dict(zip(kinds.names, (round(value, 3) for value in found.tolist()), strict=True))


def commonest_kinds(graph: Graph, most: int = COUNTED) -> tuple[str, ...]:
    """The names of the kinds with the most edges, in their own order."""
    if graph.kinds is None:
        return ()
    counts = torch.bincount(graph.kinds.kind, minlength=len(graph.kinds.names))
    chosen = torch.argsort(counts, descending=True, stable=True)[:most].tolist()
    return tuple(graph.kinds.names[kind] for kind in sorted(chosen))


def kind_counts(graph: Graph, kinds: tuple[str, ...]) -> Tensor:
    """How many edges of each of these ``kinds`` a node has, ``[N, 2 * kinds]``: in a directed graph those that come in,
    then those that go out; damped, and of length one."""
    n, width = graph.num_nodes, len(kinds)
    if graph.kinds is None:
        return torch.zeros(n, 2 * width, device=graph.device)
    column = {name: at for at, name in enumerate(kinds)}
    place = np.array([column.get(name, -1) for name in graph.kinds.names])[graph.kinds.kind.cpu().numpy()]
    arc = graph.kinds.arc.cpu().numpy()
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


def kinds_at(graph: Graph, kinds: tuple[str, ...], node: int, cuts: Sequence[Sequence[int]]) -> Tensor:
    """The row of ``kind_counts`` of one node without its edges to the neighbours in each cut, ``[cuts, 2 * kinds]``."""
    counts = torch.zeros(len(cuts), 2 * len(kinds), device=graph.device)
    if graph.kinds is None or not kinds:
        return counts
    column = {name: at for at, name in enumerate(kinds)}
    place = torch.tensor([column.get(name, -1) for name in graph.kinds.names], device=graph.device)
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes, device=graph.device), graph.degree)[graph.kinds.arc]
    ends = rows, graph.indices.long()[graph.kinds.arc]
    for way, (own, other) in enumerate((ends, ends[::-1])[: 1 + graph.directed]):
        mine = own == node
        others, columns = other[mine], place[graph.kinds.kind[mine]]
        for at, cut in enumerate(cuts):
            left = (columns >= 0) & ~torch.isin(others, torch.tensor(cut, dtype=torch.long, device=graph.device))
            counts[at].index_add_(0, columns[left] + way * len(kinds), torch.ones(int(left.sum()), device=graph.device))
    return damped(counts)


# --- A graph's edges apart: by direction and by kind, each a graph of its own; and together, without either.
RELATIONS_FEW = 30  # arcs within and between classes that are too few to ask
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
    if min(len(within), len(between)) < RELATIONS_FEW:
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
