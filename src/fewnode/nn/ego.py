"""Many small graphs cut out of a large one, without a loop: the neighbourhoods of groups of centre nodes."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import sparse
from ..graph import Graph


@dataclass(frozen=True)
class Cut:
    """Cut-out graphs, one per group, as one list of R rows sorted by group: the C centres and their neighbours.

    A node is one row in each group it belongs to. All arcs into the centres are listed; arcs among all rows of a
    group only where the cut is induced, otherwise the rows keep every neighbour they have in the graph. A bridged
    cut has G more rows at the end, one virtual node per group, joined to all centres of its group.
    """

    group: Tensor  # [R] which cut-out graph the row belongs to
    node: Tensor  # [R] its node in the graph
    centre: Tensor  # [C] the row of each centre
    target: Tensor  # [L] arcs into the centres: which centre, ...
    source: Tensor  # [L] ... and the row it comes from
    inner: tuple[Tensor, Tensor] | None  # target and source rows of all arcs, if induced
    bridges: int = 0  # G if bridged

    def group_of_rows(self) -> Tensor:
        """The group of every row, virtual nodes last, [R] or [R + G]."""
        return torch.cat([self.group, torch.arange(self.bridges, device=self.group.device)])

    def group_of_outputs(self) -> Tensor:
        """The group of every centre, virtual nodes last, [C] or [C + G]."""
        return torch.cat([self.group[self.centre], torch.arange(self.bridges, device=self.group.device)])

    def closed_sums(
        self, graph: Graph, h: Tensor, whole: Tensor | None = None, virtual: Tensor | None = None
    ) -> Tensor:
        """Own value plus that of the neighbours, at every row, from ``h [N, d]`` at nodes and ``virtual [G, d]``
        at virtual nodes. ``whole = h + A h`` saves the sums of a cut that is not induced, if it is at hand."""
        if self.inner is not None:
            target, source = self.inner
            own = h.index_select(0, self.node)
            sums = own.index_add(0, target, own.index_select(0, source))
        elif whole is not None:
            sums = whole.index_select(0, self.node)
        else:
            target, neighbour = sparse.gather_neighbours(graph, self.node)
            sums = h.index_select(0, self.node).index_add(0, target, h.index_select(0, neighbour))
        if virtual is None:
            return sums
        group = self.group[self.centre]
        bridge = virtual.index_add(0, group, h.index_select(0, self.node[self.centre]))
        return torch.cat([sums.index_add(0, self.centre, virtual.index_select(0, group)), bridge])

    def centre_sums(self, z: Tensor) -> Tensor:
        """Own value plus that of the neighbours, at centres and virtual nodes, from values ``z`` at the rows."""
        rows, virtual = z.split([len(self.node), self.bridges])
        own = rows.index_select(0, self.centre)
        sums = own.index_add(0, self.target, rows.index_select(0, self.source))
        if not self.bridges:
            return sums
        group = self.group[self.centre]
        return torch.cat([sums + virtual.index_select(0, group), virtual.index_add(0, group, own)])


def cut(graph: Graph, centres: Tensor, group: Tensor, *, induced: bool, bridges: int = 0) -> Cut:
    """Cut out, for every group, its centres and their neighbours: nodes ``centres [C]`` of groups ``group [C]``.
    ``bridges`` is the number of groups if each gets a virtual node, else 0."""
    n = graph.num_nodes
    target, neighbour = sparse.gather_neighbours(graph, centres)
    pairs = torch.cat([group * n + centres, group[target] * n + neighbour])
    rows, place = torch.unique(pairs, return_inverse=True)
    centre, source = place.split([len(centres), len(neighbour)])
    node = rows % n
    inner = inner_arcs(graph, rows, node) if induced else None
    return Cut(rows // n, node, centre, target, source, inner, bridges)


def inner_arcs(graph: Graph, rows: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    """Arcs between rows of one group, as row numbers. Undirected edges are looked for from the end with fewer
    neighbours only: a hub that is everybody's neighbour would otherwise be read whole in every group."""
    owner, neighbour = sparse.gather_neighbours(graph if graph.directed else _upward(graph), node)
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
        degree, row, column = graph.degree, sparse.rows_of(graph), graph.indices.long()
        below, above = degree[row], degree[column]
        keep = (below < above) | ((below == above) & (row < column))
        counts = torch.bincount(row[keep], minlength=graph.num_nodes)
        indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(graph.indptr.dtype)
        return replace(graph, indptr=indptr, indices=graph.indices[keep], directed=True, _memo={})

    return graph.memo("upward", build)
