"""Subgraphs around nodes, all of a batch of tasks in one list of rows, and a network on them with weights per group."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph, operators
from .graph_layers import GraphEncoder, Inputs, drop, rows_of

Linear = tuple[Tensor, Tensor]  # weights [G, in, out] and biases [G, 1, out]


def degrees(graph: Graph, nodes: Tensor) -> Tensor:
    """How many neighbours each of the nodes has, without a pass over all nodes."""
    return (graph.indptr[nodes + 1] - graph.indptr[nodes]).long()


class Subgraphs(NamedTuple):
    """The subgraphs induced on the nodes of each group: a row for every node of every group, and the arcs between them.

    ``group [R]`` and ``node [R]`` of each row; ``place [P]``, the row of each node that was given; the rows ``target``
    and ``source`` of each arc.
    """

    group: Tensor
    node: Tensor
    place: Tensor
    target: Tensor
    source: Tensor

    def closed_sums(self, z: Tensor) -> Tensor:
        """The own value plus those of the neighbours, at every row: ``z`` and the result are [R, d]."""
        return z.index_add(0, self.target, z.index_select(0, self.source))


def induced_subgraphs(graph: Graph, nodes: Tensor, group: Tensor) -> Subgraphs:
    """The subgraphs induced on ``nodes [P]`` of groups ``group [P]``; a node that is given twice is one row."""
    keys, place = torch.unique(group * graph.num_nodes + nodes, return_inverse=True)
    node = keys % graph.num_nodes
    return Subgraphs(keys // graph.num_nodes, node, place, *inner_arcs(graph, keys, node))


def inner_arcs(graph: Graph, keys: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    """Arcs between rows of one group, as row numbers, for sorted ``keys [R]``, ``group * num_nodes + node``. Undirected
    edges are looked for from the end with fewer neighbours only: a hub that is everybody's neighbour would otherwise be
    read whole in every group."""

    def upward() -> Graph:
        """Every undirected edge once, in the row of the end with fewer neighbours (or the smaller id)."""
        degree, row, column = graph.degree, operators.rows_of(graph), graph.indices.long()
        below, above = degree[row], degree[column]
        return replace(graph.with_arcs((below < above) | ((below == above) & (row < column))), directed=True)

    searched = graph if graph.directed else graph.cache.get("upward edges", upward)
    owner, neighbour = operators.gather_neighbours(searched, node)
    wanted = (keys - node).index_select(0, owner) + neighbour
    found = torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)
    hit = keys.index_select(0, found) == wanted
    low, high = owner[hit], found[hit]
    return (low, high) if graph.directed else (torch.cat([low, high]), torch.cat([high, low]))


@dataclass(frozen=True)
class Rows:
    """What two layers read at C centres: the first layer runs at R rows, the second at the centres. A closed sum is the
    own value plus those of the neighbours."""

    group: Tensor  # [R] whose weights are used
    size: Tensor  # [R] how many values the closed sum at the row adds up
    centre: Tensor  # [C] the row of each centre
    target: Tensor  # [L] arcs into the centres: which centre, ...
    source: Tensor  # [L] ... and the row it comes from

    def __add__(self, other: "Rows") -> "Rows":
        rows, centres = len(self.group), len(self.centre)
        moved = (other.group, other.size, other.centre + rows, other.target + centres, other.source + rows)
        return Rows(*(torch.cat(pair) for pair in zip(vars(self).values(), moved, strict=True)))

    def closed_sums(self, z: Tensor) -> Tensor:
        """Closed sums at the centres, [C, d], from values ``z [R, d]`` at the rows."""
        sums: Tensor = z.index_select(0, self.centre).index_add(0, self.target, z.index_select(0, self.source))
        return sums


def neighbourhoods(graph: Graph, centres: Tensor, group: Tensor) -> tuple[Tensor, Rows]:
    """The centres ``[C]`` and their neighbours in the whole graph: the node of each row, and the rows. A node may be
    several rows: cheaper than sorting them out."""
    target, neighbour = operators.gather_neighbours(graph, centres)
    node = torch.cat([centres, neighbour])
    centre, source = torch.arange(len(node), device=node.device).split([len(centres), len(neighbour)])
    return node, Rows(torch.cat([group, group[target]]), 1 + degrees(graph, node), centre, target, source)


def class_ego_graphs(graph: Graph, support: Tensor, classes: Tensor, n_classes: int) -> tuple[Subgraphs, Rows]:
    """``G_i`` of every class: its class node, its supports, their neighbours, the edges of the graph between these, and
    edges between the class node and the supports. The class nodes are
    the last rows and the last centres."""
    owner, neighbour = operators.gather_neighbours(graph, support)
    ego = induced_subgraphs(graph, torch.cat([support, neighbour]), torch.cat([classes, classes[owner]]))
    at, source = ego.place.split([len(support), len(neighbour)])
    order = torch.arange(max(len(support), n_classes), device=graph.device)
    c = len(ego.node) + order[:n_classes]
    c_of = c[classes]
    group = torch.cat([ego.group, order[:n_classes]])
    ego = ego._replace(target=torch.cat([ego.target, at, c_of]), source=torch.cat([ego.source, c_of, at]))
    target = torch.cat([owner, order[: len(support)], len(support) + classes])
    size = 1 + torch.bincount(ego.target, minlength=len(group))
    return ego, Rows(group, size, torch.cat([at, c]), target, torch.cat([source, c_of, at]))


def reads_most(graph: Graph, near: Tensor) -> bool:
    """Whether nodes have so many neighbours that embedding the whole graph is cheaper than embedding these."""
    return 2 * int(degrees(graph, near).sum()) > graph.num_nodes


def embed_around(
    graph: Graph, embed: Callable[[Graph, Tensor | None], Tensor], nodes: Tensor, summed: Tensor
) -> tuple[Tensor, Tensor]:
    """Embeddings of ``nodes [P]`` and closed sums of them at ``summed [R]``: ``embed`` is called for all nodes or, if
    that is less, for those that are read."""
    # Each sum is made once, and all rows are read at once: backward, every reading costs a pass over all nodes.
    centre, place = torch.unique(summed, return_inverse=True)
    neighbour, indptr = operators.gather_neighbours(graph, centre)[1], F.pad(degrees(graph, centre).cumsum(0), (1, 0))
    near, wanted = torch.unique(torch.cat([nodes, centre])), None
    if not reads_most(graph, near):
        wanted = torch.unique(torch.cat([near, neighbour]))
        nodes, centre, neighbour = (torch.searchsorted(wanted, part) for part in (nodes, centre, neighbour))
    h = embed(graph, wanted)
    own, closed = h.index_select(0, torch.cat([nodes, centre])).split([len(nodes), len(centre)])
    sums = closed + operators.Operator(indptr, neighbour, width=len(h), symmetric=False) @ h
    return own, sums.index_select(0, place)


class GIN(GraphEncoder):
    """``GNN_phi``: two layers ``h' = W (h + sum of the neighbours' h) + b``, ReLU and dropout between them; with
    ``mean``, the sum is divided by the number of its terms.

    Xu, Hu, Leskovec, Jegelka: How Powerful are Graph Neural Networks? ICLR 2019.
    """

    def __init__(self, *widths: int, dropout: float = 0.0, mean: bool = False) -> None:
        super().__init__(*widths, dropout=dropout)
        self.mean = mean

    def forward(self, inputs: Inputs | None, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """Embed ``nodes [P]``, by default all of the graph: [P, out_channels]. Without ``inputs``, the features are
        taken as they are."""
        closed, dropout = operators.closed_adjacency(graph), self.dropout if self.training else 0.0
        if self.mean:
            sums = closed
            closed = graph.cache.get("closed means", lambda: replace(sums, left=1 / (1 + graph.degree.double())))
        if inputs is None:
            # They are projected before they are summed: (A X) W = A (X W). Dropout before ReLU is in place.
            h = (closed @ operators.project(graph, self.weight)).add_(self.bias)
            h = closed @ torch.relu_(drop(h, dropout))
            h = h if nodes is None else h.index_select(0, nodes)
        else:
            x = inputs.unit(graph)
            x = graph.cache.get(("aggregated inputs", self.mean), lambda: closed @ x, source=x).to(self.weight.dtype)
            near, rows = rows_of(closed, nodes)
            h = rows @ torch.relu_(drop(torch.addmm(self.bias, x[near], self.weight), dropout))
        out: Tensor = self.outer(h)
        return out


class LocalGNN(nn.Module):
    """Two layers ``linear(closed sum)`` with ReLU between them, read at the centres of subgraphs; or of closed means.

    Its weights and biases are one vector ``theta``, so that an adapter can write another one for every group.

    Args:
        in_channels, hidden_channels, out_channels: widths of the input and of both layers.
        mean: divide each closed sum by the number of its terms.
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, mean: bool = False) -> None:
        super().__init__()
        self.mean = mean
        self.shapes = [(in_channels, hidden_channels), (hidden_channels, out_channels)]
        weights = [nn.init.xavier_uniform_(torch.empty(shape)) for shape in self.shapes]
        parts = [torch.cat([weight, torch.zeros(1, weight.shape[1])]) for weight in weights]
        self.theta = nn.Parameter(torch.cat([part.flatten() for part in parts]))

    def unpack(self, theta: Tensor) -> tuple[Linear, Linear]:
        """Weights and biases of both layers from ``theta [G, size]``."""
        parts = theta.split([(rows + 1) * columns for rows, columns in self.shapes], dim=1)
        first, second = (
            part.unflatten(1, (rows + 1, columns)).split([rows, 1], dim=1)
            for part, (rows, columns) in zip(parts, self.shapes, strict=True)
        )
        return first, second

    def forward(self, rows: Rows, own: Tensor, sums: Tensor, theta: Tensor) -> Tensor:
        """Outputs at the centres, [C, out], from the input ``own [C, in]`` there and its closed ``sums [R, in]`` at the
        rows; ``theta [G, size]`` holds the weights of every group."""
        first, second = self.unpack(theta)
        sums = sums / rows.size[:, None] if self.mean else sums
        sums = rows.closed_sums(torch.relu(grouped_linear(sums, rows.group, first)))
        sums = sums / rows.size[rows.centre, None] if self.mean else sums
        return grouped_linear(sums, rows.group[rows.centre], second)


def grouped_linear(rows: Tensor, group: Tensor, linear: Linear, few: int = 256) -> Tensor:
    """Run ``rows [R, in]`` through the linear map of their group, ``group [R]`` in any order: [R, out].

    Rows are brought into blocks of equal size, so that another matrix for each group is one batched product. A large
    group takes several blocks instead of widening everybody's: hubs cost what they hold. A ``few`` rows are blocks of
    one each, and the rows of a single group one block, without any arranging.
    """
    weight, bias = linear
    n_groups = len(weight)
    if n_groups == 1:
        return torch.baddbmm(bias, rows[None], weight)[0]
    if len(rows) <= few:
        return torch.baddbmm(bias.index_select(0, group), rows[:, None], weight.index_select(0, group))[:, 0]
    counts = torch.bincount(group, minlength=n_groups)
    width = min(128, max(4, 1 << (len(group) // n_groups).bit_length()))
    blocks = (counts + width - 1) // width
    order = torch.argsort(group, stable=True)
    ordered = group[order]
    rank = torch.arange(len(group), device=group.device) - (counts.cumsum(0) - counts)[ordered]
    slot = torch.empty_like(group)
    slot[order] = (blocks.cumsum(0) - blocks)[ordered] * width + rank
    of_block = torch.repeat_interleave(torch.arange(n_groups, device=group.device), blocks)
    padded = rows.new_zeros(len(of_block) * width, rows.shape[1])
    x = padded.index_copy(0, slot, rows).view(len(of_block), width, -1)
    out = torch.baddbmm(bias.index_select(0, of_block), x, weight.index_select(0, of_block))
    return out.flatten(0, 1).index_select(0, slot)


@torch.no_grad()
def linear_start(first: Tensor, second: Tensor) -> None:
    """Fill the weights ``[in, hidden]`` and ``[hidden, out]`` of two layers such that ReLU between them has no effect,
    as ``relu(x) - relu(-x) = x``: an orthogonal projection to half the hidden width, and another from there.

    Balduzzi, Frean, Leary, Lewis, Ma, McWilliams: The Shattered Gradients Problem. ICML 2017.
    """
    half = first.shape[1] // 2
    one, two = (nn.init.orthogonal_(torch.empty(shape)) for shape in ((len(first), half), (half, second.shape[1])))
    first.zero_()[:, : 2 * half] = torch.cat([one, -one], 1)
    second.zero_()[: 2 * half] = torch.cat([two, -two])
