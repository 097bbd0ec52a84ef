"""What tasks read of an embedded graph: rows, and closed sums over rows."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..graph import Graph, operators
from ..graph.arrays import CacheKey
from ..tasks import Tasks
from .ego import degrees
from .graph_layers import take_rows

REACH = CacheKey[Tensor]("neighbours within one step")
Wanted = tuple[Tensor, bool]  # nodes, and whether closed sums are wanted there


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
    centres = torch.cat([tasks.support.flatten(), tasks.query.flatten()])
    if 2 * int(_reach(graph).index_select(0, centres).sum()) <= graph.num_nodes:
        return False  # even if no two of them shared a neighbour
    near = torch.unique(torch.cat([centres, operators.gather_neighbours(graph, centres)[1]]))
    return 2 * int(degrees(graph, near).sum()) > graph.num_nodes


def _reach(graph: Graph) -> Tensor:
    """How many neighbours a node and its neighbours have together, [N]."""

    def count() -> Tensor:
        own = graph.degree.float()[:, None]
        return (own + operators.adjacency(graph) @ own).long().flatten()

    return graph.cache.get(REACH, count)
