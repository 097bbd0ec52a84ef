"""Label-free episodes: random supports, their nearest nodes as queries; then a prototypical network.

Jung, Shin, Park: Unsupervised Episode Generation for Graph Meta-learning. ICML 2024.
"""

from typing import Any, ClassVar

import torch
from sklearn.preprocessing import normalize
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from ..graph import Graph
from ..graph.arrays import to_scipy
from ..tasks import Tasks
from .base import EncoderMethod, Training

ANCHORS = 20_000  # nodes that may be supports: all of a graph this size, a sample of a larger one


class NaQ(EncoderMethod):
    """A prototypical network that is trained on label-free episodes and transfers to labelled classes.

    In an episode, random nodes are one-shot classes, and the nodes most similar to each are its queries. Training uses
    no labels, except that those of validation classes decide when to stop. It uses the edges and features of all nodes.

    Args:
        neighbours, ways: number of queries of each support, and of supports of each training episode.
        encoder: options of ``EncoderMethod``. The source has ``radius=None``.
    """

    uses_labels: ClassVar[bool] = False
    training_settings = Training(learning_rate=0.001, weight_decay=0.0, steps=500, tasks_per_step=4)

    def __init__(self, in_channels: int, *, neighbours: int = 10, ways: int = 20, **encoder: Any) -> None:
        super().__init__(in_channels, **encoder)
        self.neighbours, self.ways = neighbours, ways

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        """The loss of as many label-free episodes as there are tasks; the tasks themselves are ignored."""
        return super().loss(graph, self.episodes(graph, len(tasks), self.ways))

    def episodes(self, graph: Graph, n_tasks: int, n_way: int) -> Tasks:
        """Random supports, one for each class, and the nearest nodes of each as its queries."""
        anchors, queries = self.neighbourhoods(graph)
        way = min(n_way, len(anchors))
        drawn = torch.rand(n_tasks, len(anchors), device=graph.device).topk(way, dim=1).indices
        support_y = torch.arange(way, device=graph.device).expand(n_tasks, way)
        query_y = support_y.repeat_interleave(queries.shape[1], dim=1)
        return Tasks(anchors[drawn], support_y, queries[drawn].flatten(1), query_y, way)

    def neighbourhoods(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """The nodes that can be supports, [B], and the queries of each, [B, neighbours]; computed once per graph."""

        def found() -> tuple[Tensor, Tensor]:
            order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0)).to(graph.device)
            nodes = order[:ANCHORS]
            ids, likeness = nearest_by_features(graph, nodes, self.neighbours)
            like = (likeness > 0).sum(1)
            if int((like > 0).sum()) < 2:
                raise InputError("naq finds no nodes with features in common; try tlp, which needs no label either")
            # A node with too few of its like sees them again; one with none (no edge, no feature) is no support.
            column = torch.arange(ids.shape[1], device=ids.device) % like.clamp(min=1)[:, None]
            return nodes[like > 0], ids.gather(1, column)[like > 0]

        return graph.cache.get(("label-free neighbourhoods", self.neighbours), found)


CELLS = 8_000_000  # numbers of one piece: 32 MB


def nearest_by_features(graph: Graph, nodes: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` nodes with the largest cosine with each of ``nodes [B]`` except itself: ids and cosines, [B,
    count]."""
    x, n, found = graph.x, graph.num_nodes, []
    dense = F.normalize(x, dim=-1) if x.layout == torch.strided else None
    rows: Any = normalize(to_scipy(x)) if dense is None else None
    columns = rows.T.tocsr() if dense is None else dense.t()
    for part in nodes.split(max(1, CELLS // n)):
        if dense is None:
            table = torch.from_numpy((rows[part.cpu().numpy()] @ columns).toarray()).to(graph.device)
        else:
            table = dense[part] @ columns
        table[torch.arange(len(part), device=part.device), part] = float("-inf")
        found.append(table.topk(min(count, n - 1), dim=1))
    return torch.cat([top.indices for top in found]), torch.cat([top.values for top in found])
