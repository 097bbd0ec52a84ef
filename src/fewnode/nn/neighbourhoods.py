"""Two-layer graph networks at a few nodes, as rows: what a layer with other weights for each task needs, and no more.

At node u such a network computes ``sum_j P_uj relu((S x)_j W + b)``: only the neighbours j of u matter, and their
inputs ``(S x)_j`` are the same whatever the weights. So a task is a matrix of rows and a matrix that pools them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..graph import Graph, operators
from ..graph.arrays import CacheKey, csr_parts, csr_tensor, gather_rows
from ..graph.operators import hashed
from .ego import inner_arcs

TWO_STEP_WALKS = 1 << 21  # of all nodes whose subgraphs are cut at a time: bounds the memory that takes


class TaskRows(NamedTuple):
    """The first layer's ``inputs [T, R, d]`` of each task, filled up with zeros, and ``pool [T, S, R]``, which
    gathers them at the task's nodes."""

    inputs: Tensor
    pool: Tensor


def pack(owner: Tensor, value: Tensor, inputs: Tensor, shape: tuple[int, ...]) -> TaskRows:
    """Rows ``inputs [E, d]`` of nodes ``[T, S]`` (``shape``): ``owner [E]``, sorted, counts through them all."""
    tasks, nodes = shape
    task = owner // nodes
    count = torch.bincount(task, minlength=tasks)
    place = torch.arange(len(owner), device=owner.device) - (count.cumsum(0) - count)[task]
    most = int(count.max())
    rows = inputs.new_zeros(tasks, most, inputs.shape[1])
    pool = inputs.new_zeros(tasks, nodes, most)
    rows[task, place] = inputs
    pool[task, owner % nodes, place] = value.to(inputs.dtype)
    return TaskRows(rows, pool)


class Neighbourhoods:
    """The neighbours of every node with their weights in the second layer, and the first layer's inputs there.

    ``rows`` looks up those of a batch of nodes; ``counts [N]`` says how many rows each node has.
    """

    counts: Tensor

    def rows(self, nodes: Tensor) -> TaskRows:
        raise NotImplementedError


class WholeGraph(Neighbourhoods):
    """The rows of a network whose two layers aggregate by the same operator ``S`` over the whole graph.

    Args:
        operator: S, [N, N].
        x: features [N, d].
    """

    def __init__(self, operator: operators.Operator, x: Tensor) -> None:
        self.indptr, self.indices, self.values = csr_parts(operator.matrix)
        self.smoothed = operator @ x
        self.counts = (self.indptr[1:] - self.indptr[:-1]).long()

    def rows(self, nodes: Tensor) -> TaskRows:
        owner, at = gather_rows(self.indptr, nodes.flatten())
        return pack(owner, self.values[at], self.smoothed[self.indices[at].long()], (len(nodes), nodes.shape[1]))


class Subgraphs(Neighbourhoods):
    """The rows of a network that runs, for every node, on that node's own subgraph.

    Args:
        cuts: what ``cut_subgraphs`` found.
        x: features [N, d].
    """

    def __init__(self, cuts: "Cuts", x: Tensor) -> None:
        self.cuts, self.x = cuts, x
        self.counts = cuts.start[1:] - cuts.start[:-1]

    def rows(self, nodes: Tensor) -> TaskRows:
        cuts = self.cuts
        owner, pair = gather_rows(cuts.start, nodes.flatten())
        row, at = gather_rows(cuts.first, pair)
        ends = torch.cumsum(torch.bincount(row, minlength=len(pair)), 0)
        indptr = torch.cat([ends.new_zeros(1), ends])
        shape = (len(pair), len(self.x))
        smooth = csr_tensor(indptr, cuts.node[at].long(), cuts.value[at].to(self.x.dtype), shape)
        return pack(owner, cuts.weight[pair], smooth @ self.x, (len(nodes), nodes.shape[1]))


@dataclass(frozen=True)
class Cuts:
    """Local subgraphs of all nodes, reduced to what two layers read at their centres.

    Centre u reads the pairs ``start[u]:start[u + 1]``, one for each neighbour j in its subgraph, with ``weight
    S_uj``; pair p reads ``first[p]:first[p + 1]``, the neighbours ``node`` k of j with ``value S_jk``.
    """

    start: Tensor
    weight: Tensor
    first: Tensor
    node: Tensor
    value: Tensor


SUBGRAPHS = CacheKey[Cuts]("subgraphs")


def cut_subgraphs(graph: Graph, cap: int, self_loops: bool) -> Cuts:
    """Cut the subgraph of every node's two-hop neighbourhood, of at most ``cap`` nodes, by symmetric normalisation."""

    def build() -> Cuts:
        two_steps = (operators.adjacency(graph) @ graph.degree[:, None].float()).flatten() + 1
        batch = (two_steps.double().cumsum(0) / TWO_STEP_WALKS).long()
        sizes = torch.unique_consecutive(batch, return_counts=True)[1].tolist()
        nodes = torch.arange(graph.num_nodes, device=graph.device)
        parts = [_cut(graph, centres, cap, self_loops) for centres in nodes.split(sizes)]
        pairs, weight, entries, node, value = (torch.cat(part) for part in zip(*parts, strict=True))
        return Cuts(_pointers(pairs), weight, _pointers(entries), node, value)

    return graph.cache.get(SUBGRAPHS.of(cap, self_loops), build)


def _cut(graph: Graph, centres: Tensor, cap: int, self_loops: bool) -> tuple[Tensor, ...]:
    """For ``centres [B]``: pairs of each, weight of each pair, entries of each pair, node and value of each entry."""
    n = graph.num_nodes
    keys, middle = _two_hops(graph, centres, cap)
    node = keys % n
    target, source = inner_arcs(graph, keys, node)
    if self_loops:
        every = torch.arange(len(keys), device=keys.device)
        target, source = torch.cat([target, every]), torch.cat([source, every])
    scale = torch.bincount(target, minlength=len(keys)).clamp(min=1).float().rsqrt()
    value = scale[target] * scale[source]
    centre = torch.searchsorted(keys, middle)
    at_centre = torch.zeros(len(keys), dtype=torch.bool, device=keys.device).index_fill_(0, centre, True)[target]
    weight = torch.zeros(len(keys), device=keys.device)
    weight[source[at_centre]] = value[at_centre]  # a row has one centre, its own subgraph's
    read = weight > 0
    kept = read[target].nonzero().flatten()
    kept = kept[torch.argsort(target[kept], stable=True)]
    pairs = torch.bincount(keys[read] // n, minlength=len(centres))
    entries = torch.bincount(target[kept], minlength=len(keys))[read]
    return pairs, weight[read], entries, node[source[kept]].to(graph.indices.dtype), value[kept]


def _two_hops(graph: Graph, centres: Tensor, cap: int) -> tuple[Tensor, Tensor]:
    """Sorted keys ``position * N + node`` of the nodes within two hops of each centre, and the centres' own keys."""
    n = graph.num_nodes
    middle = torch.arange(len(centres), device=centres.device) * n + centres
    owner, near = operators.gather_neighbours(graph, centres)
    via, far = operators.gather_neighbours(graph, near)
    keys = torch.unique(torch.cat([middle, owner * n + near, owner[via] * n + far]))
    sizes = torch.bincount(keys // n, minlength=len(centres))
    if int(sizes.max()) <= cap:
        return keys, middle
    # The sample is a hash of centre and node, so a subgraph is the same whatever else is cut with it.
    group, node = keys // n, keys % n
    draw = torch.where(node == centres[group], -1, hashed(centres[group] * n + node, seed=0))
    order = torch.argsort(draw, stable=True)
    order = order[torch.argsort(group[order], stable=True)]
    place = torch.arange(len(keys), device=keys.device) - (sizes.cumsum(0) - sizes)[group]
    return keys[order[place < cap].sort().values], middle


def _pointers(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
