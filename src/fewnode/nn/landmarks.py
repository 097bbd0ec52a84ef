"""Where the walks from every node go: one more view of a graph that has no words."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ..graph import Graph
from ..graph.arrays import structural_bytes
from ..graph.operators import arcs_of, mean_adjacency
from ..store import chunks
from .views import FAR_STEPS, centred

WALKS = ((12, 0.3), FAR_STEPS)  # steps and restart of near and of far walks


def walk_view(graph: Graph, rank: int) -> Tensor:
    """Unit rows ``[N, 2 * rank]``: where near and where far walks from a node go, each centred on the graph's mean.

    A row is the positive pointwise mutual information of a node and of landmarks, nodes drawn at random: the logarithm
    of how much likelier than by chance a walk from the node that restarts there is at the landmark, if it is likelier.
    It is reduced to the leading singular vectors, each as long as the root of its singular value.

    The smoothed views are linear in where walks go, so that a few places where they are very often outweigh all others.
    The logarithm lets every place count. After NetMF (Qiu et al., WSDM 2018); landmarks instead of all nodes make it
    linear in the graph's size.
    """

    def made() -> Tensor:
        return F.normalize(torch.cat([_reduced(graph, rank, *walk) for walk in WALKS], 1), dim=1)

    space = graph.space.within("walks", f"{rank} {graph.weights is None}")
    return graph.cache.get(("view of walks", rank), lambda: space.kept("view", made))


def wordless_bytes(nodes: int, arcs: int) -> int:
    """What a graph without words takes in memory at once: for its structural features, or its walks (the ratios, and
    blocks of walks or of what comes out)."""
    return max(structural_bytes(nodes, arcs), 4 * nodes * (_count(nodes) + 512))


def _count(nodes: int, most: int = 1024, fewest: int = 128, cells: int = 1 << 26) -> int:
    """How many landmarks there are: at most ``cells`` nodes times landmarks, so that a larger graph has fewer."""
    return min(most, max(fewest, cells // max(nodes, 1)))


@torch.no_grad()
def _reduced(graph: Graph, rank: int, steps: int, restart: float) -> Tensor:
    places = landmarks(graph)
    if len(places) == 0:
        return graph.degree.new_zeros(graph.num_nodes, rank, dtype=torch.float32)
    gains = visit_ratios(graph, places, steps, restart).clamp_(min=1).log_()
    gram = gains.new_zeros(gains.shape[1], gains.shape[1], dtype=torch.float64)
    for rows in chunks(len(gains), 12 * gains.shape[1]):
        part = gains[rows].double()
        gram += part.T @ part
    values, directions = torch.linalg.eigh(gram)
    values, directions = values[-rank:].flip(0), directions[:, -rank:].flip(1)
    real = values > 1e-9 * values.max().clamp(min=1e-30)  # others are rounding
    lengths = torch.where(real, values.clamp(min=1e-30) ** -0.25, 0.0)
    h = gains @ (directions * lengths).float()
    return centred(F.pad(h, (0, rank - h.shape[1])))


def landmarks(graph: Graph) -> Tensor:
    """Nodes that have an edge, drawn at random; all of them, if the graph is small."""
    able = (graph.degree > 0).nonzero().ravel()
    drawn = torch.randperm(len(able), generator=torch.Generator().manual_seed(0)).to(able.device)
    return able[drawn[: _count(graph.num_nodes)]]


def visit_ratios(graph: Graph, places: Tensor, steps: int, restart: float, at_once: int = 64) -> Tensor:
    """How much likelier a walk that restarts at each node is at each of ``places [L]``, at least one step later, than a
    walk that has forgotten where it began: ``[N, L]``. ``at_once`` places are looked for together."""
    walk, mass = mean_adjacency(graph), arcs_of(graph).totals()
    ratios = mass.new_empty(graph.num_nodes, len(places))
    for at in range(0, len(places), at_once):
        some = places[at : at + at_once]
        there = ratios.new_zeros(graph.num_nodes, len(some))
        there[some, torch.arange(len(some), device=some.device)] = 1
        ratios[:, at : at + at_once] = walk @ walk.smooth(there, steps, restart) / mass[some]
    return ratios.mul_(mass.sum())
