"""Graphs small enough to look at, and the slow, obvious graph convolution."""

import torch
from scipy import sparse as sp
from torch import Tensor

from fewnode.graph import Graph
from fewnode.nn.graph_layers import GraphEncoder


def small_graph(seed: int = 0, *, nodes: int = 40, edges: int = 70, columns: int = 12, sparse: bool = True) -> Graph:
    """A random graph of four classes: node 0 has no edge, node 1 no feature, node 2 neither."""
    random = torch.Generator().manual_seed(seed)
    ends = torch.randint(3, nodes, (2, edges), generator=random)
    ends = torch.cat([ends, torch.tensor([[1], [3]])], 1)
    x = (torch.rand(nodes, columns, generator=random) < 0.3).float() * torch.rand(nodes, columns, generator=random)
    x[1:3] = 0
    y = torch.arange(nodes) % 4
    return Graph.from_edges(ends, sp.csr_matrix(x.numpy()) if sparse else x, y, num_nodes=nodes)


def propagation(edges: set[tuple[int, int]], nodes: int) -> Tensor:
    """``D^-1/2 (A + I) D^-1/2``, entry by entry, from pairs given both ways."""
    dense = torch.eye(nodes, dtype=torch.float64)
    for source, target in edges:
        dense[target, source] = 1
    out = torch.zeros_like(dense)
    for i in range(nodes):
        for j in range(nodes):
            out[i, j] = dense[i, j] / (dense[i].sum() * dense[:, j].sum()).sqrt()
    return out


def pairs(graph: Graph) -> set[tuple[int, int]]:
    rows, columns = graph.to_scipy().nonzero()
    return {(int(column), int(row)) for row, column in zip(rows, columns, strict=True)}


def encode(encoder: GraphEncoder, x: Tensor, smooth: Tensor) -> Tensor:
    """Two plain layers on dense matrices."""
    h = torch.relu(smooth @ x @ encoder.weight + encoder.bias)
    return smooth @ h @ encoder.outer.weight.t() + encoder.outer.bias
