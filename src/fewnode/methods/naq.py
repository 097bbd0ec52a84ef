"""Label-free episodes: random supports, their nearest nodes as queries; then a prototypical network.

Jung, Shin, Park: Unsupervised Episode Generation for Graph Meta-learning. ICML 2024.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from scipy import sparse as sp
from sklearn.preprocessing import normalize
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError, one_of
from ..graph import Graph
from ..graph.arrays import CacheKey, to_scipy
from ..nn.graph_layers import renumbered
from ..tasks import Tasks
from .base import EncoderMethod, Training, cross_entropy

ANCHORS = 20_000  # nodes that may be supports: all of a graph this size, a sample of a larger one


NEIGHBOURHOODS = CacheKey[tuple[Tensor, Tensor]]("label-free neighbourhoods")


class NaQ(EncoderMethod):
    """Each training episode takes random nodes as one-shot classes of their own, and as their queries the nodes most
    like them; what a prototypical network learns from it serves classes nobody has labelled.

    Sees no label while training (those of validation classes only choose when to stop); edges and features of all
    nodes.

    Args:
        nearest: queries by cosine of the raw features, or by personalised PageRank with this ``restart``.
        neighbours, ways: queries of each support, and supports of each training episode.
        encoder: options of ``EncoderMethod``; ``radius=None`` is the source's.
    """

    uses_labels: ClassVar[bool] = False
    training_settings = Training(learning_rate=0.001, weight_decay=0.0, steps=500, tasks_per_step=4)

    def __init__(
        self,
        in_channels: int,
        *,
        nearest: Literal["features", "diffusion"] = "features",
        neighbours: int = 10,
        ways: int = 20,
        restart: float = 0.1,
        **encoder: Any,
    ) -> None:
        super().__init__(in_channels, **encoder)
        self.nearest = one_of("nearest", nearest, ("features", "diffusion"))
        self.neighbours, self.ways, self.restart = neighbours, ways, restart

    def prepare(self, graph: Graph) -> None:
        super().prepare(graph)
        self.neighbourhoods(graph)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        """Cross-entropy of label-free episodes, as many as there are tasks, which are not looked at."""
        nodes, episodes = renumbered(self.episodes(graph, len(tasks), self.ways))
        return cross_entropy(self.score(graph, self.embed(graph, nodes), episodes), episodes)

    def episodes(self, graph: Graph, n_tasks: int, n_way: int) -> Tasks:
        """Random supports, one for each class, and the nearest nodes of each as its queries."""
        anchors, queries = self.neighbourhoods(graph)
        way = min(n_way, len(anchors))
        drawn = torch.rand(n_tasks, len(anchors), device=graph.device).topk(way, dim=1).indices
        support_y = torch.arange(way, device=graph.device).expand(n_tasks, way)
        query_y = support_y.repeat_interleave(queries.shape[1], dim=1)
        return Tasks(anchors[drawn], support_y, queries[drawn].flatten(1), query_y, way)

    def neighbourhoods(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """The nodes that may be supports, [B], and the queries of each, [B, neighbours]; found once per graph."""
        key = NEIGHBOURHOODS.of(self.nearest, self.neighbours, self.restart)
        return graph.cache.get(key, lambda: self._neighbourhoods(graph))

    def _neighbourhoods(self, graph: Graph) -> tuple[Tensor, Tensor]:
        order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0)).to(graph.device)
        nodes = order[:ANCHORS]
        if self.nearest == "features":
            ids, likeness = nearest_by_features(graph, nodes, self.neighbours)
        else:
            ids, likeness = nearest_by_diffusion(graph, nodes, self.neighbours, restart=self.restart)
        found = (likeness > 0).sum(1)
        if int((found > 0).sum()) < 2:
            raise InputError(f"naq finds no nodes alike by {self.nearest}; try nearest='diffusion' or 'features'")
        # A node with too few of its like sees them again; one with none (no edge, no feature) is no support.
        column = torch.arange(ids.shape[1], device=ids.device) % found.clamp(min=1)[:, None]
        return nodes[found > 0], ids.gather(1, column)[found > 0]


CELLS = 8_000_000  # numbers of one piece: 32 MB


def nearest_by_features(graph: Graph, nodes: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` nodes of the largest cosine with each of ``nodes [B]``, not itself: ids and cosines, [B, count]."""
    x = graph.x
    if x.layout == torch.strided:
        unit = F.normalize(x, dim=-1)
        return _largest(lambda part: unit[part] @ unit.t(), nodes, graph.num_nodes, count)
    rows = normalize(to_scipy(x))
    columns = rows.T.tocsr()

    def similarity(part: Tensor) -> Tensor:
        return torch.from_numpy((rows[part.cpu().numpy()] @ columns).toarray()).to(graph.device)

    return _largest(similarity, nodes, graph.num_nodes, count)


def nearest_by_diffusion(
    graph: Graph, nodes: Tensor, count: int, *, restart: float = 0.1, steps: int = 12, least: float = 1e-4
) -> tuple[Tensor, Tensor]:
    """The ``count`` nodes where a random walk that restarts at each of ``nodes [B]`` is most often: ids and shares.

    Shares below ``least`` are dropped on the way: a walk is then at no more than ``1 / least`` nodes, however large the
    graph. Where it reaches fewer nodes than ``count``, the rest have share zero.
    """
    walk = graph.to_scipy()
    total = np.asarray(walk.sum(1)).ravel() if graph.weights is not None else np.maximum(np.diff(walk.indptr), 1)
    walk.data /= np.repeat(total, np.diff(walk.indptr))

    def shares(part: Tensor) -> Tensor:
        start = sp.identity(graph.num_nodes, np.float32, "csr")[part.cpu().numpy()]
        spread = start
        for _ in range(steps):
            spread = (1 - restart) * (spread @ walk) + restart * start
            spread.data[spread.data < least] = 0
            spread.eliminate_zeros()
        return torch.from_numpy(spread.toarray()).to(graph.device)

    return _largest(shares, nodes, graph.num_nodes, count)


def _largest(similarity: Callable[[Tensor], Tensor], nodes: Tensor, n: int, count: int) -> tuple[Tensor, Tensor]:
    ids, values = [], []
    for part in nodes.split(max(1, CELLS // n)):
        table = similarity(part)
        table[torch.arange(len(part), device=part.device), part] = float("-inf")
        top = table.topk(min(count, n - 1), dim=1)
        ids.append(top.indices)
        values.append(top.values)
    return torch.cat(ids), torch.cat(values)
