"""A two-layer graph network on cut-out graphs with other weights for each group, all groups in one product."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from ..graph import Graph
from .ego import Cut

GATE_PACE = 100.0  # Adam moves a number by the learning rate a step; one gate for all nodes has to move faster
Linears = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Part:
    """A cut, the values it reads, those at its centres and, if it is bridged, at its virtual nodes, and whose weights
    it uses."""

    cut: Cut
    values: Tensor  # at ``cut.reads()``
    centres: Tensor  # [C, d]
    weights: Tensor  # [groups of the cut] a row of theta for each
    virtual: Tensor | None = None  # [G, d]

    def closed_sums(self) -> Tensor:
        """Own value plus that of the neighbours, at every row, virtual nodes last."""
        return self.cut.closed_sums(self.values, None if self.virtual is None else (self.virtual, self.centres))

    def own(self) -> Tensor:
        """The values at the centres and then at the virtual nodes, [C + G, d]."""
        return self.centres if self.virtual is None else torch.cat([self.centres, self.virtual])


class LocalGNN(nn.Module):
    """Two layers of GIN (``MLP(closed sum)``) or GCN (``linear(closed mean)``), read at a cut's centres.

    Its weights are one vector ``theta``, so that an adapter can write another one for every group. The GCN
    averages over a node and its neighbours (the row-normalised form), which needs no degree beyond the cut.

    A residual network adds what it says to the input, part of it smoothed: ``(1 - g) h + g M M h + GNN_theta(h)``, with
    closed means ``M`` and one learned ``g``, at first a half. Its last map starts at zero.

    Args:
        in_channels: width of the input.
        channels: width of everything after it; of a residual network the output is as wide as the input.
        backbone: "gin" or "gcn".
        mlp_layers: linear maps in the MLP of each GIN layer.
        residual: whether the input is added.
    """

    def __init__(
        self, in_channels: int, channels: int, *, backbone: str = "gin", mlp_layers: int = 1, residual: bool = False
    ) -> None:
        super().__init__()
        self.mean, self.residual = backbone == "gcn", residual
        depth = 1 if self.mean else mlp_layers
        last = in_channels if residual else channels
        self.shapes = list(pairwise([in_channels] + [channels] * (2 * depth - 1) + [last]))
        weights = [nn.init.xavier_uniform_(torch.empty(shape)) for shape in self.shapes]
        if residual:
            nn.init.zeros_(weights[-1])
            self.smoothing = nn.Parameter(torch.zeros(1))
        parts = [torch.cat([weight, torch.zeros(1, weight.shape[1])]) for weight in weights]
        self.theta = nn.Parameter(torch.cat([part.flatten() for part in parts]))

    def unpack(self, theta: Tensor) -> tuple[Linears, Linears]:
        """Weights [G, in, out] and biases [G, 1, out] of both layers' linear maps, from ``theta [G, size]``."""
        parts = theta.split([(rows + 1) * columns for rows, columns in self.shapes], dim=1)
        linears = []
        for part, (rows, columns) in zip(parts, self.shapes, strict=True):
            weight, bias = part.unflatten(1, (rows + 1, columns)).split([rows, 1], dim=1)
            linears.append((weight, bias))
        half = len(linears) // 2
        return linears[:half], linears[half:]

    def forward(self, graph: Graph, parts: list[Part], theta: Tensor) -> list[Tensor]:
        """For each part the outputs at the centres and then at the virtual nodes of its cut, [C + G, out]; ``theta
        [W, size]`` holds the weights of all parts."""
        first, second = self.unpack(theta)
        sums = [part.closed_sums() for part in parts]
        means = sums
        if self.mean or self.residual:
            counts = [part.cut.closed_counts(graph, theta.dtype) for part in parts]
            means = [total / count for total, count in zip(sums, counts, strict=True)]
        rows = torch.cat([part.weights[part.cut.group_of_rows()] for part in parts])
        hidden = torch.relu(Blocks(rows, len(theta))(torch.cat(means if self.mean else sums), first))
        sums = self._at_centres(parts, hidden.split([len(part) for part in sums]), self.mean)
        outputs = torch.cat([part.weights[part.cut.group_of_outputs()] for part in parts])
        out = Blocks(outputs, len(theta))(torch.cat(sums), second)
        if self.residual:
            own, smoothed = torch.cat([part.own() for part in parts]), self._at_centres(parts, means, mean=True)
            out = out + torch.lerp(own, torch.cat(smoothed), torch.sigmoid(GATE_PACE * self.smoothing))
        return list(out.split([len(part) for part in sums]))

    @staticmethod
    def _at_centres(parts: list[Part], values: Sequence[Tensor], mean: bool) -> list[Tensor]:
        """Closed sums or means at the centres and virtual nodes of each part, from values at its rows."""
        sums = [part.cut.centre_sums(z) for part, z in zip(parts, values, strict=True)]
        if not mean:
            return sums
        counts = [part.cut.centre_sums(torch.ones_like(z[:, :1])) for part, z in zip(parts, values, strict=True)]
        return [total / count for total, count in zip(sums, counts, strict=True)]


class Blocks:
    """Rows of many groups in blocks of equal size: another matrix for each group is then one batched product.

    A large group takes several blocks instead of widening everybody's: hubs cost what they hold. A few rows are
    blocks of one each, and the rows of a single group one block, without any arranging.

    Args:
        group: [R] the group of each row, in any order.
        n_groups: how many groups there are.
    """

    FEW = 256

    def __init__(self, group: Tensor, n_groups: int) -> None:
        self.slot: Tensor | None = None
        self.single = n_groups == 1
        self.group = group
        if self.single or len(group) <= self.FEW:
            return
        counts = torch.bincount(group, minlength=n_groups)
        self.width = min(128, max(4, 1 << (len(group) // n_groups).bit_length()))
        blocks = (counts + self.width - 1) // self.width
        order = torch.argsort(group, stable=True)
        groups = group[order]
        rank = torch.arange(len(group), device=group.device) - (counts.cumsum(0) - counts)[groups]
        self.slot = torch.empty_like(group)
        self.slot[order] = (blocks.cumsum(0) - blocks)[groups] * self.width + rank
        self.group = torch.repeat_interleave(torch.arange(n_groups, device=group.device), blocks)

    def __call__(self, rows: Tensor, linears: Linears) -> Tensor:
        """Run ``rows [R, in]`` through the linear maps of their groups, ReLU between them: [R, out]."""
        if self.single:
            return _chain(rows[None], linears)[0]
        own = [(weight.index_select(0, self.group), bias.index_select(0, self.group)) for weight, bias in linears]
        if self.slot is None:
            return _chain(rows[:, None], own)[:, 0]
        room = rows.new_zeros(len(self.group) * self.width, rows.shape[1])
        x = room.index_copy(0, self.slot, rows).view(len(self.group), self.width, -1)
        return _chain(x, own).flatten(0, 1).index_select(0, self.slot)


def _chain(x: Tensor, linears: Linears) -> Tensor:
    for step, (weight, bias) in enumerate(linears):
        x = torch.baddbmm(bias, torch.relu(x) if step else x, weight)
    return x
