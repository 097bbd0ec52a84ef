"""The scores of vantage for one query, written out with loops."""

import math

import torch
from torch import Tensor


def score(
    views: list[Tensor],
    gate: Tensor,
    sharpness: float,
    reach: float,
    query: int,
    supports: dict[int, list[int]],
    nearest: int,
):
    """Scores of a query for every class; ``views`` are all matrices the gate weighs, whitened ones included.

    The pseudo-support of a class is looked for among all nodes; with ``nearest`` 0 there is no task level: no
    pseudo-supports, cosines only.
    """
    weight = torch.softmax(gate, 0)

    def inner(a: dict[int, Tensor], b: dict[int, Tensor]) -> Tensor:
        """The inner product of two weighted sums of nodes, {node: weight}."""
        return sum(
            wa * wb * w * view[i] @ view[j]
            for i, wa in a.items()
            for j, wb in b.items()
            for w, view in zip(weight, views, strict=True)
        )

    def unit(a: dict[int, Tensor]) -> dict[int, Tensor]:
        return {i: w / inner(a, a).sqrt() for i, w in a.items()}

    def mean(members: list[int]) -> dict[int, Tensor]:
        return {i: unit({i: torch.tensor(1.0)})[i] / len(members) for i in members}

    scores = []
    for members in supports.values():
        prototype = mean(members)
        if nearest:
            everyone = range(len(views[0]))
            alike = {i: inner(unit({i: torch.tensor(1.0)}), prototype).item() for i in everyone}
            pseudo = unit(mean(sorted(everyone, key=lambda i: -alike[i])[:nearest]))
            k = len(members)
            prototype = {i: k / (k + 2) * w for i, w in prototype.items()}
            for i, w in pseudo.items():
                prototype[i] = prototype.get(i, 0) + 2 / (k + 2) * w
        product, squared = inner({query: torch.tensor(1.0)}, prototype), inner(prototype, prototype)
        cosine = product / squared.sqrt()
        part = 1 / (1 + math.exp(-reach)) if nearest else 0
        scores.append((1 - part) * cosine + part * (product - squared / 2))
    return torch.stack(scores) * torch.exp(torch.as_tensor(sharpness))
