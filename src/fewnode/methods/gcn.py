"""Supervised graph network on all base nodes, then a logistic regression on the supports of each task.

Kipf, Welling: Semi-Supervised Classification with Graph Convolutional Networks. ICLR 2017; trained on the base classes
and fine-tuned as in Chen, Liu, Kira, Wang, Huang: A Closer Look at Few-shot Classification. ICLR 2019.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph
from ..nn.graph_layers import Features, GraphEncoder, Inputs
from ..nn.heads import logistic_scores
from ..tasks import Tasks
from .method import Method, Training


class GCN(Method):
    """Learns to tell all base classes apart; for a task, only the last layer is learned, from the supports.

    Sees the labels of all base nodes, whatever the tasks; edges and features of all nodes.

    Args:
        base_classes: the classes it is trained on.
        hidden_channels, out_channels: widths of the encoder.
        batch_size: nodes of base classes a step learns from; None is all of them, as the source does.
        inverse_penalty: scikit-learn's C of the logistic regression, on embeddings of length one.
        features, rank: what goes in, as in ``nn.graph_layers.Inputs``.
    """

    local: ClassVar[bool] = True
    training_settings = Training(learning_rate=0.001, weight_decay=5e-4, steps=500)
    classes: Tensor

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        hidden_channels: int = 256,
        out_channels: int = 128,
        dropout: float = 0.5,
        batch_size: int | None = 512,
        inverse_penalty: float = 10.0,
        features: Features = "reduced",
        rank: int = 256,
    ) -> None:
        super().__init__()
        self.inputs = Inputs(in_channels, features, rank)
        self.encoder = GraphEncoder(self.inputs.width, hidden_channels, out_channels, dropout=dropout)
        self.head = nn.Linear(out_channels, len(base_classes))
        self.inverse_penalty = inverse_penalty
        self.dropout, self.batch_size = dropout, batch_size
        self.register_buffer("classes", torch.tensor(base_classes), persistent=False)

    def prepare(self, graph: Graph) -> None:
        self.inputs.fit(graph)

    def embed(self, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """Embeddings [P, d] of ``nodes [P]``, by default of all."""
        out: Tensor = self.encoder(self.inputs, graph, nodes)
        return out

    def score(self, graph: Graph, state: Tensor, tasks: Tasks) -> Tensor:
        z, q = (F.normalize(state[nodes], dim=-1) for nodes in (tasks.support, tasks.query))
        return logistic_scores(z, tasks.support_y, q, tasks.n_way, self.inverse_penalty)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        """Cross-entropy over nodes of base classes; the tasks are not looked at."""
        node, target = torch.nonzero(graph.y[:, None] == self.classes, as_tuple=True)
        if self.batch_size is not None:
            drawn = torch.randperm(len(node), device=node.device)[: self.batch_size]
            node, target = node[drawn], target[drawn]
        h = torch.relu(self.encoder(self.inputs, graph, node))
        return F.cross_entropy(self.head(F.dropout(h, self.dropout, self.training)), target)
