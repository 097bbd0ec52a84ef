"""Known, new, other: one distribution; rehearsals; and that only what is shown counts."""

import numpy as np
import pytest
import torch
from msgspec import convert

from fewnode.classifier import novelty as membership
from fewnode.classifier import open_set as opening
from fewnode.classifier import open_set as openworld
from fewnode.classifier import simulation as rehearsal
from fewnode.classifier.novelty import USUAL, Episode, Membership
from fewnode.classifier.open_set import OpenSetModel
from fewnode.classifier.simulation import Rehearsed
from fewnode.files import Manifest
from fewnode.graph import Graph
from fewnode.nn.views import Views


def asked(planted, shots: int = 3) -> openworld.OpenQuestion:
    return planted.model.ask({"new": planted.examples(0, shots), "newer": planted.examples(1, shots)})


def test_known_new_and_other_are_told_apart(planted):
    question = asked(planted)
    nodes = planted.unlabelled()
    p = question.probabilities(nodes)
    assert question.classes == ("new", "newer", *"abcdefghi", "other") and p.shape[1] == 12
    assert question.kinds == ("new",) * 2 + ("known",) * 9 + ("other",)
    assert torch.allclose(p.sum(1), torch.ones(len(p)), atol=1e-5)
    truth = planted.truth[nodes]
    target = torch.where(truth < 9, truth + 2, torch.where(truth < 11, truth - 9, 11))
    right = p.argmax(1) == target
    assert float(right[truth < 11].float().mean()) > 0.93
    unnamed, known = p[truth == 11, -1], p[truth < 9, -1]
    assert float((unnamed[:, None] > known).float().mean()) > 0.95  # AUROC of unknown against known


def test_one_class_is_enough_and_the_rest_is_known_or_other(planted):
    question = planted.model.ask({"new": planted.examples(0, 1)})
    nodes = planted.unlabelled()
    p = question.probabilities(nodes)[:, 0]
    members = planted.truth[nodes] == 9
    assert float((p[members][:, None] > p[~members]).float().mean()) > 0.97


def test_the_expectation_is_near_the_truth(planted):
    question = asked(planted, 5)
    nodes = planted.unlabelled()
    nodes = nodes[(planted.truth[nodes] < 11) & ~torch.isin(nodes, torch.cat(list(question.examples.values())))]
    p = question.probabilities(nodes)
    truth = planted.truth[nodes]
    right = float((p.argmax(1) == torch.where(truth < 9, truth + 2, truth - 9)).float().mean())
    found = question.expect(p, torch.ones(len(p), dtype=torch.bool))
    assert found.right.value == pytest.approx(right, abs=0.07) and found.right.low <= found.right.value
    assert found.rehearsals > 5 and set(found.classes) == {"new", "newer"} and len(found.assumed) == 4


def test_in_batches_as_at_once(planted, monkeypatch):
    question = asked(planted)
    nodes = torch.arange(planted.graph.num_nodes)
    whole = question.probabilities(nodes)
    monkeypatch.setattr(openworld, "BATCH", 37)
    assert torch.allclose(question.probabilities(nodes), whole, atol=1e-6)
    assert question.probabilities(nodes[:0]).shape == (0, 12)


def test_an_example_more_changes_its_class_alone(planted):
    question = asked(planted)
    more = question.with_examples({**question.examples, "new": planted.examples(0, 4)})
    assert more.directions["newer"] is question.directions["newer"]
    fresh = planted.model.ask(more.examples)
    nodes = planted.unlabelled()
    assert torch.allclose(more.probabilities(nodes), fresh.probabilities(nodes), atol=1e-6)
    back = more.with_examples(question.examples)
    assert torch.allclose(back.probabilities(nodes), question.probabilities(nodes), atol=1e-6)


def test_a_said_share_is_kept_and_a_larger_one_finds_more(planted):
    examples, nodes = {"new": planted.examples(0)}, planted.unlabelled()
    few, many = (planted.model.ask(examples, fixed={"new": share}) for share in (0.001, 0.3))
    assert float(few.shares[1]) == pytest.approx(0.001) and float(many.shares[1]) == pytest.approx(0.3)
    assert float(few.probabilities(nodes)[:, 0].sum()) < float(many.probabilities(nodes)[:, 0].sum())
    assert float(planted.model.ask(examples, fixed={"other": 0.0}).probabilities(nodes)[:, -1].max()) < 1e-6


def test_a_small_known_class_that_is_shown_now_is_offered_once(planted):
    question = planted.model.ask({"a": planted.examples(0)})
    assert question.classes.count("a") == 1 and question.kinds[0] == "new"
    p = question.probabilities(torch.arange(20))
    assert torch.allclose(p.sum(1), torch.ones(20), atol=1e-5) and p.shape[1] == len(question.classes)


def test_kept_and_read_back_it_answers_the_same(planted, tmp_path):
    opening.save(planted.model, tmp_path)
    Manifest.write(tmp_path)
    manifest = Manifest.read(tmp_path)
    loaded = opening.load(tmp_path, manifest, planted.y, planted.model.classes)
    nodes = planted.unlabelled()
    before, after = (model.ask({"new": planted.examples(0)}).probabilities(nodes) for model in (planted.model, loaded))
    assert torch.allclose(before, after, atol=1e-6) and loaded.rehearsed == planted.model.rehearsed
    other = planted.y.clone()
    other[planted.unlabelled()[0]] = 0
    assert opening.load(tmp_path, manifest, other, planted.model.classes) is None  # another label: it is learned again
    assert opening.load(tmp_path, manifest, planted.y, tuple("abcdefghj")) is None
    assert opening.load(tmp_path, Manifest(1, {}), planted.y, planted.model.classes) is None


def test_with_two_classes_nothing_can_be_rehearsed_and_what_is_usual_holds():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    x = (3 * rng.normal(size=(3, 6))[y] + rng.normal(size=(90, 6))).astype(np.float32)
    graph = Graph.from_edges(rng.integers(0, 90, (2, 100)), x, y)
    left = torch.where(graph.y == 2, -1, graph.y)
    with torch.no_grad():
        views = Views(6).fit(graph)(graph)
    model = OpenSetModel.fit(graph, views, left, ("a", "b"))
    assert model.rehearsed == (Rehearsed(3, USUAL, {}, 0),)
    p = model.ask({"c": torch.tensor([60, 61, 62])}).probabilities(torch.arange(90))
    assert float((p[63:, 0][:, None] > p[:60, 0]).float().mean()) > 0.9


@pytest.mark.parametrize("labelled", [1, 2, 30])
def test_with_hardly_any_label_the_likest_nodes_still_come_first(labelled):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    x = (3 * rng.normal(size=(3, 6))[y] + rng.normal(size=(90, 6))).astype(np.float32)
    graph = Graph.from_edges(rng.integers(0, 90, (2, 100)), x, y)
    left = torch.where(torch.arange(90) < labelled, 0, -1)
    with torch.no_grad():
        views = Views(6).fit(graph)(graph)
    p = (
        OpenSetModel.fit(graph, views, left, ("a",))
        .ask({"c": torch.tensor([60, 61, 62])})
        .probabilities(torch.arange(90))
    )
    assert float((p[63:, 0][:, None] > p[:60, 0]).float().mean()) > 0.85


# --- rehearsals -------------------------------------------------------------------------------------------------


def test_a_world_hides_classes_whole_and_blanks_some_of_the_others(planted):
    random = torch.Generator().manual_seed(0)
    plans = rehearsal._hidden_classes(planted.y, random)
    assert len(plans) == 3 and all(len(hidden) <= 4 for hidden in plans)
    assert len({c for hidden in plans for c in hidden}) == sum(map(len, plans))


def test_episodes_keep_the_examples_out_and_say_what_each_node_is(planted):
    rehearsed = planted.model.nearest(3)
    assert rehearsed.episodes >= 6 and {one.shots for one in planted.model.rehearsed} >= {1, 3, 5, 10}
    assert all(len(rehearsed.gaps[name]) for name in ("right", "known", "precision", "recall"))
    assert convert(rehearsed.to_json(), rehearsal.Rehearsed) == rehearsed


def test_how_to_tell_other_is_learned_only_where_a_class_played_it():
    taught = Membership((1.0,) * 8, (2.0,) * 5, (0.8, 0.1, 0.03))
    blind = Membership((3.0,) * 8, (9.0,) * 5, (0.7, 0.2, 0.005))
    three, ten = rehearsal._completed([Rehearsed(3, taught, {}, 5)], [Rehearsed(10, blind, {}, 4)])
    assert three.membership == taught and ten.shots == 10
    assert ten.membership == Membership((3.0,) * 8, (2.0,) * 5, (0.7, 0.2, 0.03))
    (alone,) = rehearsal._completed([], [Rehearsed(10, blind, {}, 4)])
    assert alone.membership.other == USUAL.other and alone.membership.new == blind.new


def test_the_nearest_number_of_examples_by_ratio(planted):
    assert [planted.model.nearest(shots).shots for shots in (1, 2, 4, 7, 8)] == [1, 3, 5, 5, 10]


def simulated(n: int = 4_000) -> Episode:
    """Facts that matter and facts that do not."""
    random = torch.Generator().manual_seed(0)
    truth = torch.multinomial(torch.tensor([0.8, 0.08, 0.07, 0.05]), n, replacement=True, generator=random)
    facts, classes = torch.randn(n, 6, generator=random), torch.randn(n, 2, 4, generator=random)
    classes[:, 0, 0] += 3.0 * (truth == 1)
    classes[:, 1, 0] += 3.0 * (truth == 2)
    facts[:, 1] -= 2.0 * (truth == 3)
    return Episode(facts, classes, truth, torch.ones(n), torch.ones(n), truth == 0, 0)


def test_what_matters_is_learned_and_the_rest_is_not():
    one = simulated()
    found = membership.learn([one] * 20)
    ridge, *rest = found.new[3:7]
    assert 2 < ridge < 4 and max(map(abs, rest)) < 0.3 and -3 < found.other[1] < -1
    p = found.utilities(one.facts, one.classes).softmax(1)
    assert p.mean(0).tolist() == pytest.approx(
        (torch.bincount(one.truth, minlength=4) / len(one.truth)).tolist(), abs=0.01
    )
    assert found.shares == pytest.approx((0.8, 0.075, 0.05), abs=0.02)


def test_weights_do_not_depend_on_the_units_of_the_facts():
    one = simulated()
    other = Episode(one.facts, 10 * one.classes + 3, one.truth, one.weight, one.confidence, one.right, 0)
    a, b = (membership.learn([e]).utilities(e.facts, e.classes) for e in (one, other))
    assert torch.allclose(a, b, atol=0.05)


def test_assumed_shares_leave_room_for_what_is_known():
    found = Membership((0.0,) * 8, (0.0,) * 5, (0.6, 0.2, 0.05))
    assert found.assumed(1).tolist() == pytest.approx([0.75, 0.2, 0.05])
    assert float(found.assumed(10)[0]) > 0.04 and float(found.assumed(10)[1:-1].sum()) <= 0.51


def test_nodes_shown_to_be_of_no_class_draw_their_like_to_other(planted):
    examples, hidden = {"new": planted.examples(0)}, (planted.truth == 9 + 2).nonzero().flatten()
    before = planted.model.ask(examples)
    after = before.with_examples(examples, hidden[:3])
    rest = hidden[3:]
    assert after.classes == before.classes and after.kinds == before.kinds
    assert float(after.probabilities(rest)[:, -1].mean()) > float(before.probabilities(rest)[:, -1].mean()) + 0.2
    assert torch.allclose(after.probabilities(rest).sum(1), torch.ones(len(rest)), atol=1e-5)
    again = after.with_examples(examples, hidden[:0])
    assert torch.equal(again.probabilities(rest), before.probabilities(rest))
    fixed = planted.model.ask(examples, others=hidden[:3], fixed={"other": 0.2})
    assert float(fixed.shares[-2:].sum()) == pytest.approx(0.2)


def test_without_any_example_nodes_are_known_or_other(planted):
    question = planted.model.ask({})
    p = question.probabilities(planted.unlabelled())
    assert question.classes == (*"abcdefghi", "other") and torch.allclose(p.sum(1), torch.ones(len(p)), atol=1e-5)
    assert question.expect(p, torch.ones(len(p), dtype=torch.bool)).classes == {}
    known = (planted.truth[planted.unlabelled()] < 9).numpy()
    assert float(p[known, -1].mean()) < float(p[~known, -1].mean())
