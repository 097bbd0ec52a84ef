"""Walks stay on edges and do not depend on company; PageRank solves its equation."""

import numpy as np
import pytest
import torch

from fewnode import Graph, planted
from fewnode.graph.operators import hashed
from fewnode.methods.rale import hubs, pagerank, random_walks


@pytest.fixture(scope="module")
def graph() -> Graph:
    return planted(200, 6, avg_degree=5, features=20, seed=2)[0]


def test_walks_start_at_their_node_and_stay_on_edges(graph):
    nodes = torch.arange(graph.num_nodes)
    walks = random_walks(graph, nodes, 7, 4)
    assert walks.shape == (graph.num_nodes, 7, 5)
    assert torch.equal(walks[..., 0], nodes[:, None].expand(-1, 7))
    joined = torch.from_numpy(graph.to_scipy().toarray()) > 0
    stays = (walks[..., :-1] == walks[..., 1:]) & (graph.degree[walks[..., :-1]] == 0)
    assert (joined[walks[..., :-1], walks[..., 1:]] | stays).all()


def test_a_walker_that_cannot_go_on_stays(small):
    assert torch.equal(random_walks(small, torch.tensor([7]), 3, 2), torch.full((1, 3, 3), 7))


def test_without_any_edge_everybody_stays():
    graph = Graph.from_edges(np.zeros((2, 0), int), np.ones((3, 1), np.float32), num_nodes=3)
    assert torch.equal(random_walks(graph, torch.tensor([0, 2]), 1, 2), torch.tensor([[[0, 0, 0]], [[2, 2, 2]]]))


def test_walks_do_not_depend_on_company(graph):
    among = random_walks(graph, torch.arange(50), 5, 3)
    assert torch.equal(among[17:18], random_walks(graph, torch.tensor([17]), 5, 3))


def test_every_neighbour_is_as_likely(graph):
    node = int(graph.degree.argmax())
    steps = random_walks(graph, torch.tensor([node]), 20_000, 1)[0, :, 1]
    shares = torch.bincount(steps, minlength=graph.num_nodes)[
        graph.indices[graph.indptr[node] : graph.indptr[node + 1]].long()
    ]
    expected = 20_000 / int(graph.degree[node])
    assert ((shares - expected).abs() < 5 * expected**0.5).all()


def test_hashes_are_spread_and_fit_in_53_bits():
    values = hashed(torch.arange(100_000), 0)
    assert len(values.unique()) == 100_000
    assert values.min() >= 0 and values.max() < 2**53
    assert abs(float(values.double().mean()) / 2**52 - 1) < 0.01


def dense_pagerank(graph, damping):
    """(I - damping M) p = (1 - damping) / n, with a walker without a way on sent anywhere."""
    n = graph.num_nodes
    into = graph.to_scipy().toarray().astype(float)  # row v: the nodes whose messages reach v
    out = into.sum(0)
    step = np.where(out > 0, into / np.maximum(out, 1), 1 / n)
    return np.linalg.solve(np.eye(n) - damping * step, np.full(n, (1 - damping) / n))


@pytest.mark.parametrize("directed", [False, True])
def test_pagerank_solves_its_equation(directed):
    edges = np.random.default_rng(0).integers(40, size=(2, 90))
    graph = Graph.from_edges(edges, np.ones((45, 1), np.float32), num_nodes=45, directed=directed)
    assert (graph.degree == 0).any()
    ranks = pagerank(graph, 0.85)
    np.testing.assert_allclose((ranks / ranks.sum()).numpy(), dense_pagerank(graph, 0.85), atol=1e-9)


def test_hubs_are_the_highest_ranked(graph):
    chosen = hubs(graph, 0.05)
    assert int(chosen.sum()) == 10
    ranks = pagerank(graph)
    assert ranks[chosen].min() >= ranks[~chosen].max()
    assert int(hubs(graph, 0.0).sum()) == 1
