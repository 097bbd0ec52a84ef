"""Directions of new classes against plain ridge regression; weights of novelty features; shares of the groups."""

import numpy as np
import pytest
import torch

from fewnode.classifier import novelty
from fewnode.classifier.novelty import DEFAULT, Clusters, Moments, Priors, known_share
from fewnode.errors import InputError


def drawn(seed: int = 0, n: int = 300, d: int = 8, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    y = rng.integers(-1, classes, n)
    x = rng.normal(size=(classes + 1, d))[y] + rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / 2
    return torch.from_numpy(x).float(), torch.from_numpy(y)


def test_the_direction_is_that_of_ridge_regression_against_all_labelled_nodes():
    x, y = drawn()
    found = Moments.of(x, y, torch.arange(len(y)))
    examples = x[y < 0][:5]
    direction = found.direction(examples).weights[:, 0].double().numpy()
    negatives = (x[y >= 0] - x[y >= 0].mean(0)).double().numpy()
    mean = (examples.mean(0) - x[y >= 0].mean(0)).double().numpy()
    ridge = 3.0 * (negatives**2).mean()
    for weight in (0.01, 1.0):  # how much the class counts beside its negatives changes the length, not the direction
        rows = np.concatenate([negatives / len(negatives) ** 0.5, weight**0.5 * mean[None], ridge**0.5 * np.eye(8)])
        target = np.concatenate([np.zeros(len(negatives)), [weight**0.5], np.zeros(8)])
        plain = np.linalg.lstsq(rows, target, rcond=None)[0]
        cosine = plain @ direction / np.linalg.norm(plain) / np.linalg.norm(direction)
        assert cosine > 1 - 1e-6


def test_scores_are_measured_in_standard_deviations_of_labelled_nodes():
    x, y = drawn(1)
    found = Moments.of(x, y, torch.arange(len(y)))
    direction = found.direction(x[y < 0][:3])
    scores = (x[y >= 0] - found.mean) @ direction.weights[:, 0] / direction.std
    assert abs(float(scores.mean())) < 1e-4 and abs(float(scores.square().mean()) - 1) < 1e-3
    example = (x[y < 0][:3].mean(0) - found.mean) @ direction.weights[:, 0] / direction.std
    assert abs(float(example) - direction.examples) < 1e-4


def test_discriminants_are_those_of_linear_discriminant_analysis():
    x, y = drawn(2)
    found = Moments.of(x, y, torch.arange(len(y)))
    z = (x[y >= 0] - x[y >= 0].mean(0)).double()
    own = y[y >= 0]
    means = torch.stack([z[own == c].mean(0) for c in range(4)])
    within = (z - means[own]).T @ (z - means[own]) / len(z)
    metric = torch.linalg.inv(within + 1.0 * z.square().mean() * torch.eye(8, dtype=torch.double))
    distance = torch.stack([((z - m) @ metric * (z - m)).sum(1) for m in means], 1)
    length = (z @ metric * z).sum(1, keepdim=True)
    scores = z.float() @ found.discriminants[:-1] + found.discriminants[-1]
    assert torch.allclose(scores.double(), (length - distance) / 2, atol=1e-3)


def log_odds(shares: list[float], n: int = 20_000) -> torch.Tensor:
    """Exact log odds of three groups (Gaussians on a line) at equal shares, of nodes that come with ``shares``."""
    random = torch.Generator().manual_seed(0)
    group = torch.multinomial(torch.tensor(shares), n, replacement=True, generator=random)
    x = 2.0 * group + torch.randn(n, generator=random)
    return -((x[:, None] - 2.0 * torch.arange(3)) ** 2) / 2


@pytest.mark.parametrize("share", [0.95, 0.7, 0.4])
def test_the_share_of_known_nodes_is_found_whatever_the_new_ones_look_like(share: float):
    random = torch.Generator().manual_seed(1)
    held = torch.randn(2_000, generator=random)
    known, new = torch.randn(round(share * 6_000), generator=random), round((1 - share) * 6_000)
    for scores in (2.5 + torch.randn(new, generator=random), 2 + 3 * torch.rand(new, generator=random)):
        assert known_share(held, torch.cat([known, scores])) == pytest.approx(share, abs=0.05)


def test_a_pool_like_the_held_out_nodes_has_no_new_ones():
    random = torch.Generator().manual_seed(1)
    assert known_share(torch.randn(2_000, generator=random), torch.randn(2_000, generator=random)) > 0.95


def test_stated_priors_are_met_exactly_by_the_mean_probabilities():
    utilities = log_odds([0.7, 0.25, 0.05])
    known = torch.full((len(utilities), 2), 0.5)
    for fixed, share in (({1: 0.1}, 0.8), ({1: 0.4}, None), ({1: 0.2, 2: 0.3}, 0.9), ({1: 0.0001}, 0.7)):
        priors = Priors.estimate(utilities, known, torch.ones(2), share, fixed)
        got = priors.probabilities(utilities, known).mean(0)
        assert got[2:].tolist() == pytest.approx([fixed.get(1), fixed.get(2, float(got[3]))], abs=2e-3)


def test_a_known_class_that_receives_more_than_is_due_loses_the_surplus():
    """Two known classes with equally many labels; half of the pool looks like the second one and a little new."""
    utilities = torch.tensor([[0.0, -3.0, -3.0], [0.0, -1.0, -1.0]]).repeat_interleave(torch.tensor([300, 900]), 0)
    known = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat_interleave(torch.tensor([300, 900]), 0)
    priors = Priors.estimate(utilities, known, torch.ones(2), share=0.6)
    got = priors.probabilities(utilities, known).mean(0)
    assert float(priors.received[1]) > 1.2 * float(priors.due[1]) and float(priors.weights[0]) == 1
    assert float(got[1]) < 1.3 * float(priors.due[1]) / len(known)


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
        novelty.checked_priors(given, ("mule",), "other")


def test_no_priors_are_fine():
    assert novelty.checked_priors(None, ("mule",), "other") == {}


def world(other: float, n: int = 4_000, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Log odds of known, two new classes and other, which suppose too little of the last; and the true groups."""
    random = torch.Generator().manual_seed(seed)
    shares = torch.tensor([0.6, 0.25 - 0.25 * other, 0.15 - 0.15 * other, 0.4 * other])
    truth = torch.multinomial(shares, n, replacement=True, generator=random)
    u = 1.5 * torch.randn(n, 4, generator=random) + 5 * torch.eye(4)[truth]
    u[:, 3] -= 2.5  # members of a class that nobody named look much like the new ones
    return u - u[:, :1], truth


@pytest.mark.parametrize("other", [0.0, 0.4, 0.8])
def test_the_part_of_other_is_told_by_the_examples_left_out_in_turn(other):
    u, truth = world(other)
    again, _ = world(other, seed=1)
    of = world(other, seed=1)[1]
    left_out = [(again[:, k] - again[:, 3])[of == k][:40] for k in (1, 2)]  # of nodes like the members
    groups, each = u.softmax(1), torch.full((len(u),), 1 / len(u))
    found = novelty.other_part(u, groups, each, left_out)
    supposed = float(groups[:, 3].mean() / (1 - groups[:, 0]).mean())
    assert abs(found - other) < 0.15 and abs(found - other) <= abs(supposed - other) + 0.05
    none = novelty.other_part(u, groups, each, [part[:0] for part in left_out])  # one example each tells nothing
    assert none == pytest.approx(max(supposed, 0.02), abs=1e-4)
    known, labelled = torch.ones(len(u), 1), torch.ones(1)
    share = float((truth == 0).float().mean())
    priors = Priors.estimate(u, known, labelled, share, left_out=left_out)
    got = priors.probabilities(u, known).mean(0)
    assert float(got[0]) == pytest.approx(share, abs=0.01)
    assert float(got[3]) == pytest.approx((1 - share) * found, abs=0.01)
    stated = Priors.estimate(u, known, labelled, share, fixed={3: 0.3}, left_out=left_out)
    assert float(stated.probabilities(u, known).mean(0)[3]) == pytest.approx(0.3, abs=1e-3)


def test_an_example_left_out_is_scored_by_the_others():
    x, y = torch.randn(200, 6), torch.arange(200) % 4
    moments, nodes = Moments.of(x, y, torch.arange(200)), torch.rand(5, 6) + 1
    found = novelty.left_out_features(x[:5], nodes, moments)
    direction = moments.direction(x[[0, 1, 3, 4]])
    own = novelty.class_features((x[2:3] - moments.mean) @ direction.weights, nodes[2:3], [direction])
    assert found.shape == (5, 4) and torch.allclose(found[2:3], own, atol=1e-5)
    assert len(novelty.left_out_features(x[:1], nodes[:1], moments)) == 0


def pool(n: int = 400) -> tuple[torch.Tensor, Moments, torch.Tensor, torch.Tensor]:
    """Coordinates of known nodes and, behind them, of two classes, of which the second was named; and the odds."""
    random = torch.Generator().manual_seed(0)
    centre = 4 * torch.eye(8)
    y = torch.arange(4).repeat_interleave(n // 4)
    x = centre[y] + torch.randn(n, 8, generator=random)
    new = torch.cat([centre[part] + torch.randn(60, 8, generator=random) for part in (5, 6)])
    moments = Moments.of(x, y, torch.arange(n))
    group = torch.cat([torch.zeros(n, dtype=torch.long), torch.full((60,), 2), torch.full((60,), 1)])
    utilities = torch.tensor([[0.0, -5.0, -2.0], [0.0, 4.0, 1.0], [0.0, 0.0, 2.0]])[group]
    return torch.cat([x, new]), moments, utilities, group


def test_clusters_are_those_of_nodes_that_nobody_named():
    x, moments, utilities, group = pool()
    found = Clusters.find(x, utilities, utilities.softmax(1), moments, most=2)
    assert found is not None and len(found.directions) == 2
    unnamed = x[group == 2].mean(0) - moments.mean
    for direction in found.directions:  # of cores that are members, so that their mean points to that of the class
        metric = torch.linalg.inv(moments.inverse_within) @ direction.weights[:, 1]
        assert float(torch.cosine_similarity(metric, unnamed, dim=0)) > 0.8
    assert found.named.tolist() == pytest.approx([-2.0, -2.0])
    none = torch.tensor([[0.98, 0.01, 0.01]]).expand(len(x), 3)
    assert Clusters.find(x, utilities, none, moments) is None


def test_clusters_raise_other_at_their_members_only():
    x, moments, utilities, group = pool()
    clusters = Clusters.find(x, utilities, utilities.softmax(1), moments, most=2)
    nodes = torch.zeros(len(x), 6)
    nodes[:, 4:] = 1
    model = novelty.NoveltyModel((*[0.0] * 7, 10.0, -5.0), DEFAULT.other, (1.0, 0.0, 0.0))
    before = model.utilities(nodes, torch.zeros(len(x), 1, 4))
    after = model.with_clusters(before, clusters, x, nodes)
    assert torch.equal(before[:, :-1], after[:, :-1]) and bool((after[:, -1] >= before[:, -1]).all())
    raised = (after - before)[:, -1]
    assert float(raised[group == 2].quantile(0.05)) > float(raised[group != 2].quantile(0.95))
    assert model.with_clusters(before, None, x, nodes) is before
    plain = novelty.NoveltyModel(model.new, model.other)
    assert plain.with_clusters(before, clusters, x, nodes) is before  # nothing was learned of clusters


def test_clusters_without_a_named_class_look_like_none():
    x, moments, utilities, _ = pool()
    utilities = utilities[:, [0, 2]]
    found = Clusters.find(x, utilities, utilities.softmax(1), moments)
    assert found is not None and bool((found.named == 0).all())
