"""Training-free: class means on smoothed features that the queries of the task correct. Task-transductive.

Liu, Song, Qin: Prototype Rectification for Few-Shot Learning. ECCV 2020 (BD-CSPN).
"""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from ..graph import Graph
from ..nn.heads import class_means, cosine_scores
from ..tasks import Tasks
from .probe import Probe


class Rectified(Probe):
    """Class means are corrected by the queries, each weighted by its probability of the class.

    A query is assigned to the nearest corrected mean, so its prediction depends on the other queries of its task. With
    the defaults, unequal numbers of queries of the classes can cost the gain over ``Probe``, but little more. The
    settings of the source (``shift=True, rounds=1, scale=10``) rely on equally many queries of each class.

    Args:
        in_channels: number of feature columns.
        rounds: number of corrections of the means.
        scale: of the cosines whose softmax is the probability.
        shift: move the queries of a task such that their mean equals that of its supports.
        probe: options of the smoothed features: ``smooth`` and ``rank``.
    """

    task_transductive: ClassVar[bool] = True

    def __init__(
        self, in_channels: int, *, rounds: int = 5, scale: float = 20.0, shift: bool = False, **probe: Any
    ) -> None:
        super().__init__(in_channels, **probe)
        self.rounds, self.scale, self.shift = rounds, scale, shift

    def score(self, graph: Graph, state: Tensor, tasks: Tasks) -> Tensor:
        z, q = state[tasks.support], state[tasks.query]
        if self.shift:
            q = F.normalize(q + z.mean(1, keepdim=True) - q.mean(1, keepdim=True), dim=-1)
        means = class_means(z, tasks.support_y, tasks.n_way)
        known = F.one_hot(tasks.support_y, tasks.n_way).to(z.dtype)
        for _ in range(self.rounds):
            member = torch.cat([known, (self.scale * cosine_scores(q, means)).softmax(-1)], 1)
            means = (member / member.sum(1, keepdim=True)).mT @ torch.cat([z, q], 1)
        return cosine_scores(q, means)
