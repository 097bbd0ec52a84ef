"""Within-class whitening: what members of a class differ in anyway should not tell classes apart."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..tasks import Tasks

PER_CLASS = 200  # nodes that one class may contribute: large classes must not decide alone


class Whitening(nn.Module):
    """``(Sw + shrinkage * mean eigenvalue * I)^-1/2`` for several views ``[N, rank]``, Sw pooled over base classes.

    What whitening does to a *new* class cannot be learned on classes it was made from. So the base classes are cut into
    folds, and each fold also has matrices made from the others; training uses those, everything else the whole.
    """

    matrices: Tensor
    largest: Tensor  # eigenvalues of the matrices
    fold_matrices: Tensor
    fold_of_class: Tensor

    def __init__(
        self, views: int, rank: int, base_classes: tuple[int, ...], folds: int = 4, shrinkage: float = 0.1
    ) -> None:
        super().__init__()
        self.folds = max(2, min(folds, len(base_classes) // 2))
        self.shrinkage = shrinkage
        self.base = sorted(base_classes)
        self.register_buffer("matrices", torch.zeros(views, rank, rank))
        self.register_buffer("largest", torch.zeros(views))
        self.register_buffer("fold_matrices", torch.zeros(self.folds, views, rank, rank), persistent=False)
        table = torch.full((max(self.base, default=0) + 2,), -1)  # the last entry is looked up by the unknown class -1
        self.register_buffer("fold_of_class", table, persistent=False)

    def fit(self, views: list[Tensor], y: Tensor) -> None:
        """Make all matrices from the views and the labels of base classes; the folds are drawn from torch's state."""
        base = torch.tensor(self.base, device=y.device)
        self.fold_of_class[base] = torch.randperm(len(base), device=y.device) % self.folds
        nodes = sample_per_class(y, base)
        position = torch.searchsorted(base, y[nodes])
        fold = self.fold_of_class[y[nodes]]
        for number, view in enumerate(views):
            z = view[nodes].double()
            count = torch.bincount(position, minlength=len(base)).clamp(min=1)
            mean = z.new_zeros(len(base), z.shape[1]).index_add_(0, position, z) / count[:, None]
            away = z - mean[position]
            scatter = torch.stack([away[fold == f].T @ away[fold == f] for f in range(self.folds)])
            sizes = torch.bincount(fold, minlength=self.folds).double()
            self.matrices[number] = self._root(scatter.sum(0), sizes.sum())
            self.largest[number] = torch.linalg.matrix_norm(self.matrices[number], 2)
            for f in range(self.folds):
                rest = self._root(scatter.sum(0) - scatter[f], sizes.sum() - sizes[f])
                self.fold_matrices[f, number] = rest

    def forward(self, view: int, z: Tensor, fold: Tensor | None = None) -> Tensor:
        """``z [..., rank]`` whitened, rows of length one; with ``fold [...]``, each by the matrices of the other folds.

        Columns beyond ``rank`` are directions in which no base class was ever seen to vary, so they count as those in
        which base classes vary least.
        """
        if fold is None:
            matrix = self.matrices[view]
            known, new = z[..., : len(matrix)] @ matrix, z[..., len(matrix) :]
            return F.normalize(torch.cat([known, new * self.largest[view]], -1), dim=-1)
        whitened = torch.zeros_like(z)
        for f in range(self.folds):
            rows = fold == f
            whitened[rows] = z[rows] @ self.fold_matrices[f, view]
        return F.normalize(whitened, dim=-1)

    def _root(self, scatter: Tensor, count: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(scatter / count.clamp(min=1))
        values = values.clamp(min=0)
        scale = (values + self.shrinkage * values.mean() + 1e-9).rsqrt()
        root: Tensor = (vectors * scale) @ vectors.T
        return root.float()


def sample_per_class(y: Tensor, classes: Tensor) -> Tensor:
    """At most ``PER_CLASS`` nodes of each class, at random."""
    nodes = torch.isin(y, classes).nonzero().ravel()
    nodes = nodes[torch.randperm(len(nodes), device=y.device)]
    nodes = nodes[torch.argsort(y[nodes], stable=True)]
    first = torch.searchsorted(y[nodes], y[nodes])  # where the node's class begins
    return nodes[torch.arange(len(nodes), device=y.device) - first < PER_CLASS]


def within_folds(scores: Tensor, fold: Tensor, tasks: Tasks) -> Tensor:
    """``scores [T, M, N]`` without the classes of other folds than the query's."""
    of_class = torch.zeros_like(tasks.shots()).scatter_(1, tasks.support_y, fold[tasks.support])
    elsewhere = fold[tasks.query][:, :, None] != of_class[:, None, :]
    return scores.masked_fill(elsewhere, -1e4)
