"""TENT: adapts to the node, to the class and to the task, by the equations of the paper.

Wang, Ding, Zhang, Chen, Li: Task-Adaptive Few-shot Node Classification. KDD 2022.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError, one_of
from ..graph import Graph, operators
from ..nn.adapters import Adapter
from ..nn.ego import Cut, cut, degrees
from ..nn.encoders import GINEncoder
from ..nn.graph_layers import Features, Inputs
from ..nn.heads import BaseClassifier, class_means, cosine_scores, euclidean_scores, temperatures
from ..nn.local import LocalGNN, Part
from ..nn.reading import EmbeddedGraph, Wanted, reads_most
from ..nn.smoothing import SmoothingEncoder
from ..tasks import Tasks
from .base import Method, Training, cross_entropy

ROWS = 1 << 14  # rows of cut-out graphs held at a time: what fits into a cache is scored five times as fast
PACE = 10.0  # Adam moves a number by the learning rate a step; the few that stand alone have to move faster
FIRST_SCALE = 10.0  # where a learned scale of the scores starts


@dataclass(frozen=True)
class Recipe:
    """The options that a preset decides."""

    features: Features
    backbone: Literal["gcn", "gin"]
    hidden_channels: int
    out_channels: int
    second_channels: int
    dropout: float
    smoothing_start: bool
    radius: float
    normalize: bool
    residual: bool
    adapter_start: float
    learn_mix: bool
    learn_tau: bool
    learn_scale: bool


PRESETS = {
    "full": Recipe("reduced", "gcn", 256, 128, 32, 0.5, True, 3.0, False, True, 0.0, True, True, True),
    "printed": Recipe("raw", "gin", 16, 16, 16, 0.2, False, 0.0, False, False, 1.0, False, False, False),
}


class EmbeddedTasks(NamedTuple):
    """Tasks in both spaces: ``h`` at the queries [T, M, d_h]; then, by the second network, prototypes [T, N, d_s],
    supports as their class's weights see them [T, S, d_s], and queries [T, M, d_s]."""

    first: Tensor
    prototypes: Tensor
    supports: Tensor
    queries: Tensor


class TENT(Method):
    """A class is a virtual node joined to its supports; the network that embeds it is adapted to the class, the one
    that embeds the queries to the task, and scores are divided by how scattered each class is.

    The preset "full" gives the equations what every other method gets (reduced inputs, wide graph convolutions, eight
    tasks a step) and starts them all at no effect: at step 0 this is nearest class mean on smoothed inputs. "printed"
    is the paper's own settings to the letter. An option that is given wins over the preset. Each of the last eight is a
    departure from the paper; docs/tent.md says what it is worth.

    Args:
        in_channels: feature columns.
        base_classes: the classes that are learned from.
        preset: "full" or "printed".
        node_adaptation: False takes the supports' mean on the original graph as prototype.
        class_adaptation: False uses the same weights for all classes.
        task_adaptation: False scores by minus the squared Euclidean distance, without tau and without a scale.
        gamma: weight of the loss over the base classes, ``L_N + gamma * L_CE``.
        rank: principal directions of reduced inputs.
        mlp_layers: linear maps in each GIN layer; the paper does not say.
        ego_hops, query_hops: how far class-ego graphs and query subgraphs reach, 1 or 2; more changes nothing.
        adapter_channels: width of the hidden layer of the adapter's two MLPs.
        features: "reduced" or "raw" inputs (full: reduced).
        backbone: "gcn" or "gin", for both networks (full: gcn).
        hidden_channels, out_channels: widths of the first network's hidden layer and of its output ``d_h``.
        second_channels: width of the second network, ``d_s``; of its hidden layer only, if it is residual.
        dropout: between the two layers of the first network.
        smoothing_start: the first network starts as two propagations of its inputs (GCN only).
        radius: of the sphere the first-step embeddings are put on; 0 leaves them as they come.
        normalize: bring each first-step embedding to mean 0 and variance 1.
        residual: the second network adds to its input, half of it smoothed, and starts by adding nothing.
        adapter_start: size of the adapter's last layers at the start, relative to Glorot's.
        learn_mix: prototypes are the means of the supports' outputs on the original graph, plus a learned part of the
            way to those of the class-ego graphs that starts at 0, instead of 1.
        learn_tau: tau to a learned power that starts at 0, instead of 1.
        learn_scale: scores times a learned number that starts at 10, instead of 1.
    """

    training_settings = Training(learning_rate=0.001, weight_decay=5e-4, tasks_per_step=8, steps=500)
    # One task a step; the best of 20 checks is kept, so patience never ends a training early.
    printed_settings = Training(
        learning_rate=0.05, weight_decay=1e-4, steps=500, check_every=25, patience=20, fused=True
    )

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        preset: Literal["full", "printed"] = "full",
        node_adaptation: bool = True,
        class_adaptation: bool = True,
        task_adaptation: bool = True,
        gamma: float = 1.0,
        rank: int = 256,
        mlp_layers: int = 1,
        ego_hops: int = 1,
        query_hops: int = 2,
        adapter_channels: int = 16,
        features: Features | None = None,
        backbone: Literal["gcn", "gin"] | None = None,
        hidden_channels: int | None = None,
        out_channels: int | None = None,
        second_channels: int | None = None,
        dropout: float | None = None,
        smoothing_start: bool | None = None,
        radius: float | None = None,
        normalize: bool | None = None,
        residual: bool | None = None,
        adapter_start: float | None = None,
        learn_mix: bool | None = None,
        learn_tau: bool | None = None,
        learn_scale: bool | None = None,
    ) -> None:
        given = dict(locals())
        super().__init__()
        recipe = _resolved(preset, given)
        if preset == "printed":
            self.training_settings = self.printed_settings
        d = recipe.out_channels
        self.inputs = Inputs(in_channels, recipe.features, rank)
        self.phi = self._first_network(recipe, mlp_layers)
        self.gnn = LocalGNN(
            d, recipe.second_channels, backbone=recipe.backbone, mlp_layers=mlp_layers, residual=recipe.residual
        )
        size, start = len(self.gnn.theta), recipe.adapter_start
        self.adapter = Adapter(d, adapter_channels, size, start=start) if class_adaptation else None
        self.classifier = BaseClassifier(d, base_classes)
        self.mix = nn.Parameter(torch.zeros(1)) if recipe.learn_mix and node_adaptation else None
        self.power = nn.Parameter(torch.zeros(1)) if recipe.learn_tau and task_adaptation else None
        first = torch.full((1,), math.log(FIRST_SCALE) / PACE)
        self.scale = nn.Parameter(first) if recipe.learn_scale and task_adaptation else None
        self.radius, self.normalize = recipe.radius, recipe.normalize
        self.node_adaptation, self.task_adaptation = node_adaptation, task_adaptation
        self.ego_hops, self.query_hops, self.gamma = ego_hops, query_hops, gamma

    def _first_network(self, recipe: Recipe, mlp_layers: int) -> SmoothingEncoder | GINEncoder:
        widths = self.inputs.width, recipe.hidden_channels, recipe.out_channels
        if recipe.backbone == "gin":
            return GINEncoder(*widths, mlp_layers=mlp_layers, dropout=recipe.dropout)
        return SmoothingEncoder(*widths, dropout=recipe.dropout, smoothing_start=recipe.smoothing_start)

    def prepare(self, graph: Graph) -> None:
        self.inputs.fit(graph)

    def embed(self, graph: Graph) -> EmbeddedGraph:
        h = self._first_step(graph)
        return EmbeddedGraph(h, h + operators.adjacency(graph) @ h)

    def _first_step(self, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """The first-step embedding of ``nodes [P]``, by default of all: [P, d_h]."""
        h: Tensor = self.phi(self.inputs, graph, nodes)
        h = F.layer_norm(h, h.shape[1:]) if self.normalize else h
        # The 1e-4 keeps the gradient finite at a node that says nothing: no feature, no edge.
        return h * (self.radius * (h.square().sum(1, keepdim=True) + 1e-4).rsqrt()) if self.radius else h

    def score(self, graph: Graph, state: EmbeddedGraph, tasks: Tasks) -> Tensor:
        reach = 1 + degrees(graph, torch.cat([tasks.support, tasks.query], 1))
        size = max(1, ROWS // int(reach.sum(1).max()))
        parts = (tasks[at : at + size] for at in range(0, len(tasks), size))
        return torch.cat([self.match(self.embed_tasks(graph, state, part), part) for part in parts])

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        # Tasks that read little of the graph embed what they read, others the whole.
        state = EmbeddedGraph(self._first_step(graph), None) if reads_most(graph, tasks) else None
        embedded = self.embed_tasks(graph, state, tasks)
        matching = cross_entropy(self.match(embedded, tasks), tasks)
        globally = self.classifier.loss(embedded.first.flatten(0, 1), graph.y[tasks.query.flatten()])
        return matching + self.gamma * globally

    def match(self, embedded: EmbeddedTasks, tasks: Tasks) -> Tensor:
        """The scores [T, M, N]."""
        _, prototypes, supports, queries = embedded
        if not self.task_adaptation:
            return euclidean_scores(queries, prototypes)
        tau = temperatures(prototypes, supports, tasks.support_y)[:, None]
        if self.power is not None:
            tau = tau ** (PACE * self.power)
        scores = cosine_scores(queries, prototypes) / tau
        return scores if self.scale is None else (PACE * self.scale).exp() * scores

    def adapted(self, context: Tensor) -> Tensor:
        """Weights of the second network for each context [G, d]: [G, size]."""
        theta = self.gnn.theta
        return theta.expand(len(context), -1) if self.adapter is None else self.adapter(context, theta)

    def embed_tasks(self, graph: Graph, state: EmbeddedGraph | None, tasks: Tasks) -> EmbeddedTasks:
        """Cut out the graphs around supports and queries, read what they need, run the second network on them."""
        supports, around, task = self._cuts(graph, tasks, summed=state is not None)
        cuts = [*supports, around]
        nodes = [(tasks.support.flatten(), False), (tasks.query.flatten(), False)]
        rows = self._read(graph, state, [*nodes, *((one.reads(), one.summed) for one in cuts)])
        support, query = rows[0].unflatten(0, tasks.support.shape), rows[1].unflatten(0, tasks.query.shape)
        virtual = class_means(support, tasks.support_y, tasks.n_way).flatten(0, 1)
        theta = self.adapted(torch.cat([virtual, support.mean(1)]))  # one row for each class, then for each task
        classes = torch.arange(len(virtual), device=graph.device)
        parts = [
            Part(one, values, rows[0], classes, virtual if one.bridges else None)
            for one, values in zip(supports, rows[2:-1], strict=True)
        ]
        *near, queries = self.gnn(graph, [*parts, Part(around, rows[-1], rows[1], len(virtual) + task)], theta)
        return EmbeddedTasks(query, *self._prototypes(near, tasks), queries.unflatten(0, tasks.query.shape))

    def _prototypes(self, near: list[Tensor], tasks: Tasks) -> tuple[Tensor, Tensor]:
        """Prototypes [T, N, d_s] and supports [T, S, d_s] from the outputs at supports and virtual nodes: of the
        class-ego graphs, of the original graph, or of both in this order."""
        shape = tasks.support.shape
        supports, prototypes = near[0].split([shape.numel(), len(near[0]) - shape.numel()])
        supports, plain = supports.unflatten(0, shape), near[-1][: shape.numel()].unflatten(0, shape)
        if not self.node_adaptation:
            return class_means(plain, tasks.support_y, tasks.n_way), supports
        prototypes = prototypes.view(len(tasks), tasks.n_way, -1)
        if self.mix is None:
            return prototypes, supports
        means = class_means(plain, tasks.support_y, tasks.n_way)
        return means + PACE * self.mix * (prototypes - means), supports

    def _read(self, graph: Graph, state: EmbeddedGraph | None, wanted: list[Wanted]) -> list[Tensor]:
        """First-step embeddings or closed sums of them; without a state the nodes that are read are embedded now."""
        if state is not None:
            return state.read(graph, wanted)
        nodes, place = torch.unique(torch.cat([part for part, _ in wanted]), return_inverse=True)
        rows = self._first_step(graph, nodes).index_select(0, place)
        return list(rows.split([len(part) for part, _ in wanted]))

    def _cuts(self, graph: Graph, tasks: Tasks, summed: bool) -> tuple[list[Cut], Cut, Tensor]:
        """Class-ego graphs or supports in the original graph, or both; subgraphs of queries; the task of each of
        these."""
        task = torch.arange(len(tasks), device=graph.device)
        classes = (task[:, None] * tasks.n_way + tasks.support_y).flatten()
        support, supports = tasks.support.flatten(), []
        if self.node_adaptation:
            n_classes, induced = len(tasks) * tasks.n_way, self.ego_hops == 1
            supports.append(cut(graph, support, classes, induced=induced, summed=summed, bridges=n_classes))
        if not self.node_adaptation or self.mix is not None:
            supports.append(cut(graph, support, classes, induced=False, summed=summed))
        query, its_task = tasks.query.flatten(), task.repeat_interleave(tasks.query.shape[1])
        if self.query_hops > 1:  # two hops hold all that two layers reach: queries of a task need no graph of their own
            return supports, cut(graph, query, its_task, induced=False, summed=summed), task
        each = torch.arange(len(query), device=graph.device)
        return supports, cut(graph, query, each, induced=True), its_task


def _resolved(preset: str, given: dict[str, Any]) -> Recipe:
    """The preset with what was given in its place, checked."""
    recipe = PRESETS[one_of("preset", preset, PRESETS)]
    names = [field.name for field in fields(Recipe)]
    recipe = replace(recipe, **{name: given[name] for name in names if given[name] is not None})
    one_of("backbone", recipe.backbone, ("gcn", "gin"))
    counts = {name: given[name] for name in ("rank", "mlp_layers", "ego_hops", "query_hops", "adapter_channels")}
    counts |= {name: getattr(recipe, name) for name in ("hidden_channels", "out_channels", "second_channels")}
    for name, value in counts.items():
        if value < 1:
            raise InputError(f"{name} is {value}; it must be at least 1")
    return recipe
