"""The prototypical networks task by task, class by class."""

import math

import torch
from torch import Tensor

from fewnode.tasks import Tasks


def weights(degrees: list[int], values: list[float]) -> list[float]:
    """The weights of the supports of one class: sigmoids of log-degree times value, over their sum."""
    scores = [
        1 / (1 + math.exp(-math.log(max(degree, 1)) * value)) for degree, value in zip(degrees, values, strict=True)
    ]
    return [score / sum(scores) for score in scores]


def scores(z: Tensor, degree: Tensor, value: Tensor, tasks: Tasks) -> Tensor:
    """Minus the squared distances of queries to weighted prototypes; equal values give plain class means only where
    degrees are equal, so a prototypical network is ``degree = 1``."""
    z, value = z.detach(), value.detach()
    out = torch.zeros(len(tasks), tasks.query.shape[1], tasks.n_way, dtype=z.dtype)
    for task in range(len(tasks)):
        for label in range(tasks.n_way):
            members = [int(v) for v, y in zip(tasks.support[task], tasks.support_y[task], strict=True) if y == label]
            share = weights([int(degree[v]) for v in members], [float(value[v]) for v in members])
            prototype = sum(s * z[v] for s, v in zip(share, members, strict=True))
            for position, query in enumerate(tasks.query[task]):
                out[task, position, label] = -((z[query] - prototype) ** 2).sum()
    return out
