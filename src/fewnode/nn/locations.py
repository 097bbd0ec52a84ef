"""RALE's network: nodes, paths of nodes, and where a node lies relative to the supports and to the hubs."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .initialization import xavier
from .inner_loop import unit


class Locations(nn.Module):
    """Embeds nodes by their location: relative to the task's classes, absolute relative to hubs, and by content.

    Args:
        in_channels: width of the features, a node's own and its neighbours' mean side by side.
        channels: width of everything else; the output is three times as wide.
        heads: attention heads, a divisor of ``channels``.
        longest: nodes of the longest path.
        dropout: share of the output that is dropped while training.
    """

    def __init__(self, in_channels: int, channels: int, *, heads: int, longest: int, dropout: float) -> None:
        super().__init__()
        self.content = xavier(nn.Linear(in_channels, channels))
        self.path = PathAttention(channels, heads, longest)
        self.relative = Choice(channels)
        self.absolute = Choice(channels)
        self.dropout = dropout

    def forward(
        self,
        table: Tensor,
        nodes: Tensor,
        brief: Tensor,
        path: Tensor,
        length: Tensor,
        pool: Tensor,
        hub: Tensor,
        near: Tensor,
    ) -> Tensor:
        """Embeddings [M, 3 * channels] of the nodes of one task.

        ``table [V, in]`` holds the features of all nodes that occur; ``nodes [M]``, ``brief [B, L]`` and ``path`` index
        it. The others are as in ``nn.paths.Listed``.
        """
        g = unit(F.elu(self.content(table)))
        short = len(brief)
        paths = torch.cat([self.path(g[brief], length[:short]), self.path(g[path], length[short:])])
        relative = self.relative(pool @ paths, pool.sum(-1) > 0)
        absolute = self.absolute(paths[hub], near)
        return F.dropout(torch.cat([relative, absolute, g[nodes]], -1), self.dropout, self.training)


class PathAttention(nn.Module):
    """Position-aware multi-head self-attention over the nodes of a path, then the maximum over them.

    Vectors have length one where others have a layer norm; positions are sinusoids (Vaswani et al., NeurIPS 2017).
    """

    positions: Tensor

    def __init__(self, channels: int, heads: int, longest: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (xavier_map(channels) for _ in range(3))
        self.inner = xavier(nn.Linear(channels, channels))
        self.outer = xavier(nn.Linear(channels, channels))
        self.register_buffer("positions", sinusoids(longest, channels), persistent=False)

    def forward(self, z: Tensor, length: Tensor) -> Tensor:
        """One vector [..., d] for each path of nodes ``z [..., L, d]``, of which the first ``length [...]`` count."""
        size, channels = z.shape[-2:]
        z = z * math.sqrt(channels) + self.positions[:size].to(z.dtype)
        # Where the list is only filled up, the first position is left open: nobody reads it, but it stays finite.
        open_ = torch.arange(size, device=z.device) < length.clamp(min=1)[..., None]
        z = unit(z + self._attend(z, open_))
        z = unit(z + self.outer(torch.relu(self.inner(z))))
        return torch.where(open_[..., None], z, -torch.inf).amax(-2)

    def _attend(self, z: Tensor, open_: Tensor) -> Tensor:
        # Products and sums over [L, L, d] instead of matrix products: those of [L, d / heads] matrices are many times
        # slower. Head h owns every channel with number h modulo heads, which makes the sums run over whole vectors.
        q, k, v = (linear(z).unflatten(-1, (-1, self.heads)) for linear in (self.query, self.key, self.value))
        logits = (q.unsqueeze(-4) * k.unsqueeze(-3)).sum(-2) / math.sqrt(q.shape[-2])  # [..., key, query, heads]
        weights = torch.where(open_[..., None, None], logits, -torch.inf).softmax(-3)
        read: Tensor = (weights.unsqueeze(-2) * v.unsqueeze(-3)).sum(-4)
        return read.flatten(-2)


class Choice(nn.Module):
    """A mean of vectors weighted by how much each matters: softmax of ``eta . LeakyReLU(W r + b)`` where known."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = xavier(nn.Linear(channels, channels))
        self.eta = nn.Parameter(nn.init.xavier_uniform_(torch.empty(channels, 1)))

    def forward(self, r: Tensor, known: Tensor) -> Tensor:
        """``r [..., n, d]`` to [..., d]; zero where none of the n is ``known [..., n]``."""
        logits = (F.leaky_relu(self.inner(r)) @ self.eta).squeeze(-1)
        some = known.any(-1, keepdim=True)
        weights = torch.where(known | ~some, logits, -torch.inf).softmax(-1) * some
        return (weights[..., None] * torch.where(known[..., None], r, 0.0)).sum(-2)


def xavier_map(channels: int) -> nn.Linear:
    """A square linear map without a bias."""
    linear = nn.Linear(channels, channels, bias=False)
    nn.init.xavier_uniform_(linear.weight)
    return linear


def sinusoids(longest: int, channels: int) -> Tensor:
    """Sines and cosines of positions 0..longest-1 at geometrically falling frequencies, [longest, channels]."""
    column = torch.arange(channels)
    rate = 10000.0 ** (-(column // 2 * 2) / channels)
    angle = torch.arange(longest)[:, None] * rate
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())
