"""What is told to be expected, against what is achieved."""

import pytest
import torch

from fewnode.classifier import simulation as expectation
from fewnode.classifier.simulation import Estimate, estimated


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
    told, true = expectation.expected(best, groups, one, one), expectation.achieved(best, truth, right, one)
    for name in ("right", "known", "precision", "recall"):
        assert told[name] == pytest.approx(true[name], abs=0.015)


def test_weights_are_counts():
    groups, best, truth, right = calibrated(300)
    weight = torch.ones(300)
    weight[:50] = 3
    again = torch.cat([torch.arange(300), *[torch.arange(50)] * 2])
    one = torch.ones(400)
    assert expectation.achieved(best, truth, right, weight)["right"] == pytest.approx(
        expectation.achieved(best[again], truth[again], right[again], one)["right"]
    )
    assert expectation.expected(best, groups, torch.ones(300), weight)["recall"] == pytest.approx(
        expectation.expected(best[again], groups[again], one, one)["recall"], abs=1e-5
    )


def test_rows_without_a_label_are_not_right_and_cost_recall():
    groups, best, _, _ = calibrated(2_000)
    one = torch.ones(2_000)
    sure = (best.max(1).values > 0.7).float()
    all_, some = expectation.expected(best, groups, one, one), expectation.expected(best, groups, sure, one)
    assert some["right"][0] < all_["right"][0] and some["recall"][0] < all_["recall"][0]
    assert some["precision"][0] > all_["precision"][0]


def test_a_class_that_is_never_called_has_no_precision():
    best = torch.tensor([[0.9, 0.05, 0.05]])
    found = expectation.expectation(("mule",), expectation.tallied(best, best, torch.ones(1), torch.ones(1)), {}, 0)
    assert found.classes["mule"].precision == Estimate(None, None, None) and found.classes["mule"].recall.value == 0
    assert found.classes["mule"].called == 0 and found.classes["mule"].members == pytest.approx(0.05)
    assert found.to_json()["right"]["value"] == pytest.approx(0.9)


def test_the_interval_is_what_rehearsals_missed_by_and_chance():
    gaps = [-0.2] * 10 + [0.1] * 10
    wide = estimated(0.7, gaps, 10**9)
    assert (wide.low, wide.high) == pytest.approx((0.5, 0.8), abs=1e-3)
    few = estimated(0.7, gaps, 20)
    assert few.low < wide.low and few.high > wide.high
    assert estimated(0.7, gaps[:2], 10) == Estimate(0.7, 0.0, 1.0)  # too few rehearsals to say anything
    assert estimated(0.95, [0.3] * 9, 100).high == 1.0 and estimated(0.95, [0.3] * 9, 10**9).low == pytest.approx(
        0.95, abs=1e-3
    )


def test_figures_that_do_not_exist_are_left_out_of_the_gaps():
    nan = float("nan")
    true = {"right": [0.8], "precision": [nan, 0.5]}
    assert expectation.missed(true, {"right": [0.7], "precision": [0.3, 0.6]}) == {
        "right": [pytest.approx(0.1)],
        "precision": [pytest.approx(-0.1)],
    }
