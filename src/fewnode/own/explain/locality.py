"""The views and opinions of one node as they would be without some of its edges, and nothing of any other node.

Every smoothing is a polynomial of the adjacency, so one node's row of it is that polynomial applied to the node's
one-hot row from the left: a few products of the adjacency with a matrix of one column for each cut. That is exact.
Edges count as they do in the open question (``EdgeUse``). Held fixed, as they are on
the whole graph, are: the bases of words and links, the rarities of both, the means the views
are centred on, the frame of the coordinates, the head of the known classes and its shares, and what every *other* node
tells its neighbours (its label, or what the regression said of it).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...graph import Graph
from ...graph.csr import csr_parts
from ...graph.edge_use import EdgeUse, kinds_at
from ...graph.operators import adjacency, weighted_adjacency
from ...graph.passes import times_rows
from ...graph.relations import relation, union
from ...nn.features import column_mass
from ...nn.views import BESIDE, FAR_STEPS, NEAR_STEPS, WORDS, centred
from ..openworld.known_head import scores
from ..openworld.membership import node_facts
from ..openworld.moments import Moments
from ..openworld.recipe import Recipe
from ..openworld.spreading import FAINT, SPREADS


class CutWalks:
    """Walks that start at one node of a graph without some of the node's edges: one column for each of ``cuts``, which
    lists the neighbours whose edges are gone. All matrices are ``[N, cuts]``."""

    def __init__(self, graph: Graph, node: int, cuts: Sequence[Sequence[int]]) -> None:
        self.graph, self.node, self.n_cuts = graph, node, len(cuts)
        self.matrix, self.pattern = weighted_adjacency(graph), adjacency(graph)
        device = graph.device
        self.cut = torch.tensor([i for i, part in enumerate(cuts) for _ in part], dtype=torch.long, device=device)
        self.other = torch.tensor([u for part in cuts for u in part], dtype=torch.long, device=device)
        self.at = torch.full_like(self.other, node)
        self.forth = self._arcs(self.at, self.other)  # a directed graph may have only one of the two arcs
        self.back = self._arcs(self.other, self.at)
        one = torch.ones(graph.num_nodes, 1, device=device)
        self.row_sums = self._less((self.matrix @ one)[:, 0] + 1, self.forth, self.back)
        self.column_sums = self._less((self.matrix.T @ one)[:, 0] + 1, self.back, self.forth)
        listed = _column_counts(graph)
        self.rarity = torch.log((1 + graph.num_nodes) / (1 + listed)) + 1  # of the links: as on the whole graph

    def _arcs(self, rows: Tensor, columns: Tensor) -> Tensor:
        """What the arc from column to row counts, 0 if there is none."""
        indptr, indices, values = csr_parts(self.matrix.matrix)
        found = torch.zeros(len(rows), device=indptr.device)
        for place, (r, c) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
            at = slice(int(indptr[r]), int(indptr[r + 1]))
            found[place] = values[at][indices[at] == c].sum()
        return found

    def _less(self, whole: Tensor, at_node: Tensor, at_other: Tensor) -> Tensor:
        """``whole [N]`` for each cut, less what is given for every edge that is gone, at both of its ends."""
        sums = whole[:, None].repeat(1, self.n_cuts)
        sums.index_put_((self.at, self.cut), -at_node, accumulate=True)
        return sums.index_put_((self.other, self.cut), -at_other, accumulate=True)

    def start(self) -> Tensor:
        first = torch.zeros_like(self.row_sums)
        first[self.node] = 1
        return first

    def _handed_on(self, z: Tensor, keep: float = 0.0, *, listed: bool = False) -> Tensor:
        """``A'^T z + keep z``: each row's mass handed to those it lists, of the adjacency without the edges; ``listed``
        ones count one each, whatever their weights."""
        forth, back = ((part > 0).to(part) if listed else part for part in (self.forth, self.back))
        moved = torch.addmm(z, (self.pattern if listed else self.matrix).transpose, z, beta=keep)
        moved.index_put_((self.other, self.cut), -forth * z[self.at, self.cut], accumulate=True)
        return moved.index_put_((self.at, self.cut), -back * z[self.other, self.cut], accumulate=True)

    def two_steps(self) -> Tensor:
        """The row of the mean over two-step walks, without self-loops."""
        mass = self.row_sums - 1
        share = torch.where(mass > 1e-4, mass, 1.0).reciprocal()
        return self._handed_on(share * self._handed_on(share * self.start()))

    def smoothed(self, wanted: Sequence[tuple[int, float]]) -> list[Tensor]:
        """The rows of personalised PageRank with the ``wanted`` (steps, restart), all from the same walk.

        The walk is scaled by the root of the row sums until the end, so that a step takes one scaling instead of two.
        """
        root = self.row_sums.sqrt()
        scale = (self.row_sums * self.column_sums).rsqrt()
        z, longest = self.start() / root, max(steps for steps, _ in wanted)
        totals = [torch.zeros_like(z) for _ in wanted]
        for step in range(longest + 1):
            for total, (steps, restart) in zip(totals, wanted, strict=True):
                if step <= steps:
                    total.add_(z, alpha=(1 - restart) ** step * (restart if step < steps else 1))
            if step < longest:
                z = self._handed_on(z, keep=1.0).mul_(scale)
        return [total.mul_(root) for total in totals]

    def lists(self, *parts: Tensor) -> list[Tensor]:
        """Each of ``parts`` times the neighbour lists (TF-IDF, each with the node itself)."""
        squared = self.rarity.square()
        lengths = (self.pattern @ squared[:, None])[:, 0] + squared
        forth, back = (self.forth > 0).float(), (self.back > 0).float()
        shares = self._less(lengths, forth * squared[self.other], back * squared[self.node])
        shares = shares.clamp(min=1e-24).rsqrt()
        return [self._handed_on(z * shares, keep=1.0, listed=True).mul_(self.rarity[:, None]) for z in parts]


@dataclass(frozen=True)
class NodeRows:
    """Rows ``[B, ...]`` of the open-world model that one node would have."""

    x: Tensor
    log_known: Tensor
    facts: Tensor


@dataclass(frozen=True)
class Surroundings:
    """What reaches one node, for each of ``B`` cuts: ``words [4, B, d]`` and ``links [2, B, rank]`` of the views before
    they are centred, with those beside the node along each relation below, and the ``kinds [B, K]`` of its edges; the
    ``opinions [4, B, C]``, in the order of ``spread_opinions``, with the node's own part in the last two,
    ``say [2, B]``; and the ``masses [2, B]`` of labelled nodes and of all. ``columns [4 or more, F]`` is what the first
    cut has of each feature column in the views of words, ``own [4 or more]`` the weight of the node's own features in
    it."""

    words: Tensor
    links: Tensor
    opinions: Tensor
    say: Tensor
    masses: Tensor
    columns: Tensor
    own: Tensor
    kinds: Tensor

    def first(self, words: Tensor) -> "Surroundings":
        """Those of the first cut with other words ``[4, B, d]``."""
        n = words.shape[1]
        links, opinions = (part[:, :1].expand(-1, n, -1) for part in (self.links, self.opinions))
        say, masses = (part[:, :1].expand(-1, n) for part in (self.say, self.masses))
        kinds = self.kinds[:1].expand(n, -1)
        return replace(self, words=words, links=links, opinions=opinions, say=say, masses=masses, kinds=kinds)


class Locality:
    """Makes the rows of one node again, by the recipe of the open-world model."""

    def __init__(self, graph: Graph, recipe: Recipe, moments: Moments, y: Tensor, use: EdgeUse | None = None) -> None:
        self.use = use or EdgeUse()
        self.whole = self.use.seen(graph)
        self.graph, self.recipe, self.moments, self.y = union(self.whole), recipe, moments, y

    @torch.no_grad()
    def surroundings(self, node: int, cuts: Sequence[Sequence[int]]) -> Surroundings:
        """What reaches the node for each of ``cuts``: lists of neighbours to which there is no edge."""
        walks = CutWalks(self.graph, node, cuts)
        (far_steps, near_steps), sources = [(steps, restart) for restart, steps in SPREADS], self.recipe.sources
        near, far, labels_far, labels_near = walks.smoothed((NEAR_STEPS, FAR_STEPS, far_steps, near_steps))
        two = walks.two_steps()
        beside = [_beside(relation(self.whole, name), node, cuts) for name in self.use.relations]
        views = torch.cat([walks.start(), two, near, far, *beside], 1)
        columns = column_mass(self.graph, views, sources.idf, sources.centre).T
        links = times_rows(torch.cat(walks.lists(two, near, *beside), 1).T, sources.links)
        said = torch.cat([labels_far, labels_near], 1)
        labelled = (self.y >= 0).nonzero().flatten()
        labels = said.new_zeros(self.recipe.answers.shape[1], said.shape[1])
        labels.index_add_(0, self.y[labelled], said[labelled])
        n = len(cuts)
        return Surroundings(
            (columns @ sources.words).unflatten(0, (len(WORDS) + len(beside), n)),
            links.unflatten(0, (2 + len(beside), n)),
            torch.cat([labels.T, times_rows(said.T, self.recipe.answers)]).unflatten(0, (4, n)),
            said[node].unflatten(0, (2, n)) * float(self.y[node] < 0),
            torch.stack([labels_near[labelled].sum(0), labels_near.sum(0)]),
            columns[::n],
            views[node, ::n],
            kinds_at(self.whole, self.use.kinds, node, cuts),
        )

    @torch.no_grad()
    def rows(self, node: int, around: Surroundings) -> NodeRows:
        """The rows that the node has in such surroundings."""
        sources, head = self.recipe.sources, self.recipe.head
        beside = zip(around.words[len(WORDS) :], around.links[2:], strict=True)
        h = [*around.words[: len(WORDS)], *around.links[:2], *(part[:, :BESIDE] for pair in beside for part in pair)]
        h += [around.kinds] if self.use.kinds else []
        views = [centred(part, mean) for part, mean in zip(h, sources.means, strict=True)]
        x = self.recipe.frame.coordinates(views)
        alone = scores(x, head.weights)
        own = alone.softmax(1) - self.recipe.answers[node].float()  # what it says itself has changed as well
        opinions = around.opinions.clone()
        opinions[2:] += around.say[:, :, None] * own
        count = torch.bincount(self.y[self.y >= 0], minlength=opinions.shape[2]).float()
        faint = FAINT * (count + 1) / (count.sum() + len(count))
        spoken = ((opinions + faint) / (opinions.sum(2, keepdim=True) + FAINT)).log()
        logits = head.mix[0] * alone + torch.einsum("o,obc->bc", head.mix[1:], spoken)
        facts = node_facts(x, self.moments, logits, alone, *around.masses)
        return NodeRows(x, logits.log_softmax(1), facts)


def _column_counts(graph: Graph) -> Tensor:
    """How many lists each node is in, its own among them."""
    return torch.bincount(graph.indices.long(), minlength=graph.num_nodes).float() + 1


def _beside(graph: Graph, node: int, cuts: Sequence[Sequence[int]]) -> Tensor:
    """The row of the mean over the neighbours of a node, ``[N, cuts]``."""
    start, end = graph.indptr[node : node + 2].tolist()
    others = graph.indices[start:end].long()
    values = torch.ones(len(others), device=graph.device) if graph.weights is None else graph.weights[start:end]
    rows = torch.zeros(graph.num_nodes, len(cuts), device=graph.device)
    for at, cut in enumerate(cuts):
        left = values * ~torch.isin(others, torch.tensor(cut, dtype=torch.long, device=graph.device))
        rows[others, at] = left / left.sum().clamp(min=1e-12)
    return rows
