import numpy as np
import torch

from fewnode import Graph
from fewnode.graph.edge_types import EdgeUse, relation, relation_names, type_weights, union, weights_tell

EDGES = np.array([[0, 1, 2, 0], [1, 2, 0, 2]])


def dense(graph):
    return graph.to_scipy().toarray().tolist()


def test_a_plain_graph_has_no_relations():
    graph = Graph.from_edges(EDGES)
    assert relation_names(graph) == () and union(graph) is graph and EdgeUse().seen(graph) is graph


def test_directions_are_apart_and_together():
    graph = Graph.from_edges(EDGES, directed=True)
    apart = {name: relation(graph, name) for name in relation_names(graph)}
    assert tuple(apart) == ("in", "out")
    assert dense(apart["in"]) == [[0, 0, 1], [1, 0, 0], [1, 1, 0]]  # a row lists those with an edge to the node
    assert dense(apart["out"]) == [[0, 1, 1], [0, 0, 1], [1, 0, 0]]
    assert dense(union(graph)) == [[0, 1, 1], [1, 0, 1], [1, 1, 0]] and not union(graph).directed


def test_kinds_with_weights_and_directions():
    graph = Graph.from_edges(EDGES, directed=True, edge_weight=[1, 2, 3, 4], edge_type=["b", "a", "a", "b"])
    assert relation_names(graph) == ("in", "out", "type a", "type b")
    assert dense(relation(graph, "in")) == [[0, 0, 3], [1, 0, 0], [4, 2, 0]]
    assert dense(relation(graph, "type a")) == [[0, 0, 3], [0, 0, 2], [3, 2, 0]]  # whatever their direction
    assert not relation(graph, "type c").num_edges
    assert dense(union(graph)) == [[0, 1, 7], [1, 0, 2], [7, 2, 0]]
    undirected = Graph.from_edges(EDGES, edge_type=["b", "a", "a", "b"])
    assert dense(relation(undirected, "type b")) == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert union(undirected).edge_types is None


def test_only_the_commonest_types_are_told_apart():
    kinds = np.repeat(np.arange(10), np.arange(10, 0, -1))
    ends = np.random.default_rng(0).permutation(200)[: 2 * len(kinds)].reshape(2, -1)
    graph = Graph.from_edges(ends, edge_type=kinds)
    assert relation_names(graph) == tuple(f"type {number}" for number in range(8))


def test_structural_features_are_those_of_the_whole_graph():
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 40, (2, 150)), directed=True)
    for part in (union(graph), *(relation(graph, name) for name in relation_names(graph))):
        assert torch.equal(part.x, graph.x)


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
    assert told.without_weights().weights is None


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
    assert float(union(seen).weights.max()) >= 1 and float(relation(seen, "type any").weights.max()) < 0.3
    assert type_weights(Graph.from_edges(np.stack([source, target])[:, 300:], y=y, edge_type=kinds[300:])) == {}
