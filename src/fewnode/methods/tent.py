"""TENT: adapts to the node, to the class and to the task, by the equations of the paper.

Wang, Ding, Zhang, Chen, Li: Task-Adaptive Few-shot Node Classification. KDD 2022.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError, one_of
from ..graph import Graph, operators
from ..graph.arrays import CacheKey
from ..nn.ego import LocalGNN, class_ego_graphs, degrees, embed_around, neighbourhoods
from ..nn.graph_layers import Features, GraphEncoder, Inputs, drop, rows_of, xavier
from ..nn.heads import BaseClassifier, class_means, cosine_scores, euclidean_scores
from ..tasks import Tasks
from .base import Method, Training, cross_entropy

SUMMED = CacheKey[Tensor]("closed sums of inputs")
PRESETS: dict[str, tuple[Any, ...]] = {  # features, hidden_channels, out_channels, second_channels and dropout
    "shared": ("reduced", 256, 128, 128, 0.5),
    "paper": ("raw", 16, 16, 16, 0.2),
}


class EmbeddedGraph(NamedTuple):
    """First-step embeddings ``h [N, d_h]`` and their closed sums, ``h + A h``."""

    h: Tensor
    sums: Tensor


class EmbeddedTasks(NamedTuple):
    """What the scores and the loss of tasks are made of.

    ``h_q [T, M, d_h]``: first-step embeddings of the queries; ``s [T, N, d_s]``: prototypes; ``s_k [T, S, d_s]``:
    supports as the network of their class embeds them; ``q [T, M, d_s]``: queries.
    """

    h_q: Tensor
    s: Tensor
    s_k: Tensor
    q: Tensor


class TENT(Method):
    """A class is a virtual node joined to its supports; the network that embeds it is adapted to the class, the one
    that embeds the queries to the task, and scores are divided by how scattered each class is.

    The preset decides inputs, widths, dropout and how the method is trained; an option that is given wins over it.

    Args:
        in_channels: feature columns.
        base_classes: the classes that are learned from.
        preset: "shared" has the inputs, widths and training settings that the other methods get; "paper" has the
            hyperparameters that the paper prints.
        node_adaptation: False takes the supports' mean on the original graph as prototype (the paper's ``\\N``).
        class_adaptation: False uses the same weights for all classes (``\\C``).
        task_adaptation: False scores by minus the squared Euclidean distance, without tau (``\\T``).
        gamma: weight of the loss over the base classes, ``L_N + gamma * L_CE``.
        normalize: bring each first-step embedding to mean 0 and variance 1; the paper does not.
        features: "reduced" or "raw" inputs (shared: reduced).
        rank: principal directions of reduced inputs.
        hidden_channels, out_channels: widths of the hidden layer of ``GNN_phi`` and of its output, ``d_h``.
        second_channels: width of ``GNN_theta``, ``d_s``.
        adapter_channels: width of the hidden layer of ``MLP_alpha`` and ``MLP_beta``.
        dropout: between the two layers of ``GNN_phi``.
    """

    training_settings = Training(learning_rate=0.001, weight_decay=5e-4, tasks_per_step=8, steps=500)
    # One task a step; the best of 20 checks is kept, so patience never ends a training early.
    paper_settings: ClassVar[Training] = Training(
        learning_rate=0.05, weight_decay=1e-4, steps=500, check_every=25, patience=20, fused=True
    )
    rows_at_a_time: ClassVar[int] = 1 << 14  # of subgraphs: what fits into a cache is scored five times as fast

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        preset: Literal["shared", "paper"] = "shared",
        node_adaptation: bool = True,
        class_adaptation: bool = True,
        task_adaptation: bool = True,
        gamma: float = 1.0,
        normalize: bool = False,
        features: Features | None = None,
        rank: int = 256,
        hidden_channels: int | None = None,
        out_channels: int | None = None,
        second_channels: int | None = None,
        adapter_channels: int = 16,
        dropout: float | None = None,
    ) -> None:
        super().__init__()
        self.preset = one_of("preset", preset, PRESETS)
        given = (features, hidden_channels, out_channels, second_channels, dropout)
        pairs: Any = zip(given, PRESETS[preset], strict=True)
        inputs, hidden, d_h, d_s, rate = (default if value is None else value for value, default in pairs)
        widths = {"rank": rank, "hidden_channels": hidden, "out_channels": d_h, "second_channels": d_s}
        for name, width in widths.items():
            if width < 1:
                raise InputError(f"{name} is {width}; it is at least 1")
        if preset == "paper":
            self.training_settings = self.paper_settings
        self.inputs = Inputs(in_channels, inputs, rank)
        self.phi, self.gnn = self.networks((self.inputs.width, hidden, d_h), d_s, rate)
        d_theta = len(self.gnn.theta)
        self.alpha = mlp(d_h, adapter_channels, d_theta) if class_adaptation else None
        self.beta = mlp(d_h, adapter_channels, d_theta) if class_adaptation else None
        self.classifier = BaseClassifier(d_h, base_classes)
        self.node_adaptation, self.task_adaptation = node_adaptation, task_adaptation
        self.on_graph = not node_adaptation  # whether supports are also embedded in the original graph
        self.gamma, self.normalize = gamma, normalize

    @staticmethod
    def networks(widths: tuple[int, int, int], d_s: int, dropout: float) -> tuple[GraphEncoder, LocalGNN]:
        """``GNN_phi`` and ``GNN_theta``: two GIN layers each."""
        return GIN(*widths, dropout=dropout), LocalGNN(widths[-1], d_s, d_s)

    def prepare(self, graph: Graph) -> None:
        self.inputs.fit(graph)

    def first_step(self, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """First-step embeddings of ``nodes [P]``, by default of all: [P, d_h]."""
        # H = GNN_phi(V, E, X)
        h: Tensor = self.phi(self.inputs, graph, nodes)
        return F.layer_norm(h, h.shape[1:]) if self.normalize else h

    def embed(self, graph: Graph) -> EmbeddedGraph:
        h = self.first_step(graph)
        return EmbeddedGraph(h, h + operators.adjacency(graph) @ h)

    def embed_tasks(self, graph: Graph, state: EmbeddedGraph | None, tasks: Tasks) -> EmbeddedTasks:
        """Prototypes, supports and queries; without a state, the nodes that the tasks read are embedded here."""
        support, query = tasks.support.flatten(), tasks.query.flatten()
        task, n_classes = torch.arange(len(tasks), device=graph.device), len(tasks) * tasks.n_way
        classes = (task[:, None] * tasks.n_way + tasks.support_y).flatten()
        its_task = n_classes + task.repeat_interleave(tasks.query.shape[1])
        # The class-ego graphs G_i, and around each query all that two layers read of its 2-hop subgraph.
        in_ego, virtual = (len(support), n_classes) if self.node_adaptation else (0, 0)
        on_graph = len(support) if self.on_graph else 0
        ego, ego_rows = class_ego_graphs(graph, support[:in_ego], classes[:in_ego], virtual)
        centres, group = torch.cat([support[:on_graph], query]), torch.cat([classes[:on_graph], its_task])
        around, rows = neighbourhoods(graph, centres, group)
        nodes = torch.cat([support, query, ego.node])
        if state is None:
            h, sums = embed_around(graph, self.first_step, nodes, around)
        else:
            h, sums = state.h.index_select(0, nodes), state.sums.index_select(0, around)
        h_s, h_q, h_ego = h.split([len(support), len(query), len(ego.node)])
        # h_ci = MEAN(h_v | v in S_i)
        h_support = h_s.unflatten(0, tasks.support.shape)
        h_c = class_means(h_support, tasks.support_y, tasks.n_way).flatten(0, 1)
        # theta_i for every class; alpha_q, beta_q and theta_q in the same way from all supports of the task
        theta = self.adapted(torch.cat([h_c, h_support.mean(1)]))
        # s_i = Centroid(GNN_theta_i(G_i)), q_i = Centroid(GNN_theta_q(2-hop subgraph of the query))
        own = torch.cat([h_s[:in_ego], h_c[:virtual], h_s[:on_graph], h_q])
        sums = torch.cat([ego.closed_sums(torch.cat([h_ego, h_c[:virtual]])), sums])
        outputs = self.gnn(ego_rows + rows, own, sums, theta).split([in_ego, virtual, on_graph, len(query)])
        s, s_k = self.prototypes(outputs, tasks)
        return EmbeddedTasks(h_q.unflatten(0, tasks.query.shape), s, s_k, outputs[3].unflatten(0, tasks.query.shape))

    def adapted(self, context: Tensor) -> Tensor:
        """Weights of ``GNN_theta`` for means of supports ``context [G, d_h]``: [G, d_theta]."""
        theta = self.gnn.theta
        if self.alpha is None or self.beta is None:
            return theta.expand(len(context), -1)
        # alpha_i = MLP_alpha(MEAN(h_v | v in S_i)), beta_i = MLP_beta(MEAN(h_v | v in S_i))
        alpha, beta = self.alpha(context), self.beta(context)
        # theta_i = (alpha_i + 1) o theta + beta_i
        adapted: Tensor = (1 + alpha) * theta + beta
        return adapted

    def prototypes(self, outputs: Sequence[Tensor], tasks: Tasks) -> tuple[Tensor, Tensor]:
        """``s [T, N, d_s]`` and ``s_k [T, S, d_s]`` from outputs at supports and class nodes of the class-ego graphs,
        and at supports in the original graph."""
        if self.node_adaptation:
            return outputs[1].view(len(tasks), tasks.n_way, -1), outputs[0].unflatten(0, tasks.support.shape)
        s_k = outputs[2].unflatten(0, tasks.support.shape)
        return class_means(s_k, tasks.support_y, tasks.n_way), s_k

    def match(self, embedded: EmbeddedTasks, tasks: Tasks) -> Tensor:
        """The scores [T, M, N]; their softmax is ``p(s_j | q_i)``."""
        if not self.task_adaptation:
            return euclidean_scores(embedded.q, embedded.s)
        # tau_i = N sum_k |s_i^k - s_i| / sum_j sum_k |s_j^k - s_j|
        spread = tau(embedded.s, embedded.s_k, tasks.support_y)[:, None]
        # q_i . s_j / tau_j, both of length one
        return cosine_scores(embedded.q, embedded.s) / spread

    def score(self, graph: Graph, state: EmbeddedGraph, tasks: Tasks) -> Tensor:
        reach = 1 + degrees(graph, torch.cat([tasks.support, tasks.query], 1))
        size = max(1, self.rows_at_a_time // int(reach.sum(1).max()))
        parts = (tasks[at : at + size] for at in range(0, len(tasks), size))
        return torch.cat([self.match(self.embed_tasks(graph, state, part), part) for part in parts])

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        embedded = self.embed_tasks(graph, None, tasks)
        # L_N = -sum_i log p(s'_i | q_i), a mean here
        l_n = cross_entropy(self.match(embedded, tasks), tasks)
        # p_i = Softmax(MLP(h_i)), L_CE = -sum_i sum_j y_ij log p_ij over the base classes, a mean here
        l_ce = self.classifier.loss(embedded.h_q.flatten(0, 1), graph.y[tasks.query.flatten()])
        # L = L_N + gamma L_CE
        return l_n + self.gamma * l_ce


class GIN(GraphEncoder):
    """``GNN_phi``: two layers ``h' = W (h + sum of the neighbours' h) + b``, ReLU and dropout between them.

    Xu, Hu, Leskovec, Jegelka: How Powerful are Graph Neural Networks? ICLR 2019.
    """

    def forward(self, inputs: Inputs, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """Embed ``nodes [P]``, by default all of the graph: [P, out_channels]."""
        closed, dropout = operators.closed_adjacency(graph), self.dropout if self.training else 0.0
        if inputs.reduced is None:
            # Raw inputs are projected before they are summed: (A X) W = A (X W). Dropout before ReLU is in place.
            h = (closed @ operators.project(graph, self.weight)).add_(self.bias)
            h = closed @ torch.relu_(drop(h, dropout))
            h = h if nodes is None else h.index_select(0, nodes)
        else:
            x = inputs.unit(graph)
            sums = graph.cache.get(SUMMED, lambda: closed @ x, source=x).to(self.weight.dtype)
            near, rows = rows_of(closed, nodes)
            h = rows @ torch.relu_(drop(torch.addmm(self.bias, sums[near], self.weight), dropout))
        out: Tensor = self.outer(h)
        return out


def mlp(in_channels: int, hidden_channels: int, out_channels: int) -> nn.Sequential:
    """``MLP_alpha`` or ``MLP_beta``: one hidden layer."""
    last = xavier(nn.Linear(hidden_channels, out_channels))
    return nn.Sequential(xavier(nn.Linear(in_channels, hidden_channels)), nn.ReLU(), last)


def tau(s: Tensor, s_k: Tensor, y: Tensor) -> Tensor:
    """How scattered each class is around its prototype, relative to the mean over classes: [T, N].

    Means over the supports instead of sums: the same at equal shots, and at unequal shots still a spread, where
    a sum would count shots. Distances within rounding are zero; if all spreads are, every tau is 1. No tau is below
    0.01: a class whose supports all coincide with its prototype would divide by zero.
    """
    own = s.gather(1, y[..., None].expand_as(s_k))
    distance = torch.linalg.vector_norm(s_k - own, dim=-1, keepdim=True)
    rounding = 100 * torch.finfo(own.dtype).eps * torch.linalg.vector_norm(own, dim=-1, keepdim=True)
    distance = torch.where(distance > rounding, distance, 0.0)
    spread = class_means(distance, y, s.shape[1]).squeeze(-1)
    mean = spread.mean(1, keepdim=True)
    return torch.where(mean > 0, spread / torch.where(mean > 0, mean, 1.0), 1.0).clamp(min=0.01)
