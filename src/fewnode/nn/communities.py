"""Communities of a graph at several resolutions: nodes that are often in the same one are alike."""

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor
from torch.nn import functional as F

from ..graph import Graph
from ..graph.arrays import CacheKey, random_block, to_tensor
from ..store import on_disk
from .features import row_directions
from .views import centred

FINEST, COARSEST = 8.0, 2.0  # resolutions, which lie between these
MOST = 12  # partitions
ARCS = 1 << 24  # arcs times partitions: of a larger graph there are fewer of these, and in the end none
LEVELS, SWEEPS = 6, 12

COMMUNITIES = CacheKey[Tensor]("view of communities")


def community_view(graph: Graph, rank: int) -> Tensor:
    """Unit rows ``[N, rank]``, centred on the graph's mean: in which communities a node is, reduced to the leading
    singular vectors. Inner products are about the share of partitions that have two nodes together; no row of a node
    without an edge, and none at all in a graph that is too large to look for communities in."""
    name = f"communities_{rank}{'' if graph.weights is None else '_weighted'}"
    return graph.cache.get(COMMUNITIES.of(rank), lambda: on_disk(graph.space, name, lambda: _made(graph, rank)))


def community_bytes(arcs: int) -> int:
    """What finding communities takes in memory."""
    return 120 * arcs


@torch.no_grad()
def _made(graph: Graph, rank: int) -> Tensor:
    arcs, random = sp.csr_array(graph.to_scipy(scaled=True)), np.random.default_rng(0)
    n_partitions = min(MOST, ARCS // max(arcs.nnz, 1))
    if n_partitions == 0:
        return torch.zeros(graph.num_nodes, rank, device=graph.device)
    found = [partition(arcs, each, random) for each in np.geomspace(COARSEST, FINEST, n_partitions)]
    together = sp.hstack([_members(label, int(label.max(initial=0)) + 1) for label in found])
    joined = sp.diags_array((np.diff(arcs.indptr) > 0).astype(np.float32))
    x = to_tensor(sp.csr_matrix(joined @ together).astype(np.float32)).to(graph.device)
    start = random_block(x.shape[1], rank).to(graph.device)
    h = x @ row_directions(x, rank, start)[1]
    return centred(F.pad(h, (0, rank - h.shape[1])))


def partition(adjacency: sp.csr_array, resolution: float, random: np.random.Generator) -> np.ndarray:
    """The community of each node, ``[N]``, by modularity with this resolution (Reichardt and Bornholdt, 2006).

    The Louvain method (Blondel et al., 2008): nodes move to the best community of a neighbour, then the communities are
    the nodes of a smaller graph. Here all nodes look around at once.
    """
    weights, label = adjacency.astype(np.float64), np.arange(adjacency.shape[0])
    for _ in range(LEVELS):
        names, found = np.unique(_settled(weights, resolution, random), return_inverse=True)
        label = found[label]
        if len(names) == weights.shape[0]:
            break
        member = _members(found, len(names))
        weights = sp.csr_array(member.T @ weights @ member)
    return label


def _settled(weights: sp.csr_array, resolution: float, random: np.random.Generator) -> np.ndarray:
    """The communities of single nodes after some sweeps. Half of those that would move do, drawn at random: if all did,
    two neighbours would change places for ever."""
    mass, label = weights.sum(1), np.arange(weights.shape[0])
    between = sp.csr_array(weights - sp.diags_array(weights.diagonal()))
    between.eliminate_zeros()
    for _ in range(SWEEPS):
        better = _better(between, label, mass, resolution)
        if np.array_equal(better, label):
            break
        label = np.where(random.random(len(label)) < 0.5, better, label)
    return label


def _better(between: sp.csr_array, label: np.ndarray, mass: np.ndarray, resolution: float) -> np.ndarray:
    """For each node the community, its own or one of a neighbour, in which it adds most to the modularity."""
    totals, expected = np.bincount(label, mass, minlength=len(label)), resolution * mass / max(mass.sum(), 1e-30)
    pull = sp.csr_array(between @ _members(label, len(label)))  # how strongly a node is tied to each community
    node = np.repeat(np.arange(len(label)), np.diff(pull.indptr))
    own = pull.indices == label[node]
    gain = pull.data - expected[node] * (totals[pull.indices] - own * mass[node])
    stay = -expected * (totals[label] - mass)
    stay[node[own]] = gain[own]
    tied = np.diff(pull.indptr) > 0
    most, better = np.full(len(label), np.inf), label.copy()
    most[tied] = np.maximum.reduceat(gain, pull.indptr[:-1][tied])
    moves = (gain == most[node]) & (gain > stay[node] + 1e-9)
    better[node[moves]] = pull.indices[moves]  # where several are best, the last
    return better


def _members(label: np.ndarray, communities: int) -> sp.csr_array:
    """Which node is in which community, ``[N, communities]``."""
    return sp.csr_array((np.ones(len(label)), label, np.arange(len(label) + 1)), shape=(len(label), communities))
