"""A block of columns as a piece of work of its own: files of a store in, one file out. It needs the edges and nothing
else, so blocks can be made one after the other, side by side, elsewhere, and again if they were lost."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..graph import Graph
from ..graph.operators import Pattern, mean_adjacency, normalized_adjacency
from ..graph.stored import open_store
from ..store import Columns, Space, matrix

Way = tuple[int, float] | str  # steps and restart of a smoothing, or: two_steps, lists, there_and_back, as_is


@dataclass(frozen=True)
class ColumnBlock:
    """Block ``number`` of ``target``: columns of ``source``, or of ``source @ turn``, after a ``way`` along the edges
    of the store. Everything in it is a path or small, so that it can be sent to another process."""

    store: str
    weighted: bool
    way: Way
    source: Columns
    target: Columns
    number: int
    turn: Tensor | None = None

    def make(self) -> None:
        """Write the block's file, unless it is there."""
        if self.target.has(self.number):
            return
        block = self.target.blocks[self.number]
        if isinstance(self.way, tuple):
            graph, start = self._graph(), self.source.open(self.number)
            assert graph.space is not None
            graph.space.maps.extend(self.source.space.maps)  # whoever reads the edges lets go of the start, too
            made = normalized_adjacency(graph).smooth(start, *self.way)
        else:
            z = self.source.read(self.number) if self.turn is None else self.source.times(self.turn[:, block])
            made = z if self.way == "as_is" else self._moved(z)
        self.target.write(self.number, made)

    def _graph(self) -> Graph:
        graph = open_store(self.store, self.target.space.memory, structure=True)
        return graph if self.weighted else graph.without_weights()

    def _moved(self, z: Tensor) -> Tensor:
        graph, out = self._graph(), matrix(*z.shape)
        if self.way == "two_steps":
            mean = mean_adjacency(graph).factor
            assert isinstance(mean, Pattern)
            return mean.product_(mean.product_(z, out), z)
        lists = neighbour_lists(graph, self.target.space)
        lists.product_(z, out)
        return out if self.way == "lists" else lists.T.product_(out, z)


def neighbour_lists(graph: Graph, space: Space) -> Pattern:
    """The neighbour lists, each with the node itself, as bags of words: TF-IDF, as in ``reduced_links``."""
    assert graph.space is not None
    pattern = Pattern(graph.indptr, graph.indices, space=graph.space)
    idf = torch.log((1 + graph.num_nodes) / (2 + pattern.totals())) + 1

    def lengths() -> Tensor:
        squares = idf.square()[:, None]
        return (pattern.product(squares) + squares).clamp(min=1e-24).rsqrt()[:, 0]

    return replace(pattern, left=space.kept("list_lengths", lengths), right=idf, loops=True)
