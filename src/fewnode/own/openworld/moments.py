"""Second moments of the labelled nodes, inverted once, so that a new class is one matrix-vector product."""

from dataclasses import dataclass

import torch
from torch import Tensor

SAMPLE = 50_000  # labelled nodes the moments are taken from
LEAST = 50  # with fewer labelled nodes, all nodes stand in for them: hardly any is of a class that is new
RIDGE_TOTAL, RIDGE_WITHIN = 3.0, 1.0  # in mean variances; of 0.1, 0.3, 1 and 3 the best on the development draws
TINY = 1e-9


@dataclass(frozen=True)
class Direction:
    """A new class as its examples show it: where they lie, and the directions that tell them from labelled nodes.

    ``weights [d, 2]`` are the ridge directions under the total covariance and under that within classes;
    ``spread`` is the standard deviation of labelled nodes along the first, ``reach`` how far out the examples lie
    in these units; ``length`` is the squared length of their mean under the second metric.
    """

    weights: Tensor
    spread: float
    reach: float
    length: float


@dataclass(frozen=True)
class Moments:
    """Mean and covariances of labelled nodes, with the inverses (plus a ridge) and the known classes' discriminants."""

    mean: Tensor
    total: Tensor
    inverse_total: Tensor
    inverse_within: Tensor
    discriminants: Tensor  # [d + 1, C]: the linear discriminant functions of the known classes, the bias last

    @classmethod
    @torch.no_grad()
    def of(cls, x: Tensor, y: Tensor, seed: int = 0) -> "Moments":
        """Of the nodes with ``y [N] >= 0``; of all nodes where few have a label."""
        random = torch.Generator().manual_seed(seed)
        labelled = (y >= 0).nonzero().flatten()
        labelled = labelled[torch.randperm(len(labelled), generator=random)[:SAMPLE].to(x.device)]
        enough = len(labelled) >= LEAST
        nodes = labelled if enough else torch.randperm(len(x), generator=random)[:SAMPLE].to(x.device)
        rows = x[nodes].float()
        mean = rows.mean(0)
        z, own = rows.sub_(mean), y[labelled]
        total = z.T @ z / len(z)
        count = torch.bincount(own, minlength=int(y.max()) + 1).float()
        means = z.new_zeros(len(count), z.shape[1]).index_add_(0, own, z if enough else x[labelled].float() - mean)
        means = means / count[:, None].clamp(min=1)
        within = total - (means.T * (count / len(own))) @ means if enough else total
        ridge = (total.diagonal().mean() + TINY) * torch.eye(len(total), device=x.device)
        inverse_total, inverse_within = (
            torch.linalg.inv((cov + strength * ridge).double()).float()
            for cov, strength in ((total, RIDGE_TOTAL), (within, RIDGE_WITHIN))
        )
        rows = means @ inverse_within
        bias = -(rows * means).sum(1, keepdim=True) / 2
        return cls(mean, total, inverse_total, inverse_within, torch.cat([rows, bias], 1).T.contiguous())

    def direction(self, examples: Tensor) -> Direction:
        """The directions of a class with the examples ``[K, d]``: its mean against all labelled nodes as negatives."""
        mean = examples.mean(0) - self.mean
        far, near = self.inverse_total @ mean, self.inverse_within @ mean
        spread = float((far @ self.total @ far).clamp(min=TINY).sqrt())
        return Direction(
            torch.stack([far, near], 1), spread, float(mean @ far) / spread, float((mean @ near).clamp(min=TINY))
        )
