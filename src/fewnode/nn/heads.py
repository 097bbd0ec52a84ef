"""Classifiers on top of embeddings, each solved for all tasks of a batch at once.

All take supports ``z [T, S, d]`` with their classes ``y [T, S]`` and queries ``q [T, M, d]``, and return scores
``[T, M, N]``.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .graph_layers import xavier


def class_means(z: Tensor, y: Tensor, n_way: int) -> Tensor:
    """The mean of each class's supports, [T, N, d]; classes may have different shots."""
    member = F.one_hot(y, n_way).to(z.dtype)
    return torch.bmm((member / member.sum(1, keepdim=True)).transpose(1, 2), z)


def cosine_scores(q: Tensor, prototypes: Tensor) -> Tensor:
    """Cosine of each query with each prototype."""
    return torch.bmm(F.normalize(q, dim=-1), F.normalize(prototypes, dim=-1).transpose(1, 2))


def euclidean_scores(q: Tensor, prototypes: Tensor) -> Tensor:
    """Minus the squared distance of each query to each prototype."""
    cross = q @ prototypes.transpose(1, 2)
    return 2 * cross - q.square().sum(-1, keepdim=True) - prototypes.square().sum(-1).unsqueeze(1)


def ridge_scores(z: Tensor, y: Tensor, q: Tensor, n_way: int, penalty: float | Tensor = 1.0) -> Tensor:
    """Ridge regression on one-hot targets with a free intercept, solved in the dual: S x S for any ``d``."""
    target = F.one_hot(y, n_way).to(z.dtype)
    centre, offset = z.mean(1, keepdim=True), target.mean(1, keepdim=True)
    z, q = z - centre, q - centre
    gram = z @ z.transpose(1, 2)
    eye = torch.eye(gram.shape[-1], dtype=z.dtype, device=z.device)
    dual: Tensor = torch.linalg.solve(gram + penalty * eye, target - offset)
    return (q @ z.transpose(1, 2)) @ dual + offset


def logistic_scores(
    z: Tensor, y: Tensor, q: Tensor, n_way: int, inverse_penalty: float = 1.0, max_steps: int = 500
) -> Tensor:
    """Multinomial logistic regression with an L2 penalty and a free intercept, as in scikit-learn with C.

    The solution lies in the span of the supports, so ``d`` is first replaced by the at most S coordinates of that span
    (exact). Half the inner products of the rows bound the Hessian of the cross-entropy everywhere (Boehning:
    Multinomial Logistic Regression Algorithm. AISM 1992). Each step therefore solves the same equations and needs no
    line search. Nesterov's momentum, restarted when the loss increases, compensates for the loose bound.
    """
    rows, c = z.detach().double(), inverse_penalty
    basis = torch.linalg.qr(rows.mT).Q
    rows, queries = (F.pad(part @ basis, (0, 1), value=1.0) for part in (rows, q.detach().double()))
    target, free = F.one_hot(y, n_way).to(rows.dtype), rows.new_ones(rows.shape[-1], 1)
    free[-1] = 0  # the last coordinate is the intercept, which is not penalised
    bound = torch.linalg.cholesky(c / 2 * rows.mT @ rows + torch.diag(free[:, 0]))
    last = w = rows.new_zeros(len(rows), rows.shape[-1], n_way)
    age = rows.new_zeros(len(rows), 1, 1)  # steps of each task since its last restart
    for _ in range(max_steps):
        ahead = w + age / (age + 3) * (w - last)
        gradient = free * ahead + c * rows.mT @ (torch.softmax(rows @ ahead, -1) - target)
        if gradient.abs().amax() < 1e-6:
            break
        last, w = w, ahead - torch.cholesky_solve(gradient, bound)
        uphill = (gradient * (w - last)).sum((1, 2), keepdim=True) > 0
        age = torch.where(uphill, 0.0, age + 1)
    return (queries @ w).to(q.dtype)


class BaseClassifier(nn.Module):
    """A linear classifier over the base classes. Its loss keeps an embedding informative about all base classes."""

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
