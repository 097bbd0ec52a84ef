"""The graph encoder of TENT: it can start as plain smoothing, and it drops whole units."""

import torch
from torch import Tensor, nn

from ..graph import Graph, operators
from .graph_layers import GraphEncoder, Inputs, next_to


class SmoothingEncoder(GraphEncoder):
    """Two graph convolutions as in ``GraphEncoder``, with another start and another dropout.

    *Start*: with ``smoothing_start`` the encoder is at first two propagations of the leading inputs and nothing else,
    since ``relu(x) - relu(-x) = x``: what training cannot improve is not lost to a random map either.
    *Dropout*: a unit is dropped at all nodes or at none. A step that reads most of a graph then does the work of
    the units that are kept only.

    Args:
        width, hidden_channels, out_channels: widths of the inputs, of the first and of the second layer.
        dropout: share of the first layer's units that is dropped while training.
        smoothing_start: whether to start as smoothing; if not, from Glorot's random weights.
    """

    def __init__(
        self, width: int, hidden_channels: int, out_channels: int, *, dropout: float, smoothing_start: bool
    ) -> None:
        super().__init__(width, hidden_channels, out_channels, dropout=dropout)
        if smoothing_start:
            start_as_smoothing(self)

    def forward(self, inputs: Inputs, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """Embed ``nodes [P]``, by default all of the graph: [P, out_channels]."""
        weight, bias, outer = self._kept_units()
        x = inputs.smoothed(graph)
        smooth = operators.normalized_adjacency(graph)
        if x is None or nodes is None:
            h = smooth @ inputs.project(graph, weight) + bias if x is None else _affine(x, weight, bias)
            out = smooth @ (torch.relu_(h) @ outer) + self.outer.bias
            return out if nodes is None else out.index_select(0, nodes)
        near, rows = next_to(smooth, nodes)
        h = torch.relu_(_affine(x[near], weight, bias)) @ outer
        return rows.operator(len(near)) @ h + self.outer.bias

    def _kept_units(self) -> tuple[Tensor, Tensor, Tensor]:
        """The weight and the bias of the first layer and the weight of the second, without the units dropped now."""
        outer = self.outer.weight.t()
        if not self.training or self.dropout == 0.0:
            return self.weight, self.bias, outer
        units = len(self.bias)
        kept = torch.randperm(units, device=outer.device)[: max(1, round(units * (1 - self.dropout)))]
        share = units / len(kept)
        return self.weight.index_select(1, kept), self.bias[kept], share * outer.index_select(0, kept)


def _affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.addmm(bias, x.to(weight.dtype), weight)


@torch.no_grad()
def start_as_smoothing(encoder: GraphEncoder) -> None:
    """Set the weights of an encoder so that it only propagates, as many of its inputs as it has room for."""
    (width, hidden), out = encoder.weight.shape, len(encoder.outer.weight)
    kept = min(width, hidden // 2, out)
    pair = torch.cat([torch.eye(kept), -torch.eye(kept)], 1)
    for weight in (encoder.weight, encoder.outer.weight):
        nn.init.zeros_(weight)
        weight[:kept, : 2 * kept] = pair
