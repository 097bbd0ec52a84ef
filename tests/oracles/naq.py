"""How alike two nodes are, for all pairs at once: what the real thing never builds."""

import torch
from torch import Tensor


def cosines(x: Tensor) -> Tensor:
    table = torch.zeros(len(x), len(x), dtype=torch.float64)
    for i in range(len(x)):
        for j in range(len(x)):
            lengths = float(x[i].norm() * x[j].norm())
            table[i, j] = float(x[i] @ x[j]) / lengths if lengths else 0.0
    return table
