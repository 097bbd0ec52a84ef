"""TENT by the equations of the paper; see ``tent.py``."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph
from ..nn.adapters import Adapter
from ..nn.ego import cut
from ..nn.encoders import GCN, GIN, xavier
from ..nn.heads import class_means, cosine_scores, euclidean_scores
from ..nn.local import LocalGNN
from ..sparse import adjacency
from ..tasks import Tasks
from .method import Method, cross_entropy

ROWS = 1 << 18  # rows of cut-out graphs held at a time; tasks are scored in as few batches as that allows
SMALLEST_TAU = 0.01  # a class whose supports all coincide with its prototype would divide by zero


class State(NamedTuple):
    """What one pass over the graph leaves: ``h [N, d]`` and, where many tasks share it, ``whole = h + A h``."""

    h: Tensor
    whole: Tensor | None


class PaperTENT(Method):
    """The paper's equations, all classes and queries of all tasks at once; options as in ``TENT``."""

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        hidden_channels: int,
        out_channels: int,
        backbone: str,
        mlp_layers: int,
        normalize: bool,
        ego_hops: int,
        query_hops: int,
        node_adaptation: bool,
        class_adaptation: bool,
        task_adaptation: bool,
        gamma: float,
        dropout: float,
        adapter_start: float,
    ) -> None:
        super().__init__()
        widths = (in_channels, hidden_channels, hidden_channels)
        self.phi = (
            GCN(*widths, dropout=dropout) if backbone == "gcn" else GIN(*widths, mlp_layers=mlp_layers, dropout=dropout)
        )
        self.gnn = LocalGNN(hidden_channels, out_channels, backbone=backbone, mlp_layers=mlp_layers)
        size = len(self.gnn.theta)
        self.adapter = Adapter(hidden_channels, size, start=adapter_start) if class_adaptation else None
        self.classifier = BaseClassifier(hidden_channels, base_classes)
        self.normalize = normalize
        self.node_adaptation, self.task_adaptation = node_adaptation, task_adaptation
        self.ego_hops, self.query_hops, self.gamma = ego_hops, query_hops, gamma

    def embed(self, graph: Graph) -> State:
        h = self.first_step(graph)
        return State(h, h + adjacency(graph) @ h)

    def first_step(self, graph: Graph) -> Tensor:
        """The first-step embedding ``H [N, d]``."""
        h = self.phi(graph)
        return F.layer_norm(h, h.shape[1:]) if self.normalize else h

    def score(self, graph: Graph, state: State, tasks: Tasks) -> Tensor:
        reach = (graph.degree[tasks.support] + 1).sum(1) + (graph.degree[tasks.query] + 1).sum(1)
        size = max(1, ROWS // int(reach.max()))
        parts = [self._match(graph, state, tasks[at : at + size]) for at in range(0, len(tasks), size)]
        return torch.cat(parts)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        # One task reads the neighbours of few nodes: gathering those beats a product over all edges.
        state = State(self.first_step(graph), None) if len(tasks) == 1 else self.embed(graph)
        matching = cross_entropy(self.score(graph, state, tasks), tasks)
        return matching + self.gamma * self.classifier.loss(graph, state.h, tasks.query.flatten())

    def _match(self, graph: Graph, state: State, tasks: Tasks) -> Tensor:
        prototypes, supports = self.prototypes(graph, state, tasks)
        queries = self.queries(graph, state, tasks)
        if not self.task_adaptation:
            return euclidean_scores(queries, prototypes)
        return cosine_scores(queries, prototypes) / temperatures(prototypes, supports, tasks)[:, None]

    def adapted(self, context: Tensor) -> Tensor:
        """Weights of the second network for each context [G, d]: [G, size]."""
        theta = self.gnn.theta
        return theta.expand(len(context), -1) if self.adapter is None else self.adapter(context, theta)

    def prototypes(self, graph: Graph, state: State, tasks: Tasks) -> tuple[Tensor, Tensor]:
        """The class prototypes [T, N, d] and the supports as their class's network sees them [T, S, d]."""
        classes = tasks.n_tasks * tasks.n_way
        first = torch.arange(tasks.n_tasks, device=graph.device)[:, None] * tasks.n_way
        group = (first + tasks.support_y).flatten()
        virtual = class_means(state.h[tasks.support], tasks.support_y, tasks.n_way).flatten(0, 1)
        bridges = classes if self.node_adaptation else 0
        induced = self.node_adaptation and self.ego_hops == 1
        ego = cut(graph, tasks.support.flatten(), group, induced=induced, bridges=bridges)
        out = self.gnn(graph, ego, *state, self.adapted(virtual), virtual=virtual if bridges else None)
        supports = out[: len(group)].unflatten(0, tasks.support.shape)
        if not bridges:
            return class_means(supports, tasks.support_y, tasks.n_way), supports
        return out[len(group) :].unflatten(0, (tasks.n_tasks, tasks.n_way)), supports

    def queries(self, graph: Graph, state: State, tasks: Tasks) -> Tensor:
        """The queries as the network adapted to all supports of their task sees them, [T, M, d]."""
        nodes = tasks.query.flatten()
        task = torch.arange(tasks.n_tasks, device=graph.device).repeat_interleave(tasks.query.shape[1])
        theta = self.adapted(state.h[tasks.support].mean(1))
        if self.query_hops > 1:  # two hops hold all that two layers reach: the cut-out graph is as good as the whole
            around = cut(graph, nodes, task, induced=False)
            out = self.gnn(graph, around, *state, theta)
        else:
            around = cut(graph, nodes, torch.arange(len(nodes), device=graph.device), induced=True)
            out = self.gnn(graph, around, *state, theta, weights_of=task)
        return out.unflatten(0, tasks.query.shape)


def temperatures(prototypes: Tensor, supports: Tensor, tasks: Tasks) -> Tensor:
    """``tau [T, N]``: how far a class's supports lie from its prototype, relative to the mean over classes.

    Means over the supports instead of sums: the same at equal shots, and at unequal shots still a spread, where
    a sum would count shots. Distances within rounding are zero; if all spreads are, every tau is 1.
    """
    own = prototypes.gather(1, tasks.support_y[..., None].expand_as(supports))
    distance = torch.linalg.vector_norm(supports - own, dim=-1, keepdim=True)
    rounding = 100 * torch.finfo(own.dtype).eps * torch.linalg.vector_norm(own, dim=-1, keepdim=True)
    distance = torch.where(distance > rounding, distance, 0.0)
    spread = class_means(distance, tasks.support_y, tasks.n_way).squeeze(-1)
    mean = spread.mean(1, keepdim=True)
    tau = torch.where(mean > 0, spread / torch.where(mean > 0, mean, 1.0), 1.0)
    return tau.clamp(min=SMALLEST_TAU)


class BaseClassifier(nn.Module):
    """A linear classifier over the base classes; its loss keeps the first embedding true to the whole graph."""

    base: Tensor

    def __init__(self, channels: int, base_classes: tuple[int, ...]) -> None:
        super().__init__()
        self.linear = xavier(nn.Linear(channels, len(base_classes)))
        self.register_buffer("base", torch.tensor(sorted(base_classes)), persistent=False)

    def loss(self, graph: Graph, h: Tensor, nodes: Tensor) -> Tensor:
        """Mean cross-entropy at those ``nodes [B]`` whose label is one of the base classes."""
        y = graph.y[nodes]
        column = torch.searchsorted(self.base, y).clamp(max=len(self.base) - 1)
        target = torch.where(self.base[column] == y, column, -1)
        total = F.cross_entropy(self.linear(h[nodes]), target, ignore_index=-1, reduction="sum")
        return total / (target >= 0).sum().clamp(min=1)
