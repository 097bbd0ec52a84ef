import scipy.linalg
import torch
from torch.nn import functional as F

from fewnode.nn import discriminant as module
from fewnode.nn.discriminant import Discriminant
from fewnode.store import Space


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


def test_the_rows_are_fishers(monkeypatch):
    monkeypatch.setattr(module, "UNITS", 40)
    monkeypatch.setattr(module, "ROWS", 64)
    views, y = views_of()
    model = Discriminant(2, 5, 6)
    model.fit(views, y, list(range(6)), fold_of(y))
    expected = rows_by_generalised_eigenvectors(model, views, y, range(6))
    found = model(views).double()
    assert found.shape == (180, 5)
    torch.testing.assert_close(found @ found.T, expected @ expected.T, atol=1e-3, rtol=1e-3)


def test_a_fold_is_seen_in_the_directions_of_the_others(monkeypatch):
    monkeypatch.setattr(module, "UNITS", 40)
    views, y = views_of()
    y[170:] = -1  # nodes without a label have no rows while training
    model = Discriminant(2, 5, 6)
    fold = fold_of(y)
    model.fit(views, y, list(range(6)), fold)
    for f in range(3):
        others, own = [c for c in range(6) if fold[c] != f], fold[y] == f
        expected = rows_by_generalised_eigenvectors(model, views, y, others)[own]
        found = model.fold_rows[own].double()
        torch.testing.assert_close(found @ found.T, expected @ expected.T, atol=1e-3, rtol=1e-3)
    assert not model.fold_rows[170:].any()


def test_the_units_are_the_same_for_every_model_and_leave_the_random_state_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    one, two = Discriminant(4, 256, 30), Discriminant(4, 256, 10)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(one.weight, two.weight) and one.columns == 64
    assert set(one.state_dict()) == {"matrix", "centre"}


def test_rows_on_disk_are_those_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 16)
    views, y = views_of()
    whole, stored = (Discriminant(2, 5, 6) for _ in range(2))
    space = Space(tmp_path, 1 << 30)
    for model, where in ((whole, None), (stored, space)):
        torch.manual_seed(0)
        model.fit(views, y, list(range(6)), fold_of(y), where)
    assert torch.allclose(whole.fold_rows, stored.fold_rows, atol=1e-6)
    assert torch.allclose(whole(views), stored(views, space), atol=1e-6)
    assert [path.name[:7] for path in tmp_path.iterdir()] == ["taught-"]  # what only the training needs is gone
