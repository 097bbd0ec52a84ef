import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse as sp
from test_graph import edge_lists

from fewnode import Graph
from fewnode.graph import operators


def dense_of(graph):
    return torch.from_numpy(graph.to_scipy().toarray()).double()


@given(edge_lists(), st.booleans(), st.booleans(), st.integers(1, 3))
def test_operators_equal_their_dense_forms(case, directed, weighted, width):
    n, edges = case
    weight = 1 + np.arange(edges.shape[1]) % 3 if weighted else None
    graph = Graph.from_edges(edges, num_nodes=n, directed=directed, edge_weight=weight)
    a = dense_of(graph)
    if a.any():
        a /= a[a > 0].mean()  # the unit of weights does not matter
    loops = a + torch.eye(n)
    normal = loops.sum(1).rsqrt()[:, None] * loops * loops.sum(0).rsqrt()
    mean = a / a.sum(1, keepdim=True).where(a.any(1, keepdim=True), 1)
    h = torch.randn(n, width, dtype=torch.float64)
    for operator, dense in (
        (operators.adjacency(graph), (a > 0).double()),
        (operators.arcs_of(graph), a),
        (operators.normalized_adjacency(graph), normal),
        (operators.mean_adjacency(graph), mean),
    ):
        torch.testing.assert_close(operator @ h, dense @ h, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(operator.T @ h, dense.T @ h, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("directed", [False, True])
def test_product_has_first_and_second_derivatives(directed):
    graph = Graph.from_edges([[0, 1, 2, 2], [1, 2, 0, 3]], num_nodes=6, directed=directed)
    operator = operators.mean_adjacency(graph)
    h = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda h: (operator @ h).square(), h)
    assert torch.autograd.gradgradcheck(lambda h: (operator @ h).square(), h)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["adjacency", "closed_adjacency", "mean_adjacency", "normalized_adjacency"])
def test_a_product_shares_nothing_with_what_is_multiplied(name, dtype):
    graph = Graph.from_edges([[0, 1, 2, 2], [1, 2, 0, 3]], num_nodes=6)
    h = torch.randn(6, 2, dtype=dtype, requires_grad=True)
    before, operator = h.detach().clone(), getattr(operators, name)(graph)
    product = operator @ h
    gradient = given = torch.ones_like(product)
    (found,) = torch.autograd.grad(product.mul_(2.0), h, gradient)  # what is done to the product stays there
    assert product.dtype == found.dtype == dtype and torch.equal(h.detach(), before) and bool((given == 1).all())
    torch.testing.assert_close(found, 2 * (operator.matrix.to_dense().T.to(dtype) @ given))


@pytest.mark.parametrize("kind", [sp.csr_matrix, np.asarray], ids=["sparse", "dense"])
def test_project_equals_dense_product_and_passes_gradients_to_the_weight(kind):
    x = np.array([[0, 1, 2], [0, 0, 0], [3, 0, 0]], np.float32)  # an empty row, as a node without words has
    graph = Graph.from_edges([[0], [1]], kind(x), num_nodes=3)
    weight = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(operators.project(graph, weight), torch.from_numpy(x).double() @ weight)
    assert torch.autograd.gradcheck(lambda w: operators.project(graph, w).tanh(), weight)
    some = torch.tensor([2, 0, 2, 1])
    torch.testing.assert_close(operators.project(graph, weight, some), operators.project(graph, weight)[some])
    assert torch.autograd.gradcheck(lambda w: operators.project(graph, w, some).tanh(), weight)


@given(edge_lists(), st.data())
def test_gathered_neighbours_are_the_rows_of_the_adjacency(case, data):
    n, edges = case
    graph = Graph.from_edges(edges, num_nodes=n)
    nodes = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), max_size=8)), dtype=torch.long)
    owner, neighbour = operators.gather_neighbours(graph, nodes)
    expected = [(i, int(v)) for i, node in enumerate(nodes) for v in dense_of(graph)[node].nonzero().ravel()]
    assert list(zip(owner.tolist(), neighbour.tolist(), strict=True)) == expected


def test_smoothing_equals_the_recursion_written_out(small):
    operator = operators.normalized_adjacency(Graph.from_edges(**small.edge_arrays(), num_nodes=8))
    a = operator.matrix.to_dense().double()
    h = torch.randn(8, 3, dtype=torch.float64)
    z = h
    for _ in range(4):
        z = 0.8 * a @ z + 0.2 * h
    torch.testing.assert_close(operator.smooth(h, steps=4, restart=0.2), z, atol=1e-6, rtol=1e-6)
    assert torch.equal(operator.smooth(h.clone().requires_grad_(), steps=4, restart=0.2), operator.smooth(h, 4, 0.2))
    assert torch.equal(operator.smooth(h, steps=0), h)


def test_operators_are_built_once(small):
    assert operators.normalized_adjacency(small) is operators.normalized_adjacency(small.with_labels(small.y))
