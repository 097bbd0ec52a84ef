"""The pseudo-support of a class: the nodes nearest to the mean of its examples, whatever their labels."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

POOL = 10_000  # nodes searched for the pseudo-support of a class: all, or a random sample of a larger graph
SHARE = 0.01  # of the pool is the pseudo-support of a class


def pool_nodes(num_nodes: int) -> Tensor:
    """The nodes of the pool: always the same of the same graph."""
    if num_nodes <= POOL:
        return torch.arange(num_nodes)
    return torch.randperm(num_nodes, generator=torch.Generator().manual_seed(0))[:POOL]


class Pool:
    """Nodes as several ``parts [P, d_v]``, whose lengths the caller chooses anew for each search.

    The rows of length one that the parts make side by side are never made: that took as long as a third of a search,
    and the lengths differ at every check of a training.
    """

    def __init__(self, parts: Iterable[Tensor]) -> None:
        self.parts = list(parts)
        self.squares = torch.stack([part.square().sum(-1) for part in self.parts], -1)

    def __len__(self) -> int:
        return len(self.squares)

    @property
    def nearest(self) -> int:
        """How many nodes make a pseudo-support."""
        return max(1, round(SHARE * len(self)))

    @torch.no_grad()
    def pseudo_supports(self, means: Tensor, lengths: Tensor) -> Tensor:
        """Directions ``[..., d]`` of the mean of the nodes with the largest cosine with each of ``means [..., d]``;
        part ``v`` of a node is ``lengths[v]`` long."""
        shrink = (self.squares @ lengths.square()).clamp(min=1e-24).rsqrt()
        pieces = means.flatten(0, -2).split([part.shape[-1] for part in self.parts], -1)
        products = means.new_zeros(len(pieces[0]), len(self))
        for length, piece, part in zip(lengths, pieces, self.parts, strict=True):
            products.addmm_(length * piece, part.t())
        chosen = products.mul_(shrink).topk(self.nearest, sorted=False).indices
        weights = shrink[chosen]
        sums = [F.embedding_bag(chosen, part, mode="sum", per_sample_weights=weights) for part in self.parts]
        together = torch.cat([length * each for length, each in zip(lengths, sums, strict=True)], -1)
        return F.normalize(together, dim=-1).view_as(means)
