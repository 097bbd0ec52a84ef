import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from fewnode.nn.heads import (
    class_means,
    cosine_scores,
    euclidean_scores,
    logistic_scores,
    ridge_scores,
)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    y = torch.tensor([[0, 1, 2, 2, 1, 0], [2, 2, 2, 1, 0, 0], [0, 1, 2, 0, 0, 0]])  # unequal shots
    centres = torch.randn(3, 3, 8, generator=generator, dtype=torch.float64)
    rows = torch.arange(3)[:, None]
    z = centres[rows, y] + 0.5 * torch.randn(3, 6, 8, generator=generator, dtype=torch.float64)
    q = torch.randn(3, 5, 8, generator=generator, dtype=torch.float64)
    return z, y, q


def test_class_means_with_unequal_shots(batch):
    z, y, _ = batch
    means = class_means(z, y, 3)
    for task in range(3):
        for position in range(3):
            torch.testing.assert_close(means[task, position], z[task][y[task] == position].mean(0))


def test_cosine_and_euclidean_scores_written_out(batch):
    z, y, q = batch
    prototypes = class_means(z, y, 3)
    for task in range(3):
        for query in range(5):
            for position in range(3):
                a, b = q[task, query], prototypes[task, position]
                torch.testing.assert_close(
                    cosine_scores(q, prototypes)[task, query, position], a @ b / a.norm() / b.norm()
                )
                expected = -(a - b).square().sum()
                torch.testing.assert_close(euclidean_scores(q, prototypes)[task, query, position], expected)


@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_ridge_equals_scikit_learn(batch, penalty):
    z, y, q = batch
    scores = ridge_scores(z, y, q, 3, penalty)
    for task in range(3):
        model = RidgeClassifier(alpha=penalty).fit(z[task], y[task])
        # scikit-learn's targets are -1 and 1, ours 0 and 1: half of it, shifted
        np.testing.assert_allclose(2 * scores[task] - 1, model.decision_function(q[task]), atol=1e-8)


@pytest.mark.parametrize("c", [0.1, 1.0, 100.0])
def test_logistic_regression_equals_scikit_learn(batch, c):
    z, y, q = batch
    probability = torch.softmax(logistic_scores(z, y, q, 3, c), -1)
    for task in range(3):
        model = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(z[task], y[task])
        np.testing.assert_allclose(probability[task], model.predict_proba(q[task]), atol=2e-4)


def test_logistic_regression_with_equal_or_zero_supports_is_finite():
    z = torch.zeros(1, 4, 3)
    y = torch.tensor([[0, 0, 1, 1]])
    scores = logistic_scores(z, y, torch.zeros(1, 2, 3), 2)
    torch.testing.assert_close(torch.softmax(scores, -1), torch.full((1, 2, 2), 0.5))
