"""Graph prototypical network: class means weighted by how much each support node matters in the graph.

Ding, Wang, Li, Shu, Liu, Liu: Graph Prototypical Networks for Few-shot Learning on Attributed Networks. CIKM 2020.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph
from ..nn.graph_layers import GraphEncoder, rows_at
from ..nn.heads import euclidean_scores
from ..tasks import Tasks
from .base import EncoderMethod, Training


class GPN(EncoderMethod):
    """A second graph network values every node; valued and well-connected supports have more weight in their prototype.

    Uses the labels of base classes, and the edges and features of all nodes.

    Args:
        encoder: options of ``EncoderMethod``; the widths and the dropout also apply to the second network. The source
            has ``radius=None``.
    """

    training_settings = Training(learning_rate=0.001, weight_decay=5e-4, tasks_per_step=8, steps=500)

    def __init__(self, in_channels: int, **encoder: Any) -> None:
        super().__init__(in_channels, **encoder)
        widths = self.encoder.outer.in_features, self.encoder.outer.out_features
        self.valuator = GraphEncoder(self.inputs.width, *widths, dropout=self.encoder.dropout)
        self.value = nn.Linear(self.encoder.outer.out_features, 1)

    def embed(self, graph: Graph, nodes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Embeddings [P, d] of ``nodes [P]``, by default of all, and their importance ``log(degree) * value``, [P]."""
        value = self.value(torch.relu(self.valuator(self.inputs, graph, nodes))).squeeze(-1)
        degree = graph.degree if nodes is None else graph.degree[nodes]
        return self.encoder(self.inputs, graph, nodes), centrality(degree).to(value.dtype) * value

    def score(self, graph: Graph, state: tuple[Tensor, Tensor], tasks: Tasks) -> Tensor:
        z, importance = state
        weights = support_weights(rows_at(importance, tasks.support), tasks.support_y, tasks.n_way)
        return euclidean_scores(rows_at(z, tasks.query), weights @ rows_at(z, tasks.support))


def centrality(degree: Tensor) -> Tensor:
    """The logarithm of the degree. A node without edges counts as one with a single edge: its value has no effect."""
    return degree.clamp(min=1).double().log()


def support_weights(importance: Tensor, support_y: Tensor, n_way: int) -> Tensor:
    """``sigmoid(importance)`` over its sum within each class: [T, S] -> [T, N, S], each row adds up to one.

    In logarithms, because all sigmoids of a class may be too small for a float.
    """
    member = F.one_hot(support_y, n_way).transpose(1, 2).bool()
    scores = F.logsigmoid(importance).unsqueeze(1).masked_fill(~member, float("-inf"))
    return scores.softmax(-1)
