"""The adapter: every weight modulated by its own two numbers."""

import torch

from fewnode.nn.adapters import Adapter


def test_one_plus_alpha_times_theta_plus_beta() -> None:
    adapter, theta, context = Adapter(4, 5, 7), torch.randn(7), torch.randn(3, 4)
    for row, adapted in zip(context, adapter(context, theta), strict=True):
        expected = (1 + adapter.alpha(row)) * theta + adapter.beta(row)
        torch.testing.assert_close(adapted, expected)


def test_a_zero_start_adapts_nothing_yet() -> None:
    theta = torch.randn(7)
    torch.testing.assert_close(Adapter(4, 5, 7, start=0.0)(torch.randn(2, 4), theta), theta.expand(2, 7))


def test_contexts_of_any_shape() -> None:
    assert Adapter(4, 5, 7)(torch.randn(2, 3, 4), torch.randn(7)).shape == (2, 3, 7)
