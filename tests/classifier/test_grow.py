"""Labels that have come in since the fit: known classes learn on, new classes become known."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import fewnode
from fewnode import FewShotClassifier, Graph, InputError
from fewnode.methods.base import Method
from fewnode.nn.views import Views

N, CLASSES = 1600, 8  # more than 1,000 labels: one fold is held out


@pytest.fixture(scope="module")
def made() -> tuple[Graph, np.ndarray, FewShotClassifier]:
    """A graph with two classes unlabelled and a third of the other labels missing; the truth; the model."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, CLASSES, N)
    order = np.argsort(true, kind="stable")
    pairs = [(i, rng.choice(np.flatnonzero(true == true[i]))) for i in range(N) for _ in range(2)]
    pairs += [(i, int(rng.integers(N))) for i in order]
    x = rng.normal(size=(N, 300)).astype(np.float32)
    x[:, :CLASSES] += 1.5 * np.eye(CLASSES, dtype=np.float32)[true]
    y = np.where((true < CLASSES - 2) & (rng.random(N) < 0.85), true, -1)
    names = [f"class {c}" for c in range(CLASSES - 2)]
    graph = Graph.from_edges(np.array(pairs).T, x, y, node_names=[f"n{i}" for i in range(N)], class_names=names)
    classifier = FewShotClassifier("probe", k_shot=3).fit(graph)
    classifier.open_set_model(inductive=True)
    return graph, true, classifier


def came(graph: Graph, true: np.ndarray) -> dict[str, list[str]]:
    """Half of the missing labels of known classes, most of a new class, three of another."""
    free = np.flatnonzero(graph.y.numpy() < 0)
    some = {f"class {c}": free[true[free] == c] for c in range(CLASSES)}
    some = {name: nodes[: len(nodes) // 2] for name, nodes in some.items()}
    some["class 7"] = some["class 7"][:3]
    return {name: [f"n{i}" for i in nodes] for name, nodes in some.items() if len(nodes)}


def copied(classifier: FewShotClassifier, folder) -> FewShotClassifier:
    classifier.save(folder, force=True)
    return FewShotClassifier.load(folder)


def test_a_grown_model_is_as_good_as_a_fitted_one_and_makes_no_views(made, tmp_path, monkeypatch):
    graph, true, classifier = made
    model, labels = copied(classifier, tmp_path / "m"), came(graph, true)
    with monkeypatch.context() as patch:
        patch.setattr(Views, "_make", lambda *_: pytest.fail("views were made"))
        patch.setattr(Method, "prepare", lambda *_: pytest.fail("trained"))
        done = model.grow(labels)
    assert done.added == sum(map(len, labels.values())) - 3 and done.changed == 0
    assert list(done.promoted) == ["class 6"] and done.waiting == {"class 7": 3}
    assert "class 6" in model.known.base and "class 7" not in model.known.names()
    y = model.graph.y.clone()
    names = model.graph.class_names
    known = Graph.from_edges(**{**graph.arguments(), "y": y.numpy(), "class_names": names})
    again = FewShotClassifier("probe", k_shot=3).fit(known)
    left = (y < 0).nonzero().flatten()
    truth = np.array([f"class {c}" for c in true])[left.numpy()]
    examples = {"class 7": labels["class 7"]}
    grown, fitted = (one.adapt(examples).predict_proba(left) for one in (model, again))
    right = [np.mean(np.array(part.labels()) == truth) for part in (grown, fitted)]
    assert right[0] >= right[1] - 0.02 and right[0] > 0.7
    assert (grown.classes, grown.kinds) == (fitted.classes, fitted.kinds)


def test_new_nodes_and_a_loaded_copy_see_the_labels_that_came(made, tmp_path):
    graph, true, classifier = made
    model = copied(classifier, tmp_path / "m")
    model.grow(came(graph, true))
    member = int(np.flatnonzero(true == 6)[0])
    new = Graph.from_edges(np.zeros((2, 0), int), graph.x[member][None], node_names=["late"])
    ends = [("late", f"n{i}") for i in np.flatnonzero(true == 6)[1:6]]
    found = model.predict_proba(new_nodes=new, new_edges=ends)
    assert found.labels() == ["class 6"]
    again = copied(model, tmp_path / "grown")
    same = again.predict_proba(new_nodes=new, new_edges=ends)
    torch.testing.assert_close(same.probabilities, found.probabilities, atol=1e-4, rtol=1e-3)
    assert again.known == model.known and torch.equal(again.graph.y, model.graph.y)
    assert again.grow({"class 7": [f"n{i}" for i in np.flatnonzero(true == 7)[:20]]}).promoted == {"class 7": 20}


def test_labels_can_be_corrected_and_wrong_ones_are_refused(made, tmp_path):
    graph, _, classifier = made
    model = copied(classifier, tmp_path / "m")
    node = int((graph.y == 0).nonzero()[0])
    assert model.grow({"class 1": [f"n{node}"]}).changed == 1
    assert model.predict_proba([f"n{node}"]).classes == classifier.predict_proba([0]).classes
    for labels, words in (
        ({"class 1": [f"n{node}"]}, "there is no new label"),
        ({"class 9": ["n0"]}, "there is no new label: a new class needs 6 nodes"),
        ({"class 1": ["nobody"]}, "there is no node 'nobody'"),
        ({"class 1": ["n5"], "class 2": ["n5"]}, "'n5' is labelled 'class 1' and 'class 2'"),
    ):
        with pytest.raises(InputError, match=words):
            model.grow(labels)
    other = FewShotClassifier.load(tmp_path / "m", graph.subgraph(torch.arange(N) < 400))
    with pytest.raises(InputError, match="only the graph that a model was fitted on can grow"):
        other.grow({"class 1": ["n5"]})


def test_few_labels_are_learned_from_the_start():
    graph, split = fewnode.planted(300, 6, seed=0)
    blanked = torch.rand(300, generator=torch.Generator().manual_seed(0)) < 0.4
    known = fewnode.training_view(graph, split)
    model = FewShotClassifier("probe", k_shot=3).fit(known.with_labels(torch.where(blanked, -1, known.y)))
    members = (graph.y == split.novel[0]).nonzero().flatten().tolist()
    assert list(model.grow({"new": members[:10]}).promoted) == ["new"]
    again = FewShotClassifier("probe", k_shot=3).fit(model.graph.with_labels(model.graph.y))
    grown, fitted = (np.array(one.predict(members[10:])) for one in (model, again))
    assert np.mean(grown == fitted) > 0.9 and np.mean(grown == "new") > 0.3


def test_a_class_that_grew_from_labels_chosen_by_hand_has_no_due(made, tmp_path):
    graph, true, classifier = made
    model = copied(classifier, tmp_path / "m")
    free = np.flatnonzero((graph.y.numpy() < 0) & (true == 6))
    model.grow({"class 6": [f"n{i}" for i in free[:60]]})  # of about 200: far fewer than of the other classes
    again = copied(model, tmp_path / "n")
    assert again.open_set_model().chosen == ("class 6",)
    again.adapt({})
    assert "class 6" not in again.task.surplus()
    capped = replace(again.task, model=replace(again.task.model, chosen=())).with_examples({})
    at = again.task.model.classes.index("class 6")
    assert float(capped.priors.weights[at]) < 0.9 and float(again.task.priors.weights[at]) == 1
