"""A two-layer encoder of a whole graph. It projects before it aggregates: (A X) W = A (X W), and X is wide."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..graph import Graph, operators
from .initialization import xavier

if TYPE_CHECKING:
    from .graph_layers import Inputs


class GINEncoder(nn.Module):
    """Two graph isomorphism layers, ``h' = MLP(h + sum of the neighbours' h)``, with epsilon fixed at zero.

    ReLU inside and between the layers, none at the end; dropout between the layers.

    Xu, Hu, Leskovec, Jegelka: How Powerful are Graph Neural Networks? ICLR 2019.

    Args:
        in_channels, hidden_channels, out_channels: widths of the inputs, of all between, and of the output.
        mlp_layers: linear maps in the MLP of each layer.
        dropout: share of the first layer's output that is dropped while training.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        mlp_layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        more = [(hidden_channels, hidden_channels)] * (mlp_layers - 1)
        first, *rest = [*more, (hidden_channels, out_channels)]
        self.lift = Lift(in_channels, hidden_channels)
        self.first = nn.ModuleList(xavier(nn.Linear(*shape)) for shape in more)
        self.middle = xavier(nn.Linear(*first))
        self.second = nn.ModuleList(xavier(nn.Linear(*shape)) for shape in rest)
        self.dropout = dropout

    def forward(self, inputs: "Inputs", graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """Embed ``nodes [P]``, by default all of the graph: [P, out_channels]."""
        closed = operators.closed_adjacency(graph)
        h = (closed @ self.lift(inputs, graph)).add_(self.lift.bias)
        for linear in self.first:
            h = linear(torch.relu_(h))
        # Before ReLU or after it is the same number; before, all of it happens in place.
        h = closed @ torch.relu_(drop(h, self.dropout if self.training else 0.0))
        h = self.middle(h if nodes is None else h.index_select(0, nodes))
        for linear in self.second:
            h = linear(torch.relu(h))
        out: Tensor = h
        return out


class Lift(nn.Module):
    """``x @ weight``, the first map of an encoder; its bias is added by the encoder, after aggregation.

    The weight is kept [in, out], the way sparse features multiply it.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_channels, out_channels)))
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, inputs: "Inputs", graph: Graph) -> Tensor:
        """Project the inputs of every node, [N, out_channels]."""
        return inputs.project(graph, self.weight)


def drop(h: Tensor, rate: float) -> Tensor:
    """Dropout of all nodes at once, in place, with 16 random bits for each number: a third of torch's time."""
    if rate == 0.0:
        return h
    words = torch.empty((h.numel() + 3) // 4, dtype=torch.int64, device=h.device).random_(-(2**63), None)
    bits = words.view(torch.int16)[: h.numel()].view(h.shape)
    # Compared straight into numbers: truth values would take four times as long to make and to multiply.
    kept = torch.ge(bits, round(rate * 2**16) - 2**15, out=torch.empty(h.shape, dtype=h.dtype, device=h.device))
    return h.mul_(kept.mul_(1 / (1 - rate)))
