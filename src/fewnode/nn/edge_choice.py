"""Which directions and types of edges help to tell classes apart: tried on known classes as simulated novel ones.

Every class is hidden once, with others, and shown by a few examples, which are compared under the covariance within the
classes that are known. What is known of the edges is used only if the accuracy of the hidden classes rises by more than
noise: the lower end of the 95 % interval (of Student's t, over classes) must be above zero. So with few classes it
takes a large gain, and with very few nothing is used.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..graph import Graph
from ..graph.edge_types import EdgeUse, commonest_types, relation, relation_names, type_weights, union, weights_tell
from .class_shape import class_scatter
from .views import Views, centred, further, neighbour_lists


@torch.no_grad()
def choose_edges(graph: Graph, rank: int = 256) -> tuple[EdgeUse, list[str]]:
    """What to make of the weights, directions and types of edges, by the labels of a graph; and notes about it."""
    use, notes = EdgeUse(weighted=weights_tell(graph)), list[str]()
    if not use.weighted:
        notes.append("edges within base classes weigh no more than edges between them, so the weights are not used")
    if not graph.directed and graph.edge_types is None:
        return use, notes
    trial = Trial.of(graph.y)
    if len(trial.classes) < 4:
        return use, [*notes, "directions and types of edges: not used, there are fewer than 4 known classes to ask"]
    plain, used = trial.views(graph, use, rank), list[str]()
    weights = type_weights(graph)
    if weights and min(weights.values()) < 0.7:  # others are not worth telling apart
        there = trial.views(graph, replace(use, weights=weights), rank)
        gain, low = trial.gain(plain, there)
        if low > 0:
            use, plain = replace(use, weights=weights), there
            used.append(f"an edge counts {_listed(weights)} ({100 * gain:+.1f} points)")
    seen, views = use.seen(graph), Views(graph.num_features, rank, use).to(graph.device).fit(graph)
    words, links = views.features(seen), neighbour_lists(union(seen)) @ views.sources(graph).links
    for what, more in _candidates(graph):
        block = torch.cat([centred(h)[trial.nodes] for h in further(seen, more, words, links)], 1)
        gain, low = trial.gain(plain, torch.cat([plain, block], 1))
        if low > 0:
            use = replace(use, relations=(*use.relations, *more.relations), types=(*use.types, *more.types))
            used.append(f"{what} ({100 * gain:+.1f} points)")
    told = "; ".join(used) + " on known classes" if used else "not used, they did not help on known classes"
    return use, [*notes, f"directions and types of edges: {told}"]


def _candidates(graph: Graph) -> Iterator[tuple[str, EdgeUse]]:
    """Views that could be added, each of a direction or type that at least two nodes in a hundred have an edge of."""
    if graph.directed:
        yield "in- and out-neighbours are seen apart", EdgeUse(relations=("in", "out"))
    if graph.edge_types is not None:
        for name in (name for name in relation_names(graph) if name not in ("in", "out")):
            if len(graph.edge_types.names) > 1 and float((relation(graph, name).degree > 0).float().mean()) >= 0.02:
                yield f"{name} is a view of its own", EdgeUse(relations=(name,))
        yield "which edge types a node has is one view", EdgeUse(types=commonest_types(graph))


def _listed(weights: dict[str, float], most: int = 6) -> str:
    top = sorted(weights.items(), key=lambda item: -item[1])
    more = f" and {len(top) - most} more" if len(top) > most else ""
    return ", ".join(f"{name} {weight:g}" for name, weight in top[:most]) + more


@dataclass(frozen=True)
class Trial:
    """At most 100 labelled ``nodes [n]`` of each class in random order, their classes ``y``, their ``number`` within
    these, and the ``classes`` that are asked: those with at least eight nodes."""

    nodes: Tensor
    y: Tensor
    number: Tensor
    classes: Tensor

    @classmethod
    def of(cls, y: Tensor) -> "Trial":
        nodes = (y >= 0).nonzero().flatten()
        random = torch.Generator().manual_seed(0)
        nodes = nodes[torch.randperm(len(nodes), generator=random).to(nodes.device)]
        count = torch.bincount(y[nodes], minlength=1)
        order = y[nodes].argsort(stable=True)
        number = torch.empty_like(order)
        number[order] = torch.arange(len(order), device=y.device) - (count.cumsum(0) - count)[y[nodes][order]]
        kept = number < 100
        shuffled = torch.randperm(len(count), generator=random).to(nodes.device)
        return cls(nodes[kept], y[nodes[kept]], number[kept], shuffled[count[shuffled] >= 8])

    def views(self, graph: Graph, use: EdgeUse, rank: int) -> Tensor:
        """The plain views of the nodes, in their 256 principal directions."""
        views = Views(graph.num_features, rank, use).to(graph.device).fit(graph)(graph)
        z = torch.cat([view[self.nodes].float() for view in views], 1)
        z = z - z.mean(0)
        directions: Tensor = torch.linalg.eigh(z.T @ z)[1][:, -256:]
        return z @ directions

    def gain(self, before: Tensor, after: Tensor) -> tuple[float, float]:
        """How much more of the hidden classes is told by the rows ``after [n, d]``, and the low end of the interval."""
        from scipy.stats import t as student  # takes as long to import as half of torch

        gains = self.accuracy(after) - self.accuracy(before)
        error, mean = float(gains.std() / len(gains) ** 0.5), float(gains.mean())
        return mean, mean - float(student.ppf(0.975, len(gains) - 1)) * error

    def accuracy(self, z: Tensor, shots: int = 3, draws: int = 5) -> Tensor:
        """How often members of each class, hidden with a third of the others, are told from these by a few examples."""
        found, folds = torch.zeros(len(self.classes), device=z.device), min(3, len(self.classes) // 2)
        for fold in range(folds):
            hidden = self.classes[fold::folds]
            away = torch.isin(self.y, hidden)
            rows, y, number = self._whitened(z, ~away)[away], self.y[away], self.number[away]
            place, size = (hidden == y[:, None]).int().argmax(1), torch.bincount(y)[y]
            for draw in range(draws):
                shown = (number - draw * shots) % size < shots
                means = torch.stack([rows[shown & (place == c)].mean(0) for c in range(len(hidden))])
                right = (torch.cdist(rows, means).argmin(1) == place).float()[~shown]
                share = torch.bincount(place[~shown], right, minlength=len(hidden))
                share /= torch.bincount(place[~shown], minlength=len(hidden)).clamp(min=1)
                found[fold::folds] += share / draws
        return found

    def _whitened(self, z: Tensor, known: Tensor) -> Tensor:
        """Rows whose distances are those under the covariance within known classes, with a ridge."""
        rows, y = z[known], self.y[known]
        _, scatter, _ = class_scatter(rows, y, y.unique(), y.new_zeros(int(self.y.max()) + 1))
        covariance = scatter[0].double() / len(rows)
        covariance.diagonal().add_(rows.var(0, correction=0).mean())
        root = torch.linalg.cholesky(covariance)
        whitened: Tensor = torch.linalg.solve_triangular(root, z.T.double(), upper=False)
        return whitened.T.float()
