"""RALE: where a node lies, relative to the supports and to the graph's hubs, along random-walk paths.

Liu, Fang, Liu, Hoi: Relative and Absolute Location Embedding for Few-Shot Node Classification on Graph. AAAI 2021.
"""

import math
from dataclasses import replace
from functools import partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph
from ..graph.operators import adjacency, hashed, mean_adjacency
from ..nn.graph_layers import Inputs, xavier
from ..nn.inner_loop import unit
from ..tasks import Tasks
from .base import Method, Training

PATHS = 1 << 16  # paths of tasks worked on at a time, and ...
QUERIES = 64  # ... queries of a task: both bound the memory


class RALE(Method):
    """Attention over the nodes of paths to the supports and to hubs gives each node a location, which a head
    classifies.

    The head takes one gradient step on the supports, and the location network is trained. The walks are not stored:
    they are hashes that are recomputed when necessary.

    Args:
        rank: number of directions to which the features are reduced.
        channels, heads: width of each of the three parts of an embedding, and number of attention heads.
        n_walks, walk_steps: number of walks from each node, and of their steps; a path has at most twice as many steps.
        n_paths: number of paths to each support.
        hub_share, n_hubs: share of the nodes that are hubs (highest PageRank), and number of hubs for each node.
        inner_rate: size of the gradient step on the supports.
        dropout: share of an embedding that is dropped during training.
    """

    training_settings = Training(
        learning_rate=5e-3,
        weight_decay=0.0,
        steps=200,
        tasks_per_step=4,
        check_every=25,
        patience=4,
        train_query=5,
        clip=10.0,
    )
    reads_edges = ("weights",)  # in the mean over neighbours; walks are uniform
    sampled: ClassVar[bool] = True  # the walks depend on how the nodes are numbered

    def __init__(
        self,
        in_channels: int,
        *,
        rank: int = 128,
        channels: int = 32,
        heads: int = 8,
        n_walks: int = 32,
        walk_steps: int = 3,
        n_paths: int = 5,
        hub_share: float = 0.05,
        n_hubs: int = 10,
        inner_rate: float = 20.0,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.n_walks, self.walk_steps, self.n_paths = n_walks, walk_steps, n_paths
        self.hub_share, self.n_hubs, self.inner_rate, self.dropout = hub_share, n_hubs, inner_rate, dropout
        self.inputs = Inputs(in_channels, rank, scaled=True)
        self.content = xavier(nn.Linear(2 * self.inputs.width, channels))
        self.path = PathAttention(channels, heads, 2 * walk_steps + 1)
        self.relative, self.absolute = Choice(channels), Choice(channels)

    def embed(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """Features of each node beside their neighbours' mean, ``[N, 2 * rank]``, and which nodes are hubs, ``[N]``."""
        x, share = self.inputs.unit(graph), self.hub_share
        beside = graph.cache.get("with means", lambda: torch.cat([x, mean_adjacency(graph) @ x], 1), source=x)
        return beside, graph.cache.get(("hubs", share), lambda: hubs(graph, share))

    def score(self, graph: Graph, state: tuple[Tensor, Tensor], tasks: Tasks) -> Tensor:
        reached = partial(reach, graph, n_walks=self.n_walks, steps=self.walk_steps)
        supports, queries = tasks.support.shape[1], min(tasks.query.shape[1], QUERIES)
        size, scores = max(1, PATHS // (supports * (supports + queries) * self.n_paths)), []
        for part in (tasks[at : at + size] for at in range(0, len(tasks), size)):
            target, there = F.one_hot(part.support_y, part.n_way).to(state[0].dtype), reached(part.support)
            z = self.locate(*state, part.support, there, there, target)
            # The head starts at zero, where the gradient of its cross-entropy is known: one step on the supports.
            step = self.inner_rate * (target - 1 / part.n_way).mT / supports
            weight, bias = step @ z, step.sum(-1)[:, None]
            groups = part.query.split(QUERIES, dim=1)
            q = torch.cat([self.locate(*state, group, reached(group), there, target) for group in groups], 1)
            scores.append(F.elu(q @ weight.mT + bias))
        return torch.cat(scores)

    def locate(self, x: Tensor, is_hub: Tensor, nodes: Tensor, here: "Reach", there: "Reach", target: Tensor) -> Tensor:
        """Embeddings [T, M, 3 * channels] of ``nodes [T, M]`` and their reach, by the reach of the supports and their
        classes ``target [T, S, N]``: where it is relative to the classes, relative to hubs, and what it holds."""
        paths, ways = join(here, there, self.n_paths), to_hubs(here, is_hub, self.n_hubs)
        joined, near = paths.length > 0, ways.length > 0
        ways_node = F.pad(ways.node[near], (0, paths.node.shape[-1] - ways.node.shape[-1]))
        path, length = torch.cat([paths.node[joined], ways_node]), torch.cat([paths.length[joined], ways.length[near]])
        known, place = torch.unique(torch.cat([nodes.flatten(), path.flatten()]), return_inverse=True)
        g = unit(F.elu(self.content(x[known]))).index_select(0, place)
        own, along = g[: nodes.numel()].unflatten(0, nodes.shape), g[nodes.numel() :].unflatten(0, path.shape)
        to_support, to_hub = self.path(along, length).tensor_split([len(path) - len(ways_node)])
        # The mean over the paths to each support, then over the supports of each class that have any.
        pair, count = joined.flatten(0, 2).nonzero()[:, 0], joined.sum(-1)
        means = g.new_zeros(count.numel(), g.shape[1]).index_add(0, pair, to_support) / count.view(-1, 1).clamp(min=1)
        linked = (count > 0).to(g.dtype) @ target
        classes = target.mT[:, None] @ means.view(*count.shape, -1) / linked[..., None].clamp(min=1)
        every_hub = g.new_zeros(*near.shape, g.shape[1]).masked_scatter(near[..., None], to_hub)
        parts = self.relative(classes, linked > 0), self.absolute(every_hub, near), own
        return F.dropout(torch.cat(parts, -1), self.dropout, self.training)


class PathAttention(nn.Module):
    """Position-aware multi-head self-attention over the nodes of a path, then the maximum over them.

    Vectors have length one where others have a layer norm; positions are sinusoids (Vaswani et al., NeurIPS 2017).
    """

    positions: Tensor

    def __init__(self, channels: int, heads: int, longest: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (xavier(nn.Linear(channels, channels, bias=False)) for _ in range(3))
        self.inner = xavier(nn.Linear(channels, channels))
        self.outer = xavier(nn.Linear(channels, channels))
        self.register_buffer("positions", sinusoids(longest, channels), persistent=False)

    def forward(self, z: Tensor, length: Tensor) -> Tensor:
        """One vector [..., d] for each path of nodes ``z [..., L, d]``, of which the first ``length [...]`` count."""
        size, channels = z.shape[-2:]
        z = z * math.sqrt(channels) + self.positions[:size].to(z.dtype)
        open_ = torch.arange(size, device=z.device) < length[..., None]
        # Products and sums over [L, L, d] instead of matrix products: those of [L, d / heads] matrices are many times
        # slower. Head h owns every channel with number h modulo heads, which makes the sums run over whole vectors.
        q, k, v = (linear(z).unflatten(-1, (-1, self.heads)) for linear in (self.query, self.key, self.value))
        logits = (q.unsqueeze(-4) * k.unsqueeze(-3)).sum(-2) / math.sqrt(q.shape[-2])  # [..., key, query, heads]
        weights = torch.where(open_[..., None, None], logits, -torch.inf).softmax(-3)
        z = unit(z + (weights.unsqueeze(-2) * v.unsqueeze(-3)).sum(-4).flatten(-2))
        z = unit(z + self.outer(torch.relu(self.inner(z))))
        return torch.where(open_[..., None], z, -torch.inf).amax(-2)


class Choice(nn.Module):
    """A mean of vectors weighted by how much each matters: softmax of ``eta . LeakyReLU(W r + b)`` where known."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = xavier(nn.Linear(channels, channels))
        self.eta = nn.Parameter(nn.init.xavier_uniform_(torch.empty(channels, 1)))

    def forward(self, r: Tensor, known: Tensor) -> Tensor:
        """``r [..., n, d]`` to [..., d]; zero where none of the n is ``known [..., n]``."""
        logits = (F.leaky_relu(self.inner(r)) @ self.eta).squeeze(-1)
        some = known.any(-1, keepdim=True)
        weights = torch.where(known | ~some, logits, -torch.inf).softmax(-1) * some
        return (weights[..., None] * torch.where(known[..., None], r, 0.0)).sum(-2)


def sinusoids(longest: int, channels: int) -> Tensor:
    """Sines and cosines of positions 0..longest-1 at geometrically falling frequencies, [longest, channels]."""
    column = torch.arange(channels)
    rate = 10000.0 ** (-(column // 2 * 2) / channels)
    angle = torch.arange(longest)[:, None] * rate
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


class Reach(NamedTuple):
    """What the walks of each node reach: distinct nodes, each with the shortest way there that a walk found.

    ``walks [..., W, L + 1]``, the start first; ``node [..., R]`` ascending, filled up with ``absent``; node ``r`` is
    reached by walk ``walk [..., r]`` after ``steps [..., r]`` steps.
    """

    walks: Tensor
    node: Tensor
    walk: Tensor
    steps: Tensor
    absent: int


class Paths(NamedTuple):
    """Node ids ``node [..., P]`` of paths of at most P nodes, and how many they are, ``length [...]``; 0: no path."""

    node: Tensor
    length: Tensor


def random_walks(graph: Graph, nodes: Tensor, n_walks: int, steps: int) -> Tensor:
    """Uniform walks from every node of ``nodes [B]``: node ids ``[B, n_walks, steps + 1]``, the start first.

    A walker without a way on stays where it is. The choices are a hash of start, walk and step, so a
    node's walks are the same whichever other nodes are asked for, and none need to be kept.
    """
    walk = torch.arange(n_walks, device=nodes.device)
    number = (nodes[:, None] * n_walks + walk) * steps  # with the step added, different for each step of each walk
    indices = torch.cat([graph.indices, graph.indices.new_zeros(1)])  # an isolated last node reads behind the end
    here = nodes[:, None].expand(-1, n_walks)
    path = [here]
    for step in range(steps):
        first = graph.indptr[here].long()
        degree = graph.indptr[here + 1].long() - first
        ahead = indices[first + hashed(number + step, seed=0) % degree.clamp(min=1)].long()
        here = torch.where(degree > 0, ahead, here)
        path.append(here)
    return torch.stack(path, -1)


def hubs(graph: Graph, share: float) -> Tensor:
    """Which nodes are among the given share of the highest PageRanks (at least one), bool [N]."""
    count = max(1, round(share * graph.num_nodes))
    chosen = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    chosen[torch.argsort(pagerank(graph), descending=True, stable=True)[:count]] = True
    return chosen


def pagerank(graph: Graph, damping: float = 0.85, steps: int = 140) -> Tensor:
    """How often an endless walker with restarts is at each node, up to a factor, float64 [N].

    Page, Brin, Motwani, Winograd: The PageRank Citation Ranking. Stanford, 1999.
    """
    arcs = adjacency(graph)
    walk = replace(arcs, right=1 / arcs.T.totals().double().clamp(min=1))
    # Walkers without a way on restart anywhere, as all do now and then: that multiplies every rank by the same factor.
    everywhere = torch.ones(graph.num_nodes, 1, dtype=torch.float64, device=graph.device)
    return walk.smooth(everywhere, steps, 1 - damping)[:, 0]


def reach(graph: Graph, nodes: Tensor, n_walks: int, steps: int) -> Reach:
    """The reach of ``nodes``, of any shape, by ``n_walks`` walks of ``steps`` steps each; the same in any company."""
    walks = random_walks(graph, nodes.flatten(), n_walks, steps)
    early_first = walks.transpose(1, 2).flatten(1)
    width, absent = early_first.shape[1], graph.num_nodes
    place = torch.arange(width, device=nodes.device)
    keys = (early_first * width + place).sort(1).values
    node = keys // width
    again = torch.zeros_like(node, dtype=torch.bool)
    again[:, 1:] = node[:, 1:] == node[:, :-1]
    keys = torch.where(again, absent * width, keys).sort(1).values[:, : n_walks * steps + 1]
    node, place = keys // width, keys % width
    walks, node, place = (part.unflatten(0, nodes.shape) for part in (walks, node, place))
    return Reach(walks, node, place % n_walks, place // n_walks, absent)


def join(here: Reach, there: Reach, n_paths: int) -> Paths:
    """The shortest ``n_paths`` paths from each node of ``here [T, M]`` to each of ``there [T, S]``, where walks meet.

    Only meetings half-way count (the two ways differ by at most a step): the same path also meets at its other
    nodes. Every second path is read backwards. Nodes ``[T, M, S, n_paths, 2L + 1]``.
    """
    (tasks, many, size), others = here.node.shape, there.node.shape[1]
    wanted = here.node.flatten(1)[:, None].expand(tasks, others, many * size).contiguous()
    place = torch.searchsorted(there.node, wanted).clamp_(max=size - 1)
    met = (there.node.gather(2, place) == wanted) & (wanted < here.absent)
    a, walk_a = (part[:, None].expand(-1, others, -1, -1) for part in (here.steps, here.walk))
    b, walk_b = (part.gather(2, place).unflatten(2, (many, size)) for part in (there.steps, there.walk))
    same = here.walks[:, None, :, 0, 0] == there.walks[:, :, None, 0, 0]
    good = met.unflatten(2, (many, size)) & ((a - b).abs() <= 1) & ~same[..., None]
    chosen = _fewest_steps(a + b, good, n_paths)
    a, b, walk_a, walk_b, real = (part.gather(-1, chosen).transpose(1, 2) for part in (a, b, walk_a, walk_b, good))
    task, row, column = (torch.arange(n, device=chosen.device) for n in (tasks, many, others))
    out = here.walks[task[:, None, None, None], row[:, None, None], walk_a]
    back = there.walks[task[:, None, None, None], column[:, None], walk_b]
    return _splice(out, back, a, torch.where(real, a + b + 1, 0))


def _fewest_steps(steps: Tensor, good: Tensor, count: int) -> Tensor:
    """Places of the ``count`` good entries of the fewest ``steps [..., R]``, earlier ones first; then of others."""
    size = steps.shape[-1]
    cost = steps * size + torch.arange(size, device=steps.device)
    cost = torch.where(good, cost, torch.iinfo(cost.dtype).max)
    return cost.topk(min(count, size), -1, largest=False).indices


def _splice(out: Tensor, back: Tensor, turn: Tensor, length: Tensor) -> Paths:
    """The walk ``out [..., L + 1]`` up to its step ``turn [...]``, then the walk ``back [..., L + 1]`` backwards."""
    last = out.shape[-1] - 1
    position = torch.arange(2 * last + 1, device=out.device).expand(*out.shape[:-1], -1)
    end = (length - 1).clamp(min=0)[..., None]
    backwards = (torch.arange(out.shape[-2], device=out.device) % 2 == 1)[:, None]
    position = torch.where(backwards, end - position, position)
    first = out.gather(-1, position.clamp(0, last))
    second = back.gather(-1, (end - position).clamp(0, last))
    return Paths(torch.where(position <= turn[..., None], first, second), length)


def to_hubs(here: Reach, is_hub: Tensor, n_hubs: int) -> Paths:
    """Paths from each node of ``here [T, M]`` to the nearest hubs it reaches, ``[T, M, n_hubs, L + 1]``."""
    hub = F.pad(is_hub, (0, 1))[here.node] & (here.steps > 0)
    chosen = _fewest_steps(here.steps, hub, n_hubs)
    walk, steps, real = (part.gather(-1, chosen) for part in (here.walk, here.steps, hub))
    return Paths(torch.take_along_dim(here.walks, walk[..., None], 2), torch.where(real, steps + 1, 0))
