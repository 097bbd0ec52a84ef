"""Model-agnostic meta-learning: a GCN whose weights take a few gradient steps on each task's supports.

Finn, Abbeel, Levine: Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks. ICML 2017.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..graph import Graph
from ..graph.arrays import csr_parts
from ..graph.operators import normalized_adjacency
from ..nn.graph_layers import Inputs, take_rows, xavier
from ..nn.inner_loop import GCNRows, Neighbourhoods, Weights
from .base import InnerLoopMethod, Training

HEAD = ("head.weight", "head.bias")  # the names of the head's weights among those of a task


class MAML(InnerLoopMethod):
    """A two-layer GCN and a linear head. All their weights are adapted, and their initial values are trained.

    The head starts at zero in every task (Kao, Chiu, Chen: MAML is a Noisy Contrastive Learner in Classification, ICLR
    2022), so it works with any number of classes in any order.

    Args:
        use_graph: False for one linear map of a node's own raw features, the weak form with low published accuracies.
        rank: number of directions to which the features are reduced before the GCN.
        hidden_channels, out_channels: widths of the two layers.
        inner_steps, inner_rate: number and size of the gradient steps on the supports.
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
    ) -> None:
        super().__init__(inner_steps, inner_rate)
        self.inputs = Inputs(in_channels, rank, scaled=True) if use_graph else None
        self.width = out_channels if use_graph else hidden_channels
        if self.inputs is None:
            self.encoder: nn.Module = xavier(nn.Linear(in_channels, self.width))
        else:
            self.encoder = GCNRows(self.inputs.width, hidden_channels, self.width)

    def embed(self, graph: Graph) -> Neighbourhoods:
        if self.inputs is None:  # every node by itself: its row is its raw features
            x, dtype = graph.x, next(self.parameters()).dtype
            alone = torch.arange(graph.num_nodes + 1, device=graph.device)
            dense = x.__getitem__ if x.layout == torch.strided else lambda at: take_rows(x, at).to_dense()
            return Neighbourhoods(alone, alone[1:] > 0, lambda at: dense(at).to(dtype), x.shape[1])
        smoothed = self.inputs.smoothed(graph)
        indptr, indices, values = csr_parts(normalized_adjacency(graph).matrix)
        return Neighbourhoods(indptr, values, lambda at: smoothed[indices[at].long()], self.inputs.width)

    def start(self, n_way: int) -> Weights:
        weights = super().start(n_way)
        like = next(iter(weights.values()))
        return {**weights, HEAD[0]: like.new_zeros(n_way, self.width), HEAD[1]: like.new_zeros(n_way)}

    def task_scores(self, weights: Weights, *data: Tensor) -> Tensor:
        own = {name: weight for name, weight in weights.items() if name not in HEAD}
        inputs = data[3:] if self.inputs is not None else data[3:4]  # without the graph, nothing is pooled
        h: Tensor = functional_call(self.encoder, own, inputs)
        return h @ weights[HEAD[0]].t() + weights[HEAD[1]]
