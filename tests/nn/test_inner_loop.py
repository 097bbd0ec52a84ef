"""The batched inner loop against one written out by hand, with autograd through it."""

import pytest
import torch
from torch.func import vmap
from torch.nn import functional as F

from fewnode.nn.inner_loop import adapt


def loss(weights, x, y):
    return F.cross_entropy(torch.tanh(x @ weights["a"]) @ weights["b"], y)


def case(seed=0):
    random = torch.Generator().manual_seed(seed)
    start = {
        name: torch.randn(shape, generator=random, dtype=torch.float64)
        for name, shape in (("a", (4, 3)), ("b", (3, 2)))
    }
    x, q = torch.randn(2, 5, 6, 4, generator=random, dtype=torch.float64)
    y, z = torch.randint(2, (2, 5, 6), generator=random)
    return {name: value.requires_grad_() for name, value in start.items()}, x, y, q, z


def by_hand(start, x, y, q, z, steps, rate):
    """The mean query loss of the tasks, one at a time."""
    total = torch.zeros((), dtype=torch.float64)
    for task in range(len(x)):
        weights = dict(start)
        for _ in range(steps):
            gradients = torch.autograd.grad(loss(weights, x[task], y[task]), list(weights.values()), create_graph=False)
            weights = {k: w - rate * gradient for (k, w), gradient in zip(weights.items(), gradients, strict=True)}
        total = total + loss(weights, q[task], z[task])
    return total / len(x)


@pytest.mark.parametrize("steps", [1, 3])
def test_the_gradient_of_the_query_loss_is_that_of_loops(steps):
    start, x, y, q, z = case()
    weights = adapt(loss, start, (x, y), steps=steps, rate=0.5)
    ours = vmap(loss)(weights, q, z).mean()
    theirs = by_hand(start, x, y, q, z, steps, 0.5)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(*(torch.autograd.grad(value, list(start.values())) for value in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b)


def test_one_step_of_a_parabola():
    """theta' = theta - 2 a (theta - s); d (theta' - q)^2 / d theta = 2 (theta' - q), to the first order."""
    theta, s, q, a = 3.0, torch.tensor([1.0, -2.0]), torch.tensor([0.5, 4.0]), 0.1
    start = {"theta": torch.tensor(theta, requires_grad=True)}
    square = lambda w, at: (w["theta"] - at).square()  # noqa: E731 - shorter than a function
    ends = adapt(square, start, (s,), steps=1, rate=a)
    expected = theta - a * 2 * (theta - s)
    torch.testing.assert_close(ends["theta"], expected)
    vmap(square)(ends, q).sum().backward()
    torch.testing.assert_close(start["theta"].grad, 2 * (expected - q).sum())


def test_it_works_without_gradients_and_leaves_the_start_alone():
    start, x, y, _, _ = case()
    before = {name: value.detach().clone() for name, value in start.items()}
    with torch.no_grad():
        inside = adapt(loss, start, (x, y), steps=3, rate=0.5)
    outside = adapt(loss, start, (x, y), steps=3, rate=0.5)
    for name, value in before.items():
        assert not inside[name].requires_grad
        torch.testing.assert_close(inside[name], outside[name])
        assert torch.equal(start[name], value) and start[name].grad is None
