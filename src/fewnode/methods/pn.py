"""Prototypical network: each query goes to the nearest class mean, in a space learned by episodes.

Snell, Swersky, Zemel: Prototypical Networks for Few-shot Learning. NeurIPS 2017.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from ..graph import Graph
from ..nn.graph_layers import Features, GraphEncoder, Inputs, renumbered, rows_at
from ..nn.heads import class_means, euclidean_scores
from ..tasks import Tasks
from .method import Method, Training, cross_entropy


class PN(Method):
    """Prototypes are the means of the supports' embeddings; a query's score is minus its squared distance to each.

    Sees the labels of base classes; edges and features of all nodes. With ``use_graph=False`` no edges: the weak form
    behind the low published numbers, one linear map of the raw features.

    Args:
        use_graph: whether the encoder is a graph network; if not, only ``out_channels`` matters of the other options.
        hidden_channels, out_channels: widths of the encoder (the weak form has no hidden layer).
        radius: of the sphere the embeddings are put on; None leaves them as they come, as the source does.
        features, rank: what goes in, as in ``nn.graph_layers.Inputs``.
    """

    local: ClassVar[bool] = True
    training_settings = Training(learning_rate=0.001, weight_decay=5e-4, tasks_per_step=8, steps=500)

    def __init__(
        self,
        in_channels: int,
        *,
        use_graph: bool = True,
        hidden_channels: int = 256,
        out_channels: int = 128,
        dropout: float = 0.5,
        radius: float | None = 3.0,
        features: Features = "reduced",
        rank: int = 256,
    ) -> None:
        super().__init__()
        self.inputs = Inputs(in_channels, features if use_graph else "raw", rank)
        self.encoder: nn.Module
        if use_graph:
            self.encoder = GraphEncoder(
                self.inputs.width, hidden_channels, out_channels, dropout=dropout, radius=radius
            )
        else:
            self.encoder = LinearMap(self.inputs.width, out_channels)

    def prepare(self, graph: Graph) -> None:
        self.inputs.fit(graph)

    def embed(self, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """Embeddings of ``nodes [P]``, by default of all: [P, d]."""
        out: Tensor = self.encoder(self.inputs, graph, nodes)
        return out

    def score(self, graph: Graph, state: Tensor, tasks: Tasks) -> Tensor:
        prototypes = class_means(rows_at(state, tasks.support), tasks.support_y, tasks.n_way)
        return euclidean_scores(rows_at(state, tasks.query), prototypes)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        nodes, local = renumbered(tasks)
        return cross_entropy(self.score(graph, self.embed(graph, nodes), local), local)


class LinearMap(nn.Module):
    """One linear map of the features, no graph. Without a bias: distances do not see it."""

    def __init__(self, width: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, out_channels)))

    def forward(self, inputs: Inputs, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        return inputs.project(graph, self.weight, nodes)
