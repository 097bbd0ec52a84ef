import numpy as np
import scipy.linalg
import torch
from torch.nn import functional as F

from fewnode.nn.class_shape import LDAView, Whitening, few_shot_accuracy, sample_per_class


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


def test_large_classes_do_not_decide_alone():
    y = torch.tensor([0] * 10 + [1] * 2 + [2] * 5 + [-1] * 4)
    chosen = sample_per_class(y, torch.tensor([0, 1]), 3)
    assert torch.bincount(y[chosen]).tolist() == [3, 2]


def test_directions_no_base_class_had_count_as_those_they_vary_least_in():
    z, y = stretched()
    whitening = Whitening(1, 3, tuple(range(6)))
    whitening.fit([z], y)
    wide = F.pad(z, (0, 2), value=0.5)
    largest = torch.linalg.eigvalsh(whitening.matrices[0]).max()
    expected = F.normalize(torch.cat([z @ whitening.matrices[0], wide[:, 3:] * largest], 1), dim=1)
    torch.testing.assert_close(whitening(0, wide), expected)


def views_of(classes=6, each=30, rank=5, views=2):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(classes).repeat_interleave(each)
    centres = torch.randn(classes, views, rank, generator=generator)
    z = F.normalize(centres[y] + torch.randn(len(y), views, rank, generator=generator), dim=-1)
    return list(z.unbind(1)), y


def fold_of(y, folds=3):
    return torch.cat([torch.arange(int(y.max()) + 1) % folds, torch.tensor([-1])])


def rows_by_generalised_eigenvectors(model, views, y, classes):
    """Fisher's directions as SciPy finds them: ``Sb v = w Sw v``, each as long as the fourth root of ``w``."""
    z = torch.relu(torch.cat([view[:, : model.columns] for view in views], 1) @ model.weight + model.bias).double()
    means = torch.stack([z[y == c].mean(0) for c in classes])
    away = torch.cat([z[y == c] - z[y == c].mean(0) for c in classes])
    within = away.T @ away / len(away)
    within += model.shrinkage * within.diagonal().mean() * torch.eye(len(within))
    between = (means - means.mean(0)).T @ (means - means.mean(0))
    values, vectors = scipy.linalg.eigh(between.numpy(), within.numpy())
    keep = len(classes) - 1
    directions = torch.tensor(vectors[:, -keep:] * values[-keep:] ** 0.25)
    return F.normalize((z - means.mean(0)) @ directions, dim=1)


def test_the_rows_are_fishers():
    views, y = views_of()
    model = LDAView(2, 5, 6, units=40)
    model.fit(views, y, list(range(6)), fold_of(y))
    expected = rows_by_generalised_eigenvectors(model, views, y, range(6))
    found = model(views, torch.arange(180).view(6, 30)).flatten(0, 1).double()
    assert found.shape == (180, 5)
    torch.testing.assert_close(found @ found.T, expected @ expected.T, atol=1e-3, rtol=1e-3)


def test_a_fold_is_seen_in_the_directions_of_the_others():
    views, y = views_of()
    y[170:] = -1  # nodes without a label are not seen while training
    model = LDAView(2, 5, 6, units=40)
    fold = fold_of(y)
    model.fit(views, y, list(range(6)), fold)
    for f in range(3):
        others, own = [c for c in range(6) if fold[c] != f], fold[y] == f
        expected = rows_by_generalised_eigenvectors(model, views, y, others)[own]
        found = model(views, own.nonzero().ravel(), within_folds=True).double()
        torch.testing.assert_close(found @ found.T, expected @ expected.T, atol=1e-3, rtol=1e-3)
    assert len(model.fold_rows) == 170


def test_the_units_are_the_same_for_every_model_and_leave_the_random_state_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    one, two = LDAView(4, 256, 30), LDAView(4, 256, 10)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(one.weight, two.weight) and one.columns == 64
    assert set(one.state_dict()) == {"matrix", "centre"}


def test_few_shot_accuracy_tells_apart_what_tells_classes_apart():
    generator = torch.Generator().manual_seed(0)
    y = torch.tensor([2, 5, 9]).repeat_interleave(40)
    telling = torch.eye(10)[y] + 0.01 * torch.randn(120, 10, generator=generator)
    noise = torch.randn(120, 10, generator=generator)
    assert few_shot_accuracy(telling, y) == 1 and 0.2 < few_shot_accuracy(noise, y) < 0.5
    assert few_shot_accuracy(telling[::40], y[::40]) == 0  # one node of each class: nothing is left to ask
