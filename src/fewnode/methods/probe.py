"""Training-free baseline: smoothed, reduced features and a simple classifier on the supports.

TF-IDF and SVD as in latent semantic analysis (Deerwester et al., 1990), personalised-PageRank smoothing as in APPNP
(Gasteiger et al., ICLR 2019), then nearest class mean, ridge or logistic regression.
"""

from typing import ClassVar, Literal

from torch import Tensor
from torch.nn import functional as F

from ..graph import Graph
from ..graph.operators import normalized_adjacency
from ..nn.features import ReducedFeatures
from ..nn.heads import class_means, cosine_scores, logistic_scores, ridge_scores
from ..tasks import Tasks
from .base import Method


class Probe(Method):
    """A training-free baseline: the gain of another method over it shows what training adds.

    ``smooth=False`` ignores the graph. ``head`` is the classifier, which is solved for all tasks in one batch.
    """

    uses_labels: ClassVar[bool] = False
    reads_edges = ("weights",)
    training_settings = None

    def __init__(
        self,
        in_channels: int,
        *,
        smooth: bool = True,
        head: Literal["mean", "ridge", "logistic"] = "mean",
        rank: int = 256,
    ) -> None:
        super().__init__()
        self.smooth, self.head = smooth, head
        self.features = ReducedFeatures(in_channels, rank)

    def embed(self, graph: Graph) -> Tensor:
        h = self.features(graph)
        if self.smooth:
            words = h
            h = graph.cache.get("PPR", lambda: normalized_adjacency(graph).smooth(words), words)
        return F.normalize(h, dim=-1)

    def score(self, graph: Graph, state: Tensor, tasks: Tasks) -> Tensor:
        z, q = state[tasks.support], state[tasks.query]
        if self.head == "mean":
            return cosine_scores(q, class_means(z, tasks.support_y, tasks.n_way))
        if self.head == "ridge":
            return ridge_scores(z, tasks.support_y, q, tasks.n_way)
        return logistic_scores(z, tasks.support_y, q, tasks.n_way)
