"""Classifiers on top of embeddings, each solved for all tasks of a batch at once.

All take supports ``z [T, S, d]`` with their classes ``y [T, S]`` and queries ``q [T, M, d]``, and return scores
``[T, M, N]``.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def one_hot(y: Tensor, n_way: int, dtype: torch.dtype) -> Tensor:
    return F.one_hot(y, n_way).to(dtype)


def class_means(z: Tensor, y: Tensor, n_way: int) -> Tensor:
    """The mean of each class's supports, [T, N, d]; shots may be unequal."""
    member = one_hot(y, n_way, z.dtype)
    return (member / member.sum(1, keepdim=True)).transpose(1, 2) @ z


def cosine_scores(q: Tensor, prototypes: Tensor) -> Tensor:
    """Cosine of each query with each prototype."""
    return F.normalize(q, dim=-1) @ F.normalize(prototypes, dim=-1).transpose(1, 2)


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
    dual = torch.linalg.solve(gram + penalty * eye, target - offset)
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

    def loss_and_slope(w: Tensor) -> tuple[Tensor, Tensor]:
        log_p = F.log_softmax(rows @ w, -1)
        loss = 0.5 * (w * w * free).sum((1, 2)) - c * (log_p * target).sum((1, 2))
        return loss, w * free + c * rows.transpose(1, 2) @ (log_p.exp() - target)

    w = z.new_zeros(tasks, d + 1, target.shape[-1])
    loss, slope = loss_and_slope(w)
    memory: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(max_steps):
        if slope.abs().amax() < tolerance:
            break
        direction = -_two_loop(slope, memory, c)
        step, new_loss, new_slope = _backtrack(w, loss, slope, direction, loss_and_slope)
        moved, turned = step * direction, new_slope - slope
        curvature = (moved * turned).sum((1, 2), keepdim=True)
        # A task that has converged moves by nothing: its pair is kept, with no weight.
        inverse = torch.where(curvature > 1e-300, 1 / curvature.clamp(min=1e-300), 0.0)
        memory = [*memory[-9:], (moved, turned, inverse)]
        w, loss, slope = w + moved, new_loss, new_slope
    return w[:, :-1], w[:, -1:]


def _two_loop(slope: Tensor, memory: list[tuple[Tensor, Tensor, Tensor]], c: float) -> Tensor:
    """The L-BFGS direction: the inverse Hessian as remembered from the last steps, applied to the slope."""
    q = slope
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


def _backtrack(w, loss, slope, direction, loss_and_slope):  # type: ignore[no-untyped-def]
    """Halve each task's step until its loss falls enough (Armijo); after 20 halvings the task stays where it is."""
    descent = (slope * direction).sum((1, 2))
    step = torch.ones_like(loss)
    for _ in range(20):
        new_loss, new_slope = loss_and_slope(w + step[:, None, None] * direction)
        good = new_loss <= loss + 1e-4 * step * descent
        if good.all():
            break
        step = torch.where(good, step, step / 2)
    else:
        step = torch.where(good, step, torch.zeros_like(step))
        new_loss, new_slope = loss_and_slope(w + step[:, None, None] * direction)
    return step[:, None, None], new_loss, new_slope
