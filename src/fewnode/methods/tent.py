"""TENT by the equations of the paper: adapts to node, class and task. Presets: tuned (default), paper.

Wang, Ding, Zhang, Chen, Li: Task-Adaptive Few-shot Node Classification. KDD 2022.
"""

from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..files import Positive
from ..graph import Graph, operators
from ..nn.ego import GIN, LocalGNN, class_ego_graphs, degrees, embed_around, linear_start, neighbourhoods
from ..nn.graph_layers import GraphEncoder, Inputs, xavier
from ..nn.heads import BaseClassifier, class_means, cosine_scores, euclidean_scores
from ..tasks import Tasks
from .base import Method, Training, cross_entropy

EmbeddedGraph = tuple[Tensor, Tensor]  # first-step embeddings h [N, d_h] and their closed sums, h + A h


class EmbeddedTasks(NamedTuple):
    """What the scores and the loss of tasks are made of.

    ``h_q [T, M, d_h]``: first-step embeddings of the queries; ``s [T, N, d_s]``: prototypes; ``s_k [T, S, d_s]``:
    supports as the network of their class embeds them; ``q [T, M, d_s]``: queries; ``on_graph [T * S, d_s]``: supports
    in the original graph, empty if nothing needs them.
    """

    h_q: Tensor
    s: Tensor
    s_k: Tensor
    q: Tensor
    on_graph: Tensor


class TENT(Method):
    """A class is a virtual node joined to its supports; the network that embeds it is adapted to the class, the one
    that embeds the queries to the task, and the loss divides scores by how scattered each class is.

    Both presets follow the equations of the paper and learn what the paper learns. The defaults below are those of
    "tuned".

    Args:
        in_channels: feature columns.
        base_classes: the classes that are learned from.
        preset: "tuned" has settings that were chosen on validation classes; "paper" has the hyperparameters that the
            paper prints. ``fit`` turns it into options; an option that is given wins over it.
        node_adaptation: False takes the supports' mean on the original graph as prototype (the paper's ``\\N``).
        class_adaptation: False uses the same weights for all classes (``\\C``).
        task_adaptation: False scores by minus the squared Euclidean distance, without tau (``\\T``).
        gamma: weight of the loss over the base classes, ``L_N + gamma * L_CE``.
        normalize: bring each first-step embedding to mean 0 and variance 1; the paper does not.
        tau_at_test: predict by ``q_i . s_j / tau_j``, as the training loss does, instead of the printed
            ``q_i . s_j / tau_i``, in which tau does not depend on the class and changes no prediction.
        features: "reduced", "centred" (reduced, minus their mean) or "raw" inputs.
        aggregation: "sum" over a node and its neighbours makes both networks GINs; or "mean".
        start: of the weights: "xavier"; or "linear", which is orthogonal, with both networks linear and the adapter
            without effect before the first step.
        dropout: between the two layers of ``GNN_phi``.
        rank: principal directions of reduced inputs.
        hidden_channels: width of the hidden layers of ``GNN_phi`` and ``GNN_theta``.
        out_channels, second_channels: widths of their outputs, ``d_h`` and ``d_s``.
    """

    training_settings = Training(learning_rate=1e-4, tasks_per_step=4, steps=200, patience=4)
    # Of the paper, one task a step; the best of 20 checks is kept, so patience never ends a training early.
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "tuned": {},
        "paper": {"features": "raw", "aggregation": "sum", "start": "xavier", "dropout": 0.2, "rank": 256}
        | {"gamma": 1.0, "tau_at_test": True}
        | {"hidden_channels": 16, "out_channels": 16, "second_channels": 16}
        | {"learning_rate": 0.05, "weight_decay": 1e-4, "tasks_per_step": 1}
        | {"steps": 500, "check_every": 25, "patience": 20, "fused": True},
    }
    rows_at_a_time: ClassVar[int] = 1 << 14  # of subgraphs: what fits into a cache is scored five times as fast

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        preset: Literal["tuned", "paper"] = "tuned",
        node_adaptation: bool = True,
        class_adaptation: bool = True,
        task_adaptation: bool = True,
        gamma: float = 100.0,
        normalize: bool = False,
        tau_at_test: bool = False,
        features: Literal["reduced", "centred", "raw"] = "centred",
        aggregation: Literal["sum", "mean"] = "mean",
        start: Literal["xavier", "linear"] = "linear",
        dropout: float = 0.0,
        rank: Positive = 128,
        hidden_channels: Positive = 256,
        out_channels: Positive = 128,
        second_channels: Positive = 128,
    ) -> None:
        super().__init__()
        mean, linear = aggregation == "mean", start == "linear"
        self.inputs = None if features == "raw" else Inputs(in_channels, rank, features == "centred")
        widths = in_channels if self.inputs is None else self.inputs.width, hidden_channels, out_channels
        self.phi, self.gnn = self.networks(widths, second_channels, dropout, mean, linear)
        sizes = out_channels, len(self.gnn.theta)
        self.alpha, self.beta = (mlp(*sizes, linear) if class_adaptation else None for _ in range(2))
        self.classifier = BaseClassifier(out_channels, base_classes)
        self.node_adaptation, self.task_adaptation = node_adaptation, task_adaptation
        self.on_graph = not node_adaptation  # whether supports are also embedded in the original graph
        self.gamma, self.normalize, self.tau_at_test = gamma, normalize, tau_at_test

    def networks(
        self, widths: tuple[int, int, int], d_s: int, dropout: float, mean: bool, linear: bool
    ) -> tuple[GraphEncoder, LocalGNN]:
        """``GNN_phi``, of the ``widths`` of its inputs, of its hidden layer and of H; and ``GNN_theta``."""
        _, hidden, d_h = widths
        phi, gnn = GIN(*widths, dropout=dropout, mean=mean), LocalGNN(d_h, hidden, d_s, mean)
        if linear:
            (first, _), (second, _) = gnn.unpack(gnn.theta[None])
            linear_start(phi.weight, phi.outer.weight.t())
            linear_start(first[0], second[0])
        return phi, gnn

    def first_step(self, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """First-step embeddings of ``nodes [P]``, by default of all: [P, d_h]."""
        # H = GNN_phi(V, E, X)
        h: Tensor = self.phi(self.inputs, graph, nodes)
        return F.layer_norm(h, h.shape[1:]) if self.normalize else h

    def embed(self, graph: Graph) -> EmbeddedGraph:
        h = self.first_step(graph)
        return h, operators.closed_adjacency(graph) @ h

    def embed_tasks(self, graph: Graph, state: EmbeddedGraph | None, tasks: Tasks) -> EmbeddedTasks:
        """Prototypes, supports and queries; without a state, the nodes that the tasks read are embedded here."""
        support, query, n_classes = tasks.support.flatten(), tasks.query.flatten(), len(tasks) * tasks.n_way
        task = torch.arange(len(tasks), device=graph.device)[:, None]
        classes = (task * tasks.n_way + tasks.support_y).flatten()
        whole_task = (n_classes + task).expand_as(tasks.query).flatten()
        # G_i = (V_i, E_i, X_i), V_i = {c_i} + S_i + N_i
        in_ego, virtual = (len(support), n_classes) if self.node_adaptation else (0, 0)
        ego, ego_rows = class_ego_graphs(graph, support[:in_ego], classes[:in_ego], virtual)
        # What two layers read of the 2-hop subgraph of each query; and around the supports, where that is asked for
        on_graph = len(support) if self.on_graph else 0
        centres, group = torch.cat([support[:on_graph], query]), torch.cat([classes[:on_graph], whole_task])
        around, rows = neighbourhoods(graph, centres, group)
        nodes = torch.cat([support, query, ego.node])
        if state is None:
            h, sums = embed_around(graph, self.first_step, nodes, around)
        else:
            h, sums = state[0].index_select(0, nodes), state[1].index_select(0, around)
        h_s, h_q, h_ego = h.split([len(support), len(query), len(ego.node)])
        # h_ci = MEAN(h_v | v in S_i)
        h_support = h_s.unflatten(0, tasks.support.shape)
        h_c = class_means(h_support, tasks.support_y, tasks.n_way).flatten(0, 1)
        # theta_i from MEAN(h_v | v in S_i), theta_q from MEAN(h_v | v in S)
        theta = self.adapted(torch.cat([h_c, h_support.mean(1)]))
        # s_i = Centroid(GNN_theta_i(V_i, E_i, X_i)), s_i^k at the supports; q_i = Centroid(GNN_theta_q(2-hop subgraph))
        own = torch.cat([h_s[:in_ego], h_c[:virtual], h_s[:on_graph], h_q])
        sums = torch.cat([ego.closed_sums(torch.cat([h_ego, h_c[:virtual]])), sums])
        outputs = self.gnn(ego_rows + rows, own, sums, theta)
        s_k, s, plain, q = outputs.split([in_ego, virtual, on_graph, len(query)])
        if self.node_adaptation:
            s_k, s = s_k.unflatten(0, tasks.support.shape), s.unflatten(0, (len(tasks), tasks.n_way))
        else:
            s_k = plain.unflatten(0, tasks.support.shape)
            s = class_means(s_k, tasks.support_y, tasks.n_way)
        shape = tasks.query.shape
        return EmbeddedTasks(h_q.unflatten(0, shape), s, s_k, q.unflatten(0, shape), plain)

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

    def match(self, embedded: EmbeddedTasks, tasks: Tasks, divide: bool = True) -> Tensor:
        """The scores [T, M, N]; their softmax is ``p(s_j | q_i)`` if they are divided by tau."""
        if not self.task_adaptation:
            return euclidean_scores(embedded.q, embedded.s)
        # q_i . s_j / tau_j, both of length one
        spread = tau(embedded.s, embedded.s_k, tasks.support_y)[:, None] if divide else 1
        return cosine_scores(embedded.q, embedded.s) / spread

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        embedded = self.embed_tasks(graph, None, tasks)
        # L_N = -sum_i log p(s'_i | q_i), a mean here
        l_n = cross_entropy(self.match(embedded, tasks), tasks)
        # p_i = Softmax(MLP(h_i)), L_CE = -sum_i sum_j y_ij log p_ij over the base classes, a mean here
        l_ce = self.classifier.loss(embedded.h_q.flatten(0, 1), graph.y[tasks.query.flatten()])
        # L = L_N + gamma L_CE
        return l_n + self.gamma * l_ce

    def score(self, graph: Graph, state: EmbeddedGraph, tasks: Tasks) -> Tensor:
        reach = 1 + degrees(graph, torch.cat([tasks.support, tasks.query], 1))
        size = max(1, self.rows_at_a_time // int(reach.sum(1).max()))
        parts = (tasks[at : at + size] for at in range(0, len(tasks), size))
        # y_i = argmax_j q_i . s_j / tau_i: as printed, tau is that of the query i and the same for every class j
        return torch.cat([self.match(self.embed_tasks(graph, state, part), part, self.tau_at_test) for part in parts])


def mlp(in_channels: int, out_channels: int, zero: bool) -> nn.Sequential:
    """``MLP_alpha`` or ``MLP_beta``: one hidden layer of 16 units; the weights of the last may start at zero."""
    last = xavier(nn.Linear(16, out_channels))
    if zero:
        nn.init.zeros_(last.weight)
    return nn.Sequential(xavier(nn.Linear(in_channels, 16)), nn.ReLU(), last)


def tau(s: Tensor, s_k: Tensor, y: Tensor) -> Tensor:
    """``tau_i = N sum_k |s_i^k - s_i| / sum_j sum_k |s_j^k - s_j|``: how scattered each class is around its prototype,
    relative to the mean over classes: [T, N].

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
