"""TENT with a residual network that starts as smoothing, and with learned weights of its adaptations.

Departs from Wang, Ding, Zhang, Chen, Li: Task-Adaptive Few-shot Node Classification. KDD 2022; see ``tent``.
"""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..files import Positive
from ..graph import Graph, operators
from ..nn.ego import LocalGNN, Rows
from ..nn.graph_layers import GraphEncoder, Inputs, rows_of
from ..nn.heads import class_means, cosine_scores
from ..tasks import Tasks
from .base import Training
from .tent import TENT, EmbeddedGraph, EmbeddedTasks, tau

PACE = 10.0  # Adam moves a parameter by the learning rate a step; the few scalars have to move faster
GATE_PACE = 100.0  # likewise the one gate of all nodes


class TENTResidual(TENT):
    """TENT in which every part has no effect at first: at step 0 it is the nearest class mean on smoothed inputs.

    There are seven departures from the paper. ``GNN_phi`` is a GCN that starts as two propagations of its inputs.
    First-step embeddings are projected to a sphere of radius 3. ``GNN_theta`` is a GCN that adds to its input, half of
    which is smoothed; at first it adds nothing, and neither does the adapter. A prototype is the mean of the supports'
    outputs on the original graph plus a learned part of the difference to that of the class-ego graph, which starts at
    0. Tau has a learned power that starts at 0. Scores are multiplied by a learned scale that starts at 10.

    Args:
        in_channels: number of feature columns.
        second_channels: width of the hidden layer of the second network; its output is as wide as its input.
        gamma, dropout, rank, tent: as in ``TENT``, without its presets and its other inputs.
    """

    training_settings = Training(learning_rate=0.001, weight_decay=5e-4, tasks_per_step=8, steps=500)

    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    reads_edges = ("weights",)

    def __init__(
        self,
        in_channels: int,
        *,
        gamma: float = 1.0,
        dropout: float = 0.5,
        rank: Positive = 256,
        second_channels: Positive = 32,
        **tent: Any,
    ) -> None:
        if refused := {"preset", "features", "normalize", "aggregation", "start", "tau_at_test"} & tent.keys():
            raise InputError(f"tent_residual has no option {' or '.join(sorted(refused))}: it has one form")
        tent |= {"gamma": gamma, "dropout": dropout, "rank": rank, "second_channels": second_channels}
        super().__init__(in_channels, features="reduced", **tent)
        self.on_graph = True
        self.mix = nn.Parameter(torch.zeros(1)) if self.node_adaptation else None
        self.power = nn.Parameter(torch.zeros(1)) if self.task_adaptation else None
        self.scale = nn.Parameter(torch.full((1,), math.log(10.0) / PACE)) if self.task_adaptation else None

    def networks(
        self, widths: tuple[int, int, int], d_s: int, dropout: float, *_: bool
    ) -> tuple[GraphEncoder, LocalGNN]:
        return SmoothingEncoder(*widths, dropout=dropout), ResidualGNN(widths[2], d_s, widths[2])

    def embed_tasks(self, graph: Graph, state: EmbeddedGraph | None, tasks: Tasks) -> EmbeddedTasks:
        found = super().embed_tasks(graph, state, tasks)
        if self.mix is None:
            return found
        means = class_means(found.on_graph.unflatten(0, tasks.support.shape), tasks.support_y, tasks.n_way)
        return found._replace(s=means + PACE * self.mix * (found.s - means))

    def match(self, embedded: EmbeddedTasks, tasks: Tasks, divide: bool = True) -> Tensor:
        if self.power is None or self.scale is None:
            return super().match(embedded, tasks)
        spread = tau(embedded.s, embedded.s_k, tasks.support_y)[:, None] ** (PACE * self.power)
        return (PACE * self.scale).exp() * (cosine_scores(embedded.q, embedded.s) / spread)


class SmoothingEncoder(GraphEncoder):
    """Two graph convolutions as in ``GraphEncoder``, on a sphere of radius 3, with another start and another dropout.

    *Start*: two propagations of the leading inputs and nothing else, since ``relu(x) - relu(-x) = x``: what training
    cannot improve is not lost to a random map either. *Dropout*: a unit is dropped at all nodes or at none. A step that
    reads most of a graph then does the work of the units that are kept only.

    Args:
        width, hidden_channels, out_channels: widths of the inputs, of the first and of the second layer.
        dropout: share of the first layer's units that is dropped while training.
    """

    def __init__(self, width: int, hidden_channels: int, out_channels: int, *, dropout: float) -> None:
        super().__init__(width, hidden_channels, out_channels, dropout=dropout, radius=3.0)
        kept = min(width, hidden_channels // 2, out_channels)
        pair = torch.cat([torch.eye(kept), -torch.eye(kept)], 1)
        with torch.no_grad():
            for weight in (self.weight, self.outer.weight):
                nn.init.zeros_(weight)
                weight[:kept, : 2 * kept] = pair

    def forward(self, inputs: Inputs, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """Embed ``nodes [P]``, by default all of the graph: [P, out_channels]."""
        outer = self.outer.weight.t()
        weight: Tensor = self.weight
        bias: Tensor = self.bias
        if self.training and self.dropout > 0:  # without the units that are dropped now
            units = len(bias)
            kept = torch.randperm(units, device=bias.device)[: max(1, round(units * (1 - self.dropout)))]
            weight, bias = weight.index_select(1, kept), bias[kept]
            outer = units / len(kept) * outer.index_select(0, kept)
        near, rows = rows_of(operators.normalized_adjacency(graph), nodes)
        x = inputs.smoothed(graph)[near].to(weight.dtype)
        return self.collected(torch.relu_(torch.addmm(bias, x, weight)) @ outer, rows)


class ResidualGNN(LocalGNN):
    """``(1 - g) h + g M M h + GCN_theta(h)``, with closed means ``M`` over a node and its neighbours and one learned
    ``g``, at first a half. The last map of the GCN starts at zero."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, mean=True)
        with torch.no_grad():
            self.theta[(in_channels + 1) * hidden_channels :] = 0
        self.smoothing = nn.Parameter(torch.zeros(1))

    def forward(self, rows: Rows, own: Tensor, sums: Tensor, theta: Tensor) -> Tensor:
        out, means = super().forward(rows, own, sums, theta), sums / rows.size[:, None]
        smoothed = rows.closed_sums(means) / rows.size[rows.centre, None]
        return out + torch.lerp(own, smoothed, torch.sigmoid(GATE_PACE * self.smoothing))
