"""The released TENT with a dense adjacency and one small graph at a time."""

import torch
from torch import Tensor
from torch.nn import functional as F

from fewnode.graph import Graph
from fewnode.methods.tent_released import TENTReleased
from fewnode.tasks import Tasks


def loss(model: TENTReleased, graph: Graph, tasks: Tasks) -> Tensor:
    """The training loss, mean over the queries of all tasks."""
    adjacency = dense_adjacency(graph)
    x = graph.x.to_dense() if graph.x.layout == torch.sparse_csr else graph.x
    h = adjacency @ (x.double() @ model.weight) + model.bias
    scores = [task_scores(model, adjacency, h, tasks, task) for task in range(len(tasks))]
    assert tasks.query_y is not None
    matching = F.cross_entropy(torch.cat(scores), tasks.query_y.flatten())
    known = (graph.y >= 0).nonzero().squeeze(1).tolist()
    target = torch.tensor([model.classifier.base.tolist().index(int(graph.y[v])) for v in known])
    return matching + model.gamma * F.cross_entropy(model.classifier.linear(h[known]), target)


def dense_adjacency(graph: Graph) -> Tensor:
    """A + I with rows that add up to one."""
    dense = torch.from_numpy(graph.to_scipy().toarray()).double() + torch.eye(graph.num_nodes).double()
    return dense / dense.sum(1, keepdim=True)


def task_scores(model: TENTReleased, adjacency: Tensor, h: Tensor, tasks: Tasks, task: int) -> Tensor:
    members = [tasks.support[task][tasks.support_y[task] == i] for i in range(tasks.n_way)]
    virtual = torch.stack([h[nodes].mean(0) for nodes in members])
    alpha, beta = model.adapter(virtual.mean(0)).chunk(2)
    theta = (1 + alpha) * model.gnn.theta + beta
    prototypes = [network(model, theta, torch.eye(1).double(), row[None])[0] for row in virtual]
    queries = []
    for node in tasks.query[task].tolist():
        one_hop = adjacency[node].nonzero().squeeze(1)
        two_hops = adjacency[one_hop].sum(0).nonzero().squeeze(1)
        sub = adjacency[two_hops][:, two_hops]
        queries.append(network(model, theta, sub, h[two_hops]).mean(0))
    cosines = F.cosine_similarity(torch.stack(queries)[:, None], torch.stack(prototypes)[None], dim=-1)
    return cosines / 0.5


def network(model: TENTReleased, theta: Tensor, adjacency: Tensor, values: Tensor) -> Tensor:
    (rows, hidden), (_, out) = model.gnn.shapes
    first, second = theta[: (rows + 1) * hidden], theta[(rows + 1) * hidden :]
    weight, bias = first[: rows * hidden].reshape(rows, hidden), first[rows * hidden :]
    z = torch.relu(adjacency @ (values @ weight) + bias)
    return adjacency @ (z @ second[: hidden * out].reshape(hidden, out)) + second[hidden * out :]
