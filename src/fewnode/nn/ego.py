"""Subgraphs around nodes, all of a batch of tasks in one list, and a network on them with other weights per group."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..graph import Graph, operators
from ..graph.arrays import CacheKey
from ..tasks import Tasks
from .graph_layers import take_rows

UPWARD = CacheKey[Graph]("upward edges")
REACH = CacheKey[Tensor]("neighbours within one step")
Linear = tuple[Tensor, Tensor]  # weights [G, in, out] and biases [G, 1, out]
Wanted = tuple[Tensor, bool]  # nodes, and whether closed sums are wanted there


@dataclass(frozen=True)
class EgoGraphs:
    """Subgraphs of groups of centre nodes as one list of R rows: the C centres and their neighbours.

    All arcs into the centres are listed. The neighbours of a row are those in its own subgraph (``inner``), or all it
    has in the graph (``outer``; neither where the values at the rows are closed sums already). A closed sum is the own
    value plus those of the neighbours. With virtual nodes there are G more rows at the end, one for each group, joined
    to the centres of the group.
    """

    group: Tensor  # [R] the subgraph that the row belongs to
    node: Tensor  # [R] its node in the graph
    centre: Tensor  # [C] the row of each centre
    target: Tensor  # [L] arcs into the centres: which centre, ...
    source: Tensor  # [L] ... and the row it comes from
    inner: tuple[Tensor, Tensor] | None = None  # all arcs of the subgraphs: target and source row
    outer: tuple[Tensor, Tensor] | None = None  # all arcs into the rows: target row and source node
    n_virtual: int = 0

    @property
    def summed(self) -> bool:
        """Whether the values at the rows must be closed sums already."""
        return self.inner is None and self.outer is None

    def reads(self) -> Tensor:
        """The nodes whose values are needed: those of the rows, then those of outer arcs."""
        return self.node if self.outer is None else torch.cat([self.node, self.outer[1]])

    def group_of_rows(self) -> Tensor:
        """The group of every row, virtual nodes last, [R + G]."""
        return torch.cat([self.group, torch.arange(self.n_virtual, device=self.group.device)])

    def group_of_outputs(self) -> Tensor:
        """The group of every centre, virtual nodes last, [C + G]."""
        return torch.cat([self.group[self.centre], torch.arange(self.n_virtual, device=self.group.device)])

    def closed_sums(self, values: Tensor, virtual: Tensor | None = None, centres: Tensor | None = None) -> Tensor:
        """Closed sums at every row, [R + G, d], from the ``values`` at ``reads()`` and, where there are virtual nodes,
        those at ``virtual [G, d]`` and ``centres [C, d]``."""
        sums = values
        if self.inner is not None:
            target, source = self.inner
            sums = values.index_add(0, target, values.index_select(0, source))
        elif self.outer is not None:
            own, others = values.split([len(self.node), len(self.outer[1])])
            sums = own.index_add(0, self.outer[0], others)
        if virtual is None or centres is None:
            return sums
        group = self.group[self.centre]
        joined = sums.index_add(0, self.centre, virtual.index_select(0, group))
        return torch.cat([joined, virtual.index_add(0, group, centres)])

    def closed_counts(self, graph: Graph, dtype: torch.dtype) -> Tensor:
        """How many values each closed sum adds up, [R + G, 1]."""
        ones = torch.ones(len(self.reads()), 1, dtype=dtype, device=self.node.device)
        if self.summed:
            ones = ones + degrees(graph, self.node)[:, None]
        virtual = ones.new_ones(self.n_virtual, 1) if self.n_virtual else None
        return self.closed_sums(ones, virtual, ones.new_ones(len(self.centre), 1))

    def centre_sums(self, z: Tensor) -> Tensor:
        """Closed sums at the centres and virtual nodes, [C + G, d], from values ``z [R + G, d]`` at the rows."""
        rows, virtual = z.split([len(self.node), self.n_virtual])
        own = rows.index_select(0, self.centre)
        sums: Tensor = own.index_add(0, self.target, rows.index_select(0, self.source))
        if not self.n_virtual:
            return sums
        group = self.group[self.centre]
        return torch.cat([sums + virtual.index_select(0, group), virtual.index_add(0, group, own)])


def induced_subgraphs(graph: Graph, centres: Tensor, group: Tensor, n_virtual: int = 0) -> EgoGraphs:
    """The subgraphs induced on the centres of each group and their neighbours: nodes ``centres [C]`` of groups ``group
    [C]``. ``n_virtual`` is the number of groups if each gets a virtual node, else 0."""
    target, neighbour = operators.gather_neighbours(graph, centres)
    every, its_group = torch.cat([centres, neighbour]), torch.cat([group, group[target]])
    rows, place = torch.unique(its_group * graph.num_nodes + every, return_inverse=True)
    centre, source = place.split([len(centres), len(neighbour)])
    node = rows % graph.num_nodes
    inner = inner_arcs(graph, rows, node)
    return EgoGraphs(rows // graph.num_nodes, node, centre, target, source, inner, n_virtual=n_virtual)


def neighbourhoods(graph: Graph, centres: Tensor, group: Tensor, *, summed: bool) -> EgoGraphs:
    """The centres ``[C]`` with their neighbours in the whole graph, all that two layers read at them; ``summed``
    promises values that are closed sums already. A node may be several rows: cheaper than sorting them out."""
    target, neighbour = operators.gather_neighbours(graph, centres)
    every = torch.cat([centres, neighbour])
    centre, source = torch.arange(len(every), device=every.device).split([len(centres), len(neighbour)])
    outer = None if summed else operators.gather_neighbours(graph, every)
    return EgoGraphs(torch.cat([group, group[target]]), every, centre, target, source, outer=outer)


def degrees(graph: Graph, nodes: Tensor) -> Tensor:
    """How many neighbours each of the nodes has, without a pass over all nodes."""
    return (graph.indptr[nodes + 1] - graph.indptr[nodes]).long()


def inner_arcs(graph: Graph, rows: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    """Arcs between rows of one group, as row numbers. Undirected edges are looked for from the end with fewer
    neighbours only: a hub that is everybody's neighbour would otherwise be read whole in every group."""
    owner, neighbour = operators.gather_neighbours(graph if graph.directed else _upward(graph), node)
    wanted = (rows - node).index_select(0, owner) + neighbour
    found = torch.searchsorted(rows, wanted).clamp_(max=len(rows) - 1)
    hit = rows.index_select(0, found) == wanted
    low, high = owner[hit], found[hit]
    if graph.directed:
        return low, high
    return torch.cat([low, high]), torch.cat([high, low])


def _upward(graph: Graph) -> Graph:
    """Every undirected edge once, in the row of the end with fewer neighbours (ties: the smaller id)."""

    def build() -> Graph:
        degree, row, column = graph.degree, operators.rows_of(graph), graph.indices.long()
        below, above = degree[row], degree[column]
        keep = (below < above) | ((below == above) & (row < column))
        return graph.with_arcs(keep, directed=True)

    return graph.cache.get(UPWARD, build)


class EmbeddedGraph(NamedTuple):
    """``h [N, d]`` and its closed sums ``h + A h``, or None: a training step needs them at few nodes."""

    h: Tensor
    sums: Tensor | None

    def read(self, graph: Graph, wanted: list[Wanted]) -> list[Tensor]:
        """Rows of ``h``, or closed sums, at each of the lists of nodes."""
        if self.sums is not None:
            return [(self.sums if summed else self.h).index_select(0, nodes) for nodes, summed in wanted]
        # Each sum is made once, and all rows are read at once: backward, every reading costs a pass over all nodes.
        plain, sums = ([nodes for nodes, summed in wanted if summed == kind] for kind in (False, True))
        nodes, place = torch.unique(torch.cat([plain[0][:0], *sums]), return_inverse=True)
        *own, centres = self.h.index_select(0, torch.cat([*plain, nodes])).split([*map(len, plain), len(nodes)])
        neighbours = take_rows(operators.adjacency(graph), nodes).operator(graph.num_nodes)
        closed = (centres + neighbours @ self.h).index_select(0, place).split([len(part) for part in sums])
        rows, made = iter(own), iter(closed)
        return [next(made if summed else rows) for _, summed in wanted]


def reads_most(graph: Graph, tasks: Tasks) -> bool:
    """Whether what lies within two steps of the nodes of tasks is so much that the whole graph is cheaper."""

    def reach() -> Tensor:
        own = graph.degree.float()[:, None]
        return (own + operators.adjacency(graph) @ own).long().flatten()

    centres = torch.cat([tasks.support.flatten(), tasks.query.flatten()])
    if 2 * int(graph.cache.get(REACH, reach).index_select(0, centres).sum()) <= graph.num_nodes:
        return False  # even if no two of them shared a neighbour
    near = torch.unique(torch.cat([centres, operators.gather_neighbours(graph, centres)[1]]))
    return 2 * int(degrees(graph, near).sum()) > graph.num_nodes


@dataclass(frozen=True)
class Part:
    """Subgraphs and their input: the values at ``graphs.reads()``, at the centres and at the virtual nodes, if any."""

    graphs: EgoGraphs
    values: Tensor
    centres: Tensor  # [C, d]
    virtual: Tensor | None = None  # [G, d]

    def closed_sums(self) -> Tensor:
        """Closed sums of the input at every row, [R + G, d]."""
        return self.graphs.closed_sums(self.values, self.virtual, self.centres)


class LocalGNN(nn.Module):
    """Two layers ``linear(closed sum)`` with ReLU between them, read at the centres of subgraphs.

    Its weights and biases are one vector ``theta``, so that an adapter can write another one for every group.

    Args:
        in_channels, hidden_channels, out_channels: widths of the input and of both layers.
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
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

    def forward(self, graph: Graph, parts: list[Part], theta: Tensor) -> list[Tensor]:
        """For each part the outputs at the centres and then at the virtual nodes, [C + G, out]; ``theta [G, size]``
        holds the weights of every group."""
        first, second = self.unpack(theta)
        inputs = self.first_input(graph, parts)
        rows = torch.cat([part.graphs.group_of_rows() for part in parts])
        hidden = torch.relu(Blocks(rows, len(theta))(torch.cat(inputs), first))
        sums = self.second_input(parts, hidden.split([len(part) for part in inputs]))
        outputs = torch.cat([part.graphs.group_of_outputs() for part in parts])
        out = self.output(Blocks(outputs, len(theta))(torch.cat(sums), second), parts, inputs)
        return list(out.split([len(part) for part in sums]))

    def first_input(self, graph: Graph, parts: list[Part]) -> list[Tensor]:
        """What the first layer aggregates at every row of each part."""
        return [part.closed_sums() for part in parts]

    def second_input(self, parts: list[Part], values: tuple[Tensor, ...]) -> list[Tensor]:
        """What the second layer aggregates at the centres and virtual nodes of each part, from values at its rows."""
        return [part.graphs.centre_sums(z) for part, z in zip(parts, values, strict=True)]

    def output(self, out: Tensor, parts: list[Part], inputs: list[Tensor]) -> Tensor:
        """The outputs at all centres and virtual nodes, from those of the second layer."""
        return out


class Blocks:
    """Rows of many groups in blocks of equal size: another matrix for each group is then one batched product.

    A large group takes several blocks instead of widening everybody's: hubs cost what they hold. A few rows are
    blocks of one each, and the rows of a single group one block, without any arranging.

    Args:
        group: [R] the group of each row, in any order.
        n_groups: how many groups there are.
    """

    FEW = 256

    def __init__(self, group: Tensor, n_groups: int) -> None:
        self.slot: Tensor | None = None
        self.single = n_groups == 1
        self.group = group
        if self.single or len(group) <= self.FEW:
            return
        counts = torch.bincount(group, minlength=n_groups)
        self.width = min(128, max(4, 1 << (len(group) // n_groups).bit_length()))
        blocks = (counts + self.width - 1) // self.width
        order = torch.argsort(group, stable=True)
        groups = group[order]
        rank = torch.arange(len(group), device=group.device) - (counts.cumsum(0) - counts)[groups]
        self.slot = torch.empty_like(group)
        self.slot[order] = (blocks.cumsum(0) - blocks)[groups] * self.width + rank
        self.group = torch.repeat_interleave(torch.arange(n_groups, device=group.device), blocks)

    def __call__(self, rows: Tensor, linear: Linear) -> Tensor:
        """Run ``rows [R, in]`` through the linear map of their group: [R, out]."""
        weight, bias = linear
        if self.single:
            return torch.baddbmm(bias, rows[None], weight)[0]
        weight, bias = weight.index_select(0, self.group), bias.index_select(0, self.group)
        if self.slot is None:
            return torch.baddbmm(bias, rows[:, None], weight)[:, 0]
        padded = rows.new_zeros(len(self.group) * self.width, rows.shape[1])
        x = padded.index_copy(0, self.slot, rows).view(len(self.group), self.width, -1)
        return torch.baddbmm(bias, x, weight).flatten(0, 1).index_select(0, self.slot)
