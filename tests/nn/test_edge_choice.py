import numpy as np
import pytest

import fewnode
from fewnode import Graph
from fewnode.graph.edge_types import EdgeUse
from fewnode.nn.edge_choice import choose_edges


@pytest.fixture(scope="module")
def base():
    graph, _ = fewnode.planted(500, 12, homophily=0.5, avg_degree=4, difficulty=0.8, seed=3)
    return graph


def onwards(y, rng):
    """Edges from each class to the next, and a copy of each that leads anywhere."""
    source = rng.integers(0, len(y), 1500)
    members = [np.flatnonzero(y == c) for c in range(y.max() + 1)]
    target = np.array([rng.choice(members[(c + 1) % len(members)]) for c in y[source]])
    return np.stack([source, np.where(rng.random(1500) < 0.7, target, rng.integers(0, len(y), 1500))])


def test_directions_are_used_where_they_tell_classes_apart(base):
    rng, y = np.random.default_rng(0), base.y.numpy()
    use, notes = choose_edges(Graph.from_edges(onwards(y, rng), base.features_scipy(), y, directed=True), 32)
    assert use.relations == ("in", "out") and "edges: views used, +" in notes[0]
    edges = base.edge_arrays()["edge_index"]
    turned = np.where(rng.random(edges.shape[1]) < 0.5, edges[::-1], edges)
    use, notes = choose_edges(Graph.from_edges(turned, base.features_scipy(), y, directed=True), 32)
    assert use == EdgeUse()
    assert notes == ["directions and types of edges: not used, they did not help on known classes"]


def test_kinds_count_less_if_they_lead_anywhere_and_are_a_view_if_they_belong_to_classes(base):
    rng, y = np.random.default_rng(0), base.y.numpy()
    edges = base.edge_arrays()["edge_index"]
    count = edges.shape[1]
    noisy = np.hstack([edges, rng.integers(0, len(y), (2, 2 * count))])
    kinds = np.repeat(["friend", "ad"], [count, 2 * count])
    use, notes = choose_edges(Graph.from_edges(noisy, base.features_scipy(), y, edge_type=kinds), 32)
    assert use.weights["friend"] == 1 and use.weights["ad"] < 0.2
    assert "edges: weights used, +" in notes[0]
    by_class = np.where(rng.random(count) < 0.8, y[edges[0]], rng.integers(0, 12, count))
    use, notes = choose_edges(Graph.from_edges(edges, base.features_scipy(), y, edge_type=by_class), 32)
    assert len(use.types) == 12 and "edges: views used, +" in " ".join(notes)


def test_few_classes_are_not_asked(base):
    y = np.where(base.y.numpy() < 3, base.y.numpy(), -1)
    use, notes = choose_edges(Graph.from_edges(base.edge_arrays()["edge_index"], y=y, directed=True))
    assert use == EdgeUse() and "fewer than" in notes[0]
    assert choose_edges(base) == (EdgeUse(), [])
