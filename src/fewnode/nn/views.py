"""Several views of every node without labels: words and links, from near and far, along all edges or one type.

Smoothing acts on each column separately, so views are computed in blocks of columns, each of which needs only the
edges. A graph in memory has one block. For a graph on disk every finished array is a file, and work that was killed
continues with the existing arrays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph
from ..graph.arrays import structural_bytes
from ..graph.edge_types import EdgeUse, type_counts
from ..graph.operators import Operator, arcs_of, feature_rows, gram, mean_adjacency, normalized_adjacency
from ..store import Space
from .features import ReducedFeatures, feature_mass

WORDS = ("words", "words_two_steps", "words_near", "words_far")
VIEWS = (*WORDS, "links_two_steps", "links_near")
NEAR = VIEWS.index("words_near")  # the view of the training-free baseline
NEAR_STEPS, FAR_STEPS = (12, 0.1), (30, 0.03)  # steps and restart of the smoothing
WALKS = ((12, 0.3), FAR_STEPS)  # of near and of far walks
COPIES = 3  # matrices as wide as a block that smoothing has in memory: the start, the last step and the next
HALF_FROM = 2 << 30  # bytes of all views in single precision from which they are kept in half


@dataclass(frozen=True)
class ViewSources:
    """The inputs of the views, from which the rows of a single node can be computed again.

    Features weighted by ``idf [F]`` (or minus ``centre [F]``, if they are dense) get coordinates by ``words [F, d]``,
    and neighbour lists by ``links [N, rank]`` (rounded to half precision, in which they are saved). ``means`` are
    subtracted from the smoothed rows of each view. ``columns() [4 or more, F]`` computes the mean of each feature
    column in each of the views of words. ``blocks [d]`` are the blocks of features of the coordinates, None if there is
    one. ``lengths [N, blocks]`` of each view are those of its rows before normalisation; they are needed only for new
    neighbours, so they are not saved.
    """

    idf: Tensor
    centre: Tensor
    words: Tensor
    links: Tensor
    means: tuple[Tensor, ...]
    columns: Callable[[], Tensor]
    blocks: Tensor | None = None
    lengths: tuple[Tensor, ...] = ()

    def centred(self, raw: Sequence[Tensor]) -> list[Tensor]:
        """The common views from their rows before they are centred."""
        parts = zip(raw, self.means, [self.blocks] * len(WORDS) + [None] * 2, strict=False)
        return [centred(h, mean, blocks) for h, mean, blocks in parts]

    def raw(self, views: Sequence[Tensor], name: str, rows: slice) -> Tensor:
        """Some rows of a common view before they were centred and of length one; empty ones stay empty."""
        at = VIEWS.index(name)
        length = spread(self.lengths[at][rows], self.blocks if name in WORDS else None)
        return torch.where(length > 0, views[at][rows].float() * length + self.means[at], 0)


class Views(nn.Module):
    """Six matrices ``[N, rank or more]`` of unit rows, each centred on the graph's mean.

    If the features have several blocks of columns, such as words and the vectors of a text encoder, a view of words has
    ``rank`` columns for each block, and the row of each block has length one.

    *Words* are the reduced features, *links* the reduced neighbour lists (neighbours as words). Each is averaged over
    two-step walks without self-loops (which suits a heterophilous graph), smoothed *near* (personalised PageRank,
    restart 0.1) or *far* (0.03), or unchanged. The words of another graph get the coordinates of the fitted graph, and
    further columns for features that the fitted graph lacked. Its links get separate coordinates, so only inner
    products of links can be compared between graphs.

    Smoothing uses all edges, regardless of direction and type; ``use`` gives their weights. One more view holds the
    types of a node's edges.
    """

    def __init__(
        self, in_channels: int, rank: int = 256, use: EdgeUse | None = None, blocks: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.use = use or EdgeUse()
        self.rank = min(rank, max(in_channels, 64))
        self.features = ReducedFeatures(in_channels, self.rank, blocks)

    def fit(self, graph: Graph) -> "Views":
        self.features.fit(self.use.seen(graph))
        return self

    def forward(self, graph: Graph) -> list[Tensor]:
        return self._made(graph)[0]

    def split(self, graph: Graph) -> list[Tensor]:
        """The views of words of each block, block after block, then the other views."""
        made, sources = self._made(graph)
        if sources.blocks is None:
            return list(made)
        words = made[: len(WORDS)]
        parts = [_columns(sources.blocks, block) for block in range(len(self.features.blocks))]
        return [*(view[:, part] for part in parts for view in words), *made[len(WORDS) :]]

    def sources(self, graph: Graph) -> ViewSources:
        """The inputs from which the views of the graph were computed."""
        return self._made(graph)[1]

    def _made(self, graph: Graph) -> tuple[list[Tensor], ViewSources]:
        seen, key = self.use.seen(graph), ("views", self.rank, self.use.types)
        return seen.cache.get(key, lambda: self._make(graph, seen), source=self.features.source())

    def _make(self, whole: Graph, graph: Graph) -> tuple[list[Tensor], ViewSources]:
        x, n, features = graph.x, graph.num_nodes, self.features
        beyond, n_blocks, blocks = features.beyond_basis(graph), len(features.blocks), None
        basis = torch.cat([features.padded(self.rank), beyond], 1)
        if n_blocks > 1:
            own = torch.arange(n_blocks, device=basis.device).repeat_interleave(self.rank)
            blocks = torch.cat([own, features.block_of(beyond)])
        width = (len(WORDS) * n_blocks + 2) * self.rank + 2 * len(self.use.types)
        half = 4 * width * n > HALF_FROM
        settings = f"{VIEWS} {NEAR_STEPS} {FAR_STEPS} {half} {graph.weights is None} {features.blocks} lengths"
        made_from = graph.fingerprint, basis, features.idf, features.centre, settings
        work = Work(n, graph.space.within("views", *made_from), torch.half if half else torch.float32)
        smooth, mean = normalized_adjacency(graph), mean_adjacency(graph)
        if not all(work.space.has(name) for name in (*VIEWS, "directions")):

            def reduced(rows: slice) -> Tensor:
                return features.weighted(feature_rows(x, rows)) @ basis

            words = work.raw.by_rows("words", (n, basis.shape[1]), torch.float32, reduced)
            links = work.links(neighbour_lists(graph), words, self.rank)
            two = partial(multiplied, (mean, mean))
            near, far = (partial(smooth.smooth, steps=steps, restart=rate) for steps, rate in (NEAR_STEPS, FAR_STEPS))
            for name, move in zip(WORDS, (None, two, near, far), strict=True):
                work.view(name, words, move, blocks)
            work.view("links_two_steps", links, two)
            work.view("links_near", links, near)
            if self.use.types:  # only of a graph in memory
                work.view("types", type_counts(whole, self.use.types))
            work.raw.clear()
        names = [*VIEWS, "types"] if self.use.types else VIEWS
        means = tuple(work.space.open(f"mean_{name}") for name in names)
        idf, centre, space = features.idf.clone(), features.centre.clone(), graph.space

        def columns() -> Tensor:  # without the graph: it keeps these sources, and would keep itself in memory
            full = torch.stack([work.space.open(f"full_{name}").amax(1) for name in WORDS], 1).float()
            return feature_mass(x, _usual(full, smooth, mean), idf, centre, space).T

        directions, found = work.space.open("directions"), partial(work.space.kept, "columns", columns)
        directions = directions if space.on_disk else directions.float()
        lengths = tuple(work.space.open(f"length_{name}") for name in names)
        sources = ViewSources(idf, centre, basis, directions, means, found, blocks, lengths)
        return [work.space.open(name) for name in names], sources


@dataclass(frozen=True)
class Work:
    """The making of the views of a graph, of a ``dtype``, in a ``space`` of their own."""

    n: int
    space: Space
    dtype: torch.dtype

    @property
    def raw(self) -> Space:
        """For arrays that only the making needs."""
        return self.space.within("raw")

    def view(self, name: str, source: Tensor, move: "Move | None" = None, blocks: Tensor | None = None) -> None:
        """A view with unit rows (in each of the ``blocks``), centred on its mean, from a source that ``move`` takes
        along the edges."""
        if self.space.has(name):
            return
        made = source if move is None else self.moved(name, source, move)
        width = made.shape[1]
        filled, total = list[Tensor](), made.new_zeros(width, dtype=torch.float64)
        for rows in self.space.rows(self.n, 12 * width):
            filled.append(lengths(made[rows], blocks) > 1e-6)
            total += (made[rows] * spread(filled[-1], blocks)).sum(0, dtype=torch.float64)
        full = torch.cat(filled).to(torch.uint8)
        mean = (total / spread(full.sum(0, keepdim=True), blocks)[0].clamp(min=1)).float()
        self.space.write(f"mean_{name}", mean)
        self.space.write(f"full_{name}", full)
        found = [lengths(made[rows] - mean, blocks) for rows in self.space.rows(self.n, 12 * width)]
        self.space.write(f"length_{name}", torch.cat(found) * full)
        self.keep(name, width, self.dtype, lambda rows: centred(made[rows], mean, blocks), 3 * width)
        if move is not None:
            self.raw.drop(name)

    def keep(self, name: str, width: int, dtype: torch.dtype, make: Callable[[slice], Tensor], each: int) -> None:
        """An array ``[n, width]`` that stays, made by chunks of rows; a row takes ``each`` numbers to make."""
        found = self.space.by_rows(name, (self.n, width), dtype, make, each)
        if not self.space.on_disk:
            self.space.write(name, found)

    def moved(self, name: str, source: Tensor, move: "Move", turn: Tensor | None = None) -> Tensor:
        """``source``, or ``source @ turn``, after a ``move`` along the edges."""

        def block(columns: slice) -> Tensor:
            if turn is None and move.func is not multiplied and not self.space.on_disk:
                return move(source[:, columns])
            start = source.new_empty(self.n, columns.stop - columns.start)  # a product uses its start up
            for rows in self.space.rows(self.n, 12 * source.shape[1]):
                some = source[rows]
                start[rows] = some[:, columns] if turn is None else (some.double() @ turn[:, columns]).float()
            return move(start)

        shape = self.n, source.shape[1] if turn is None else turn.shape[1]
        return self.raw.by_columns(name, shape, torch.float32, block, COPIES)

    def links(self, lists: Operator, words: Tensor, rank: int) -> Tensor:
        """The reduced neighbour lists; the ``directions [N, rank]`` they were reduced to are kept in half precision.

        Subspace iteration as in ``leading_eigenvectors``, of which each product is made by blocks of columns and each
        orthogonalisation from the inner products of all columns. It starts from random Fourier features of the nodes'
        words rather than from random numbers for each node, so that another numbering gives the same answer.
        """
        shape, width = (self.n, rank), min(rank + 16, self.n)
        if self.raw.has("links") and self.space.has("directions"):
            return self.raw.open("links")
        last, turn = self._iterated(lists, words, width)
        products = self.moved("lists", last, partial(multiplied, (lists,)), turn)
        values, vectors = torch.linalg.eigh(gram(products, self.space))
        top = vectors[:, values.abs().argsort(descending=True)[:rank]]
        top = F.pad(top, (0, rank - top.shape[1]))
        directions = turn @ top
        self.keep("directions", rank, torch.half, lambda rows: (last[rows].double() @ directions).half(), 3 * width)
        return self.raw.by_rows("links", shape, torch.float32, lambda rows: (products[rows].double() @ top).float())

    def _iterated(self, lists: Operator, words: Tensor, width: int, n_steps: int = 6) -> tuple[Tensor, Tensor]:
        """The last block of the iteration, and the matrix that makes its columns orthonormal."""
        steps = [f"step{number}" for number in range(n_steps + 2)]
        at = max((number for number, step in enumerate(steps) if self.raw.has(step)), default=0)
        shape, start = (self.n, width), partial(random_fourier, width=width)
        last = self.raw.by_rows(steps[at], shape, torch.float32, lambda rows: start(words[rows]))
        for number in range(at + 1, n_steps + 2):
            turn = None if number == 1 else orthonormal(gram(last, self.space))
            # The last one is only made orthonormal, once more: rounding had its part in it.
            move = partial(multiplied, (lists, lists.T) if number <= n_steps else ())
            last = self.moved(steps[number], last, move, turn)
            self.raw.drop(steps[number - 1])
        return last, orthonormal(gram(last, self.space))


Move = partial[Tensor]  # of a block of columns along the edges


def multiplied(operators: tuple[Operator, ...], z: Tensor) -> Tensor:
    """The product with one or two operators, with two matrices in memory: the block is used up."""
    out = torch.empty_like(z)
    for operator in operators:
        z, out = operator.into(z, out), z
    return z


def _columns(blocks: Tensor, block: int) -> slice | Tensor:
    """The coordinates of a block; a slice, which is not copied, if nothing is beyond the basis."""
    found = (blocks == block).nonzero().ravel()
    first, last = int(found[0]), int(found[-1])
    return slice(first, last + 1) if last - first + 1 == len(found) else found


def orthonormal(gram: Tensor) -> Tensor:
    """The matrix that makes columns with these inner products orthonormal; those that are not there become zero."""
    scale = gram.diagonal().clamp(min=1e-300).rsqrt()
    values, vectors = torch.linalg.eigh(gram * scale[:, None] * scale)
    root = torch.where(values > 1e-14 * values[-1], values.clamp(min=1e-300).rsqrt(), 0.0)
    turned: Tensor = scale[:, None] * vectors * root
    return turned


def _usual(full: Tensor, normal: Operator, mean: Operator) -> Tensor:
    """How much each node counts in the mean over the ``full [N, 4]`` rows of each view of words: the smoothing is
    applied to the mean from the left, which takes one column instead of one for each feature."""
    plain, two, near, far = (full / full.sum(0).clamp(min=1)).split(1, 1)
    normal, mean = normal.T, mean.T
    near, far = normal.smooth(near, *NEAR_STEPS), normal.smooth(far, *FAR_STEPS)
    return torch.cat([plain, mean @ (mean @ two), near, far], 1)


def neighbour_lists(graph: Graph) -> Operator:
    """The neighbour lists of a graph without directions, each with the node itself, as bags of words: TF-IDF."""
    lists = Operator(graph.indptr, graph.indices, loops=True, space=graph.space)
    idf = torch.log((1 + graph.num_nodes) / (1 + lists.totals())) + 1
    lengths = (lists @ idf.square()[:, None])[:, 0].clamp(min=1e-24).rsqrt()
    return replace(lists, left=lengths, right=idf)


def random_fourier(words: Tensor, width: int) -> Tensor:
    """Random Fourier features of the directions of ``words [n, d]``, the same for every graph (Rahimi and Recht, NIPS
    2007)."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(words.shape[1], width, generator=generator).to(words.device)
    shift = (7 * torch.rand(width, generator=generator)).to(words.device)
    return torch.cos(4 * F.normalize(words, dim=1) @ directions + shift)


def lengths(h: Tensor, blocks: Tensor | None = None) -> Tensor:
    """Of the rows of ``h [N, d]``, ``[N, 1]``; or of their parts, whose columns have the same number in ``blocks``."""
    if blocks is None:
        whole: Tensor = h.norm(dim=1, keepdim=True)
        return whole
    return (h.square() @ F.one_hot(blocks).to(h)).sqrt()


def spread(part: Tensor, blocks: Tensor | None) -> Tensor:
    """A number for each block ``[N, blocks]`` at all of its columns."""
    return part if blocks is None else part[:, blocks]


def centred(h: Tensor, mean: Tensor | None = None, blocks: Tensor | None = None) -> Tensor:
    """Rows minus ``mean`` (by default of those that are not empty), of length one (in each of the ``blocks``); empty
    rows stay empty."""
    full = lengths(h, blocks) > 1e-6
    if mean is None:
        mean = h[full[:, 0]].mean(0) if bool(full.any()) else h.new_zeros(h.shape[1])
    h = (h - mean) * spread(full, blocks)
    return h / spread(lengths(h, blocks).clamp(min=1e-12), blocks)


# --- The position of a node: where the walks from it go. One more view of a graph that has no words.


def walk_view(graph: Graph, rank: int) -> Tensor:
    """Unit rows ``[N, 2 * rank]``: the destinations of near and far walks from a node, each centred on the graph's
    mean.

    A row is the positive pointwise mutual information of a node and of landmarks, which are random nodes: the logarithm
    of the ratio between the probability that a walk with restarts from the node is at the landmark and chance, if the
    ratio exceeds one. It is reduced to the leading singular vectors, each as long as the root of its singular value.

    The smoothed views are linear in these probabilities, so a few places that are visited very often outweigh all
    others. The logarithm gives weight to every place. After NetMF (Qiu et al., WSDM 2018); landmarks instead of all
    nodes make it linear in the size of the graph.
    """

    def made() -> Tensor:
        return F.normalize(torch.cat([_reduced(graph, rank, *walk) for walk in WALKS], 1), dim=1)

    space = graph.space.within("walks", f"{rank} {graph.weights is None}")
    return graph.cache.get(("view of walks", rank), lambda: space.kept("view", made))


def wordless_bytes(nodes: int, arcs: int) -> int:
    """The memory for a graph without features: for its structural features, or its walks (the ratios, and blocks of
    walks or of results)."""
    return max(structural_bytes(nodes, arcs), 4 * nodes * (_count(nodes) + 512))


def _count(nodes: int, most: int = 1024, fewest: int = 128, cells: int = 1 << 26) -> int:
    """How many landmarks there are: at most ``cells`` nodes times landmarks, so that a larger graph has fewer."""
    return min(most, max(fewest, cells // max(nodes, 1)))


@torch.no_grad()
def _reduced(graph: Graph, rank: int, steps: int, restart: float) -> Tensor:
    places = landmarks(graph)
    if len(places) == 0:
        return graph.degree.new_zeros(graph.num_nodes, rank, dtype=torch.float32)
    gains = visit_ratios(graph, places, steps, restart).clamp_(min=1).log_()
    values, directions = torch.linalg.eigh(gram(gains, graph.space))
    values, directions = values[-rank:].flip(0), directions[:, -rank:].flip(1)
    real = values > 1e-9 * values.max().clamp(min=1e-30)  # others are rounding
    lengths = torch.where(real, values.clamp(min=1e-30) ** -0.25, 0.0)
    h = gains @ (directions * lengths).float()
    return centred(F.pad(h, (0, rank - h.shape[1])))


def landmarks(graph: Graph) -> Tensor:
    """Random nodes with an edge; all of them, if the graph is small."""
    able = (graph.degree > 0).nonzero().ravel()
    drawn = torch.randperm(len(able), generator=torch.Generator().manual_seed(0)).to(able.device)
    return able[drawn[: _count(graph.num_nodes)]]


def visit_ratios(graph: Graph, places: Tensor, steps: int, restart: float, at_once: int = 64) -> Tensor:
    """How much likelier than chance a walk from each node is at each of ``places [L]``: ``[N, L]``.

    The walk restarts at its node and has taken at least one step; chance is a walk that has forgotten its start.
    ``at_once`` places are computed together.
    """
    walk, mass = mean_adjacency(graph), arcs_of(graph).totals()
    ratios = mass.new_empty(graph.num_nodes, len(places))
    for at in range(0, len(places), at_once):
        some = places[at : at + at_once]
        there = ratios.new_zeros(graph.num_nodes, len(some))
        there[some, torch.arange(len(some), device=some.device)] = 1
        ratios[:, at : at + at_once] = walk @ walk.smooth(there, steps, restart) / mass[some]
    return ratios.mul_(mass.sum())
