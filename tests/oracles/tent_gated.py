"""The default TENT's scores of one query, written out with loops."""

import torch
from torch import Tensor


def score(
    looks: list[Tensor], gate: Tensor, sharpness: float, query: int, supports: dict[int, list[int]], nearest: int
):
    """Scores of a query for every class; ``looks`` are all matrices the gate weighs, whitened ones included. The circle
    of a class is looked for among all nodes; with ``nearest`` 0 there are no circles."""
    weight = torch.softmax(gate, 0)

    def inner(a: dict[int, Tensor], b: dict[int, Tensor]) -> Tensor:
        """The inner product of two weighted sums of nodes, {node: weight}."""
        return sum(
            wa * wb * w * look[i] @ look[j]
            for i, wa in a.items()
            for j, wb in b.items()
            for w, look in zip(weight, looks, strict=True)
        )

    def unit(a: dict[int, Tensor]) -> dict[int, Tensor]:
        return {i: w / inner(a, a).sqrt() for i, w in a.items()}

    def mean_direction(members: list[int]) -> dict[int, Tensor]:
        return unit({i: unit({i: torch.tensor(1.0)})[i] / len(members) for i in members})

    scores = []
    for members in supports.values():
        mean = mean_direction(members)
        if nearest:
            everyone = range(len(looks[0]))
            alike = {i: inner(unit({i: torch.tensor(1.0)}), mean).item() for i in everyone}
            circle = mean_direction(sorted(everyone, key=lambda i: -alike[i])[:nearest])
            both = {i: len(members) * w for i, w in mean.items()}
            for i, w in circle.items():
                both[i] = both.get(i, 0) + 2 * w
            mean = unit(both)
        scores.append(inner({query: torch.tensor(1.0)}, mean))
    return torch.stack(scores) * torch.exp(torch.as_tensor(sharpness))
