import numpy as np
import pytest
import torch

from fewnode import Graph, planted
from fewnode.graph.arrays import structural_bytes
from fewnode.graph.stored import open_store, save_store
from fewnode.nn import views as module
from fewnode.nn.views import landmarks, visit_ratios, walk_view, wordless_bytes
from oracles import landmarks as oracle


@pytest.fixture(scope="module")
def graph():
    """Without words; edges with weights, and nodes without an edge, the last two among them."""
    base = planted(60, 4, homophily=0.8, avg_degree=5, seed=3)[0]
    edges = base.edge_arrays()["edge_index"]
    weights = np.random.default_rng(0).gamma(2, 1, edges.shape[1])
    return Graph.from_edges(edges, num_nodes=62, edge_weight=weights)


def dense(graph):
    return graph.to_scipy(scaled=True).toarray().astype(np.float64)


@pytest.mark.parametrize(("steps", "restart"), [(3, 0.3), (6, 0.03)])
def test_ratios_are_those_of_walks_written_out(graph, steps, restart):
    places = torch.tensor([5, 17, 40])
    expected = oracle.visit_ratios(dense(graph), places.tolist(), steps, restart)
    found = visit_ratios(graph, places, steps, restart)
    torch.testing.assert_close(found.double(), torch.from_numpy(expected), atol=1e-4, rtol=1e-4)


def test_a_walk_that_never_returns_ends_up_as_by_chance():
    edges = [[0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 4]]
    ratios = visit_ratios(Graph.from_edges(edges), torch.arange(5), 400, 0.0)
    torch.testing.assert_close(ratios, torch.ones(5, 5), atol=1e-3, rtol=1e-3)


def test_the_view_is_the_singular_vectors_of_positive_logarithms(graph):
    places = landmarks(graph).tolist()
    parts = [oracle.view(oracle.visit_ratios(dense(graph), places, *how), 8) for how in module.WALKS]
    expected = torch.from_numpy(np.hstack(parts))
    expected = torch.nn.functional.normalize(expected, dim=1)
    found = walk_view(graph, 8).double()
    assert found.shape == (62, 16)
    torch.testing.assert_close(found @ found.T, expected @ expected.T, atol=1e-3, rtol=1e-3)


def test_renumbering_the_nodes_renumbers_the_view(graph):
    order = torch.randperm(62, generator=torch.Generator().manual_seed(1))
    arrays = graph.edge_arrays()
    edges = order.numpy()[arrays["edge_index"]]
    other = Graph.from_edges(edges, num_nodes=62, edge_weight=arrays["edge_weight"])
    one, two = walk_view(graph, 8), walk_view(other, 8)[order]
    torch.testing.assert_close(one @ one.T, two @ two.T, atol=1e-3, rtol=1e-3)


def test_nodes_without_an_edge_are_no_landmarks_and_have_empty_rows(graph):
    view = walk_view(graph, 100)  # more directions than there are
    assert torch.isfinite(view).all() and view.shape == (62, 200)
    joined = graph.degree > 0
    assert 0 < joined.sum() < 61
    torch.testing.assert_close(view.norm(dim=1), joined.float())
    assert sorted(landmarks(graph).tolist()) == joined.nonzero().ravel().tolist()


def test_a_graph_without_edges_has_an_empty_view():
    empty = Graph.from_edges(np.zeros((2, 0), int), num_nodes=5)
    assert torch.equal(walk_view(empty, 4), torch.zeros(5, 8))


def test_large_graphs_have_fewer_landmarks_so_that_memory_stays_bounded():
    assert [module._count(n) for n in (100, 65_536, 131_072, 10**7)] == [1024, 1024, 512, 128]
    assert wordless_bytes(10**6, 10**7) == structural_bytes(10**6, 10**7)  # walks take no more
    assert wordless_bytes(1000, 2000) > structural_bytes(1000, 2000)


def test_on_disk_it_is_the_same_and_made_once(graph, tmp_path, monkeypatch):
    save_store(graph, tmp_path / "g.store")
    stored = open_store(tmp_path / "g.store")
    one, two = walk_view(graph, 8), walk_view(stored, 8)
    torch.testing.assert_close(one @ one.T, two @ two.T, atol=1e-3, rtol=1e-3)
    monkeypatch.setattr(module, "visit_ratios", None)
    assert torch.equal(walk_view(open_store(tmp_path / "g.store"), 8), two)
