"""G-Meta one node at a time: every subgraph is really cut out, every layer run on it with dense matrices."""

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from fewnode.graph import Graph
from fewnode.methods.gmeta import SubgraphGCN


def subgraph(graph: Graph, centre: int) -> tuple[list[int], Tensor]:
    """The nodes within two hops of the centre, ascending, and the adjacency among them."""
    whole = nx.from_scipy_sparse_array(graph.to_scipy())
    nodes = sorted(nx.single_source_shortest_path_length(whole, centre, cutoff=2))
    return nodes, torch.from_numpy(graph.to_scipy()[nodes][:, nodes].toarray().astype(np.float64))


def normalised(adjacency: Tensor) -> Tensor:
    adjacency = adjacency + torch.eye(len(adjacency), dtype=adjacency.dtype)
    scale = adjacency.sum(1).clamp(min=1).rsqrt()
    return scale[:, None] * adjacency * scale


def embedding(graph: Graph, encoder: SubgraphGCN, x: Tensor, centre: int) -> Tensor:
    """The output of the network on the centre's subgraph, read at the centre."""
    nodes, adjacency = subgraph(graph, centre)
    smooth, h = normalised(adjacency), x[nodes]
    for layer in (encoder.first, encoder.second):
        h = torch.relu(smooth @ h @ layer.weight.t() + layer.bias)
    out = encoder.last.weight @ h[nodes.index(centre)]
    return out if encoder.radius is None else encoder.radius * out / (out.norm() + 1e-9)


def support_loss(z: Tensor, y: list[int]) -> Tensor:
    """ProtoMAML's: each support is to be nearest to the mean of its own class's supports."""
    classes = sorted(set(y))
    prototypes = [torch.stack([z[i] for i in range(len(y)) if y[i] == c]).mean(0) for c in classes]
    total = torch.zeros((), dtype=z.dtype)
    for i, c in enumerate(y):
        likely = torch.exp(torch.stack([-((z[i] - p) ** 2).sum() for p in prototypes]))
        total = total - torch.log(likely[c] / likely.sum())
    return total / len(y)
