"""Model-agnostic meta-learning: a GCN whose weights take a few gradient steps on each task's supports.

Finn, Abbeel, Levine: Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks. ICML 2017.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph
from ..graph.arrays import csr_parts
from ..graph.operators import normalized_adjacency
from ..nn.features import ReducedFeatures
from ..nn.graph_layers import take_rows, xavier
from ..nn.inner_loop import Neighbourhoods, Weights, head_scores, unit_features, weights_of, with_head
from .base import InnerLoopMethod, Training


class MAML(InnerLoopMethod):
    """A two-layer GCN and a linear head, all of whose weights are adapted; the start is what is trained.

    The head starts at zero in every task (Kao, Chiu, Chen: MAML is a Noisy Contrastive Learner in Classification,
    ICLR 2022), so any number of classes will do and their order does not matter.

    Args:
        use_graph: False is the weak form behind low published numbers: one linear map of a node's own raw features.
        rank: directions the features are reduced to before the GCN.
        hidden_channels, out_channels: widths of the two layers.
        inner_steps, inner_rate: gradient steps on the supports, and their size.
        first_order: leave second derivatives out.
    """

    reads_edges = ("weights",)
    training_settings = Training(
        learning_rate=1e-3, weight_decay=5e-4, steps=300, tasks_per_step=8, check_every=20, patience=5, clip=1.0
    )

    def __init__(
        self,
        in_channels: int,
        *,
        use_graph: bool = True,
        rank: int = 128,
        hidden_channels: int = 64,
        out_channels: int = 64,
        inner_steps: int = 10,
        inner_rate: float = 0.3,
        first_order: bool = True,
    ) -> None:
        features = ReducedFeatures(in_channels, rank) if use_graph else None
        super().__init__(inner_steps, inner_rate, first_order, features)
        self.width = out_channels if use_graph else hidden_channels
        rank, hidden = min(rank, in_channels), hidden_channels
        self.encoder = GCNRows(rank, hidden, self.width) if use_graph else Own(in_channels, self.width)

    def embed(self, graph: Graph) -> Neighbourhoods:
        if self.features is None:  # every node by itself: its row is its raw features
            x, dtype = graph.x, next(self.parameters()).dtype
            alone = torch.arange(graph.num_nodes + 1, device=graph.device)
            dense = (
                x.__getitem__ if x.layout == torch.strided else lambda at: take_rows(x, at).csr(x.shape[1]).to_dense()
            )
            return Neighbourhoods(alone, alone[1:] > 0, lambda at: dense(at).to(dtype), x.shape[1])
        x, smooth = unit_features(self.features, graph, self.encoder), normalized_adjacency(graph)
        smoothed = graph.cache.get("smoothed inputs of an inner loop", lambda: smooth @ x, source=x)
        indptr, indices, values = csr_parts(smooth.matrix)
        return Neighbourhoods(indptr, values, lambda at: smoothed[indices[at].long()], x.shape[1])

    def start(self, n_way: int) -> Weights:
        return with_head(weights_of(self.encoder), self.width, n_way)

    def task_loss(self, weights: Weights, *data: Tensor) -> Tensor:
        inputs, pool, target = data
        return F.cross_entropy(head_scores(self.encoder, weights, inputs, pool), target)

    def task_scores(self, weights: Weights, *data: Tensor) -> Tensor:
        return head_scores(self.encoder, weights, *data[3:])


class GCNRows(nn.Module):
    """A two-layer GCN on the rows of a task: ReLU between the layers, none at the end."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = xavier(nn.Linear(in_channels, hidden_channels))
        self.second = xavier(nn.Linear(hidden_channels, out_channels))

    def forward(self, inputs: Tensor, pool: Tensor) -> Tensor:
        """Outputs [S, out] at the nodes of a task, from ``inputs [R, in]`` and ``pool [S, R]``."""
        out: Tensor = self.second(pool @ torch.relu(self.first(inputs)))
        return out


class Own(nn.Module):
    """A linear map of each node's own features."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.linear = xavier(nn.Linear(in_channels, out_channels))

    def forward(self, inputs: Tensor, pool: Tensor) -> Tensor:
        out: Tensor = self.linear(inputs)
        return out
