"""Self-supervised encoder (BGRL or GRACE), then a linear probe on the supports; training needs no label.

Tan, Wang, Ding, Li, Liu: Transductive Linear Probing: A Novel Framework for Few-Shot Node Classification. LoG 2022.
"""

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph, operators
from ..graph.arrays import csr_parts
from ..nn.graph_layers import GraphEncoder, rows_of, take_rows
from ..nn.heads import logistic_scores
from ..tasks import Tasks
from .base import EncoderMethod, Training

WHOLE = 50_000  # nodes: of a larger graph, only the surroundings of the nodes that are compared are cut out and seen


class TLP(EncoderMethod):
    """An encoder is trained so that two random views of the graph agree; a logistic regression classifies its
    embeddings.

    Training uses no labels, except that those of validation classes decide when to stop. It uses the edges and features
    of all nodes. BGRL: Thakoor et al., Large-Scale Representation Learning on Graphs via Bootstrapping, ICLR 2022.
    GRACE: Zhu et al., Deep Graph Contrastive Representation Learning, ICML 2020 workshop.

    Args:
        objective: "bgrl" predicts one view from the other; "grace" distinguishes a node's two views from other nodes.
        edge_drop, feature_drop: probabilities of dropping an edge or a feature column, for each of the two views.
        momentum: share of the old target network that is kept at a step (BGRL).
        temperature: of the contrast (GRACE).
        sample: number of random nodes that are compared at a step; only they and their neighbours are embedded. On a
            graph of more than 50,000 nodes, edges are dropped and counted only where two layers read.
        inverse_penalty: scikit-learn's C of the logistic regression, on embeddings of length one.
    """

    uses_labels: ClassVar[bool] = False
    training_settings = Training(learning_rate=0.001, weight_decay=1e-5, steps=200, check_every=20, patience=4)

    def __init__(
        self,
        in_channels: int,
        *,
        objective: Literal["bgrl", "grace"] = "bgrl",
        hidden_channels: int = 128,
        out_channels: int = 128,
        edge_drop: tuple[float, float] = (0.2, 0.4),
        feature_drop: tuple[float, float] = (0.2, 0.3),
        momentum: float = 0.99,
        temperature: float = 0.5,
        sample: int = 1024,
        inverse_penalty: float = 10.0,
        rank: int = 256,
    ) -> None:
        widths = {"hidden_channels": hidden_channels, "out_channels": out_channels, "rank": rank}
        super().__init__(in_channels, **widths, dropout=0.0, radius=None)
        normalize_layers(self.encoder)
        self.objective = objective
        self.drops = list(zip(edge_drop, feature_drop, strict=True))
        self.momentum, self.temperature, self.sample = momentum, temperature, sample
        self.inverse_penalty = inverse_penalty
        self.predictor = nn.Sequential(
            nn.Linear(out_channels, hidden_channels), nn.PReLU(), nn.Linear(hidden_channels, out_channels)
        )
        if objective == "bgrl":
            self.target = GraphEncoder(self.inputs.width, hidden_channels, out_channels)
            normalize_layers(self.target)
            self.target.requires_grad_(False)

    def score(self, graph: Graph, state: Tensor, tasks: Tasks) -> Tensor:
        z, q = (F.normalize(state[nodes], dim=-1) for nodes in (tasks.support, tasks.query))
        return logistic_scores(z, tasks.support_y, q, tasks.n_way, self.inverse_penalty)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        """The self-supervised loss of two random views; the tasks are ignored."""
        chosen = torch.randperm(graph.num_nodes, device=graph.device)[: self.sample]
        x = self.inputs.unit(graph)
        if graph.num_nodes > WHOLE:
            graph, nodes = cut_around(graph, chosen)
            x, chosen = x[nodes], torch.searchsorted(nodes, chosen)
        one, two = (random_view(x, graph, chosen, *drops) for drops in self.drops)
        first, second = (self.predictor(self.encoder.around(*view)) for view in (one, two))
        if self.objective == "grace":
            return contrast(first, second, self.temperature)
        if self.training:
            self.follow()
        with torch.no_grad():
            goals = [self.target.around(*view) for view in (two, one)]
        return disagreement(first, goals[0]) + disagreement(second, goals[1])

    @torch.no_grad()
    def follow(self) -> None:
        """Move the target network a little towards the encoder; called before each step, so it lags by one."""
        for old, new in zip(self.target.parameters(), self.encoder.parameters(), strict=True):
            old.lerp_(new, 1 - self.momentum)


def normalize_layers(encoder: GraphEncoder) -> None:
    """End both layers in batch normalisation and PReLU, as self-supervised training wants it."""
    out, hidden = encoder.outer.weight.shape
    encoder.middle, encoder.end = (nn.Sequential(nn.BatchNorm1d(n), nn.PReLU()) for n in (hidden, out))


def disagreement(guess: Tensor, goal: Tensor) -> Tensor:
    """BGRL's loss: two minus twice the mean cosine of ``guess`` and ``goal``, both [N, d]."""
    return 2 - 2 * F.cosine_similarity(guess, goal, dim=-1).mean()


def contrast(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """GRACE's loss: each node of a view ``[B, d]`` must find itself in the other among all nodes of both views."""
    first, second = F.normalize(first, dim=-1), F.normalize(second, dim=-1)
    across = first @ second.t() / temperature
    own = torch.arange(len(first), device=first.device)
    total = across.new_zeros(())
    for within, between in ((first @ first.t(), across), (second @ second.t(), across.t())):
        others = (within / temperature).fill_diagonal_(float("-inf"))
        total = total + F.cross_entropy(torch.cat([between, others], dim=1), own)
    return total / 2


def cut_around(graph: Graph, chosen: Tensor) -> tuple[Graph, Tensor]:
    """The graph induced on the nodes ``chosen [P]`` and all that two layers read there, without features; and which
    nodes of the whole graph these are, in rising order."""
    near = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    near[chosen] = True
    for _ in range(2):
        near[operators.gather_neighbours(graph, near.nonzero()[:, 0])[1]] = True
    return replace(graph.with_features(None), node_names=None).subgraph(near), near.nonzero()[:, 0]


def random_view(
    x: Tensor, graph: Graph, chosen: Tensor, edge_drop: float, feature_drop: float
) -> tuple[Tensor, operators.Operator]:
    """What an encoder reads around the nodes ``chosen [P]`` of a view, in which edges and columns of the inputs ``x [N,
    d]`` are left out with these probabilities: inputs after one propagation, and the rows that collect them.

    Inputs are propagated here, once for all encoders and without a gradient. Drawn from torch's global random state,
    which the training loop seeds.
    """
    columns = torch.rand(x.shape[1], device=graph.device) >= feature_drop
    smooth = dropped_adjacency(graph, torch.rand(len(graph.indices), device=graph.device) >= edge_drop)
    near, rows = rows_of(smooth, chosen)
    return take_rows(smooth.matrix, torch.as_tensor(near)) @ x * columns, rows


def dropped_adjacency(graph: Graph, keep: Tensor) -> operators.Operator:
    """``D^-1/2 (A + I) D^-1/2`` of the arcs where ``keep [arcs]``; both arcs of an edge follow the first one's.

    Dropped arcs stay in the pattern with the value zero, so nothing is sorted or built anew at a step.
    """
    whole = operators.normalized_adjacency(graph)
    indptr, columns, _ = csr_parts(whole.matrix)
    back = graph.cache.get("order of the transpose", lambda: torch.argsort(columns.long(), stable=True))
    rows = graph.cache.get("rows of the normalized adjacency", lambda: torch.repeat_interleave(indptr.diff().long()))
    loop = rows == columns
    kept = torch.ones(len(columns), device=columns.device)
    kept[~loop] = keep.to(kept.dtype)
    if not graph.directed:  # the pattern is symmetric: the k-th arc of the transpose is the twin of the k-th arc
        kept = kept[torch.minimum(back, torch.arange(len(back), device=back.device))]
    if graph.weights is not None:
        kept[~loop] *= torch.from_numpy(graph.to_scipy(scaled=True).data).to(kept)
    into, out = (kept.new_zeros(graph.num_nodes).index_add_(0, end, kept).rsqrt() for end in (rows, columns.long()))
    values = kept * into[rows] * out[columns.long()]
    return operators.Operator(indptr, columns, values, symmetric=not graph.directed)
