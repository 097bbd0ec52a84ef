"""Prototypical network: each query goes to the nearest class mean, in a space learned by episodes.

Snell, Swersky, Zemel: Prototypical Networks for Few-shot Learning. NeurIPS 2017.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ..graph import Graph, operators
from .base import EncoderMethod, Method, Training


class PN(EncoderMethod):
    """Prototypes are the means of the supports' embeddings. The score of a query is minus its squared distance to each.

    Uses the labels of base classes, and the edges and features of all nodes. With ``use_graph=False`` it uses no edges:
    this is one linear map of the raw features, the weak form with low published accuracies.

    Args:
        use_graph: whether the encoder is a graph network; if not, only ``out_channels`` of the other options applies.
        out_channels: width of the embeddings.
        encoder: further options of ``EncoderMethod``. The source has ``radius=None``.
    """

    training_settings = Training(learning_rate=0.001, weight_decay=5e-4, tasks_per_step=8, steps=500)

    def __init__(self, in_channels: int, *, use_graph: bool = True, out_channels: int = 128, **encoder: Any) -> None:
        if use_graph:
            super().__init__(in_channels, out_channels=out_channels, **encoder)
        else:
            Method.__init__(self)  # without a bias: distances do not see it
            self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_channels, out_channels)))
        self.use_graph = use_graph

    def embed(self, graph: Graph, nodes: Tensor | None = None) -> Any:
        return super().embed(graph, nodes) if self.use_graph else operators.project(graph, self.weight, nodes)
