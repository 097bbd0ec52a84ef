import numpy as np
import pytest
import torch

from fewnode import Graph
from fewnode.graph.edge_types import EdgeUse, commonest_types, type_counts, type_weights, union, weights_tell

EDGES = np.array([[0, 1, 2, 0], [1, 2, 0, 2]])


def dense(graph):
    return graph.to_scipy().toarray().tolist()


def test_a_plain_graph_is_seen_as_it_is():
    graph = Graph.from_edges(EDGES)
    assert union(graph) is graph and EdgeUse(weights={"a": 0.5}).seen(graph) is graph


def test_directions_are_left_out():
    graph = Graph.from_edges(EDGES, directed=True)
    assert dense(union(graph)) == [[0, 1, 1], [1, 0, 1], [1, 1, 0]] and not union(graph).directed


def test_types_with_weights_and_directions():
    graph = Graph.from_edges(EDGES, directed=True, edge_weight=[1, 2, 3, 4], edge_type=["b", "a", "a", "b"])
    assert dense(union(graph)) == [[0, 1, 7], [1, 0, 2], [7, 2, 0]]
    assert dense(EdgeUse(weights={"a": 1.0, "b": 0.5}).seen(graph)) == [[0, 0.5, 5], [0.5, 0, 2], [5, 2, 0]]
    assert dense(EdgeUse(weighted=False).seen(graph)) == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    undirected = Graph.from_edges(EDGES, edge_type=["b", "a", "a", "b"])
    assert union(undirected).edge_types is None and union(undirected).weights is None


def test_structural_features_are_those_of_the_whole_graph():
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 40, (2, 150)), directed=True)
    assert torch.equal(union(graph).x, graph.x)


def test_types_are_counted_at_each_node():
    graph = Graph.from_edges(EDGES, edge_type=["b", "a", "a", "b"], directed=True)
    counts = type_counts(graph, ("a", "b"))
    assert (counts > 0).int().tolist() == [[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 0]]  # a and b in, a and b out
    assert torch.allclose(counts.norm(dim=1), torch.ones(3))
    assert not type_counts(Graph.from_edges(EDGES), ("a", "b")).any()


def test_only_the_commonest_types_are_counted():
    kinds = np.repeat(np.arange(10), np.arange(10, 0, -1))
    ends = np.random.default_rng(0).permutation(200)[: 2 * len(kinds)].reshape(2, -1)
    assert commonest_types(Graph.from_edges(ends, edge_type=kinds), 8) == tuple(map(str, range(8)))


def test_weights_tell_if_edges_within_classes_weigh_more():
    rng = np.random.default_rng(0)
    edges, y = rng.integers(0, 200, (2, 800)), np.arange(200) % 4
    same = y[edges[0]] == y[edges[1]]
    told = Graph.from_edges(edges, y=y, edge_weight=rng.gamma(2, 1, 800) * (1 + same))
    assert weights_tell(told)
    assert not weights_tell(Graph.from_edges(edges, y=y, edge_weight=rng.gamma(2, 1, 800)))
    assert not weights_tell(Graph.from_edges(edges, y=y, edge_weight=rng.gamma(2, 1, 800) * (2 - same)))
    assert weights_tell(Graph.from_edges(edges, edge_weight=rng.gamma(2, 1, 800)))  # nobody to ask
    assert weights_tell(Graph.from_edges(edges, y=y))
    assert EdgeUse(weighted=False).seen(told).weights is None


def test_kinds_count_as_often_as_they_join_nodes_of_a_class():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    source = rng.integers(0, 200, 900)
    target = np.where(np.arange(900) < 300, (source + 4 * rng.integers(1, 50, 900)) % 200, rng.integers(0, 200, 900))
    kinds = np.repeat(["same", "any", "few"], [300, 590, 10])
    graph = Graph.from_edges(np.stack([source, target]), y=y, edge_type=kinds)
    weights = type_weights(graph)
    assert weights["same"] == 1 and weights["any"] < 0.1 < weights["few"] < 1
    seen = EdgeUse(weights=weights).seen(graph)
    assert seen is EdgeUse(weights=weights).seen(graph)
    assert float(seen.weights.max()) >= 1 and float(seen.weights.min()) == pytest.approx(weights["any"])
    assert EdgeUse.learned(graph) == EdgeUse(weights=weights, types=("any", "few", "same"))
    assert type_weights(Graph.from_edges(np.stack([source, target])[:, 300:], y=y, edge_type=kinds[300:])) == {}
