"""A new class as one matrix-vector product, against the plain ridge regression it stands for."""

import numpy as np
import torch

from fewnode.classifier import novelty as moments
from fewnode.classifier.novelty import Moments


def drawn(seed: int = 0, n: int = 300, d: int = 8, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    y = rng.integers(-1, classes, n)
    x = rng.normal(size=(classes + 1, d))[y] + rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / 2
    return torch.from_numpy(x).float(), torch.from_numpy(y)


def test_the_direction_is_that_of_ridge_regression_against_all_labelled_nodes():
    x, y = drawn()
    found = Moments.of(x, y)
    examples = x[y < 0][:5]
    direction = found.direction(examples).weights[:, 0].double().numpy()
    negatives = (x[y >= 0] - x[y >= 0].mean(0)).double().numpy()
    mean = (examples.mean(0) - x[y >= 0].mean(0)).double().numpy()
    ridge = moments.RIDGE_TOTAL * (negatives**2).mean()
    for weight in (0.01, 1.0):  # how much the class counts beside its negatives changes the length, not the direction
        rows = np.concatenate([negatives / len(negatives) ** 0.5, weight**0.5 * mean[None], ridge**0.5 * np.eye(8)])
        target = np.concatenate([np.zeros(len(negatives)), [weight**0.5], np.zeros(8)])
        plain = np.linalg.lstsq(rows, target, rcond=None)[0]
        cosine = plain @ direction / np.linalg.norm(plain) / np.linalg.norm(direction)
        assert cosine > 1 - 1e-6


def test_scores_are_measured_in_standard_deviations_of_labelled_nodes():
    x, y = drawn(1)
    found = Moments.of(x, y)
    direction = found.direction(x[y < 0][:3])
    scores = (x[y >= 0] - found.mean) @ direction.weights[:, 0] / direction.spread
    assert abs(float(scores.mean())) < 1e-4 and abs(float(scores.square().mean()) - 1) < 1e-3
    example = (x[y < 0][:3].mean(0) - found.mean) @ direction.weights[:, 0] / direction.spread
    assert abs(float(example) - direction.reach) < 1e-4


def test_discriminants_are_those_of_linear_discriminant_analysis():
    x, y = drawn(2)
    found = Moments.of(x, y)
    z = (x[y >= 0] - x[y >= 0].mean(0)).double()
    own = y[y >= 0]
    means = torch.stack([z[own == c].mean(0) for c in range(4)])
    within = (z - means[own]).T @ (z - means[own]) / len(z)
    metric = torch.linalg.inv(within + moments.RIDGE_WITHIN * z.square().mean() * torch.eye(8, dtype=torch.double))
    distance = torch.stack([((z - m) @ metric * (z - m)).sum(1) for m in means], 1)
    length = (z @ metric * z).sum(1, keepdim=True)
    scores = z.float() @ found.discriminants[:-1] + found.discriminants[-1]
    assert torch.allclose(scores.double(), (length - distance) / 2, atol=1e-3)
