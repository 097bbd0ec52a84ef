"""What a model makes of the weights, directions and kinds of edges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor
from torch.nn import functional as F

from .cache import CacheKey, GraphCache
from .frozen import STRUCTURE
from .graph import Graph

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
