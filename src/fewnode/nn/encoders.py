"""Two-layer encoders of a whole graph. Both project before they aggregate, since (A X) W = A (X W) and X is wide."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import sparse
from ..graph import Graph


class GIN(nn.Module):
    """Two graph isomorphism layers, ``h' = MLP(h + sum of the neighbours' h)``, each MLP with one hidden layer.

    Epsilon is fixed at zero; ReLU inside and between the layers, none at the end; dropout between the layers.

    Xu, Hu, Leskovec, Jegelka: How Powerful are Graph Neural Networks? ICLR 2019.

    Args:
        in_channels, hidden_channels, out_channels: widths of the features, of all between, and of the output.
        dropout: share of the first layer's output that is dropped while training.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.lift = Lift(in_channels, hidden_channels)
        self.inner = xavier(nn.Linear(hidden_channels, hidden_channels))
        self.middle = xavier(nn.Linear(hidden_channels, hidden_channels))
        self.outer = xavier(nn.Linear(hidden_channels, out_channels))
        self.dropout = dropout

    def forward(self, graph: Graph) -> Tensor:
        """Embed every node, [N, out_channels]."""
        adjacency = sparse.adjacency(graph)
        h = self.lift(graph)
        h = torch.relu(h + adjacency @ h + self.lift.bias)
        h = F.dropout(torch.relu(self.inner(h)), self.dropout, self.training)
        h = h @ self.middle.weight.t()
        h = torch.relu(h + adjacency @ h + self.middle.bias)
        out: Tensor = self.outer(h)
        return out


class GCN(nn.Module):
    """Two graph convolutions over ``D^-1/2 (A + I) D^-1/2``, ReLU and dropout between them, nothing at the end.

    Kipf, Welling: Semi-Supervised Classification with Graph Convolutional Networks. ICLR 2017.

    Args:
        in_channels, hidden_channels, out_channels: widths of the features, of the first and of the second layer.
        dropout: share of the first layer's output that is dropped while training.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.lift = Lift(in_channels, hidden_channels)
        self.outer = xavier(nn.Linear(hidden_channels, out_channels))
        self.dropout = dropout

    def forward(self, graph: Graph) -> Tensor:
        """Embed every node, [N, out_channels]."""
        smooth = sparse.normalized_adjacency(graph)
        h = torch.relu(smooth @ self.lift(graph) + self.lift.bias)
        h = F.dropout(h, self.dropout, self.training)
        return smooth @ (h @ self.outer.weight.t()) + self.outer.bias


class Lift(nn.Module):
    """``x @ weight``, the first map of an encoder; its bias is added by the encoder, after aggregation.

    The weight is kept [in, out], the way sparse features multiply it.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_channels, out_channels)))
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, graph: Graph) -> Tensor:
        """Project the features of every node, [N, out_channels]."""
        return sparse.project(graph, self.weight)


def xavier(linear: nn.Linear) -> nn.Linear:
    """The layer with Glorot's uniform weights and a zero bias."""
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear
