"""Which nodes are worth a look: every way gives what it says, and none asks twice."""

import pytest
import torch

import own_graph
from fewnode.classifier.suggest import SURE
from fewnode.errors import InputError


def truth(names):
    y = own_graph.arrays()[2]
    return [(*own_graph.TRADES, *own_graph.NEW)[y[int(name[1:])]] for name in names]


@pytest.fixture
def adapted(classifier):
    return classifier.adapt({"mule": own_graph.examples()["mule"]})


def test_before_there_is_an_example_typical_nodes_of_each_region_come_up(classifier):
    found = classifier.suggest(6)
    assert len(set(found.names)) == 6 and found.labels == [] and found.by == "teach"
    assert set(truth(found.names)) == set(own_graph.NEW)  # only these have no label


def test_what_a_label_would_teach_is_of_several_kinds_and_never_asked_twice(adapted):
    found = adapted.suggest(8)
    assert len(set(found.names)) == 8 == len(found.labels) and not set(found.names) & set(own_graph.examples()["mule"])
    again = adapted.suggest(8, told=found.names)
    assert not set(again.names) & set(found.names)


def test_doubtful_and_sure_nodes_of_a_class(adapted):
    sure, doubtful = (adapted.suggest(5, by, "mule") for by in ("sure", "doubtful"))
    assert min(sure.probabilities) >= SURE and set(sure.labels) == {"mule"}
    found = adapted.predict_proba(adapted.unlabelled())
    top = found.probabilities.max(1).values.tolist()
    called = {name: p for name, p, label in zip(found.names, top, found.labels(), strict=True) if label == "mule"}
    assert min(called, key=called.__getitem__) in doubtful.names  # the least sure of those that get the class
    assert adapted.suggest(5, "sure", "baker").names  # none is sure of a class all of whose nodes have labels


def test_the_least_margin_and_none_of_these(adapted):
    found = adapted.predict_proba(adapted.unlabelled())
    margin = found.probabilities.topk(2).values.diff().abs().flatten()
    assert adapted.suggest(1, "margin").names == [found.names[int(margin.argmin())]]
    likeliest = int(found.probabilities[:, -1].argmax())
    assert adapted.suggest(1, "other").names == [found.names[likeliest]]
    assert len(adapted.suggest(1000, "random")) == len(found)


def test_in_the_closed_question_and_among_some_nodes(classifier):
    closed = classifier.adapt(own_graph.examples(), among="new")
    found = closed.suggest(3, among=["n15", "n23", "n31", "n38"], told=["n15"])
    assert set(found.names) == {"n23", "n31", "n38"}
    assert torch.equal(closed.suggest(3).nodes, closed.suggest(3).nodes)


def test_without_a_new_class_what_looks_like_no_known_one_is_asked(classifier):
    found = classifier.adapt({}).suggest(5)
    assert len(set(found.names)) == 5
    assert len(classifier.suggest(5, told=classifier.unlabelled())) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "luck"}, "unknown way to suggest 'luck'"),
        ({"n": 0}, "ask for 1 or more"),
        ({"by": "sure"}, "needs a class"),
        ({"by": "teach", "label": "mule"}, "takes no label"),
        ({"by": "sure", "label": "mul"}, "Did you mean 'mule'"),
        ({"told": ["x1"]}, "there is no node 'x1'"),
    ],
)
def test_what_cannot_be_asked_is_refused(adapted, arguments, message):
    with pytest.raises(InputError, match=message):
        adapted.suggest(**arguments)
