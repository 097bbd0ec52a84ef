"""The encoders against dense matrices, with dense and sparse features."""

import pytest
import torch
from scipy import sparse as sp

from fewnode.graph import Graph
from fewnode.nn.encoders import GINEncoder
from fewnode.nn.graph_layers import Inputs

RAW = Inputs(5, "raw")


def path_graph(sparse_features: bool) -> Graph:
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).relu().numpy()
    edges = [[0, 1, 2, 0], [1, 2, 3, 3]]  # node 4 and 5 are alone
    return Graph.from_edges(edges, sp.csr_matrix(x) if sparse_features else x, num_nodes=6)


def dense(graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
    x = graph.x.to_dense() if graph.x.layout == torch.sparse_csr else graph.x
    return x.double(), torch.from_numpy(graph.to_scipy().toarray()).double()


@pytest.mark.parametrize("sparse_features", [False, True])
def test_gin_sums_over_closed_neighbourhoods(sparse_features: bool) -> None:
    graph = path_graph(sparse_features)
    model = GINEncoder(5, 4, 3).double()
    x, a = dense(graph)
    closed = a + torch.eye(6)
    h = torch.relu(closed @ x @ model.lift.weight + model.lift.bias)
    h = torch.relu(model.first[0](h))
    h = torch.relu(model.middle(closed @ h))
    torch.testing.assert_close(model(RAW, graph), model.second[0](h))


def test_gin_with_one_linear_map_per_layer() -> None:
    graph = path_graph(False)
    model = GINEncoder(5, 4, 3, mlp_layers=1).double()
    x, a = dense(graph)
    closed = a + torch.eye(6)
    h = torch.relu(closed @ x @ model.lift.weight + model.lift.bias)
    torch.testing.assert_close(model(RAW, graph), model.middle(closed @ h))


def test_dropout_only_while_training() -> None:
    graph = path_graph(False)
    model = GINEncoder(5, 16, 3, dropout=0.5)
    torch.manual_seed(0)
    assert not torch.equal(model(RAW, graph), model(RAW, graph))
    model.eval()
    assert torch.equal(model(RAW, graph), model(RAW, graph))


def test_gin_at_some_nodes_is_gin_at_all_of_them() -> None:
    graph, nodes = path_graph(True), torch.tensor([3, 0, 5])
    model = GINEncoder(5, 4, 3).double()
    torch.testing.assert_close(model(RAW, graph, nodes), model(RAW, graph)[nodes])
    some = torch.autograd.grad(model(RAW, graph, nodes).square().sum(), list(model.parameters()))
    whole = torch.autograd.grad(model(RAW, graph)[nodes].square().sum(), list(model.parameters()))
    for one, other in zip(some, whole, strict=True):
        torch.testing.assert_close(one, other)
