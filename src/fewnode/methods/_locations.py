"""RALE's network: nodes, paths of nodes, and where a node lies relative to the supports and to the hubs."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..nn.encoders import xavier

TINY = 1e-12  # keeps lengths of zero vectors, and their second derivatives, finite


def unit(z: Tensor) -> Tensor:
    """``z`` at length one."""
    return z * (z.square().sum(-1, keepdim=True) + TINY).rsqrt()


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

    def forward(self, table: Tensor, nodes: Tensor, target: Tensor, *paths: Tensor) -> Tensor:
        """Embeddings [M, 3 * channels] of the nodes of one task.

        ``table [V, in]`` holds the features of all nodes that occur, the others index it: ``nodes [M]``, then
        paths to the supports ``[M, S, P, L]`` and how long each is ``[M, S, P]``, and the same of paths to hubs
        ``[M, H, L']``, ``[M, H]``. ``target [S, N]`` holds the classes of the supports, one-hot.
        """
        to_supports, support_lengths, to_hubs, hub_lengths = paths
        g = unit(F.elu(self.content(table)))
        pairs, joined = mean_where(self.path(g[to_supports], support_lengths), support_lengths > 0)
        classes, known = mean_where(pairs[:, None], joined[:, None] & (target > 0).t()[None])
        relative = self.relative(classes, known)
        absolute = self.absolute(self.path(g[to_hubs], hub_lengths), hub_lengths > 0)
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
        # A path of no nodes is masked by the caller; its first position is left open so that it stays finite.
        open_ = torch.arange(size, device=z.device) < length.clamp(min=1)[..., None]
        z = unit(z + self._attend(z, open_))
        z = unit(z + self.outer(torch.relu(self.inner(z))))
        return torch.where(open_[..., None], z, -torch.inf).amax(-2)

    def _attend(self, z: Tensor, open_: Tensor) -> Tensor:
        q, k, v = (m(z).unflatten(-1, (self.heads, -1)).transpose(-2, -3) for m in (self.query, self.key, self.value))
        logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        weights = torch.where(open_[..., None, None, :], logits, -torch.inf).softmax(-1)
        return (weights @ v).transpose(-2, -3).flatten(-2)


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


def mean_where(z: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of ``z [..., n, d]`` over those of the n that are ``known [..., n]`` (zero if none), and if any is."""
    weights = known.to(z.dtype) / known.sum(-1, keepdim=True).clamp(min=1)
    return (weights[..., None] * torch.where(known[..., None], z, 0.0)).sum(-2), known.any(-1)


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
