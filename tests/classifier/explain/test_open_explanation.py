"""Explanations in the open question: the probabilities are those of predictions, and each influence is what happens."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse as sp

import own_graph
from fewnode.classifier.classifier import FewShotClassifier
from fewnode.classifier.explain import Locality, OpenExplainer
from fewnode.errors import InputError
from fewnode.graph import Graph


@pytest.fixture(scope="module")
def adapted(learned) -> FewShotClassifier:
    return copy.copy(learned).adapt(own_graph.examples())


def test_probabilities_are_those_of_the_predictions(adapted):
    found, predicted = adapted.explain("n70"), adapted.predict_proba(["n70"])
    p = dict(zip(predicted.classes, predicted.probabilities[0].tolist(), strict=True))
    assert found.probabilities == pytest.approx(p) and found.label == predicted.labels()[0]
    assert list(found.probabilities.values()) == sorted(p.values(), reverse=True)
    assert found.margins == pytest.approx({name: p[found.label] - p[name] for name in p if name != found.label})
    assert found.kind == predicted.table()["kind"][0] == "new" and found.given is None


def test_influence_of_an_example_is_what_leaving_it_out_does(adapted, classifier):
    found = adapted.explain("n70")
    runner_up = next(iter(found.margins))
    for example in (one for one in found.examples if one.influence is not None):
        fewer = {name: [n for n in nodes if n != example.node] for name, nodes in own_graph.examples().items()}
        other = classifier.adapt(fewer).explain("n70").probabilities
        left = other[found.label] - other[runner_up]
        assert example.influence == pytest.approx(found.margins[runner_up] - left, abs=1e-4)
    assert {one.label for one in found.examples} == {found.label, runner_up}
    similar = [one.similarity for one in found.examples]
    assert similar == sorted(similar, reverse=True) and max(similar) <= 1 + 1e-6


def test_known_classes_are_shown_by_their_nearest_labelled_nodes(adapted):
    found = adapted.explain("n16")
    bakers = [one for one in found.examples if one.label == "baker"]
    assert found.label == found.given == "baker" and found.kind == "known" and len(bakers) == 3
    x = adapted.question.model.x
    members = [i for i in range(0, 240, 8) if i != 16]
    cosines = torch.nn.functional.cosine_similarity(x[16][None], x[members])
    assert [one.similarity for one in bakers] == pytest.approx(cosines.topk(3).values.tolist(), abs=1e-5)
    assert all(one.influence is None for one in bakers)
    assert {(one.label, one.labelled) for one in found.neighbours} == {("baker", True)}


def test_influence_of_an_edge_is_the_margin_with_the_rows_made_again(adapted):
    found = adapted.explain("n70", n_neighbours=1)
    assert [n.influence is None for n in found.neighbours] == [False] + [True] * (found.degree - 1)
    world, other = adapted.question.model, int(found.neighbours[0].node[1:])
    locality = Locality(adapted.graph, world.recipe, world.moments, world.y)
    margins = []
    for cut in ([], [other]):
        rows = locality.rows(70, locality.surroundings(70, [cut]))
        x, log_known, facts = world.x.clone(), world.log_known.clone(), world.facts.clone()
        x[70], log_known[70], facts[70] = rows.x[0], rows.log_known[0], rows.facts[0]
        asked = replace(adapted.question, model=replace(world, x=x, log_known=log_known, facts=facts))
        p = dict(zip(asked.classes, asked.probabilities(torch.tensor([70]))[0].tolist(), strict=True))
        margins.append(p[found.label] - p[next(iter(found.margins))])
    assert found.neighbours[0].influence == pytest.approx(margins[0] - margins[1], abs=1e-5)
    assert margins[0] == pytest.approx(next(iter(found.margins.values())), abs=0.01)  # rows are kept in half precision


def words_graph() -> Graph:
    """Three classes, each with a word of its own; node 0 has that of class 0, and its neighbours too."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 4
    x = (rng.random((120, 20)) < 0.3).astype(np.float32)
    x[np.arange(120), y] += 2
    edges = np.stack([np.arange(120), (np.arange(120) + 4 * rng.integers(1, 30, 120)) % 120])
    known = np.where((y == 3) | (np.arange(120) < 4), -1, y)
    names = [f"w{i}" for i in range(20)]
    return Graph.from_edges(edges, sp.csr_matrix(x), known, class_names=["a", "b", "c"], feature_names=names)


def test_words_that_speak_for_a_class_are_its_own():
    classifier = FewShotClassifier("probe", k_shot=3).fit(words_graph()).adapt({"new": [7, 11, 15]})
    for node, label, word in ((0, "a", "w0"), (1, "b", "w1"), (3, "new", "w3")):
        found = classifier.explain(node)
        first = found.columns[0]
        assert (found.label, first.name, first.more) == (label, word, True)
        assert first.evidence > 0 and first.own > 0
        evidence = [one.evidence for one in found.columns]
        assert evidence == sorted(evidence, reverse=True) and len(evidence) <= 16


def test_a_change_changes_the_answer(adapted):
    explainer = OpenExplainer(adapted.graph, adapted.question, 70)
    scene = explainer.locality.surroundings(70, [[]])
    found = explainer.explain()
    assert found.tried == {"edges": found.degree, "examples": 3, "columns": 6}
    (change,) = [one for one in found.changes if one.what == "columns"]
    columns = [own_graph.COLUMNS.index(name) for name in change.without]
    p = explainer._without_columns(scene, [columns, columns[:-1]])
    assert explainer.question.classes[int(p[0].argmax())] == change.label != found.label
    assert explainer.question.classes[int(p[1].argmax())] == found.label  # none too many
    assert found.to_json()["changes"][0]["what"] == found.changes[0].what


def test_a_graph_without_features_has_no_columns_and_a_lone_node_no_neighbours():
    edges, _, y = own_graph.arrays()
    graph = Graph.from_edges(edges, y=np.append(np.where(y < 6, y, -1), -1))
    found = FewShotClassifier("probe", k_shot=3).fit(graph).adapt({"new": [6, 14]}).explain(240)
    assert found.columns == () and found.neighbours == () and found.degree == 0
    assert found.tried["edges"] == found.tried["columns"] == 0


def test_a_loaded_model_explains_as_before(adapted, tmp_path):
    before = adapted.explain("n70")
    adapted.save(tmp_path / "m")
    loaded = FewShotClassifier.load(tmp_path / "m").attach(own_graph.graph()).adapt(own_graph.examples())
    after = loaded.explain("n70")
    assert after.probabilities == pytest.approx(before.probabilities, abs=1e-6)
    assert [one.name for one in after.columns] == [one.name for one in before.columns]
    for part in ("examples", "neighbours", "columns"):
        kept, given = ([one.influence for one in getattr(found, part)] for found in (after, before))
        assert kept == pytest.approx(given, abs=1e-5)


def test_wrong_nodes_and_numbers_are_refused_by_name(adapted):
    with pytest.raises(InputError, match=r"no node 'n7x0' in the graph; did you mean 'n70'"):
        adapted.explain("n7x0")
    with pytest.raises(InputError, match="n_neighbours is -1"):
        adapted.explain("n70", n_neighbours=-1)
