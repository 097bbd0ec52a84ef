"""The default TENT's score of one query for one class, written out with loops."""

import torch
from torch import Tensor


def score(
    looks: list[Tensor], gate: Tensor, power: float, sharpness: float, query: int, supports: dict[int, list[int]]
):
    """Scores of a query for every class; ``looks`` are all matrices the gate weighs, whitened ones included."""
    weight = torch.softmax(gate, 0)

    def kernel(a: int, b: int) -> Tensor:
        return sum(w * look[a] @ look[b] for w, look in zip(weight, looks, strict=True))

    spreads, matches = [], []
    for members in supports.values():
        norm = torch.stack(
            [kernel(a, b) / (kernel(a, a) * kernel(b, b)).sqrt() for a in members for b in members]
        ).mean()
        spreads.append((1 - norm + 0.05).sqrt())
        matches.append(torch.stack([kernel(query, a) / kernel(a, a).sqrt() for a in members]).mean() / norm.sqrt())
    tau = torch.stack(spreads) / torch.stack(spreads).mean()
    return torch.stack(matches) / tau**power * torch.exp(torch.as_tensor(sharpness))
