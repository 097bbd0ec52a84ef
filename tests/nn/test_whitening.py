import numpy as np
import torch
from torch.nn import functional as F

from fewnode.nn import whitening as module
from fewnode.nn.whitening import Whitening, sample_per_class


def stretched(classes=6, each=40, seed=0):
    """Classes that differ in the first two coordinates, whose members differ mostly in the third."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(classes).repeat_interleave(each)
    centres = torch.cat([torch.randn(classes, 2, generator=generator), torch.zeros(classes, 1)], 1)
    noise = torch.randn(len(y), 3, generator=generator) * torch.tensor([0.1, 0.1, 5.0])
    return centres[y] + noise, y


def test_the_matrix_is_the_inverse_root_of_the_pooled_covariance():
    z, y = stretched()
    whitening = Whitening(1, 3, tuple(range(6)), shrinkage=0.1)
    whitening.fit([z], y)
    pooled = sum(np.cov(z[y == c].double().numpy().T, bias=True) for c in range(6)) / 6
    shrunk = pooled + 0.1 * np.trace(pooled) / 3 * np.eye(3)
    matrix = whitening.matrices[0].double().numpy()
    np.testing.assert_allclose(matrix @ shrunk @ matrix, np.eye(3), atol=1e-4)


def test_each_fold_is_whitened_by_the_others():
    z, y = stretched()
    whitening = Whitening(1, 3, tuple(range(6)))
    whitening.fit([z], y)
    fold = whitening.fold_of_class[y]
    assert set(fold.tolist()) == set(range(whitening.folds))
    for f in range(whitening.folds):
        others = Whitening(1, 3, tuple(range(6)))
        others.fit([z[fold != f]], y[fold != f])
        torch.testing.assert_close(whitening.fold_matrices[f, 0], others.matrices[0], atol=1e-5, rtol=1e-5)
        rows = fold == f
        expected = F.normalize(z[rows] @ others.matrices[0], dim=1)
        torch.testing.assert_close(whitening(0, z, fold)[rows], expected, atol=1e-5, rtol=1e-5)
    assert whitening.fold_of_class[-1] == -1  # an unknown class is in no fold


def test_whitening_brings_members_of_new_classes_together():
    z, y = stretched(classes=12)
    whitening = Whitening(1, 3, tuple(range(6)))
    whitening.fit([z], torch.where(y < 6, y, -1))
    new = y >= 6
    plain, whitened = F.normalize(z[new], dim=1), whitening(0, z[new])
    same = y[new][:, None] == y[new]
    gap = [float((k @ k.T)[same].mean() - (k @ k.T)[~same].mean()) for k in (plain, whitened)]
    assert gap[1] > gap[0] + 0.2


def test_large_classes_do_not_decide_alone(monkeypatch):
    monkeypatch.setattr(module, "PER_CLASS", 3)
    y = torch.tensor([0] * 10 + [1] * 2 + [2] * 5 + [-1] * 4)
    chosen = sample_per_class(y, torch.tensor([0, 1]))
    assert torch.bincount(y[chosen]).tolist() == [3, 2]


def test_directions_no_base_class_had_count_as_those_they_vary_least_in():
    z, y = stretched()
    whitening = Whitening(1, 3, tuple(range(6)))
    whitening.fit([z], y)
    wide = F.pad(z, (0, 2), value=0.5)
    largest = torch.linalg.eigvalsh(whitening.matrices[0]).max()
    expected = F.normalize(torch.cat([z @ whitening.matrices[0], wide[:, 3:] * largest], 1), dim=1)
    torch.testing.assert_close(whitening(0, wide), expected)
