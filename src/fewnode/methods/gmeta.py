"""G-Meta: prototypes of local subgraphs, in a network that takes a few gradient steps on each task's supports.

Huang, Zitnik: Graph Meta Learning via Local Subgraphs. NeurIPS 2020.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..graph import Graph
from ..nn.features import ReducedFeatures
from ..nn.initialization import xavier
from ..nn.inner_loop import Weights, one_hot_cross_entropy, unit, unit_features, weights_of
from ..nn.neighbourhoods import Subgraphs, cut_subgraphs
from .base import InnerLoopMethod, Training


class GMeta(InnerLoopMethod):
    """Each node is embedded by two GCN layers on the subgraph of its two-hop neighbourhood, read at the node itself.

    The inner loop lowers the loss of the supports against their own prototypes; queries go to the nearest one.

    Args:
        max_nodes: size of the largest subgraph; of a larger one so many nodes are sampled, the centre always.
        self_loops: whether a node of a subgraph is its own neighbour; the authors' code has no self-loops.
        radius: outputs are put on a sphere of this radius, because lengths follow degrees and would drown the
            distances; None leaves them as they come, as the authors do.
        rank: directions the features are reduced to before the first layer.
        hidden_channels: width of both layers.
        out_channels: width of the space of the prototypes, in the authors' code as many as classes.
        inner_steps, inner_rate: gradient steps on the supports, and their size.
        first_order: leave second derivatives out.
    """

    training_settings = Training(
        learning_rate=1e-3, weight_decay=5e-4, steps=300, tasks_per_step=8, check_every=20, patience=5
    )

    def __init__(
        self,
        in_channels: int,
        *,
        max_nodes: int = 1000,
        self_loops: bool = True,
        radius: float | None = 3.0,
        rank: int = 128,
        hidden_channels: int = 128,
        out_channels: int = 64,
        inner_steps: int = 10,
        inner_rate: float = 0.05,
        first_order: bool = True,
    ) -> None:
        super().__init__()
        self.max_nodes, self.self_loops = max_nodes, self_loops
        self.inner_steps, self.inner_rate, self.first_order = inner_steps, inner_rate, first_order
        self.features = ReducedFeatures(in_channels, rank)
        self.encoder = SubgraphGCN(min(rank, in_channels), hidden_channels, out_channels, radius=radius)

    def prepare(self, graph: Graph) -> None:
        self.features.fit(graph)

    def embed(self, graph: Graph) -> Subgraphs:
        cuts = cut_subgraphs(graph, self.max_nodes, self.self_loops)
        return Subgraphs(cuts, unit_features(self.features, graph, self.encoder))

    def start(self, n_way: int) -> Weights:
        return weights_of(self.encoder)

    def task_loss(self, weights: Weights, inputs: Tensor, pool: Tensor, target: Tensor) -> Tensor:
        z = functional_call(self.encoder, weights, (inputs, pool))
        return one_hot_cross_entropy(nearest(z, target, z), target)

    def task_scores(self, weights: Weights, *data: Tensor) -> Tensor:
        inputs, pool, target, query_inputs, query_pool = data
        z = functional_call(self.encoder, weights, (inputs, pool))
        return nearest(z, target, functional_call(self.encoder, weights, (query_inputs, query_pool)))


class SubgraphGCN(nn.Module):
    """Two GCN layers with a ReLU after each, then a linear map without a bias: it would cancel in distances."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, *, radius: float | None) -> None:
        super().__init__()
        self.first = xavier(nn.Linear(in_channels, hidden_channels))
        self.second = xavier(nn.Linear(hidden_channels, hidden_channels))
        self.last = nn.Linear(hidden_channels, out_channels, bias=False)
        self.radius = radius

    def forward(self, inputs: Tensor, pool: Tensor) -> Tensor:
        """Outputs [S, out] at the centres of the subgraphs of a task, from ``inputs [R, in]`` and ``pool [S, R]``."""
        h = torch.relu(self.second(pool @ torch.relu(self.first(inputs))))
        out: Tensor = self.last(h)
        return out if self.radius is None else self.radius * unit(out)


def nearest(z: Tensor, target: Tensor, q: Tensor) -> Tensor:
    """Minus the squared distance of each ``q [M, d]`` to the mean of each class's ``z [S, d]``: [M, N]."""
    prototypes = (target / target.sum(0)).t() @ z
    return -(q[:, None] - prototypes).square().sum(-1)
