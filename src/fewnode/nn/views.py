"""Several views of every node, none of which needs a label: its words and its links, from near and far, along all edges
or along those of one direction or type."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph
from ..graph.arrays import CacheKey, csr_tensor
from ..graph.edge_types import EdgeUse, relation, type_counts, union
from ..graph.operators import (
    Operator,
    mean_adjacency,
    normalized_adjacency,
    ppr_smooth,
)
from .features import ReducedFeatures, column_mass, feature_mass, rarities, row_directions, tfidf
from .view_blocks import Work

WORDS = ("words", "words_two_steps", "words_near", "words_far")
VIEWS = (*WORDS, "links_two_steps", "links_near")
NEAR = VIEWS.index("words_near")  # the view of the training-free floor
NEAR_STEPS, FAR_STEPS = (12, 0.1), (30, 0.03)  # steps and restart of the smoothing
BESIDE = 128  # columns of the views along one direction or type
ROOM = 2 << 30  # bytes that all views may take in single precision; beyond that they are kept in half


@dataclass(frozen=True)
class ViewSources:
    """What the rows of the views are made from: with these, those of one node can be made again.

    Features weighted by ``idf [F]`` (or less ``centre [F]``, if they are dense) get coordinates by ``words [F, d]``,
    neighbour lists by ``links [N, rank]`` (rounded to half precision, in which they are saved); ``means`` are what the
    smoothed rows of each view are centred on, ``columns() [4 or more, F]`` what the average node has of each feature
    column in each of the views of words, made when it is asked for. ``lengths [N]`` of each view are those of its rows
    before they were made of length one; nothing but what nodes hand on to new neighbours needs them, and they are not
    saved.
    """

    idf: Tensor
    centre: Tensor
    words: Tensor
    links: Tensor
    means: tuple[Tensor, ...]
    columns: Callable[[], Tensor]
    lengths: tuple[Tensor, ...] = ()


ALL_VIEWS = CacheKey[tuple[list[Tensor], ViewSources]]("views")


class Views(nn.Module):
    """Six matrices ``[N, rank or more]`` of unit rows, each centred on the graph's mean.

    *Words* are the reduced features, *links* the reduced neighbour lists (neighbours as words). Each is averaged over
    two-step walks without self-loops (which suits a heterophilous graph), smoothed *near* (personalised PageRank,
    restart 0.1) or *far* (0.03), or as it is. The words of another graph get the coordinates of the one the basis was
    fitted on, and further columns for what that one lacked; its links get coordinates of their own, so that only inner
    products of links have a meaning across graphs.

    Smoothing goes along all edges, whatever their direction and type; ``use`` says what each counts. Each of its
    relations adds two views: the mean of the words and of the links beside a node, along its edges alone. One more are
    the edge types that a node has.
    """

    def __init__(self, in_channels: int, rank: int = 256, use: EdgeUse | None = None) -> None:
        super().__init__()
        self.use = use or EdgeUse()
        self.rank = min(rank, max(in_channels, 64))
        self.features = ReducedFeatures(in_channels, self.rank)

    def fit(self, graph: Graph) -> "Views":
        self.features.fit(self.use.seen(graph))
        return self

    def forward(self, graph: Graph) -> list[Tensor]:
        return self._made(graph)[0]

    def sources(self, graph: Graph) -> ViewSources:
        """What the views of the graph were made from."""
        return self._made(graph)[1]

    def _made(self, graph: Graph) -> tuple[list[Tensor], ViewSources]:
        graph = self.use.seen(graph)
        if graph.space is not None:
            source = self.features._source()
            return graph.cache.get(ALL_VIEWS, lambda: self._make_by_blocks(graph), source=source)
        words, key = self.features(graph), (self.rank, self.use.relations, self.use.types)
        return graph.cache.get(ALL_VIEWS.of(*key), lambda: self._make(graph, words), source=words)

    def _make(self, whole: Graph, words: Tensor) -> tuple[list[Tensor], ViewSources]:
        graph = union(whole)
        normal, mean = normalized_adjacency(graph), mean_adjacency(graph)
        words = torch.cat([self._padded(words), self.features.beyond(graph)], 1)
        lists, basis = reduced_links(graph, normal, self.rank, words)
        links = self._padded(lists @ basis)
        half = 4 * (len(VIEWS) * self.rank + self.use.n_views * BESIDE) * graph.num_nodes > ROOM
        means, full, lengths = [], [], []

        def keep(h: Tensor) -> Tensor:
            means.append(mean_row(h))
            full.append(filled(h).float())
            lengths.append((h - means[-1]).norm(dim=1) * full[-1])
            return centred(h, means[-1]).half() if half else centred(h, means[-1])

        made = [
            keep(words),
            keep(mean @ (mean @ words)),
            keep(ppr_smooth(normal, words, *NEAR_STEPS)),
            keep(ppr_smooth(normal, words, *FAR_STEPS)),
            keep(mean @ (mean @ links)),
            keep(ppr_smooth(normal, links, *NEAR_STEPS)),
        ]
        made += [keep(h) for h in further(whole, self.use, words, links)]
        beside = [mean_adjacency(relation(whole, name)) for name in self.use.relations]
        smooth = torch.stack([*full[: len(WORDS)], *full[len(VIEWS) :: 2][: len(beside)]], 1)
        idf, centre, x = self.features.idf.clone(), self.features.centre.clone(), graph.x
        # Without the graph: it keeps these sources, and would keep itself in memory.
        columns = cache(lambda: feature_mass(x, _usual(smooth, normal, mean, beside), idf, centre).T)
        directions, links = self._basis(graph), self._padded(basis).half().float()
        return made, ViewSources(idf, centre, directions, links, tuple(means), columns, tuple(lengths))

    def _basis(self, graph: Graph) -> Tensor:
        """The directions that give the features of the graph their coordinates, ``[F, rank or more]``."""
        return torch.cat([self._padded(self.features.basis), self.features.beyond_basis(graph)], 1)

    def _make_by_blocks(self, graph: Graph) -> tuple[list[Tensor], ViewSources]:
        """The same for a graph on disk."""
        features, x, n = self.features, graph.x, graph.num_nodes
        basis = self._basis(graph)
        half = 4 * len(VIEWS) * self.rank * n > ROOM
        settings = f"{VIEWS} {NEAR_STEPS} {FAR_STEPS} {half} {graph.weights is None}"
        work = Work.of(graph, self.rank, basis, features.idf, features.centre, settings)
        if not all(work.space.has(name) for name in (*VIEWS, "directions")):
            words = work.words(lambda rows: features.weighted_rows(x, rows) @ basis, basis.shape[1])
            waves, rows_of = Waves.of(basis.shape[1], min(self.rank + 16, n)), words.opened()
            links = work.links(lambda rows: waves(rows_of(rows)), waves.width)
            work.smooth(VIEWS[: len(WORDS)], words, ("as_is", "two_steps", NEAR_STEPS, FAR_STEPS), half)
            work.smooth(VIEWS[len(WORDS) :], links, ("two_steps", NEAR_STEPS), half)
            work.clean()
        made, means = [work.space.open(name) for name in VIEWS], [work.space.read(f"mean_{name}") for name in VIEWS]
        idf, centre = features.idf.clone(), features.centre.clone()

        def columns() -> Tensor:
            full = torch.stack([work.space.read(f"full_{name}") for name in WORDS], 1).float()
            usual = _usual(full, normalized_adjacency(graph), mean_adjacency(graph), ())
            return column_mass(graph, usual, idf, centre).T

        found = partial(work.space.kept, "columns", columns)
        return made, ViewSources(idf, centre, basis, work.space.open("directions"), tuple(means), found)

    def _padded(self, h: Tensor) -> Tensor:
        return F.pad(h, (0, self.rank - h.shape[1]))


def _usual(full: Tensor, normal: Operator, mean: Operator, beside: Sequence[Operator]) -> Tensor:
    """How much each node counts in the mean over the ``full [N, 4 or more]`` rows of each view of words: the smoothing
    is applied to the mean from the left, which takes one column instead of one for each feature."""
    plain, two, near, far, *others = (full / full.sum(0).clamp(min=1)).split(1, 1)
    normal, mean = normal.T, mean.T
    near, far = ppr_smooth(normal, near, *NEAR_STEPS), ppr_smooth(normal, far, *FAR_STEPS)
    others = [there.T @ part for there, part in zip(beside, others, strict=True)]
    return torch.cat([plain, mean @ (mean @ two), near, far, *others], 1)


def further(graph: Graph, use: EdgeUse, words: Tensor, links: Tensor) -> Iterator[Tensor]:
    """The views that directions and types add, before they are centred: what is beside a node along each relation, and
    the types of its edges."""
    for name in use.relations:
        there = mean_adjacency(relation(graph, name))
        yield there @ words[:, :BESIDE]
        yield there @ links[:, :BESIDE]
    if use.types:
        yield type_counts(graph, use.types)


def neighbour_lists(pattern: Operator) -> Tensor:
    """The neighbour lists in the rows of ``pattern [N, N]`` as bags of words: TF-IDF, sparse."""
    indptr, indices = pattern.matrix.crow_indices(), pattern.matrix.col_indices()
    lists = csr_tensor(indptr, indices, torch.ones(len(indices), device=indices.device), pattern.shape)
    return tfidf(lists, rarities(lists))


def reduced_links(graph: Graph, pattern: Operator, rank: int, words: Tensor) -> tuple[Tensor, Tensor]:
    """The neighbour lists, each with the node itself, as bags of words: TF-IDF ``[N, N]``, sparse, and the leading
    directions of its SVD ``[N, at most rank]``; the product of both are the reduced lists.

    The search for their directions starts from random functions of the nodes' words rather than from random numbers for
    each node, so that another numbering of the nodes gives the same answer.
    """
    weighted = neighbour_lists(pattern)
    start = Waves.of(words.shape[1], min(rank + 16, graph.num_nodes)).to(graph.device)(words)
    return weighted, row_directions(weighted, rank, start)[1]


@dataclass(frozen=True)
class Waves:
    """Random functions of the nodes' words: waves in random directions ``[W, width]``."""

    directions: Tensor
    shift: Tensor

    @classmethod
    def of(cls, words: int, width: int) -> "Waves":
        generator = torch.Generator().manual_seed(0)
        directions = torch.randn(words, width, generator=generator)
        return cls(directions, 7 * torch.rand(width, generator=generator))

    @property
    def width(self) -> int:
        return len(self.shift)

    def to(self, device: torch.device) -> "Waves":
        return Waves(self.directions.to(device), self.shift.to(device))

    def __call__(self, words: Tensor) -> Tensor:
        return torch.cos(4 * F.normalize(words, dim=1) @ self.directions + self.shift)


def mean_row(h: Tensor) -> Tensor:
    """The mean of the rows that are not empty."""
    full = filled(h)
    return h[full].mean(0) if bool(full.any()) else h.new_zeros(h.shape[1])


def filled(h: Tensor) -> Tensor:
    """Which rows ``[N]`` are not empty."""
    lengths: Tensor = h.norm(dim=1)
    return lengths > 1e-6


def centred(h: Tensor, mean: Tensor | None = None) -> Tensor:
    """Rows minus ``mean`` (by default ``mean_row``), of length one; empty rows stay empty."""
    mean = mean_row(h) if mean is None else mean
    return F.normalize((h - mean) * filled(h)[:, None], dim=1)
