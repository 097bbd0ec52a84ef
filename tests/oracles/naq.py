"""How alike two nodes are, for all pairs at once: what the real thing never builds."""

import torch
from torch import Tensor

from fewnode.graph import Graph


def cosines(x: Tensor) -> Tensor:
    table = torch.zeros(len(x), len(x), dtype=torch.float64)
    for i in range(len(x)):
        for j in range(len(x)):
            lengths = float(x[i].norm() * x[j].norm())
            table[i, j] = float(x[i] @ x[j]) / lengths if lengths else 0.0
    return table


def walk_shares(graph: Graph, restart: float, steps: int) -> Tensor:
    """Where a walk that restarts is: row i for the walk of node i."""
    step = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    for i in range(graph.num_nodes):
        row = graph.indices[int(graph.indptr[i]) : int(graph.indptr[i + 1])].long()
        for j in row:
            step[i, j] = 1 / len(row)
    start = torch.eye(graph.num_nodes, dtype=torch.float64)
    spread = start
    for _ in range(steps):
        spread = (1 - restart) * spread @ step + restart * start
    return spread
