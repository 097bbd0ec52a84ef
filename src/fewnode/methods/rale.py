"""RALE: where a node lies, relative to the supports and to the graph's hubs, along random-walk paths.

Liu, Fang, Liu, Hoi: Relative and Absolute Location Embedding for Few-Shot Node Classification on Graph. AAAI 2021.
"""

from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from ..graph import Graph
from ..graph.arrays import CacheKey
from ..graph.operators import hubs, mean_adjacency
from ..nn.features import ReducedFeatures
from ..nn.heads import one_hot
from ..nn.inner_loop import (
    HEAD,
    TaskHead,
    Weights,
    adapt,
    for_each_task,
    one_hot_cross_entropy,
    unit_features,
    weights_of,
)
from ..nn.locations import Locations
from ..nn.paths import Reach, enlist, join, reach, to_hubs
from ..tasks import Tasks
from .base import Method, Training

PATHS = 1 << 16  # paths of tasks worked on at a time, and ...
QUERIES = 64  # ... queries of a task: both bound the memory, whatever is asked


BESIDE = CacheKey[Tensor]("features beside their neighbours' mean")


class LocationState(NamedTuple):
    """Features of each node beside its neighbours' mean, ``x [N, 2 * rank]``, and which nodes are hubs, ``[N]``."""

    x: Tensor
    is_hub: Tensor


class RALE(Method):
    """Attention over the nodes of paths to the supports and to hubs gives each node a location, which a head reads.

    Location network and head take one gradient step on the supports; the start is what is trained. The walks are
    drawn anew whenever they are needed, and are the same every time.

    Args:
        head: "zero" starts at zero in every task and takes any number of classes; "wide" learns a start for each of
            ``n_way`` columns, as published, and takes no other number.
        rank: directions the features are reduced to.
        channels, heads: width of each of the three parts of an embedding, and attention heads.
        n_walks, walk_steps: walks from each node, and their steps; a path has at most twice as many.
        n_paths: paths to each support.
        hub_share, n_hubs: share of the nodes that are hubs (highest PageRank), and hubs used for each node.
        inner_steps, inner_rate: gradient steps on the supports, and their size.
        first_order: leave second derivatives out.
        dropout: share of an embedding that is dropped while training.
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
    sampled: ClassVar[bool] = True  # the walks depend on how the nodes are numbered

    def __init__(
        self,
        in_channels: int,
        *,
        n_way: int,
        head: Literal["zero", "wide"] = "zero",
        rank: int = 128,
        channels: int = 32,
        heads: int = 8,
        n_walks: int = 32,
        walk_steps: int = 3,
        n_paths: int = 5,
        hub_share: float = 0.05,
        n_hubs: int = 10,
        inner_steps: int = 1,
        inner_rate: float = 20.0,
        first_order: bool = False,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.n_walks, self.walk_steps, self.n_paths = n_walks, walk_steps, n_paths
        self.hub_share, self.n_hubs = hub_share, n_hubs
        self.inner_steps, self.inner_rate, self.first_order = inner_steps, inner_rate, first_order
        self.features = ReducedFeatures(in_channels, rank)
        width, longest = 2 * min(rank, in_channels), 2 * walk_steps + 1
        self.locations = Locations(width, channels, heads=heads, longest=longest, dropout=dropout)
        self.head = TaskHead(3 * channels, n_way, head)

    def prepare(self, graph: Graph) -> None:
        self.features.fit(graph)

    def embed(self, graph: Graph) -> LocationState:
        x = unit_features(self.features, graph, self.locations)
        beside = graph.cache.get(BESIDE, lambda: torch.cat([x, mean_adjacency(graph) @ x], 1), source=x)
        return LocationState(beside, hubs(graph, self.hub_share))

    def score(self, graph: Graph, state: LocationState, tasks: Tasks) -> Tensor:
        queries = min(tasks.query.shape[1], QUERIES)
        per_task = tasks.support.shape[1] * (tasks.support.shape[1] + queries) * self.n_paths
        size = max(1, PATHS // per_task)
        return torch.cat([self._score(graph, state, tasks[at : at + size]) for at in range(0, len(tasks), size)])

    def _score(self, graph: Graph, state: LocationState, tasks: Tasks) -> Tensor:
        target = one_hot(tasks.support_y, tasks.n_way, state.x.dtype)
        supports = self._reach(graph, tasks.support)
        known = (target, *self._view(state, tasks.support, supports, supports, target))
        start = weights_of(self.locations) | self.head.start(tasks.n_way, target)
        weights = adapt(
            self.task_loss, start, known, steps=self.inner_steps, rate=self.inner_rate, first_order=self.first_order
        )
        parts = []
        for query in tasks.query.split(QUERIES, dim=1):
            view = self._view(state, query, self._reach(graph, query), supports, target)
            parts.append(for_each_task(self.task_scores, weights, *view))
        return torch.cat(parts, 1)

    def task_loss(self, weights: Weights, target: Tensor, *view: Tensor) -> Tensor:
        """The loss of one task's supports, which the inner loop lowers."""
        return one_hot_cross_entropy(self.task_scores(weights, *view), target)

    def task_scores(self, weights: Weights, *view: Tensor) -> Tensor:
        """Scores [M, N] of nodes of one task; see ``Locations`` for what a view is."""
        own = {name: weight for name, weight in weights.items() if name not in HEAD}
        z = functional_call(self.locations, own, view)
        return F.elu(z @ weights[HEAD[0]].t() + weights[HEAD[1]])

    def _reach(self, graph: Graph, nodes: Tensor) -> Reach:
        return reach(graph, nodes, self.n_walks, self.walk_steps)

    def _view(
        self, state: LocationState, nodes: Tensor, here: Reach, supports: Reach, target: Tensor
    ) -> tuple[Tensor, ...]:
        """What ``Locations`` takes for ``nodes [T, M]``."""
        ways = to_hubs(here, state.is_hub, self.n_hubs)
        listed = enlist(join(here, supports, self.n_paths), ways, target)
        table, indexed = tabulate(state.x, nodes, listed.brief, listed.node)
        return table, *indexed, *listed[2:]


def tabulate(x: Tensor, *ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The rows of ``x [N, d]`` that the node ids of each task name, once each: a table ``[T, V, d]``, filled up with
    zeros, and the ids ``[T, ...]`` as rows of it."""
    n, tasks = len(x), len(ids[0])
    flat = torch.cat([part.flatten(1) for part in ids], 1)
    task = torch.arange(tasks, device=x.device)[:, None]
    keys, place = torch.unique(flat + task * n, return_inverse=True)
    owner = keys // n
    count = torch.bincount(owner, minlength=tasks)
    first = count.cumsum(0) - count
    table = x.new_zeros(tasks, int(count.max()), x.shape[1])
    table[owner, torch.arange(len(keys), device=x.device) - first[owner]] = x[keys % n]
    rows = (place - first[:, None]).split([part[0].numel() for part in ids], 1)
    return table, [row.view_as(part) for row, part in zip(rows, ids, strict=True)]
