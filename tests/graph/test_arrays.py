import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_graph import edge_lists

from fewnode import Graph
from fewnode.errors import InputError
from fewnode.graph.arrays import leading_eigenvectors, random_block


def dense(edges, weight, n):
    """The obvious form: the weights of equal arcs added."""
    a = np.zeros((n, n))
    for (source, target), w in zip(edges.T, weight, strict=True):
        a[target, source] += w * (source != target)
    return a


def of_type(graph, edge_type):
    rows = np.repeat(np.arange(graph.num_nodes), graph.degree.numpy())
    a, chosen = np.zeros((graph.num_nodes,) * 2), graph.edge_types.ids == edge_type
    arc = graph.edge_types.arc[chosen].numpy()
    a[rows[arc], graph.indices.numpy()[arc]] = (
        1 if graph.edge_types.weight is None else graph.edge_types.weight[chosen].numpy()
    )
    return a


@given(edge_lists(), st.booleans(), st.booleans(), st.data())
def test_weights_and_kinds_equal_their_dense_forms(case, directed, twice, data):
    n, edges = case
    size = edges.shape[1]
    weight = np.array(data.draw(st.lists(st.integers(1, 5), min_size=size, max_size=size)), float)
    kind = np.array(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)), int)
    if twice:  # every edge both ways, as other libraries keep undirected ones
        edges, weight, kind = np.hstack([edges, edges[::-1]]), np.tile(weight, 2), np.tile(kind, 2)
    names = ["a", "b", "c"]
    graph = Graph.from_edges(
        edges, num_nodes=n, directed=directed, edge_weight=weight, edge_type=kind, edge_type_names=names
    )
    parts = [dense(edges[:, kind == k], weight[kind == k], n) for k in range(3)]
    if not directed and any((a != a.T).any() for a in parts):  # both ways added, unless each edge is there both ways
        parts = [a + a.T for a in parts]
    assert graph.edge_types.names == ("a", "b", "c")
    assert all(np.array_equal(of_type(graph, k), a) for k, a in enumerate(parts))
    assert np.array_equal(graph.to_scipy().toarray(), sum(parts))
    plain = Graph.from_edges(edges, num_nodes=n, directed=directed)
    assert torch.equal(plain.indices, graph.indices) and torch.equal(plain.indptr, graph.indptr)


def test_an_edge_may_be_of_several_kinds_and_is_one_neighbour():
    graph = Graph.from_edges([[0, 1, 0], [1, 0, 2]], edge_type=["likes", "knows", "likes"])
    assert graph.num_edges == 2 and graph.weights is None
    assert graph.edge_types.names == ("knows", "likes")
    assert of_type(graph, 0).sum() == 2 and of_type(graph, 1).sum() == 4


def test_arcs_and_subgraphs_keep_weights_and_kinds():
    graph = Graph.from_edges([[0, 1, 2, 1], [1, 2, 3, 2]], edge_weight=[1, 2, 4, 8], edge_type=[0, 1, 0, 0])
    part = graph.subgraph(torch.tensor([False, True, True, True]))
    assert part.to_scipy().toarray().tolist() == [[0, 10, 0], [10, 0, 4], [0, 4, 0]]
    assert part.edge_types.names == ("0", "1") and of_type(part, 1)[0, 1] == 2 and of_type(part, 0)[0, 1] == 8
    rows = torch.repeat_interleave(torch.arange(4), graph.degree)
    fewer = graph.with_arcs((rows != 0) & (graph.indices != 0))
    assert fewer.to_scipy().toarray()[1:, 1:].tolist() == part.to_scipy().toarray().tolist()
    assert np.array_equal(of_type(fewer, 0)[1:, 1:], of_type(part, 0))
    assert fewer.fingerprint != graph.fingerprint


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"edge_weight": [1.0]}, r"edge_weight has shape \(1,\); expected \[2\]"),
        ({"edge_weight": [1.0, 0.0]}, r"edge_weight\[1\] is 0; .* drop such edges"),
        ({"edge_weight": [np.nan, 1.0]}, r"edge_weight\[0\] is nan"),
        ({"edge_weight": ["a", "b"]}, "edge_weight has dtype"),
        ({"edge_type": [0]}, r"edge_type has shape \(1,\); expected \[2\]"),
        (
            {"edge_type": [0, 2], "edge_type_names": ["a", "b"]},
            r"edge_type\[1\] is 2; a type is 0..1 \(there are 2 type",
        ),
        ({"edge_type": [0, -1]}, r"edge_type\[1\] is -1"),
        ({"edge_type": ["a", "b"], "edge_type_names": ["a", "b"]}, "expected integers: a type is 0..1"),
        ({"edge_type": [0, 1], "edge_type_names": ["a", "a"]}, "edge type name 'a' is at 0 and again at 1"),
        ({"edge_type_names": ["a"]}, "edge_type_names needs edge_type"),
    ],
)
def test_wrong_weights_and_kinds_are_named(known, message):
    with pytest.raises(InputError, match=message):
        Graph.from_edges([[0, 1], [1, 2]], **known)


def test_main_directions_are_the_leading_eigenvectors():
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(60, 60, generator=generator)).Q
    values = torch.cat([torch.tensor([9.0, -7.0, 5.0, 3.0]), 0.1 * torch.rand(56, generator=generator)])
    matrix = basis * values @ basis.T
    found, vectors = leading_eigenvectors(lambda v: matrix @ v, random_block(torch.arange(60), 4), 4)
    torch.testing.assert_close(found, torch.tensor([9.0, -7.0, 5.0, 3.0]), atol=1e-3, rtol=1e-3)
    overlap = (vectors * basis[:, :4]).sum(0).abs()
    torch.testing.assert_close(overlap, torch.ones(4), atol=1e-3, rtol=1e-3)


def test_more_directions_than_there_are_rows_gives_all():
    found, vectors = leading_eigenvectors(lambda v: 2 * v, random_block(torch.arange(3), 10), 10)
    torch.testing.assert_close(found, torch.full((3,), 2.0))
    assert vectors.shape == (3, 3)
