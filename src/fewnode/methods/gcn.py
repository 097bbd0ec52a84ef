"""Supervised graph network on all base nodes, then a logistic regression on the supports of each task.

Kipf, Welling: Semi-Supervised Classification with Graph Convolutional Networks. ICLR 2017; trained on the base classes
and fine-tuned as in Chen, Liu, Kira, Wang, Huang: A Closer Look at Few-shot Classification. ICLR 2019.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph
from ..nn.heads import logistic_scores
from ..tasks import Tasks
from .base import EncoderMethod, Training


class GCN(EncoderMethod):
    """Learns to classify all base classes. For a task, only the last layer is learned, from the supports.

    Uses the labels of all base nodes, and the edges and features of all nodes.

    Args:
        base_classes: the classes it is trained on.
        batch_size: number of nodes of base classes in a step; None for all of them, as in the source.
        inverse_penalty: scikit-learn's C of the logistic regression, on embeddings of length one.
        radius, encoder: options of ``EncoderMethod``; the dropout is also applied before the head.
    """

    training_settings = Training(learning_rate=0.001, weight_decay=5e-4, steps=500)
    classes: Tensor

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        batch_size: int | None = 512,
        inverse_penalty: float = 10.0,
        radius: float | None = None,
        **encoder: Any,
    ) -> None:
        super().__init__(in_channels, radius=radius, **encoder)
        self.head = nn.Linear(self.encoder.outer.out_features, len(base_classes))
        self.inverse_penalty, self.batch_size = inverse_penalty, batch_size
        self.register_buffer("classes", torch.tensor(base_classes), persistent=False)

    def score(self, graph: Graph, state: Tensor, tasks: Tasks) -> Tensor:
        z, q = (F.normalize(state[nodes], dim=-1) for nodes in (tasks.support, tasks.query))
        return logistic_scores(z, tasks.support_y, q, tasks.n_way, self.inverse_penalty)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        """Cross-entropy over nodes of base classes; the tasks are ignored."""
        node, target = torch.nonzero(graph.y[:, None] == self.classes, as_tuple=True)
        if self.batch_size is not None:
            drawn = torch.randperm(len(node), device=node.device)[: self.batch_size]
            node, target = node[drawn], target[drawn]
        h = torch.relu(self.encoder(self.inputs, graph, node))
        return F.cross_entropy(self.head(F.dropout(h, self.encoder.dropout, self.training)), target)
