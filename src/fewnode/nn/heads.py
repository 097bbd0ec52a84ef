"""Classifiers on top of embeddings, each solved for all tasks of a batch at once.

All take supports ``z [T, S, d]`` with their classes ``y [T, S]`` and queries ``q [T, M, d]``, and return scores
``[T, M, N]``.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .graph_layers import xavier


def one_hot(y: Tensor, n_way: int, dtype: torch.dtype) -> Tensor:
    return (y[..., None] == torch.arange(n_way, device=y.device)).to(dtype)


def class_means(z: Tensor, y: Tensor, n_way: int) -> Tensor:
    """The mean of each class's supports, [T, N, d]; shots may be unequal."""
    member = one_hot(y, n_way, z.dtype)
    return torch.bmm((member / member.sum(1, keepdim=True)).transpose(1, 2), z)


def cosine_scores(q: Tensor, prototypes: Tensor) -> Tensor:
    """Cosine of each query with each prototype."""
    return torch.bmm(F.normalize(q, dim=-1), F.normalize(prototypes, dim=-1).transpose(1, 2))


def euclidean_scores(q: Tensor, prototypes: Tensor) -> Tensor:
    """Minus the squared distance of each query to each prototype."""
    cross = q @ prototypes.transpose(1, 2)
    return 2 * cross - q.square().sum(-1, keepdim=True) - prototypes.square().sum(-1).unsqueeze(1)


def ridge_scores(z: Tensor, y: Tensor, q: Tensor, n_way: int, penalty: float | Tensor = 1.0) -> Tensor:
    """Ridge regression on one-hot targets with a free intercept, solved in the dual: S x S, however wide ``d`` is."""
    target = one_hot(y, n_way, z.dtype)
    centre, offset = z.mean(1, keepdim=True), target.mean(1, keepdim=True)
    z, q = z - centre, q - centre
    gram = z @ z.transpose(1, 2)
    eye = torch.eye(gram.shape[-1], dtype=z.dtype, device=z.device)
    dual: Tensor = torch.linalg.solve(gram + penalty * eye, target - offset)
    return (q @ z.transpose(1, 2)) @ dual + offset


def logistic_scores(z: Tensor, y: Tensor, q: Tensor, n_way: int, inverse_penalty: float = 1.0) -> Tensor:
    """Multinomial logistic regression with an L2 penalty and a free intercept, as scikit-learn's with C.

    The solution lies in the span of the supports, so ``d`` is first replaced by the at most S coordinates of that
    span (exact); float64, because the line search compares losses that differ in the last digits.
    """
    dtype = q.dtype
    z, q = z.detach().double(), q.detach().double()
    basis = torch.linalg.qr(z.transpose(1, 2)).Q
    z, q = z @ basis, q @ basis
    weight, bias = _fit_logistic(z, one_hot(y, n_way, z.dtype), inverse_penalty)
    return (q @ weight + bias).to(dtype)


def _fit_logistic(
    z: Tensor, target: Tensor, c: float, max_steps: int = 200, tolerance: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """Minimise ``0.5 |w|^2 + c * sum cross-entropy`` for every task: batched L-BFGS with a backtracking search."""
    tasks, _, d = z.shape
    rows = torch.cat([z, torch.ones_like(z[..., :1])], -1)  # the last coordinate is the intercept, which is free
    free = torch.ones(d + 1, 1, dtype=z.dtype, device=z.device)
    free[-1] = 0

    def loss_and_gradient(w: Tensor) -> tuple[Tensor, Tensor]:
        log_p = F.log_softmax(rows @ w, -1)
        loss = 0.5 * (w * w * free).sum((1, 2)) - c * (log_p * target).sum((1, 2))
        return loss, w * free + c * rows.transpose(1, 2) @ (log_p.exp() - target)

    w = z.new_zeros(tasks, d + 1, target.shape[-1])
    loss, gradient = loss_and_gradient(w)
    memory: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(max_steps):
        if gradient.abs().amax() < tolerance:
            break
        direction = -_two_loop(gradient, memory, c)
        step, new_loss, new_gradient = _backtrack(w, loss, gradient, direction, loss_and_gradient)
        moved, turned = step * direction, new_gradient - gradient
        curvature = (moved * turned).sum((1, 2), keepdim=True)
        # A task that has converged moves by nothing: its pair is kept, with no weight.
        inverse = torch.where(curvature > 1e-300, 1 / curvature.clamp(min=1e-300), 0.0)
        memory = [*memory[-9:], (moved, turned, inverse)]
        w, loss, gradient = w + moved, new_loss, new_gradient
    return w[:, :-1], w[:, -1:]


def _two_loop(gradient: Tensor, memory: list[tuple[Tensor, Tensor, Tensor]], c: float) -> Tensor:
    """The L-BFGS direction: the inverse Hessian as remembered from the last steps, applied to the gradient."""
    q = gradient
    weights = []
    for moved, turned, inverse in reversed(memory):
        weight = inverse * (moved * q).sum((1, 2), keepdim=True)
        weights.append(weight)
        q = q - weight * turned
    if memory:
        _, turned, inverse = memory[-1]
        size = inverse * (turned * turned).sum((1, 2), keepdim=True)
        q = torch.where(size > 0, q / size.clamp(min=1e-300), q)
    else:
        q = q / (1 + c)
    for (moved, turned, inverse), weight in zip(memory, reversed(weights), strict=True):
        q = q + moved * (weight - inverse * (turned * q).sum((1, 2), keepdim=True))
    return q


def _backtrack(
    w: Tensor,
    loss: Tensor,
    gradient: Tensor,
    direction: Tensor,
    loss_and_gradient: Callable[[Tensor], tuple[Tensor, Tensor]],
) -> tuple[Tensor, Tensor, Tensor]:
    """Halve each task's step until its loss falls enough (Armijo); after 20 halvings the task stays where it is."""
    descent = (gradient * direction).sum((1, 2))
    step = torch.ones_like(loss)
    for _ in range(20):
        new_loss, new_gradient = loss_and_gradient(w + step[:, None, None] * direction)
        good = new_loss <= loss + 1e-4 * step * descent
        if good.all():
            break
        step = torch.where(good, step, step / 2)
    else:
        step = torch.where(good, step, torch.zeros_like(step))
        new_loss, new_gradient = loss_and_gradient(w + step[:, None, None] * direction)
    return step[:, None, None], new_loss, new_gradient


class BaseClassifier(nn.Module):
    """A linear classifier over the base classes; its loss keeps an embedding true to the whole graph."""

    base: Tensor

    def __init__(self, channels: int, base_classes: tuple[int, ...]) -> None:
        super().__init__()
        self.linear = xavier(nn.Linear(channels, len(base_classes)))
        self.register_buffer("base", torch.tensor(sorted(base_classes)), persistent=False)

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        """Mean cross-entropy at those nodes, ``h [B, d]``, whose class ``y [B]`` is one of the base classes."""
        column = torch.searchsorted(self.base, y).clamp(max=len(self.base) - 1)
        target = torch.where(self.base[column] == y, column, -1)
        total = F.cross_entropy(self.linear(h), target, ignore_index=-1, reduction="sum")
        return total / (target >= 0).sum().clamp(min=1)
