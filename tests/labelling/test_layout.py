"""The map: alike nodes lie together, it is the same every time, and it is kept."""

import numpy as np
import torch

from fewnode.labelling.layout import kept_layout, layout


def groups(n=120, kinds=4):
    random = torch.Generator().manual_seed(0)
    y = torch.arange(n) % kinds
    return 6 * torch.randn(kinds, 20, generator=random)[y] + torch.randn(n, 20, generator=random), y.numpy()


def test_nodes_of_a_kind_lie_together_inside_the_square():
    x, y = groups()
    places = layout(x, landmarks=60)
    assert places.shape == (120, 2) and places.min() >= 0 and places.max() <= 1
    away = np.linalg.norm(places[:, None] - places[None], axis=2) + 9 * np.eye(len(y))
    assert (y[away.argmin(1)] == y).mean() > 0.95
    assert np.array_equal(places, layout(x, landmarks=60))


def test_a_few_nodes_and_a_single_coordinate():
    assert layout(torch.randn(5, 3)).shape == (5, 2)
    assert np.isfinite(layout(torch.zeros(5, 1))).all()


def test_it_is_kept_for_the_same_coordinates_only(tmp_path):
    x, said = torch.randn(20, 4), []
    first = kept_layout(x, tmp_path, said.append)
    assert np.array_equal(kept_layout(x, tmp_path, said.append), first) and len(said) == 1
    kept_layout(x + 1, tmp_path, said.append)
    (tmp_path / "map.npz").write_bytes(b"PK damaged")
    assert kept_layout(x, tmp_path, said.append).shape == (20, 2) and len(said) == 3
    assert kept_layout(x, None).shape == (20, 2)
