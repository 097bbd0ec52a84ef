"""The smallest method that trains, for tests of everything around a method."""

import torch
from torch import nn

from fewnode.graph.operators import project
from fewnode.methods.base import Method, Training


class Linear(Method):
    """A linear map, nearest class mean."""

    training_settings = Training(steps=40, check_every=5, learning_rate=0.05)

    def __init__(self, in_channels: int, *, width: int = 4, dropout: float = 0.3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(in_channels, width))
        self.dropout = nn.Dropout(dropout)

    def embed(self, graph):
        return self.dropout(project(graph, self.weight))

    def score(self, graph, state, tasks):
        member = nn.functional.one_hot(tasks.support_y, tasks.n_way).float()
        means = member.transpose(1, 2) @ state[tasks.support] / member.sum(1)[..., None]
        return -torch.cdist(state[tasks.query], means)
