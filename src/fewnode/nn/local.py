"""A two-layer graph network on cut-out graphs with other weights for each group, all groups in one product."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from ..graph import Graph
from .ego import Cut

Linears = list[tuple[Tensor, Tensor]]


class LocalGNN(nn.Module):
    """Two layers of GIN (``MLP(closed sum)``) or GCN (``linear(closed mean)``), read at a cut's centres.

    Its weights are one vector ``theta``, so that an adapter can write another one for every group. The GCN
    averages over a node and its neighbours (the row-normalised form), which needs no degree beyond the cut.

    Args:
        in_channels, out_channels: widths of the input and of everything after it.
        backbone: "gin" or "gcn".
        mlp_layers: linear maps in the MLP of each GIN layer.
    """

    def __init__(self, in_channels: int, out_channels: int, *, backbone: str = "gin", mlp_layers: int = 1) -> None:
        super().__init__()
        self.mean = backbone == "gcn"
        depth = 1 if self.mean else mlp_layers
        self.shapes = list(pairwise([in_channels] + [out_channels] * 2 * depth))
        weights = (nn.init.xavier_uniform_(torch.empty(shape)) for shape in self.shapes)
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

    def forward(
        self,
        graph: Graph,
        cut: Cut,
        values: Tensor,
        theta: Tensor,
        *,
        weights_of: Tensor | None = None,
        bridge: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Outputs at the centres and then at the virtual nodes of the cut, [C + G, out].

        ``values`` and ``bridge`` as in ``Cut.closed_sums``. Group ``g`` of the cut uses the weights
        ``theta[weights_of[g]]``, by default ``theta[g]``, of ``theta [W, size]``.
        """
        first, second = self.unpack(theta)
        rows, outputs = cut.group_of_rows(), cut.group_of_outputs()
        if weights_of is not None:
            rows, outputs = weights_of[rows], weights_of[outputs]
        sums = cut.closed_sums(values, bridge)
        if self.mean:
            sums = sums / cut.closed_counts(graph, values.dtype)
        z = torch.relu(Blocks(rows, len(theta))(sums, first))
        sums = cut.centre_sums(z)
        if self.mean:
            sums = sums / cut.centre_sums(torch.ones_like(z[:, :1]))
        return Blocks(outputs, len(theta))(sums, second)


class Blocks:
    """Rows of many groups in blocks of equal size: another matrix for each group is then one batched product.

    A large group takes several blocks instead of widening everybody's: hubs cost what they hold.

    Args:
        group: [R] the group of each row, in any order.
        n_groups: how many groups there are.
    """

    def __init__(self, group: Tensor, n_groups: int) -> None:
        self.single = n_groups == 1
        if self.single:  # then the rows are one block as they are
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
            return self._chain(rows[None], linears)[0]
        room = rows.new_zeros(len(self.group) * self.width, rows.shape[1])
        x = room.index_copy(0, self.slot, rows).view(len(self.group), self.width, -1)
        own = [(w.index_select(0, self.group), b.index_select(0, self.group)) for w, b in linears]
        return self._chain(x, own).flatten(0, 1).index_select(0, self.slot)

    @staticmethod
    def _chain(x: Tensor, linears: Linears) -> Tensor:
        for step, (weight, bias) in enumerate(linears):
            x = torch.baddbmm(bias, torch.relu(x) if step else x, weight)
        return x
