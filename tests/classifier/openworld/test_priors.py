"""How common classes are: estimated from scores, fixed by the user, refused where it cannot be."""

import pytest
import torch

from fewnode.classifier import novelty as priors
from fewnode.errors import InputError


def drawn(shares: list[float], n: int = 20_000) -> torch.Tensor:
    """Exact log odds of three groups (Gaussians on a line) at equal shares, of nodes that come with ``shares``."""
    random = torch.Generator().manual_seed(0)
    group = torch.multinomial(torch.tensor(shares), n, replacement=True, generator=random)
    x = 2.0 * group + torch.randn(n, generator=random)
    return -((x[:, None] - 2.0 * torch.arange(3)) ** 2) / 2


def test_the_shares_are_found_again(monkeypatch):
    monkeypatch.setattr(priors, "TRUST", 1.0)
    monkeypatch.setattr(priors, "FAINT", 0.0)
    found = priors.estimate(drawn([0.7, 0.25, 0.05]), torch.full((3,), 1 / 3))
    assert found.tolist() == pytest.approx([0.7, 0.25, 0.05], abs=0.01)


def test_the_estimate_stays_between_what_is_assumed_and_what_is_likeliest():
    found = priors.estimate(drawn([0.7, 0.25, 0.05]), torch.full((3,), 1 / 3))
    assert 1 / 3 < float(found[0]) < 0.7 and 0.05 < float(found[2]) < 1 / 3


def test_a_node_counts_as_often_as_its_weight_says():
    utilities, assumed = drawn([0.5, 0.3, 0.2], 400), torch.full((3,), 1 / 3)
    twice = priors.estimate(torch.cat([utilities, utilities[:100]]), assumed)
    weight = torch.ones(400)
    weight[:100] = 2
    assert torch.allclose(priors.estimate(utilities, assumed, weight=weight), twice, atol=1e-6)


def test_fixed_shares_stay_and_the_others_share_the_rest():
    found = priors.estimate(drawn([0.7, 0.25, 0.05]), torch.full((3,), 1 / 3), {1: 0.1})
    assert float(found[1]) == pytest.approx(0.1) and float(found.sum()) == pytest.approx(1)
    found = priors.estimate(drawn([0.7, 0.25, 0.05]), torch.full((3,), 1 / 3), {1: 0.0, 2: 1.0})
    assert found.tolist() == pytest.approx([0, 0, 1])


def test_other_shares_change_the_probabilities_by_their_ratio():
    p = priors.with_shares(torch.zeros(1, 2), torch.tensor([0.5, 0.5]), torch.tensor([0.8, 0.2]))
    assert p[0].tolist() == pytest.approx([0.8, 0.2])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mule": -0.1}, "prior of 'mule' is -0.1"),
        ({"mule": 1.1}, "prior of 'mule' is 1.1"),
        ({"mule": True}, "prior of 'mule' is True"),
        ({"mule": "many"}, "prior of 'mule' is 'many'"),
        ({"mule": 0.7, "other": 0.6}, "sum to 1.3"),
        ({"baker": 0.1}, "a prior for 'baker'"),
    ],
)
def test_wrong_priors_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        priors.checked_priors(given, ("mule",), "other")


def test_no_priors_are_fine():
    assert priors.checked_priors(None, ("mule",), "other") == {}
