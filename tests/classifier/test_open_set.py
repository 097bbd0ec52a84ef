"""Known, new, other: one distribution; and only the examples count."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import own_graph
from fewnode.classifier import open_set
from fewnode.classifier.novelty import DEFAULT
from fewnode.classifier.open_set import OpenSetModel, OpenSetTask
from fewnode.classifier.simulation import Simulated
from fewnode.files import Manifest
from fewnode.graph import Graph
from fewnode.nn.views import Views


def adapted(planted, shots: int = 3) -> OpenSetTask:
    return planted.model.adapt({"new": planted.examples(0, shots), "newer": planted.examples(1, shots)})


def test_known_new_and_other_are_told_apart(planted):
    task = adapted(planted)
    nodes = planted.unlabelled()
    p = task.probabilities(nodes)
    assert task.classes == ("new", "newer", *"abcdefghi", "other") and p.shape[1] == 12
    assert task.kinds == ("new",) * 2 + ("known",) * 9 + ("other",)
    assert torch.allclose(p.sum(1), torch.ones(len(p)), atol=1e-5)
    truth = planted.truth[nodes]
    target = torch.where(truth < 9, truth + 2, torch.where(truth < 11, truth - 9, 11))
    right = p.argmax(1) == target
    assert float(right[truth < 11].float().mean()) > 0.93
    unnamed, known = p[truth == 11, -1], p[truth < 9, -1]
    assert float((unnamed[:, None] > known).float().mean()) > 0.95  # AUROC of unknown against known


def test_one_class_is_enough_and_the_rest_is_known_or_other(planted):
    task = planted.model.adapt({"new": planted.examples(0, 1)})
    nodes = planted.unlabelled()
    p = task.probabilities(nodes)[:, 0]
    members = planted.truth[nodes] == 9
    assert float((p[members][:, None] > p[~members]).float().mean()) > 0.97


def test_the_expectation_is_near_the_truth(planted):
    task = adapted(planted, 5)
    nodes = planted.unlabelled()
    nodes = nodes[(planted.truth[nodes] < 11) & ~torch.isin(nodes, torch.cat(list(task.examples.values())))]
    p = task.probabilities(nodes)
    truth = planted.truth[nodes]
    right = float((p.argmax(1) == torch.where(truth < 9, truth + 2, truth - 9)).float().mean())
    found = task.expect(p, torch.ones(len(p), dtype=torch.bool))
    assert found.right.value == pytest.approx(right, abs=0.07) and found.right.low <= found.right.value
    assert found.simulations > 5 and set(found.classes) == {"new", "newer"} and len(found.assumed) == 3


def test_in_batches_as_at_once(planted):
    task = adapted(planted)
    nodes = torch.arange(planted.graph.num_nodes)
    whole = task.probabilities(nodes)
    parts = torch.cat([task.probabilities(part) for part in nodes.split(37)])
    assert torch.allclose(parts, whole, atol=1e-6)
    assert task.probabilities(nodes[:0]).shape == (0, 12)


def test_an_example_more_changes_its_class_alone(planted):
    task = adapted(planted)
    more = task.with_examples({**task.examples, "new": planted.examples(0, 4)})
    assert torch.equal(more.directions["newer"][0].weights, task.directions["newer"][0].weights)
    fresh = planted.model.adapt(more.examples)
    nodes = planted.unlabelled()
    assert torch.allclose(more.probabilities(nodes), fresh.probabilities(nodes), atol=1e-6)
    back = more.with_examples(task.examples)
    assert torch.allclose(back.probabilities(nodes), task.probabilities(nodes), atol=1e-6)


def test_the_examples_themselves_have_no_say_in_the_shares_of_classes(planted):
    task, nodes = adapted(planted), planted.unlabelled()
    used = torch.cat(list(task.examples.values()))
    assert torch.isin(used, task.pool).any()
    reference = planted.model.reference
    shown = torch.isin(reference.nodes, used)
    kept = torch.cat([torch.ones(len(reference.x) - len(shown), dtype=torch.bool), ~shown])
    less = replace(reference, x=reference.x[kept], features=reference.features[kept], nodes=reference.nodes[~shown])
    assert shown.any()
    model = replace(planted.model, reference=less)
    without = replace(task, pool=task.pool[~torch.isin(task.pool, used)], model=model).with_examples(task.examples)
    assert torch.equal(without.probabilities(nodes), task.probabilities(nodes))


def test_a_given_share_is_kept_and_a_larger_one_finds_more(planted):
    examples, nodes = {"new": planted.examples(0)}, planted.unlabelled()
    few, many = (planted.model.adapt(examples, fixed={"new": share}) for share in (0.001, 0.3))
    told = [float(task.probabilities(task.pool)[:, 0].mean()) for task in (few, many)]
    assert told == pytest.approx([0.001, 0.3], abs=0.01)
    assert float(few.probabilities(nodes)[:, 0].sum()) < float(many.probabilities(nodes)[:, 0].sum())
    assert float(planted.model.adapt(examples, fixed={"other": 0.0}).probabilities(nodes)[:, -1].max()) < 1e-6


def test_a_small_known_class_that_is_shown_now_is_offered_once(planted):
    task = planted.model.adapt({"a": planted.examples(0)})
    assert task.classes.count("a") == 1 and task.kinds[0] == "new"
    p = task.probabilities(torch.arange(20))
    assert torch.allclose(p.sum(1), torch.ones(20), atol=1e-5) and p.shape[1] == len(task.classes)


def test_a_saved_model_predicts_the_same(planted, tmp_path):
    known = planted.model.known
    fold = replace(known, on_coordinates=known.on_coordinates + 1)  # of a single one, as where labels are many
    open_set.save(replace(planted.model, reference=replace(planted.model.reference, fold=fold)), tmp_path)
    Manifest.write(tmp_path)
    manifest = Manifest.read(tmp_path)
    loaded = open_set.load(tmp_path, manifest, planted.y, planted.model.classes)
    nodes = planted.unlabelled()
    models = planted.model, loaded
    before, after = (model.adapt({"new": planted.examples(0)}).probabilities(nodes) for model in models)
    assert torch.allclose(before, after, atol=1e-6) and loaded.simulated == planted.model.simulated
    assert torch.equal(loaded.reference.fold.weights, fold.weights)
    other = planted.y.clone()
    other[planted.unlabelled()[0]] = 0
    assert open_set.load(tmp_path, manifest, other, planted.model.classes) is None  # another label: it is learned again
    assert open_set.load(tmp_path, manifest, planted.y, tuple("abcdefghj")) is None
    assert open_set.load(tmp_path, Manifest(1, {}), planted.y, planted.model.classes) is None


def test_with_two_classes_nothing_is_simulated_and_the_default_holds():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    x = (3 * rng.normal(size=(3, 6))[y] + rng.normal(size=(90, 6))).astype(np.float32)
    graph = Graph.from_edges(rng.integers(0, 90, (2, 100)), x, y)
    left = torch.where(graph.y == 2, -1, graph.y)
    model = OpenSetModel.fit(graph, Views(6).fit(graph), left, ("a", "b"))
    assert model.simulated == (Simulated(3, DEFAULT, {}, {}, 0),)
    p = model.adapt({"c": torch.tensor([60, 61, 62])}).probabilities(torch.arange(90))
    assert float((p[63:, 0][:, None] > p[:60, 0]).float().mean()) > 0.9


@pytest.mark.parametrize("labelled", [1, 2, 30])
def test_with_hardly_any_label_the_most_similar_nodes_still_come_first(labelled):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    x = (3 * rng.normal(size=(3, 6))[y] + rng.normal(size=(90, 6))).astype(np.float32)
    graph = Graph.from_edges(rng.integers(0, 90, (2, 100)), x, y)
    left = torch.where(torch.arange(90) < labelled, 0, -1)
    p = (
        OpenSetModel.fit(graph, Views(6).fit(graph), left, ("a",))
        .adapt({"c": torch.tensor([60, 61, 62])})
        .probabilities(torch.arange(90))
    )
    assert float((p[63:, 0][:, None] > p[:60, 0]).float().mean()) > 0.85


def test_a_class_that_nobody_named_is_called_other(planted):
    task = planted.model.adapt({"a": planted.examples(0, 10), "b": planted.examples(1, 10)})
    nodes = planted.unlabelled()
    called, hidden = task.probabilities(nodes).argmax(1) == len(task.classes) - 1, planted.truth[nodes] == 9 + 2
    assert 2 * int((called & hidden).sum()) / int(called.sum() + hidden.sum()) > 0.8
    assert 0 <= task.other_f1() <= 1


def test_nodes_shown_to_be_of_no_class_draw_their_like_to_other(planted):
    examples, hidden = {"new": planted.examples(0)}, (planted.truth == 9 + 2).nonzero().flatten()
    before = planted.model.adapt(examples)
    after = before.with_examples(examples, hidden[:3])
    rest = hidden[3:]
    assert after.classes == before.classes and after.kinds == before.kinds

    def missing(task: OpenSetTask) -> float:
        return 1 - float(task.probabilities(rest)[:, -1].mean())

    alone = planted.model.adapt({})  # beside an example, clusters find these nodes without help
    assert missing(alone.with_examples({}, hidden[:3])) < missing(alone) / 3 and missing(after) < 0.01
    assert torch.allclose(after.probabilities(rest).sum(1), torch.ones(len(rest)), atol=1e-5)
    again = after.with_examples(examples, hidden[:0])
    assert torch.equal(again.probabilities(rest), before.probabilities(rest))
    fixed = planted.model.adapt(examples, others=hidden[:3], fixed={"other": 0.2})
    assert float(fixed.probabilities(fixed.pool)[:, -1].mean()) == pytest.approx(0.2, abs=0.01)


def test_without_any_example_nodes_are_known_or_other(planted):
    task = planted.model.adapt({})
    p = task.probabilities(planted.unlabelled())
    assert task.classes == (*"abcdefghi", "other") and torch.allclose(p.sum(1), torch.ones(len(p)), atol=1e-5)
    assert task.expect(p, torch.ones(len(p), dtype=torch.bool)).classes == {}
    known = (planted.truth[planted.unlabelled()] < 9).numpy()
    assert float(p[known, -1].mean()) < float(p[~known, -1].mean())


def test_the_nearest_number_of_examples_by_ratio(planted):
    assert [planted.model.nearest(shots).shots for shots in (1, 2, 4, 7, 8)] == [1, 3, 5, 5, 10]


def test_examples_of_known_classes_teach_them(classifier):
    names = own_graph.graph().node_names
    y = own_graph.arrays()[2]
    classifier.attach(classifier.graph.with_labels(torch.where(torch.arange(len(y)) % 5 > 0, -1, classifier.graph.y)))
    examples = own_graph.examples()
    before = classifier.adapt(examples).predict_proba().probabilities
    first = classifier.task.model
    more = {name: [names[i] for i in np.flatnonzero(y == c)[1::5]] for c, name in enumerate(own_graph.TRADES)}
    taught = classifier.adapt({**examples, **more}).task.model
    known = np.flatnonzero((y < len(own_graph.TRADES)) & (np.arange(len(y)) % 5 > 1))
    place = torch.tensor([taught.classes.index(own_graph.TRADES[c]) for c in y[known]])[:, None]
    told = [float(model.log_known[known].gather(1, place).mean()) for model in (first, taught)]
    assert told[1] > 0.6 * told[0]  # they are surer of the truth
    stale = classifier.adapt({**examples, "baker": more["baker"]}, relearn=False).task.model
    assert stale is taught  # as they were learned last
    assert torch.equal(classifier.adapt(examples).predict_proba().probabilities, before)
