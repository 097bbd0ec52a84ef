"""Random walks and PageRank on the CSR adjacency: every step is taken by all walkers at once."""

import torch
from torch import Tensor

from .cache import CacheKey
from .graph import Graph

_STEP, _MIX_1, _MIX_2 = -7046029254386353131, -4658895280553007687, -7723592293110705685  # SplitMix64's constants

PAGERANK = CacheKey[Tensor]("PageRank")


def random_walks(graph: Graph, nodes: Tensor, n_walks: int, steps: int, seed: int = 0) -> Tensor:
    """Uniform walks from every node of ``nodes [B]``: node ids ``[B, n_walks, steps + 1]``, the start first.

    A walker without a way on stays where it is. The choices are a hash of seed, start, walk and step, so a
    node's walks are the same whichever other nodes are asked for, and none need to be kept.
    """
    walk = torch.arange(n_walks, device=nodes.device)
    number = (nodes[:, None] * n_walks + walk) * steps  # with the step added, different for each step of each walk
    indices = torch.cat([graph.indices, graph.indices.new_zeros(1)])  # an isolated last node reads behind the end
    here = nodes[:, None].expand(-1, n_walks)
    path = [here]
    for step in range(steps):
        first = graph.indptr[here].long()
        degree = graph.indptr[here + 1].long() - first
        ahead = indices[first + hashed(number + step, seed) % degree.clamp(min=1)].long()
        here = torch.where(degree > 0, ahead, here)
        path.append(here)
    return torch.stack(path, -1)


def hashed(numbers: Tensor, seed: int) -> Tensor:
    """Pseudo-random integers in [0, 2^53) of whole numbers: SplitMix64 (Steele, Lea, Flood 2014) in int64."""
    z = numbers * _STEP + (seed + 1) * _STEP % 2**63
    z = (z ^ _shifted(z, 30)) * _MIX_1
    z = (z ^ _shifted(z, 27)) * _MIX_2
    return _shifted(z ^ _shifted(z, 31), 11)


def _shifted(z: Tensor, bits: int) -> Tensor:
    """A right shift that fills with zeros, as of an unsigned number."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def pagerank(graph: Graph, damping: float = 0.85, tolerance: float = 1e-10, max_steps: int = 200) -> Tensor:
    """How often an endless walker with restarts is at each node, float64 [N], sums to one.

    From a node without a way on, the walker restarts. Power iteration until the change is below ``tolerance``.

    Page, Brin, Motwani, Winograd: The PageRank Citation Ranking. Stanford, 1999.
    """

    def rank() -> Tensor:
        n, source = graph.num_nodes, graph.indices.long()
        target = torch.repeat_interleave(torch.arange(n, device=graph.device), graph.degree)
        out = torch.bincount(source, minlength=n).double()
        share = torch.where(out > 0, 1 / out.clamp(min=1), 0.0)
        p = torch.full((n,), 1 / n, dtype=torch.float64, device=graph.device)
        for _ in range(max_steps):
            arriving = torch.zeros_like(p).index_add_(0, target, (p * share)[source])
            new = damping * (arriving + p[out == 0].sum() / n) + (1 - damping) / n
            change, p = float((new - p).abs().sum()), new
            if change < tolerance:
                break
        return p

    return graph.cache.get(PAGERANK.of(damping, tolerance, max_steps), rank)


def hubs(graph: Graph, share: float = 0.05) -> Tensor:
    """Which nodes are among the given share of the highest PageRanks (at least one), bool [N]."""
    count = max(1, round(share * graph.num_nodes))
    chosen = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    chosen[torch.argsort(pagerank(graph), descending=True, stable=True)[:count]] = True
    return chosen
