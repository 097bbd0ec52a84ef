"""MAML one task at a time: a dense GCN over the whole graph, its inner steps written out."""

import torch
from torch import Tensor
from torch.nn import functional as F

from fewnode.graph import Graph
from fewnode.methods.maml import MAML
from fewnode.tasks import Tasks


def dense_gcn(graph: Graph, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    adjacency = torch.from_numpy(graph.to_scipy().toarray()).to(x) + torch.eye(graph.num_nodes, dtype=x.dtype)
    scale = adjacency.sum(1).rsqrt()
    smooth = scale[:, None] * adjacency * scale
    return smooth @ torch.relu(smooth @ x @ w1.t() + b1) @ w2.t() + b2


def scores(model: MAML, graph: Graph, x: Tensor, tasks: Tasks, task: int) -> Tensor:
    """Scores of the queries of one task after the inner steps; ``x [N, d]`` are the inputs of the GCN."""
    first, second = model.encoder.first, model.encoder.second
    weights = [first.weight, first.bias, second.weight, second.bias]
    weights += [x.new_zeros(tasks.n_way, len(second.bias)).requires_grad_(), x.new_zeros(tasks.n_way).requires_grad_()]

    def logits(nodes: Tensor) -> Tensor:
        return dense_gcn(graph, x, *weights[:4])[nodes] @ weights[4].t() + weights[5]

    for _ in range(model.inner_steps):
        loss = F.cross_entropy(logits(tasks.support[task]), tasks.support_y[task])
        gradients = torch.autograd.grad(loss, weights, create_graph=False)
        weights = [w - model.inner_rate * gradient for w, gradient in zip(weights, gradients, strict=True)]
    return logits(tasks.query[task])
