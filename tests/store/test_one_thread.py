"""Answers do not depend on the number of threads, and the caller's settings stay."""

import pytest
import torch

from fewnode import FewShotClassifier, fit, methods, planted
from fewnode.store import one_thread


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def by_threads(make):
    """What two numbers of threads give, which both are as before."""
    found = []
    for number in (1, 3):
        torch.set_num_threads(number)
        found.append(make())
        assert torch.get_num_threads() == number
    return found


def test_structure_is_the_same_to_the_last_bit():
    one, three = by_threads(lambda: planted(3000, 10, features=0, seed=1)[0].x)
    assert torch.equal(one, three)


TRAINED = [name for name in methods.names() if methods.find(name).training_settings is not None]


@pytest.mark.parametrize(("method", "features"), [("gcn", 0), *((name, 300) for name in TRAINED)])
def test_a_training_is_the_same_to_the_last_bit(method, features):
    def trained():
        graph, split = planted(1500, 10, features=features, seed=1)
        return fit(method, graph, split, n_way=3, k_shot=2, n_query=5, steps=1).state_dict()

    one, three = by_threads(trained)
    assert all(torch.equal(one[name], three[name]) for name in one)


def test_predictions_are_the_same_to_the_last_bit():
    graph, _ = planted(1500, 8, features=200, seed=1)
    y = torch.where(graph.y == 7, -1, graph.y)
    examples = (graph.y == 7).nonzero().flatten()[:4].tolist()

    def predicted():
        fresh = type(graph).from_edges(**graph.with_labels(y).arguments())
        classifier = FewShotClassifier(n_way=2, k_shot=2, steps=2).fit(fresh)
        return classifier.adapt({"new": examples}).predict_proba().probabilities

    one, three = by_threads(predicted)
    assert torch.equal(one, three)


def test_contexts_can_be_nested_and_iterated():
    torch.set_num_threads(3)
    with one_thread, one_thread:
        assert torch.get_num_threads() == 1
        with one_thread.all():
            assert torch.get_num_threads() == 3
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
