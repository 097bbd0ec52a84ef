"""Many small graphs cut out of a large one, without a loop: the neighbourhoods of groups of centre nodes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..graph import Graph, operators
from ..graph.arrays import CacheKey

UPWARD = CacheKey[Graph]("upward edges")


@dataclass(frozen=True)
class Cut:
    """Cut-out graphs, one per group, as one list of R rows: the C centres and their neighbours.

    All arcs into the centres are listed. Other rows have the neighbours they have inside (``inner``), or all they have
    in the graph (``outer``, or neither where the values come summed up already). A bridged cut has G more rows at the
    end: virtual nodes, each joined to its group's centres.
    """

    group: Tensor  # [R] which cut-out graph the row belongs to
    node: Tensor  # [R] its node in the graph
    centre: Tensor  # [C] the row of each centre
    target: Tensor  # [L] arcs into the centres: which centre, ...
    source: Tensor  # [L] ... and the row it comes from
    inner: tuple[Tensor, Tensor] | None = None  # all arcs inside: target and source row
    outer: tuple[Tensor, Tensor] | None = None  # all arcs into the rows: target row and source node
    bridges: int = 0  # G if bridged

    @property
    def summed(self) -> bool:
        """Whether the values at the rows must be closed sums already."""
        return self.inner is None and self.outer is None

    def reads(self) -> Tensor:
        """The nodes whose values are needed: those of the rows, then those of outer arcs."""
        return self.node if self.outer is None else torch.cat([self.node, self.outer[1]])

    def group_of_rows(self) -> Tensor:
        """The group of every row, virtual nodes last, [R] or [R + G]."""
        return torch.cat([self.group, torch.arange(self.bridges, device=self.group.device)])

    def group_of_outputs(self) -> Tensor:
        """The group of every centre, virtual nodes last, [C] or [C + G]."""
        return torch.cat([self.group[self.centre], torch.arange(self.bridges, device=self.group.device)])

    def closed_sums(self, values: Tensor, bridge: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Own value plus that of the neighbours, at every row, from the ``values`` at ``reads()``; a bridged cut also
        needs those at its virtual nodes [G, d] and its centres [C, d]."""
        sums = values
        if self.inner is not None:
            target, source = self.inner
            sums = values.index_add(0, target, values.index_select(0, source))
        elif self.outer is not None:
            own, others = values.split([len(self.node), len(self.outer[1])])
            sums = own.index_add(0, self.outer[0], others)
        if bridge is None:
            return sums
        virtual, centres = bridge
        group = self.group[self.centre]
        joined = sums.index_add(0, self.centre, virtual.index_select(0, group))
        return torch.cat([joined, virtual.index_add(0, group, centres)])

    def closed_counts(self, graph: Graph, dtype: torch.dtype) -> Tensor:
        """How many values each closed sum adds up, [R, 1] or [R + G, 1]."""
        ones = torch.ones(len(self.reads()), 1, dtype=dtype, device=self.node.device)
        if self.summed:
            ones = ones + degrees(graph, self.node)[:, None]
        bridge = ones.new_ones(self.bridges, 1), ones.new_ones(len(self.centre), 1)
        return self.closed_sums(ones, bridge if self.bridges else None)

    def centre_sums(self, z: Tensor) -> Tensor:
        """Own value plus that of the neighbours, at centres and virtual nodes, from values ``z`` at the rows."""
        rows, virtual = z.split([len(self.node), self.bridges])
        own = rows.index_select(0, self.centre)
        sums: Tensor = own.index_add(0, self.target, rows.index_select(0, self.source))
        if not self.bridges:
            return sums
        group = self.group[self.centre]
        return torch.cat([sums + virtual.index_select(0, group), virtual.index_add(0, group, own)])


def cut(graph: Graph, centres: Tensor, group: Tensor, *, induced: bool, summed: bool = False, bridges: int = 0) -> Cut:
    """Cut out, for every group, its centres and their neighbours: nodes ``centres [C]`` of groups ``group [C]``.

    ``induced``: only arcs inside count. Otherwise all arcs of the graph do; ``summed`` promises values that are closed
    sums already. ``bridges`` is the number of groups if each gets a virtual node, else 0.
    """
    target, neighbour = operators.gather_neighbours(graph, centres)
    every, its_group = torch.cat([centres, neighbour]), torch.cat([group, group[target]])
    if not induced and not bridges:  # then a node may be several rows of a group: cheaper than sorting them out
        place = torch.arange(len(every), device=every.device)
        outer = None if summed else operators.gather_neighbours(graph, every)
        return Cut(its_group, every, place[: len(centres)], target, place[len(centres) :], None, outer)
    rows, place = torch.unique(its_group * graph.num_nodes + every, return_inverse=True)
    centre, source = place.split([len(centres), len(neighbour)])
    node = rows % graph.num_nodes
    inner = inner_arcs(graph, rows, node) if induced else None
    outer = None if induced or summed else operators.gather_neighbours(graph, node)
    return Cut(rows // graph.num_nodes, node, centre, target, source, inner, outer, bridges)


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
