"""Labels that are probably wrong are found; what is right is left alone."""

import numpy as np
import pytest
import torch

from fewnode.classifier.classifier import FewShotClassifier
from fewnode.classifier.inputs import KnownClasses
from fewnode.classifier.label_issues import held_out_probabilities, label_doubt
from fewnode.errors import InputError
from fewnode.graph import Graph

KNOWN = 9


@pytest.fixture(scope="module")
def mistaken(planted):
    """The planted graph in which 24 labels of 480 are wrong, and a classifier fitted on it."""
    truth = planted.truth.numpy()
    y = truth.copy()
    wrong = np.random.default_rng(1).choice(len(y), 24, replace=False)
    y[wrong] = (y[wrong] + 1 + np.arange(24) % (KNOWN + 1)) % (KNOWN + 3)
    names = [f"class {c}" for c in range(KNOWN + 3)]
    arrays = planted.graph.edge_arrays()
    graph = Graph.from_edges(arrays["edge_index"], planted.graph.x.numpy(), y, class_names=names)
    return FewShotClassifier("probe").fit(graph), wrong, truth


def test_flipped_labels_come_first_with_the_true_class_suggested(mistaken):
    classifier, wrong, truth = mistaken
    found = classifier.find_label_issues(top=len(wrong))
    hits = np.isin(found.nodes.numpy(), wrong)
    assert hits.mean() >= 0.9
    suggested = [f"class {truth[node]}" for node in found.nodes.tolist()]
    assert np.mean([a == b for a, b in zip(found.suggested, suggested, strict=True)]) >= 0.9


def test_by_default_those_that_are_rather_wrong_than_right(mistaken):
    classifier, wrong, _ = mistaken
    found = classifier.find_label_issues()
    assert found.labelled == 480
    assert 12 <= len(found) <= 30 and np.isin(found.nodes.numpy(), wrong).mean() >= 0.9
    assert bool((found.doubt > 0.5).all())
    assert found.table()["label"] == [f"class {classifier.graph.y[node]}" for node in found.nodes.tolist()]


def test_reasons_count_labelled_neighbours(mistaken):
    classifier, _, _ = mistaken
    found, graph = classifier.find_label_issues(top=3), classifier.graph
    for node, label, suggested, why in zip(
        found.nodes.tolist(), found.labels, found.suggested, found.table()["why"], strict=True
    ):
        around = [f"class {c}" for c in graph.y[graph.indices[graph.indptr[node] : graph.indptr[node + 1]].long()]]
        told = f"{around.count(suggested)} of {len(around)} labelled neighbours are {suggested!r}, "
        assert why == told + f"{around.count(label)} are {label!r}"


def test_a_held_out_prediction_does_not_see_its_label(planted):
    """The predictions of the nodes of one fold stay when their labels change to one another's."""
    inputs, y, known = planted.model.inputs(planted.graph), planted.y, planted.model.known
    nodes, p = held_out_probabilities(inputs, y, known, folds=4)
    held = nodes[torch.arange(len(nodes)) % 4 == 0]
    left = y.index_fill(0, held, -1)
    expected = known.refit(inputs, left).logits(inputs, left, held)[0].softmax(1)
    assert torch.equal(p[torch.arange(len(nodes)) % 4 == 0], expected)
    assert sorted(nodes.tolist()) == (y >= 0).nonzero().flatten().tolist()


def test_the_only_node_of_a_class_is_not_judged(planted):
    of_last = (planted.y == KNOWN - 1).nonzero().flatten()
    y = planted.y.index_fill(0, of_last[1:], -1)
    nodes, p = held_out_probabilities(planted.model.inputs(planted.graph), y, planted.model.known, folds=2)
    assert of_last[0] not in nodes
    assert p.shape == (len(nodes), KNOWN)
    assert bool(p.isfinite().all())


def test_doubt_where_mistakes_are_alike_everywhere():
    """With as many mistakes of each pair, the odds are the sum of the other p_j^2 / p_i times a constant N."""
    random = torch.Generator().manual_seed(0)
    n, true = 500, torch.arange(500) % 5
    y = torch.where(torch.arange(n) % 25 < 5, (true + 1 + torch.arange(n) // 25 % 4) % 5, true)  # of each pair five
    p = torch.softmax(torch.randn(n, 5, generator=random) + 8 * torch.nn.functional.one_hot(true, 5), 1)
    doubt, own = label_doubt(p, y, sure=1.0), p.gather(1, y[:, None])[:, 0]
    ratio = 0.5 * doubt / (1 - doubt) * own / p.scatter(1, y[:, None], 0).pow(2).sum(1)
    torch.testing.assert_close(ratio, ratio.mean().expand(n), rtol=1e-3, atol=0)
    assert abs(float(ratio.mean()) - 101 / 501 / 4) < 1e-4


def test_doubt_of_a_pair_that_is_mixed_up():
    """Where nodes of class 0 are often labelled 1 by mistake, a label 1 at a node that looks like 0 is more doubtful
    than a label 2 there, although both are equally improbable."""
    sure = torch.tensor([[0.9, 0.05, 0.05]]).repeat(100, 1)
    y = torch.zeros(100, dtype=torch.long)
    y[:10], y[99] = 1, 2
    doubt = label_doubt(sure, y, sure=1.0)
    odds = doubt / (1 - doubt)
    assert float(odds[0]) > 3 * float(odds[99])


@pytest.mark.parametrize(("name", "value"), [("top", 0), ("folds", 1)])
def test_impossible_numbers_are_refused(mistaken, name, value):
    with pytest.raises(InputError, match=f"{name} is {value}"):
        mistaken[0].find_label_issues(**{name: value})


def test_a_graph_without_labels_has_none(mistaken):
    classifier = mistaken[0]
    bare = FewShotClassifier("probe").fit(classifier.graph)
    bare.known = KnownClasses()
    bare.attach(bare.graph.with_labels(torch.full_like(bare.graph.y, -1)))
    with pytest.raises(InputError, match="no labelled node"):
        bare.find_label_issues()


def test_what_notebooks_show(mistaken):
    found = mistaken[0].find_label_issues(top=12)
    assert repr(found).splitlines()[0] == "LabelIssues of 12 nodes"
    assert len(repr(found).splitlines()) == 8
    assert found._repr_html_().count("<tr>") == 11
    assert "&#x27;class" in found._repr_html_()
    assert list(found.to_frame().columns) == ["label", "suggested", "doubt", "p_label", "p_suggested", "why"]
