"""Explanations: what they claim is what happens when the example or the edge is really taken away."""

import copy

import numpy as np
import pytest
import torch

import own_graph
from fewnode.classifier.classifier import FewShotClassifier
from fewnode.classifier.explain import embeddings_of, given_labels, without_edge
from fewnode.graph import Graph


@pytest.fixture(scope="module")
def adapted(learned) -> FewShotClassifier:
    return copy.copy(learned).adapt(own_graph.examples(), among="new")


def test_probabilities_margins_and_the_nearest_examples(adapted):
    found = adapted.explain("n70")
    p = adapted.predict_proba(["n70"]).probabilities[0]
    assert found.label == adapted.predict_proba(["n70"]).labels()[0] and found.probability == pytest.approx(
        float(p.max())
    )
    assert list(found.margins.values()) == pytest.approx([float(p.max() - p.min())])
    assert len(found.examples) == 5 and found.examples[0].label == found.label
    similar = [example.similarity for example in found.examples]
    assert similar == sorted(similar, reverse=True) and max(similar) <= 1 + 1e-6


def test_influence_of_an_example_is_what_leaving_it_out_does(adapted, classifier):
    found = adapted.explain("n70")
    example = found.examples[0]
    fewer = {name: [n for n in nodes if n != example.node] for name, nodes in own_graph.examples().items()}
    other = classifier.adapt(fewer, among="new")
    other.calibration = adapted.calibration
    p = dict(zip(other.support.classes, other.predict_proba(["n70"]).probabilities[0].tolist(), strict=True))
    runner_up = next(iter(found.margins))
    left = p[found.label] - p[runner_up]
    assert example.influence == pytest.approx(found.margins[runner_up] - left, abs=1e-5)


def test_influence_of_a_neighbour_is_what_cutting_the_edge_does(adapted):
    found = adapted.explain("n70", n_neighbours=1)
    neighbour = found.neighbours[0]
    assert [n.influence is None for n in found.neighbours] == [False] + [True] * (found.degree - 1)
    assert sum(n.weight for n in found.neighbours) == pytest.approx(1)
    edges, x, _ = own_graph.arrays()
    pair = {70, int(neighbour.node[1:])}
    kept = [set(edge) != pair for edge in edges.T.tolist()]
    graph = own_graph.graph()
    cut = Graph.from_edges(edges[:, kept], x, graph.y, node_names=graph.node_names, class_names=graph.class_names)
    state = adapted.model.embed(adapted.schema.fit(cut))
    prototypes = torch.stack([state[adapted.support.nodes][adapted.support.y == c].mean(0) for c in (0, 1)])
    scores = torch.nn.functional.cosine_similarity(state[70][None], prototypes)
    p = adapted.calibration.probabilities(scores)
    best = adapted.support.classes.index(found.label)
    left = float(p[best] - p[1 - best])
    assert neighbour.influence == pytest.approx(next(iter(found.margins.values())) - left, abs=1e-4)


def test_the_only_example_of_a_class_and_a_node_without_neighbours():
    edges, x, _ = own_graph.arrays()
    x = np.concatenate([x, x[:1]])
    adapted = FewShotClassifier("probe").fit(Graph.from_edges(edges, x)).adapt({"a": [6], "b": [7, 15]}, among="new")
    found = adapted.explain(240)
    assert found.neighbours == () and found.degree == 0
    assert {example.label: example.influence is None for example in found.examples} == {"a": True, "b": False}


def test_labelled_neighbours_have_the_label_they_have(adapted):
    graph = adapted.graph
    found = adapted.explain("n16")  # a baker: so are its friends, though only new classes are offered
    assert found.given == "baker" and found.degree > 0
    assert {(one.label, one.labelled) for one in found.neighbours} == {("baker", True)}
    example = int(adapted.support.nodes[0])
    given = given_labels(graph, adapted.support.examples(), torch.tensor([example, 16, 70]))
    assert given == {example: "mule", 16: "baker"}


def test_cutting_an_edge_cuts_both_directions_and_nothing_else():
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 0]], np.eye(3, dtype=np.float32))
    cut = without_edge(graph, 2, 0)
    assert cut.to_scipy().toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.num_edges == 3


def test_embeddings_are_found_in_whatever_a_method_returns():
    rows = torch.zeros(3, 2)
    for state in (rows, (torch.zeros(2, 2), rows), {"h": rows}, [rows, 5]):
        (found,) = embeddings_of(state, 3)
        assert found is rows
    with pytest.raises(TypeError, match="no tensor"):
        embeddings_of((1, 2), 3)
