"""TENT as its authors' released code computes it, without that code's bugs.

Wang, Ding, Zhang, Chen, Li: Task-Adaptive Few-shot Node Classification. KDD 2022.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph, operators
from ..nn.ego import Linear, LocalGNN, degrees, grouped_linear, induced_subgraphs
from ..nn.graph_layers import rows_at
from ..nn.heads import BaseClassifier, class_means, cosine_scores, logistic_scores
from ..tasks import Tasks
from .base import Method, Training, cross_entropy


class TENTReleased(Method):
    """One linear GCN layer trained by two losses, and a logistic regression on its output at test time.

    The second network only shapes the training loss: its class nodes have no edges, one adapter serves the whole task,
    and a query is the mean over its 2-hop subgraph. There is no dropout.

    Args:
        in_channels: number of feature columns.
        base_classes: the classes it is trained on.
        hidden_channels, out_channels: widths of the linear layer and of the second network.
        gamma: weight of the loss over the base classes.
    """

    training_settings = Training(learning_rate=0.05, weight_decay=5e-4, steps=2000, check_every=50, patience=10)

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        hidden_channels: int = 16,
        out_channels: int = 16,
        gamma: float = 1.0,
    ) -> None:
        super().__init__()
        bound = hidden_channels**-0.5
        self.weight = nn.Parameter(torch.empty(in_channels, hidden_channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(hidden_channels).uniform_(-bound, bound))
        self.gnn = LocalGNN(hidden_channels, out_channels, out_channels)
        self.adapter = nn.Linear(hidden_channels, 2 * len(self.gnn.theta))
        self.classifier = BaseClassifier(hidden_channels, base_classes)
        self.gamma = gamma

    def embed(self, graph: Graph) -> Tensor:
        """The linear layer over the row-normalised A + I, [N, hidden_channels]."""
        sums = operators.closed_adjacency(graph) @ operators.project(graph, self.weight)
        return sums / (1 + graph.degree)[:, None] + self.bias

    def score(self, graph: Graph, state: Tensor, tasks: Tasks) -> Tensor:
        h = F.normalize(state, dim=1)
        return logistic_scores(h[tasks.support], tasks.support_y, h[tasks.query], tasks.n_way)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        h = self.embed(graph)
        matching = cross_entropy(self.match(graph, h, tasks), tasks)
        return matching + self.gamma * self.classifier.loss(h, graph.y)

    def match(self, graph: Graph, h: Tensor, tasks: Tasks) -> Tensor:
        """The scores of the training loss, [T, M, N]."""
        virtual = class_means(rows_at(h, tasks.support), tasks.support_y, tasks.n_way)
        alpha, beta = self.adapter(virtual.mean(1)).chunk(2, dim=1)
        first, second = self.gnn.unpack((1 + alpha) * self.gnn.theta + beta)
        (weight, bias), (last_weight, last_bias) = first, second
        prototypes = torch.relu(virtual @ weight + bias) @ last_weight + last_bias
        queries = self._pooled(graph, h, tasks, first) @ last_weight + last_bias
        # The released tau cancels in the normalisation that follows it; this constant temperature is what remains.
        return cosine_scores(queries, prototypes) / 0.5

    @staticmethod
    def _pooled(graph: Graph, h: Tensor, tasks: Tasks, first: Linear) -> Tensor:
        """The mean over each query's 2-hop subgraph, aggregated and ready for the second layer's weights, [T, M, d].

        Mean and aggregation are both linear, so each row of the first layer counts once, with what the rows of
        its subgraph take from it.
        """
        nodes = tasks.query.flatten()
        number = torch.arange(len(nodes), device=graph.device)
        for _ in range(2):
            owner, neighbour = operators.gather_neighbours(graph, nodes)
            nodes, number = torch.cat([nodes, neighbour]), torch.cat([number, number[owner]])
        around = induced_subgraphs(graph, nodes, number)
        share = 1 / (1 + degrees(graph, around.node))[:, None].to(h.dtype)
        inputs = around.closed_sums(h.index_select(0, around.node)) * share
        z = torch.relu(grouped_linear(inputs, around.group // tasks.query.shape[1], first))
        taken = share.index_add(0, around.source, share.index_select(0, around.target))
        sums = h.new_zeros(tasks.query.numel(), z.shape[1]).index_add(0, around.group, z * taken)
        means: Tensor = (sums / torch.bincount(around.group)[:, None]).unflatten(0, tasks.query.shape)
        return means
