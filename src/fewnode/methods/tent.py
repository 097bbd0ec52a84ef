"""TENT: adapts to the node, to the class and to the task, by the equations of the paper.

Wang, Ding, Zhang, Chen, Li: Task-Adaptive Few-shot Node Classification. KDD 2022.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError, one_of
from ..graph import Graph
from ..graph.operators import adjacency
from ..nn.adapters import Adapter
from ..nn.ego import Cut, cut, degrees
from ..nn.encoders import GCNEncoder, GINEncoder
from ..nn.heads import BaseClassifier, class_means, cosine_scores, euclidean_scores
from ..nn.local import LocalGNN, Part
from ..tasks import Tasks
from .base import Method, Training, cross_entropy

ROWS = 1 << 18  # rows of cut-out graphs held at a time; tasks are scored in as few batches as that allows
SMALLEST_TAU = 0.01  # a class whose supports all coincide with its prototype would divide by zero


class EmbeddedGraph(NamedTuple):
    """What one pass over the graph leaves: ``h [N, d]`` and ``whole = h + A h``; or, for a single task, ``h``
    before it is normalised, and None."""

    h: Tensor
    whole: Tensor | None


class Embedded(NamedTuple):
    """Tasks in both spaces: ``h`` at the queries [T, M, d_h]; then, by the second network, prototypes [T, N, d_s],
    supports as their class's weights see them [T, S, d_s], and queries [T, M, d_s]."""

    first: Tensor
    prototypes: Tensor
    supports: Tensor
    queries: Tensor


class TENT(Method):
    """A class is a virtual node joined to its supports; the network that embeds it is adapted to the class, the one
    that embeds the queries to the task, and scores are divided by how scattered each class is.

    Three departures from the printed settings, which stay near chance (docs/tent.md has the evidence): the first-step
    embedding is normalised node by node, the learning rate is 0.005 and gradients are clipped at norm 1.
    As printed: ``normalize=False, learning_rate=0.05, clip=None``.

    Args:
        in_channels: feature columns.
        base_classes: the classes that are learned from.
        node_adaptation: False takes the supports' mean on the original graph as prototype.
        class_adaptation: False uses the same weights for all classes.
        task_adaptation: False scores by minus the squared Euclidean distance.
        gamma: weight of the loss over the base classes, ``L_N + gamma * L_CE``.
        hidden_channels, out_channels: ``d_h`` of the first-step embedding, ``d_s`` of prototypes and queries.
        backbone: "gin", or "gcn" for both networks.
        mlp_layers: linear maps in each GIN layer; the paper does not say, one trains best.
        normalize: bring each node's first-step embedding to mean 0 and variance 1.
        ego_hops, query_hops: how far class-ego graphs and query subgraphs reach, 1 or 2; more changes nothing.
        dropout: between the two layers of the first network.
        adapter_start: size of the adapter's last layers at the start, relative to Glorot's.
    """

    # The paper: one task per step; the best of 20 checks is kept, as printed, so patience never ends a training early.
    training_settings = Training(
        learning_rate=0.005, weight_decay=1e-4, steps=500, check_every=25, patience=20, clip=1.0
    )

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        node_adaptation: bool = True,
        class_adaptation: bool = True,
        task_adaptation: bool = True,
        gamma: float = 1.0,
        hidden_channels: int = 16,
        out_channels: int = 16,
        backbone: Literal["gin", "gcn"] = "gin",
        mlp_layers: int = 1,
        normalize: bool = True,
        ego_hops: int = 1,
        query_hops: int = 2,
        dropout: float = 0.2,
        adapter_start: float = 1.0,
    ) -> None:
        super().__init__()
        one_of("backbone", backbone, ("gin", "gcn"))
        for name in ("hidden_channels", "out_channels", "mlp_layers", "ego_hops", "query_hops"):
            if locals()[name] < 1:
                raise InputError(f"{name} is {locals()[name]}; it must be at least 1")
        widths = (in_channels, hidden_channels, hidden_channels)
        self.phi = (
            GCNEncoder(*widths, dropout=dropout)
            if backbone == "gcn"
            else GINEncoder(*widths, mlp_layers=mlp_layers, dropout=dropout)
        )
        self.gnn = LocalGNN(hidden_channels, out_channels, backbone=backbone, mlp_layers=mlp_layers)
        size = len(self.gnn.theta)
        self.adapter = Adapter(hidden_channels, size, start=adapter_start) if class_adaptation else None
        self.classifier = BaseClassifier(hidden_channels, base_classes)
        self.normalize = normalize
        self.node_adaptation, self.task_adaptation = node_adaptation, task_adaptation
        self.ego_hops, self.query_hops, self.gamma = ego_hops, query_hops, gamma

    def embed(self, graph: Graph) -> EmbeddedGraph:
        h = self._normalized(self.phi(graph))
        return EmbeddedGraph(h, h + adjacency(graph) @ h)

    def _normalized(self, h: Tensor) -> Tensor:
        return F.layer_norm(h, h.shape[1:]) if self.normalize else h

    def _read(self, state: EmbeddedGraph, wanted: list[tuple[Tensor, bool]]) -> list[Tensor]:
        """Rows of ``h`` at some nodes, or of ``whole`` where the flag says so. Without ``whole`` all are read at once,
        because in the backward pass every reading costs a pass over all nodes, and only then normalised."""
        if state.whole is None:
            nodes = [part for part, _ in wanted]
            rows = self._normalized(state.h.index_select(0, torch.cat(nodes)))
            return list(rows.split([len(part) for part in nodes]))
        return [(state.whole if summed else state.h).index_select(0, part) for part, summed in wanted]

    def score(self, graph: Graph, state: EmbeddedGraph, tasks: Tasks) -> Tensor:
        reach = 1 + degrees(graph, torch.cat([tasks.support, tasks.query], 1))
        size = max(1, ROWS // int(reach.sum(1).max()))
        parts = (tasks[at : at + size] for at in range(0, len(tasks), size))
        return torch.cat([self.match(self.embed_tasks(graph, state, part), part) for part in parts])

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        # One task reads few nodes: gathering and normalising those beats a pass over all nodes and edges.
        state = EmbeddedGraph(self.phi(graph), None) if len(tasks) == 1 else self.embed(graph)
        embedded = self.embed_tasks(graph, state, tasks)
        matching = cross_entropy(self.match(embedded, tasks), tasks)
        globally = self.classifier.loss(embedded.first.flatten(0, 1), graph.y[tasks.query.flatten()])
        return matching + self.gamma * globally

    def match(self, embedded: Embedded, tasks: Tasks) -> Tensor:
        """The scores [T, M, N]."""
        _, prototypes, supports, queries = embedded
        if not self.task_adaptation:
            return euclidean_scores(queries, prototypes)
        return cosine_scores(queries, prototypes) / temperatures(prototypes, supports, tasks)[:, None]

    def adapted(self, context: Tensor) -> Tensor:
        """Weights of the second network for each context [G, d]: [G, size]."""
        theta = self.gnn.theta
        return theta.expand(len(context), -1) if self.adapter is None else self.adapter(context, theta)

    def embed_tasks(self, graph: Graph, state: EmbeddedGraph, tasks: Tasks) -> Embedded:
        """Cut out the graphs around supports and queries, read what they need, run the second network on them."""
        ego, around, task = self._cuts(graph, tasks, summed=state.whole is not None)
        nodes = [(tasks.support.flatten(), False), (tasks.query.flatten(), False)]
        rows = self._read(state, [*nodes, (ego.reads(), ego.summed), (around.reads(), around.summed)])
        support, query = rows[0].unflatten(0, tasks.support.shape), rows[1].unflatten(0, tasks.query.shape)
        virtual = class_means(support, tasks.support_y, tasks.n_way).flatten(0, 1)
        theta = self.adapted(torch.cat([virtual, support.mean(1)]))  # one row for each class, then for each task
        bridge = (virtual, rows[0]) if ego.bridges else None
        classes = torch.arange(len(virtual), device=graph.device)
        parts = [Part(ego, rows[2], classes, bridge), Part(around, rows[3], len(virtual) + task)]
        near, queries = self.gnn(graph, parts, theta)
        supports, prototypes = near.split([len(ego.centre), ego.bridges])
        supports = supports.unflatten(0, tasks.support.shape)
        if not ego.bridges:
            prototypes = class_means(supports, tasks.support_y, tasks.n_way)
        prototypes = prototypes.reshape(len(tasks), tasks.n_way, -1)
        return Embedded(query, prototypes, supports, queries.unflatten(0, tasks.query.shape))

    def _cuts(self, graph: Graph, tasks: Tasks, summed: bool) -> tuple[Cut, Cut, Tensor]:
        """Class-ego graphs (or supports in the original graph), subgraphs of queries, and the task of each of these."""
        task = torch.arange(len(tasks), device=graph.device)
        classes = (task[:, None] * tasks.n_way + tasks.support_y).flatten()
        bridges = len(tasks) * tasks.n_way if self.node_adaptation else 0
        induced = self.node_adaptation and self.ego_hops == 1
        ego = cut(graph, tasks.support.flatten(), classes, induced=induced, summed=summed, bridges=bridges)
        query, its_task = tasks.query.flatten(), task.repeat_interleave(tasks.query.shape[1])
        if self.query_hops > 1:  # two hops hold all that two layers reach: queries of a task need no graph of their own
            return ego, cut(graph, query, its_task, induced=False, summed=summed), task
        each = torch.arange(len(query), device=graph.device)
        return ego, cut(graph, query, each, induced=True), its_task


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
