"""Nodes that arrive later: their rows in the open-world model, from what their neighbours hand on to them.

Nothing is computed for nodes that no new edge touches. The smoothing of a graph is, row by row, an equation between a
node and its neighbours: the rows of the new nodes and of the old ones they are joined to are solved for together, and
what reaches those old ones from elsewhere is what it was. It is read off their own rows, without looking further. Held
fixed are the bases of words and links, the rarities, the means the views are centred on, the frame of the coordinates
and the head of the known classes: what a model knows, not what a graph is.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...errors import InputError
from ...graph import Graph
from ...graph.csr import csr_tensor, gather_rows
from ...nn.features import tfidf
from ...nn.views import BESIDE, FAR_STEPS, NEAR_STEPS, ViewSources, centred
from ..openworld.known_head import label_matrix, scores
from ..openworld.membership import node_facts
from ..openworld.question import OpenWorldModel
from ..openworld.relay import Relay
from ..openworld.spreading import FAINT, SPREADS

TINY = 1e-9
STEPS = 6  # of the equations: new nodes hear of each other over a few edges, the rest is there from the start


@dataclass(frozen=True)
class Arrivals:
    """New nodes beside a graph of ``N``: ``x [B, F]`` like the features of the graph, ``y [B]`` positions of known
    classes or -1, and ``arcs [2, A]`` of positions, in which ``N`` is the first of the new nodes: each edge both ways,
    with ``weights [A]`` in the unit of the graph's, in which their mean is one. ``beside`` are the arcs (node and
    neighbour) and weights of new nodes along each relation that is used, ``kinds [B, K]`` the kinds of their edges."""

    x: Tensor
    y: Tensor
    arcs: Tensor
    weights: Tensor
    beside: tuple[tuple[Tensor, Tensor], ...] = ()
    kinds: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)


class Neighbourhood:
    """The new nodes and, below them, the ``touched`` old ones, ``n`` together, with the new edges as ``arcs [n, n]``.

    ``mass [n, 1]`` is the weight of all edges of a node, ``before`` of those that were there; ``lists`` counts them.
    """

    def __init__(self, graph: Graph, arrivals: Arrivals) -> None:
        n_old, self.n_new = graph.num_nodes, len(arrivals)
        old = arrivals.arcs < n_old
        self.touched = arrivals.arcs[old].unique()
        below = self.n_new + torch.searchsorted(self.touched, arrivals.arcs.clamp(max=n_old - 1).contiguous())
        place = torch.where(old, below, arrivals.arcs - n_old)
        self.n_old = n_old
        size = self.n_new + len(self.touched)
        order = (place[0] * size + place[1]).argsort()
        self.rows, self.columns = place[:, order]
        count = torch.bincount(self.rows, minlength=size)
        self.indptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
        weights = arrivals.weights[order]
        self.arcs, self.pattern = self._matrix(weights), self._matrix(torch.ones_like(weights))
        gap = weights.new_zeros(self.n_new)
        self.before = torch.cat([gap, _mass(graph, self.touched)])[:, None]
        self.lists = torch.cat([count[: self.n_new].float(), graph.degree[self.touched].float()])[:, None]
        self.mass = self.before.index_add(0, self.rows, weights[:, None])
        self.scale = (self.mass + 1).rsqrt()
        self.normal = self._matrix(weights * (self.scale[self.rows] * self.scale[self.columns])[:, 0])

    def _matrix(self, values: Tensor) -> Tensor:
        size = len(self.indptr) - 1
        return csr_tensor(self.indptr, self.columns, values, (size, size))

    def beside(self, h: Tensor, arcs: Tensor, weights: Tensor) -> Tensor:
        """The new rows of the mean of ``h [n, d]`` over the neighbours along some ``arcs [2, A]``."""
        old = arcs[1] < self.n_old
        below = self.n_new + torch.searchsorted(self.touched, arcs[1].clamp(max=self.n_old - 1).contiguous())
        column, row = torch.where(old, below, arcs[1] - self.n_old), arcs[0] - self.n_old
        total = h.new_zeros(self.n_new, h.shape[1]).index_add_(0, row, weights[:, None] * h[column])
        return total / h.new_zeros(self.n_new, 1).index_add_(0, row, weights[:, None]).clamp(min=TINY)

    def two_steps(self, h: Tensor, means: Tensor) -> Tensor:
        """The new rows of the mean over two-step walks of ``h [n, d]``; ``means`` are those over the neighbours that
        the touched nodes had."""
        total = self.arcs @ h
        total[self.n_new :] += self.before[self.n_new :] * means
        shares = self.mass.clamp(min=TINY)
        return ((self.arcs @ (total / shares)) / shares)[: self.n_new]

    def smoothed(self, h: Tensor, old: Tensor, restart: float) -> Tensor:
        """The new rows of personalised PageRank of ``h [n, d]``, where those of the touched nodes were ``old``."""
        n = self.n_new
        had = self.before[n:] + 1
        elsewhere = had.sqrt() * (old - restart * h[n:]) / (1 - restart) - old / had.sqrt()
        given = restart * h
        given[n:] += (1 - restart) * self.scale[n:] * elsewhere
        own = 1 - (1 - restart) * self.scale.square()  # the self-loop, brought to the other side
        z = torch.cat([h[:n], old])
        for _ in range(STEPS):
            z = torch.addmm(given, self.normal, z, alpha=1 - restart) / own
        return z[:n]


@torch.no_grad()
def arrived(graph: Graph, model: OpenWorldModel, arrivals: Arrivals) -> OpenWorldModel:
    """The open-world model with the rows of the new nodes in place of those of the graph."""
    if model.recipe is None or model.relay is None:
        raise InputError("this model was saved without what new nodes need; fit it again")
    around, recipe = Neighbourhood(graph, arrivals), model.recipe
    old = model.relay.of_nodes(around.touched)
    x = recipe.frame.coordinates(_views(graph, recipe.sources, around, old, arrivals)).half().float()
    alone = scores(x, recipe.head.weights)
    n_classes = alone.shape[1]
    labels = label_matrix(arrivals.y, n_classes)
    answers = torch.where((arrivals.y >= 0)[:, None], labels, alone.softmax(1))
    beside = label_matrix(model.y[around.touched], n_classes), recipe.answers[around.touched]
    said = torch.cat([torch.cat(pair) for pair in zip((labels, answers), beside, strict=True)], 1)
    said = torch.cat([said, torch.ones_like(said[:, :1])], 1)
    (far, _), (near, _) = SPREADS
    heard = around.smoothed(said, old.said_far, far), around.smoothed(said, old.said_near, near)
    logits = recipe.head.mix[0] * alone
    shares = _shares(model.y, n_classes)
    opinions = [part[:, at : at + n_classes] for at in (0, n_classes) for part in heard]
    for weight, opinion in zip(recipe.head.mix[1:], opinions, strict=True):
        logits = logits + weight * ((opinion + FAINT * shares) / (opinion.sum(1, keepdim=True) + FAINT)).log()
    masses = heard[1][:, :n_classes].sum(1), heard[1][:, -1]
    facts = node_facts(x, model.moments, logits, alone, *masses)
    return replace(model, x=x, y=arrivals.y, log_known=logits.log_softmax(1), facts=facts)


def _views(graph: Graph, sources: ViewSources, around: Neighbourhood, old: Relay, arrivals: Arrivals) -> list[Tensor]:
    """The views of the new nodes, in the order of ``VIEWS``, then the further ones."""
    x = arrivals.x
    weighted = tfidf(x, sources.idf) if x.layout == torch.sparse_csr else x - sources.centre
    new_words = weighted @ sources.words
    words = torch.cat([new_words, old.words])
    links = torch.cat([_links(graph, sources, around), old.links])
    raw = [
        new_words,
        around.two_steps(words, old.words_mean),
        around.smoothed(words, old.words_near, NEAR_STEPS[1]),
        around.smoothed(words, old.words_far, FAR_STEPS[1]),
        around.two_steps(links, old.links_mean),
        around.smoothed(links, old.links_near, NEAR_STEPS[1]),
    ]
    for arcs, weights in arrivals.beside:
        raw += [around.beside(h[:, :BESIDE], arcs, weights) for h in (words, links)]
    raw += [] if arrivals.kinds is None else [arrivals.kinds]
    return [centred(part, mean) for part, mean in zip(raw, sources.means, strict=True)]


def _links(graph: Graph, sources: ViewSources, around: Neighbourhood) -> Tensor:
    """The reduced neighbour lists of the new nodes: only old nodes have a direction in the basis."""
    rarity = torch.log((1 + graph.num_nodes) / (2 + around.lists)) + 1  # every node is in its own list too
    basis = torch.cat([sources.links.new_zeros(around.n_new, sources.links.shape[1]), sources.links[around.touched]])
    lengths = around.pattern @ rarity.square() + rarity.square()
    return ((around.pattern @ (rarity * basis)) / lengths.sqrt())[: around.n_new]


def _mass(graph: Graph, nodes: Tensor) -> Tensor:
    """The weights of the edges of some nodes together."""
    if graph.weights is None:
        return graph.degree[nodes].float()
    owner, at = gather_rows(graph.indptr, nodes)
    weights = graph.weights[at] / graph.weights.mean()
    return weights.new_zeros(len(nodes)).index_add_(0, owner, weights)


def _shares(y: Tensor, n_classes: int) -> Tensor:
    count = torch.bincount(y[y >= 0], minlength=n_classes).float()
    return (count + 1) / (count.sum() + n_classes)
