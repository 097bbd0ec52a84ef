"""Which directions and edge types help to tell classes apart: asked of known classes, some of which play new.

Every class is hidden once, with others, and shown by a few examples; the others are learned from half of their nodes.
All are told apart by linear discriminants under the covariance within the classes that are known. What is known of the
edges is used only if the accuracy of the classes rises by more than chance: the lower end of the 95 % interval (of
Student's t, over classes) must be above zero. So with few classes it takes a large gain, and with very few nothing is
used.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..graph import Graph
from ..graph.edge_types import EdgeUse, commonest_types, relation, relation_names, type_weights, union
from ..graph.operators import normalized_adjacency
from .views import Views, centred, further, neighbour_lists

LEAST, PER_CLASS = 8, 100  # labelled nodes that a class needs to be asked, and at most has a say by
CLASSES = 4  # that must be asked
FOLDS, DRAWS, SHOTS = 3, 5, 3  # parts of the classes that are hidden in turn, at most; sets of examples; their size
WIDTH, MORE = 256, 256  # principal directions of the plain views, and of further ones
LENGTHS = (0.5, 1.0, 2.0)  # of further views against plain ones
ALIKE = 0.7  # types that count at least so much, against the most telling one, are not worth telling apart
REACHED = 0.02  # of the nodes must have an edge of a type that is to be a view


@dataclass(frozen=True)
class Gain:
    """What something is worth in accuracy, on the mean of classes, and the low end of its interval."""

    mean: float
    low: float


@dataclass(frozen=True)
class EdgeChoice:
    """The ``use`` of edges that was chosen, and what each of the things that were tried gained; ``enough`` classes."""

    use: EdgeUse
    gains: dict[str, Gain]
    enough: bool = True

    def notes(self) -> list[str]:
        """What was weighed, in a line for directions and one for types."""
        parts = {"directions of edges": ["directions"]}
        parts["edge types"] = [name for name in self.gains if name != "directions"]
        if not self.enough:
            return [f"directions and edge types: not used, there are fewer than {CLASSES} known classes to ask"]
        return [f"{what}: {self._said(names)}" for what, names in parts.items() if set(names) & self.gains.keys()]

    def _said(self, names: list[str]) -> str:
        used = [name for name in names if self._used(name)]
        if not used:
            return "not used, they did not help on known classes"
        weights = self.use.weights if SMOOTHING in used else {}
        top = sorted(weights.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{name} {weight:g}" for name, weight in top[:SHOWN])
        more = f" and {len(top) - SHOWN} more" if len(top) > SHOWN else ""
        said = [f"an edge counts {listed}{more} ({self._points(SMOOTHING)})"] if weights else []
        said += [f"{_view(name)} ({self._points(name)})" for name in used if name != SMOOTHING]
        return "; ".join(said) + " on known classes"

    def _used(self, name: str) -> bool:
        if name == SMOOTHING:
            return bool(self.use.weights)
        if name == COUNTS:
            return bool(self.use.types)
        return ("in" if name == "directions" else name) in self.use.relations

    def _points(self, name: str) -> str:
        return f"{100 * self.gains[name].mean:+.1f} points"


SMOOTHING, COUNTS, SHOWN = "in smoothing", "at a node", 6


def _view(name: str) -> str:
    if name == "directions":
        return "in- and out-neighbours are seen apart"
    if name == COUNTS:
        return "which edge types a node has is one view"
    return f"{name.removeprefix('type ')} is a view of its own"


@torch.no_grad()
def choose_edges(graph: Graph, rank: int = 256, *, weighted: bool = True) -> EdgeChoice:
    """What to make of the directions and types of a graph, by its labels."""
    use = EdgeUse(weighted=weighted)
    sample = _Sample.of(graph.y)
    if not graph.directed and graph.edge_types is None:
        return EdgeChoice(use, {})
    if len(sample.asked) < CLASSES:
        return EdgeChoice(use, {}, enough=False)
    plain = sample.plain(graph, use, rank)
    gains = {}
    if (weights := type_weights(graph)) and min(weights.values()) < ALIKE:
        counted = replace(use, weights=weights)
        there = sample.plain(graph, counted, rank)
        gains[SMOOTHING] = sample.gain(plain, there)
        if gains[SMOOTHING].low > 0:
            use, plain = counted, there
    beside = _words_and_links(graph, use, rank)
    tried = {name: sample.more(graph, one, *beside) for name, one in _candidates(graph, use)}
    gains |= {name: sample.gain(plain, torch.cat([plain, block], 1)) for name, block in tried.items()}
    kept = [name for name in tried if gains[name].low > 0]
    return EdgeChoice(_joined(graph, use, kept, plain, tried, sample), gains)


def _words_and_links(graph: Graph, use: EdgeUse, rank: int) -> tuple[Tensor, Tensor]:
    views = Views(graph.num_features, rank, use).to(graph.device).fit(graph)
    lists = neighbour_lists(normalized_adjacency(union(use.seen(graph))))
    return views.features(use.seen(graph)), lists @ views.sources(graph).links


def _candidates(graph: Graph, use: EdgeUse) -> Iterable[tuple[str, EdgeUse]]:
    if graph.directed:
        yield "directions", replace(use, relations=("in", "out"))
    if graph.edge_types is None:
        return
    for name in (name for name in relation_names(graph) if name.startswith("type ")):
        if len(graph.edge_types.names) > 1 and float((relation(graph, name).degree > 0).float().mean()) >= REACHED:
            yield name, replace(use, relations=(name,))
    yield COUNTS, replace(use, types=commonest_types(graph))


def _joined(
    graph: Graph, use: EdgeUse, kept: list[str], plain: Tensor, tried: dict[str, Tensor], sample: "_Sample"
) -> EdgeUse:
    """Everything that helped, at the length at which it helps most together; nothing if that is no help."""
    if not kept:
        return use
    block = principal(torch.cat([tried[name] for name in kept], 1), MORE)
    gains = {length: sample.gain(plain, torch.cat([plain, length * block], 1)) for length in LENGTHS}
    best = max(gains, key=lambda length: gains[length].mean)
    if gains[best].low <= 0:
        return use
    parts = dict(_candidates(graph, use))
    relations = tuple(name for one in kept for name in parts[one].relations)
    types = tuple(name for one in kept for name in parts[one].types)
    return replace(use, relations=relations, types=types, length=best)


@dataclass(frozen=True)
class _Sample:
    """Labelled ``nodes [n]`` in random order, their classes ``y``, their ``number`` within these, the classes asked."""

    nodes: Tensor
    y: Tensor
    number: Tensor
    asked: Tensor

    @classmethod
    def of(cls, y: Tensor) -> "_Sample":
        nodes = (y >= 0).nonzero().flatten()
        random = torch.Generator().manual_seed(0)
        nodes = nodes[torch.randperm(len(nodes), generator=random).to(nodes.device)]
        count = torch.bincount(y[nodes], minlength=1)
        order = y[nodes].argsort(stable=True)
        number = torch.empty_like(order)
        number[order] = torch.arange(len(order), device=y.device) - (count.cumsum(0) - count)[y[nodes][order]]
        kept = number < PER_CLASS
        shuffled = torch.randperm(len(count), generator=random).to(nodes.device)
        return cls(nodes[kept], y[nodes[kept]], number[kept], shuffled[count[shuffled] >= LEAST])

    def plain(self, graph: Graph, use: EdgeUse, rank: int) -> Tensor:
        """The plain views of the sample, in their principal directions."""
        views = Views(graph.num_features, rank, use).to(graph.device).fit(graph)(graph)
        return principal(torch.cat([view[self.nodes].float() for view in views], 1), WIDTH)

    def more(self, graph: Graph, use: EdgeUse, words: Tensor, links: Tensor) -> Tensor:
        """The further views."""
        views = [centred(h)[self.nodes] for h in further(use.seen(graph), use, words, links)]
        return torch.cat(views, 1)

    def gain(self, before: Tensor, after: Tensor) -> Gain:
        """What the rows ``after [n, d]`` are worth against those ``before``."""
        gains = self.accuracy(after) - self.accuracy(before)
        error = float(gains.std() / len(gains) ** 0.5)
        mean = float(gains.mean())
        from scipy.stats import t as student  # takes as long to import as half of torch

        return Gain(mean, mean - float(student.ppf(0.975, len(gains) - 1)) * error)

    def accuracy(self, z: Tensor) -> Tensor:
        """Of each class that is asked: the mean of that as a new class and that as a known one."""
        new, known = torch.zeros(len(self.asked), device=z.device), torch.zeros(len(self.asked), device=z.device)
        folds = min(FOLDS, len(self.asked) // 2)
        for fold in range(folds):
            hidden = self.asked[fold::folds]
            away = torch.isin(self.y, hidden)
            world = _Discriminants.of(z, self.y, ~away & (self.number % 2 == 0))
            right = world.right(z, self.y)
            held = ~away & (self.number % 2 == 1)
            known += torch.stack([_share(right, held & (self.y == c)) for c in self.asked.tolist()]) / (folds - 1)
            new[fold::folds] = self._shown(world, z[away], self.y[away], self.number[away], hidden)
        return (new + known) / 2

    def _shown(self, world: "_Discriminants", z: Tensor, y: Tensor, number: Tensor, hidden: Tensor) -> Tensor:
        """How often members of the ``hidden`` classes are told from each other by a few examples."""
        size = torch.bincount(y)[y]
        total = torch.zeros(len(hidden), device=z.device)
        for draw in range(DRAWS):
            shown = (number - draw * SHOTS) % size < SHOTS
            means = torch.stack([z[shown & (y == c)].mean(0) for c in hidden.tolist()])
            right = hidden[world.scores(z, means).argmax(1)] == y
            total += torch.stack([_share(right, ~shown & (y == c)) for c in hidden.tolist()])
        return total / DRAWS


@dataclass(frozen=True)
class _Discriminants:
    """Means of known classes and the inverse of the covariance within them."""

    centre: Tensor
    inverse: Tensor
    classes: Tensor
    means: Tensor

    @classmethod
    def of(cls, z: Tensor, y: Tensor, train: Tensor) -> "_Discriminants":
        rows, own = z[train], y[train]
        classes, place, count = own.unique(return_inverse=True, return_counts=True)
        centre = rows.mean(0)
        means = z.new_zeros(len(classes), z.shape[1]).index_add_(0, place, rows) / count[:, None]
        around = rows - centre
        total, inside = around.T @ around / len(rows), rows - means[place]
        ridge = total.diagonal().mean() * torch.eye(len(total), device=z.device)
        inverse = torch.linalg.inv((inside.T @ inside / len(rows) + ridge).double()).float()
        return cls(centre, inverse, classes, means)

    def scores(self, z: Tensor, means: Tensor) -> Tensor:
        means = means - self.centre
        weights = means @ self.inverse
        return (z - self.centre) @ weights.T - (weights * means).sum(1) / 2

    def right(self, z: Tensor, y: Tensor) -> Tensor:
        return self.classes[self.scores(z, self.means).argmax(1)] == y


def principal(z: Tensor, width: int) -> Tensor:
    """Rows in their leading principal directions."""
    z = z - z.mean(0)
    return z if z.shape[1] <= width else z @ torch.linalg.eigh(z.T @ z)[1][:, -width:]


def _share(hits: Tensor, among: Tensor) -> Tensor:
    return hits[among].sum() / among.sum().clamp(min=1)
