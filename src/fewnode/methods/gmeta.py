"""G-Meta: prototypes of local subgraphs, in a network that takes a few gradient steps on each task's supports.

Huang, Zitnik: Graph Meta Learning via Local Subgraphs. NeurIPS 2020.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from ..graph import Graph, operators
from ..graph.arrays import csr_tensor
from ..nn.ego import inner_arcs
from ..nn.graph_layers import Inputs, take_rows
from ..nn.inner_loop import GCNRows, Neighbourhoods, Weights, unit
from .base import InnerLoopMethod, Training


class GMeta(InnerLoopMethod):
    """Each node is embedded by two GCN layers on the subgraph of its two-hop neighbourhood, read at the node itself.

    The inner loop minimises the loss of the supports against their own prototypes. A query is assigned to the nearest
    prototype.

    Args:
        max_nodes: larger subgraphs are reduced to a sample of this many nodes, including the centre.
        radius: outputs are projected to a sphere of this radius, because lengths follow degrees and would dominate the
            distances; None for no projection, as in the authors' code.
        rank: number of directions to which the features are reduced before the first layer.
        hidden_channels: width of both layers.
        out_channels: width of the space of the prototypes; in the authors' code the number of classes.
        inner_steps, inner_rate: number and size of the gradient steps on the supports.
    """

    training_settings = Training(
        learning_rate=1e-3, weight_decay=5e-4, steps=300, tasks_per_step=8, check_every=20, patience=5
    )

    def __init__(
        self,
        in_channels: int,
        *,
        max_nodes: int = 1000,
        radius: float | None = 3.0,
        rank: int = 128,
        hidden_channels: int = 128,
        out_channels: int = 64,
        inner_steps: int = 10,
        inner_rate: float = 0.05,
    ) -> None:
        super().__init__(inner_steps, inner_rate)
        self.max_nodes = max_nodes
        self.inputs = Inputs(in_channels, rank, scaled=True)
        self.encoder = SubgraphGCN(self.inputs.width, hidden_channels, out_channels, radius=radius)

    def embed(self, graph: Graph) -> Neighbourhoods:
        start, weight, smooth = local_subgraphs(graph, self.max_nodes)
        x = self.inputs.unit(graph)
        return Neighbourhoods(start, weight, lambda pair: take_rows(smooth, pair).to(x.dtype) @ x, x.shape[1])

    def task_loss(self, weights: Weights, *data: Tensor) -> Tensor:
        inputs, pool, target = data
        z = functional_call(self.encoder, weights, (inputs, pool))
        return F.cross_entropy(nearest(z, target, z), target)

    def task_scores(self, weights: Weights, *data: Tensor) -> Tensor:
        inputs, pool, target, query_inputs, query_pool = data
        z = functional_call(self.encoder, weights, (inputs, pool))
        return nearest(z, target, functional_call(self.encoder, weights, (query_inputs, query_pool)))


class SubgraphGCN(GCNRows):
    """Two GCN layers with a ReLU after each, then a linear map without a bias: it would cancel in distances."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, *, radius: float | None) -> None:
        super().__init__(in_channels, hidden_channels, hidden_channels)
        self.last = nn.Linear(hidden_channels, out_channels, bias=False)
        self.radius = radius

    def forward(self, inputs: Tensor, pool: Tensor) -> Tensor:
        """Outputs [S, out] at the centres of the subgraphs of a task, from ``inputs [R, in]`` and ``pool [S, R]``."""
        out: Tensor = self.last(torch.relu(super().forward(inputs, pool)))
        return out if self.radius is None else self.radius * unit(out)


def nearest(z: Tensor, target: Tensor, q: Tensor) -> Tensor:
    """Minus the squared distance of each ``q [M, d]`` to the mean of each class's ``z [S, d]``: [M, N]."""
    prototypes = (target / target.sum(0)).t() @ z
    return -(q[:, None] - prototypes).square().sum(-1)


def local_subgraphs(graph: Graph, cap: int, walks: int = 2**21) -> tuple[Tensor, Tensor, Tensor]:
    """The subgraph of every node's two-hop neighbourhood, of at most ``cap`` nodes, symmetrically normalised, reduced
    to what two layers read at its centre: ``start``, ``weight`` and ``smooth``.

    Centre u reads the pairs ``start[u]:start[u + 1]``, one for each neighbour j in its subgraph, with ``weight S_uj``;
    pair p reads row p of ``smooth``, the neighbours k of j with the values ``S_jk``. ``walks`` bounds the memory: so
    many two-step walks are followed at a time.
    """

    def build() -> tuple[Tensor, Tensor, Tensor]:
        two_steps = (operators.adjacency(graph) @ graph.degree[:, None].float()).flatten() + 1
        batch = (two_steps.double().cumsum(0) / walks).long()
        sizes = torch.unique_consecutive(batch, return_counts=True)[1].tolist()
        nodes = torch.arange(graph.num_nodes, device=graph.device)
        parts = [_subgraphs(graph, centres, cap) for centres in nodes.split(sizes)]
        pairs, weight, entries, node, value = (torch.cat(part) for part in zip(*parts, strict=True))
        start, first = (F.pad(counts.cumsum(0), (1, 0)) for counts in (pairs, entries))
        return start, weight, csr_tensor(first, node, value, (len(entries), graph.num_nodes))

    return graph.cache.get(("subgraphs", cap), build)


def _subgraphs(graph: Graph, centres: Tensor, cap: int) -> tuple[Tensor, ...]:
    """For ``centres [B]``: pairs of each, weight of each pair, entries of each pair, node and value of each entry."""
    n = graph.num_nodes
    keys, middle = _two_hops(graph, centres, cap)
    node = keys % n
    target, source = inner_arcs(graph, keys, node)
    every = torch.arange(len(keys), device=keys.device)  # a node is its own neighbour
    target, source = torch.cat([target, every]), torch.cat([source, every])
    scale = torch.bincount(target, minlength=len(keys)).float().rsqrt()
    value = scale[target] * scale[source]
    at_centre = torch.isin(keys, middle)[target]
    weight = torch.zeros(len(keys), device=keys.device)
    weight[source[at_centre]] = value[at_centre]  # a row has one centre, its own subgraph's
    read = weight > 0
    kept = read[target].nonzero().flatten()
    kept = kept[torch.argsort(target[kept], stable=True)]
    pairs = torch.bincount(keys[read] // n, minlength=len(centres))
    entries = torch.bincount(target[kept], minlength=len(keys))[read]
    return pairs, weight[read], entries, node[source[kept]].to(graph.indices.dtype), value[kept]


def _two_hops(graph: Graph, centres: Tensor, cap: int) -> tuple[Tensor, Tensor]:
    """Sorted keys ``position * N + node`` of the nodes within two hops of each centre, and the centres' own keys."""
    n = graph.num_nodes
    middle = torch.arange(len(centres), device=centres.device) * n + centres
    owner, near = operators.gather_neighbours(graph, centres)
    via, far = operators.gather_neighbours(graph, near)
    keys = torch.unique(torch.cat([middle, owner * n + near, owner[via] * n + far]))
    sizes = torch.bincount(keys // n, minlength=len(centres))
    if int(sizes.max()) <= cap:
        return keys, middle
    # The sample is a hash of centre and node, so a subgraph does not depend on the others.
    group, node = keys // n, keys % n
    draw = torch.where(node == centres[group], -1, operators.hashed(centres[group] * n + node, seed=0))
    order = torch.argsort(draw, stable=True)
    order = order[torch.argsort(group[order], stable=True)]
    place = torch.arange(len(keys), device=keys.device) - (sizes.cumsum(0) - sizes)[group]
    return keys[order[place < cap].sort().values], middle
