import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse as sp

from fewnode import Graph, planted
from fewnode.graph.stored import open_store, save_store
from fewnode.nn import communities as module
from fewnode.nn.communities import community_view, partition


@pytest.fixture(scope="module")
def graph():
    base = planted(300, 6, homophily=0.9, avg_degree=8, seed=3)[0]
    return Graph.from_edges(base.edge_arrays()["edge_index"], y=base.y.numpy(), num_nodes=300)


def modularity(graph, label, resolution):
    sets = [set(np.flatnonzero(label == c)) for c in np.unique(label)]
    return nx.community.modularity(graph.to_networkx(), sets, resolution=resolution)


@pytest.mark.parametrize("resolution", [1.0, 2.0, 8.0])
def test_partitions_are_about_as_good_as_those_of_networkx(graph, resolution):
    found = partition(sp.csr_array(graph.to_scipy()), resolution, np.random.default_rng(0))
    theirs = nx.community.louvain_communities(graph.to_networkx(), resolution=resolution, seed=0)
    best = nx.community.modularity(graph.to_networkx(), theirs, resolution=resolution)
    assert modularity(graph, found, resolution) > 0.95 * best


def test_no_single_node_would_rather_be_elsewhere(graph):
    """After sweeps enough: every move that ``_better`` proposes would raise the modularity, and none is left."""
    arcs = sp.csr_array(graph.to_scipy().astype(np.float64))
    mass, label = arcs.sum(1), np.arange(300)
    before = modularity(graph, label, 1.0)
    better = module._better(arcs, label, mass, 1.0)
    node = int(np.flatnonzero(better != label)[0])
    label[node] = better[node]  # one alone: all at once may change places
    assert modularity(graph, label, 1.0) > before
    for _ in range(500):
        better = module._better(arcs, label, mass, 1.0)
        moves = np.flatnonzero(better != label)
        if len(moves) == 0:
            break
        label[moves[0]] = better[moves[0]]
    rest = [np.where(np.arange(300) == 7, other, label) for other in np.unique(label)]
    assert max(modularity(graph, other, 1.0) for other in rest) <= modularity(graph, label, 1.0) + 1e-9


def test_two_cliques_and_a_bridge_are_two_communities():
    edges = [(i, j) for a in (0, 5) for i in range(a, a + 5) for j in range(i) if j >= a]
    graph = Graph.from_edges(np.array([*edges, (4, 5)]).T)
    label = partition(sp.csr_array(graph.to_scipy()), 1.0, np.random.default_rng(0))
    assert len(set(label[:5])) == len(set(label[5:])) == 1 and label[0] != label[9]


def test_rows_are_the_share_of_partitions_that_have_two_nodes_together(graph, monkeypatch):
    monkeypatch.setattr(module, "MOST", 4)
    arcs, random = sp.csr_array(graph.to_scipy(scaled=True)), np.random.default_rng(0)
    found = np.stack([partition(arcs, each, random) for each in np.geomspace(2, 8, 4)], 1)
    together = torch.from_numpy((found[:, None] == found[None]).mean(2))
    joined = (graph.degree > 0).double()
    together *= joined[:, None] * joined
    mean = torch.where(joined > 0, together.sum(1) / joined.sum(), 0.0)
    centred = (together - mean[:, None] - mean + mean[joined > 0].mean()) * joined[:, None] * joined
    length = centred.diagonal().clamp(min=1e-12).sqrt()
    z = community_view(graph, 300).double()
    torch.testing.assert_close(z @ z.T, centred / length[:, None] / length, atol=2e-3, rtol=2e-3)


def test_nodes_without_an_edge_have_empty_rows_and_so_has_a_graph_without_edges():
    graph = Graph.from_edges([[0, 1, 3], [1, 2, 4]], num_nodes=6)
    view = community_view(graph, 4)
    assert view.shape == (6, 4) and torch.isfinite(view).all() and not view[5].any()
    empty = Graph.from_edges(np.zeros((2, 0), int), num_nodes=5)
    assert torch.equal(community_view(empty, 4), torch.zeros(5, 4))


def test_on_disk_it_is_the_same_and_made_once(graph, tmp_path, monkeypatch):
    save_store(graph, tmp_path / "g.store")
    one, two = community_view(graph, 8), community_view(open_store(tmp_path / "g.store"), 8)
    torch.testing.assert_close(one @ one.T, two @ two.T, atol=1e-3, rtol=1e-3)
    monkeypatch.setattr(module, "partition", None)
    assert torch.equal(community_view(open_store(tmp_path / "g.store"), 8), two)


def test_a_graph_that_is_too_large_has_fewer_partitions_and_then_an_empty_view(graph, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "partition", lambda arcs, each, random: asked.append(each) or np.arange(300) % 7)
    for arcs, partitions in ((3, 3), (1, 1), (0, 0)):
        monkeypatch.setattr(module, "ARCS", arcs * len(graph.indices))
        asked.clear()
        view = community_view(graph.fresh(), 8)
        assert len(asked) == partitions and view.shape == (300, 8) and bool(view.any()) == (partitions > 0)
