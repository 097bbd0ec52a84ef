"""Simulated novel classes, and the accuracy to expect against the accuracy achieved."""

from dataclasses import asdict, replace

import pytest
import torch
from msgspec import convert

from fewnode.classifier import simulation
from fewnode.classifier.novelty import DEFAULT, Clusters, Moments
from fewnode.classifier.open_set import OpenSetModel
from fewnode.classifier.simulation import (
    Counts,
    Episode,
    Estimate,
    Simulated,
    Simulation,
    differences,
    estimate,
    expectation,
)


def calibrated(n: int = 50_000) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Probabilities of known, two new classes and other, that are true; and a head that is right in 80 of 100."""
    random = torch.Generator().manual_seed(0)
    groups = (2 * torch.randn(n, 4, generator=random)).softmax(1)
    truth = torch.multinomial(groups, 1, generator=random)[:, 0]
    right = torch.rand(n, generator=random) < 0.8
    best = torch.cat([0.8 * groups[:, :1], groups[:, 1:]], 1)
    return groups, best, truth, right


def test_true_probabilities_tell_the_truth():
    groups, best, truth, right = calibrated()
    one = torch.ones(len(truth))
    implied = Counts.expected(best, groups, one, one).figures()
    true = Counts.achieved(best, truth, right, one).figures()
    for name in ("right", "known", "precision", "recall"):
        assert implied[name] == pytest.approx(true[name], abs=0.015)


def test_weights_are_counts():
    groups, best, truth, right = calibrated(300)
    weight = torch.ones(300)
    weight[:50] = 3
    again = torch.cat([torch.arange(300), *[torch.arange(50)] * 2])
    one = torch.ones(400)
    assert Counts.achieved(best, truth, right, weight).figures()["right"] == pytest.approx(
        Counts.achieved(best[again], truth[again], right[again], one).figures()["right"]
    )
    assert Counts.expected(best, groups, torch.ones(300), weight).figures()["recall"] == pytest.approx(
        Counts.expected(best[again], groups[again], one, one).figures()["recall"], abs=1e-5
    )


def test_rows_without_a_label_are_not_right_and_cost_recall():
    groups, best, _, _ = calibrated(2_000)
    one = torch.ones(2_000)
    sure = (best.max(1).values > 0.7).float()
    all_, some = Counts.expected(best, groups, one, one).figures(), Counts.expected(best, groups, sure, one).figures()
    assert some["right"][0] < all_["right"][0] and some["recall"][0] < all_["recall"][0]
    assert some["precision"][0] > all_["precision"][0]


def test_a_class_that_is_never_called_has_no_precision():
    best = torch.tensor([[0.9, 0.05, 0.05]])
    found = expectation(("mule",), Counts.expected(best, best, torch.ones(1), torch.ones(1)), {})
    assert found.classes["mule"].precision == Estimate(None, None, None) and found.classes["mule"].recall.value == 0
    assert found.classes["mule"].called == 0 and found.classes["mule"].members == pytest.approx(0.05)
    assert found.to_json()["right"]["value"] == pytest.approx(0.9)


def test_the_interval_is_what_simulations_missed_by_and_sampling():
    gaps = [-0.2] * 10 + [0.1] * 10
    wide = estimate(0.7, gaps, 10**9)
    assert (wide.low, wide.high) == pytest.approx((0.5, 0.8), abs=1e-3)
    few = estimate(0.7, gaps, 20)
    assert few.low < wide.low and few.high > wide.high
    assert estimate(0.7, gaps[:2], 10) == Estimate(0.7, 0.0, 1.0)  # too few simulations to say anything
    moved = estimate(0.7, [-0.1] * 30, 10**9)  # all simulations were worse than implied: so will this be
    assert (moved.value, moved.low, moved.high) == pytest.approx((0.6, 0.6, 0.6), abs=1e-3)
    assert estimate(0.95, [0.3] * 9, 100).high == 1.0


def test_nine_of_ten_gaps_and_the_usual_sampling_error_are_inside():
    gaps = torch.linspace(-0.1, 0.1, 1001).tolist()
    found = estimate(0.5, gaps, 10**9)
    assert (found.low, found.high) == pytest.approx((0.41, 0.59), abs=1e-3)
    counted = estimate(0.5, [0.0] * 50, 100)  # 90 % of a binomial share of 100 nodes: 1.645 * 0.05
    assert (counted.low, counted.high) == pytest.approx((0.5 - 0.08225, 0.5 + 0.08225), abs=1e-4)


def test_figures_that_do_not_exist_are_left_out_of_the_gaps():
    nan = float("nan")
    true = {"right": [0.8], "precision": [nan, 0.5]}
    assert differences(true, {"right": [0.7], "precision": [0.3, 0.6]}) == {
        "right": [pytest.approx(0.1)],
        "precision": [pytest.approx(-0.1)],
    }


def test_a_simulation_hides_classes_whole_and_blanks_some_of_the_others(planted):
    random = torch.Generator().manual_seed(0)
    plans = simulation._hidden_classes(planted.y, planted.graph.ranks, random)
    assert len(plans) == 3 and all(len(hidden) <= 4 for hidden in plans)
    assert len({c for hidden in plans for c in hidden}) == sum(map(len, plans))


@pytest.fixture(scope="module")
def learned_from(planted) -> list[list[Episode]]:
    """The episodes of every model that a fit learns from simulated novel classes."""
    seen, learn = [], simulation.learn

    def listened(episodes):
        seen.append(list(episodes))
        return learn(episodes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "learn", listened)
        OpenSetModel.fit(planted.graph, planted.views, planted.y, tuple("abcdefghi"))
    return seen


def test_examples_are_not_among_the_nodes_that_are_asked_about(learned_from):
    for one in learned_from[-1]:
        for number, (_, examples, _) in enumerate(one.examples, 1):
            asked = one.simulation.nodes[one.at][one.truth == number]
            assert len(asked) and not (asked[:, None] == examples[None]).all(-1).any()


def test_a_simulation_is_measured_with_weights_that_did_not_learn_from_it(learned_from):
    """A gap measured on what was learned from would promise more than new classes get."""
    learned = [{id(one.simulation) for one in episodes} for episodes in learned_from]
    numbers = set.union(*learned)
    assert len(numbers) == 3
    for number in numbers:
        assert learned.count(numbers - {number}) == learned.count(numbers)


def test_simulations_have_gaps_of_every_figure_and_survive_json(planted):
    found = planted.model.nearest(3)
    assert found.episodes >= 6 and {one.shots for one in planted.model.simulated} >= {1, 3, 5, 10}
    assert all(len(found.gaps[name]) for name in ("right", "known", "precision", "recall"))
    assert convert(asdict(found), Simulated) == found


def test_the_means_of_bands_are_those_of_their_rows():
    p, hit = torch.tensor([0.85] * 30 + [0.95] * 10 + [1.0] * 15), torch.tensor([1.0] * 15 + [0.0] * 15 + [1.0] * 25)
    weight = torch.ones(55)
    weight[:15] = 3
    found = simulation.band_means(hit, p, weight)
    assert found[8:].tolist() == [0.75, 1.0] and bool(found[:8].isnan().all())
    assert bool(simulation.band_means(hit[:19], p[:19], weight[:19]).isnan().all())  # too few rows


def test_simulations_keep_the_truth_of_their_figures(planted):
    found = planted.model.nearest(3)
    assert len(found.truth["right"]) == found.episodes
    assert 0.5 < sum(found.truth["right"]) / found.episodes <= 1 and "band 9" in found.gaps


def test_where_episodes_are_few_the_gaps_of_all_numbers_of_examples_count(planted):
    alike = [one for one in planted.model.simulated if not one.described]
    assert all(one.episodes < 19 for one in alike)
    for one in alike:
        assert len(one.gaps["right"]) == sum(other.episodes for other in alike) > one.episodes
    simulated = [
        simulation.Simulated(shots, DEFAULT, {"right": [gap] * n}, {}, n, described)
        for shots, gap, n, described in ((1, 0.1, 30, False), (3, 0.2, 6, False), (1, 0.3, 6, True))
    ]
    found = [simulation._with_gaps_enough(one, simulated).gaps["right"] for one in simulated]
    assert found == [[0.1] * 30, [0.1] * 30 + [0.2] * 6, [0.3] * 6]


def episode(n: int = 4_000) -> Episode:
    """Features that matter and features that do not."""
    random = torch.Generator().manual_seed(0)
    truth = torch.multinomial(torch.tensor([0.8, 0.08, 0.07, 0.05]), n, replacement=True, generator=random)
    nodes, classes = torch.randn(n, 6, generator=random), torch.randn(n, 2, 4, generator=random)
    classes[:, 0, 0] += 3.0 * (truth == 1)
    classes[:, 1, 0] += 3.0 * (truth == 2)
    nodes[:, 1] -= 2.0 * (truth == 3)
    one, x = torch.ones(n), torch.randn(n, 3, generator=random)
    moments, position = Moments.of(x, truth, torch.arange(n)), torch.where(truth == 0, 0, -1)
    whole = Simulation((1, 2, 3), x, truth, nodes, one, one[:, None], position, one[:1], moments)
    return Episode(whole, torch.arange(n), classes, truth, [])


def test_what_matters_is_learned_and_the_rest_is_not():
    one = episode()
    found = simulation.learn([one] * 20)
    ridge, *rest = found.new[4:8]
    assert 2 < ridge < 4 and max(map(abs, rest)) < 0.3 and -3 < found.other[1] < -1
    p = one.utilities(found, one.at).softmax(1)
    assert p.mean(0).tolist() == pytest.approx(
        (torch.bincount(one.truth, minlength=4) / len(one.truth)).tolist(), abs=0.01
    )


def test_weights_do_not_depend_on_the_units_of_the_features():
    one = episode()
    other = replace(one, classes=10 * one.classes + 3)
    a, b = (e.utilities(simulation.learn([e]), e.at) for e in (one, other))
    assert torch.allclose(a, b, atol=0.05)


def test_how_to_tell_other_is_learned_only_where_a_class_was_simulated_as_other():
    one = episode()
    at = (one.truth < 3).nonzero().flatten()
    blind = replace(one, at=at, truth=one.truth[at])
    assert one.has_other and not blind.has_other
    found = simulation.learn([blind])
    assert found.other == DEFAULT.other and found.new != DEFAULT.new
    assert simulation.learn([one]).other != DEFAULT.other


def test_how_much_clusters_tell_is_learned():
    """Clusters that are what nobody named raise other; those of known nodes do not."""
    one = episode()
    model = simulation.learn([one])
    x = torch.randn(len(one.truth), 3, generator=torch.Generator().manual_seed(0))
    x[one.truth == 3] += torch.tensor([6.0, 0.0, 0.0])
    moments = Moments.of(x[one.truth == 0], torch.zeros_like(one.truth[one.truth == 0]), torch.arange(len(x)))
    whole = replace(one.simulation, x=x)
    weights = []
    for core in (one.truth == 3, (one.truth == 0) & (x[:, 0] < -1)):
        clusters = Clusters((moments.direction(x[core][:10]),), torch.zeros(1), moments.mean)
        found = simulation.learn_clusters(model, [replace(one, simulation=whole, clusters=clusters)] * 5)
        u = found.with_clusters(one.utilities(model, one.at), clusters, x, whole.nodes)
        weights.append(float(u.softmax(1)[one.truth == 3, 3].mean()))
    before = float(one.utilities(model, one.at).softmax(1)[one.truth == 3, 3].mean())
    assert weights[0] > before + 0.1 and abs(weights[1] - before) < 0.1
    assert simulation.learn_clusters(model, [one]) is model  # without clusters
