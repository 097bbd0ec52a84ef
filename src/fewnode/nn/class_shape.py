"""Directions learned from base classes: those in which members of a class differ, and those that separate classes.

The effect on a *new* class cannot be learned on the classes from which the directions were computed. The base classes
are therefore divided into folds. For the nodes of each fold there are matrices computed from the other folds, which are
used for training; otherwise the matrices of all classes are used.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..tasks import Tasks
from .heads import class_means, cosine_scores


class Whitening(nn.Module):
    """``(Sw + shrinkage * mean eigenvalue * I)^-1/2`` for several views ``[N, rank]``, with the covariance Sw within
    base classes.

    Directions in which members of a class differ anyway should not distinguish classes.
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
        """Compute all matrices from the views and the labels of base classes. The folds are drawn from torch's random
        state."""
        base = torch.tensor(self.base, device=y.device)
        self.fold_of_class[base] = torch.randperm(len(base), device=y.device) % self.folds
        nodes = sample_per_class(y, base)
        for number, view in enumerate(views):
            _, within, others = class_scatter(view[nodes].double(), y[nodes], base, self.fold_of_class)
            self.matrices[number], self.fold_matrices[:, number] = self._root(within), self._root(others)
            self.largest[number] = torch.linalg.matrix_norm(self.matrices[number], 2)

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

    def _root(self, covariance: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(covariance)
        values = values.clamp(min=0)
        scale = (values + self.shrinkage * values.mean(-1, keepdim=True) + 1e-9).rsqrt()
        root: Tensor = (vectors * scale[..., None, :]) @ vectors.mT
        return root.float()


class LDAView(nn.Module):
    """Linear discriminants of C base classes, at most C - 1, on random ReLU units of several views.

    The 64 leading columns of views ``[N, rank]`` side by side pass through random units, which are the same for every
    model. The units are whitened by their covariance within base classes and projected to the principal directions of
    the whitened class means, each as long as the root of its spread; no step is trained. Directions found on many
    classes also separate new ones; directions found on a few do not.

    R. A. Fisher: The Use of Multiple Measurements in Taxonomic Problems. Annals of Eugenics, 1936. C. R. Rao: The
    Utilization of Multiple Measurements in Problems of Biological Classification. JRSS B, 1948. Random units: W. F.
    Schmidt, M. A. Kraaijveld, R. P. W. Duin: Feedforward Neural Networks with Random Weights. ICPR 1992.
    """

    matrix: Tensor
    centre: Tensor
    weight: Tensor
    bias: Tensor
    fold_rows: Tensor  # of the labelled nodes
    labelled: Tensor

    def __init__(self, views: int, rank: int, base_classes: int, units: int = 1024, shrinkage: float = 0.03) -> None:
        super().__init__()
        self.columns, self.shrinkage = min(rank, 64), shrinkage
        self.found = max(1, min(base_classes - 1, units))
        generator = torch.Generator().manual_seed(0)
        # Rows have the length three before the units, whose biases have a standard deviation of one half.
        weight = torch.randn(views * self.columns, units, generator=generator) * 3 / views**0.5
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("bias", torch.randn(units, generator=generator) / 2, persistent=False)
        self.register_buffer("matrix", torch.zeros(units, self.found))
        self.register_buffer("centre", torch.zeros(self.found))
        self.register_buffer("fold_rows", torch.zeros(0, self.found), persistent=False)
        self.register_buffer("labelled", torch.zeros(0, dtype=torch.long), persistent=False)

    @torch.no_grad()
    def fit(self, views: list[Tensor], y: Tensor, base: list[int], fold_of_class: Tensor) -> None:
        """Find the directions from the views and the labels of base classes, and the rows of these classes' nodes in
        the directions learned from the other folds."""
        classes = torch.tensor(base, device=y.device)
        nodes = sample_per_class(y, classes)
        means, within, others = class_scatter(self._units(views, nodes), y[nodes], classes, fold_of_class)
        fold = fold_of_class[classes]
        self.matrix[:], self.centre[:] = self._directions(within, means)
        self.labelled = torch.isin(y, classes).nonzero().ravel()
        self.fold_rows = means.new_zeros(len(self.labelled), self.found)
        for f, other in enumerate(others):
            own = (fold_of_class[y[self.labelled]] == f).nonzero().ravel()
            self.fold_rows[own] = self._rows(views, self.labelled[own], *self._directions(other, means[fold != f]))

    def forward(self, views: list[Tensor], nodes: Tensor, within_folds: bool = False) -> Tensor:
        """The rows of ``nodes [...]``, ``[..., found]``, of length one; of labelled nodes ``within_folds``, in the
        directions learned from the other folds."""
        if within_folds:
            return self.fold_rows[torch.searchsorted(self.labelled, nodes)]
        return self._rows(views, nodes.flatten(), self.matrix, self.centre).view(*nodes.shape, -1)

    def _rows(self, views: list[Tensor], nodes: Tensor, matrix: Tensor, centre: Tensor) -> Tensor:
        parts = [self._units(views, some) @ matrix - centre for some in nodes.split(8192)]
        return F.normalize(torch.cat(parts), dim=1) if parts else matrix.new_zeros(0, self.found)

    def _units(self, views: list[Tensor], nodes: Tensor) -> Tensor:
        """``[B, units]`` of ``nodes [B]``."""
        z = torch.cat([view[nodes, : self.columns].float() for view in views], 1)
        return torch.relu(z @ self.weight + self.bias)

    def _directions(self, within: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        """The directions ``[units, found]`` and where the mean of all classes lies in them.

        Any root of the inverse serves to whiten, as the directions are turned afterwards: that of Cholesky is cheapest.
        """
        within = within.double()
        within.diagonal().add_(self.shrinkage * within.diagonal().mean() + 1e-9)
        root, middle = torch.linalg.cholesky(within), means.mean(0)
        whitened = torch.linalg.solve_triangular(root, (means - middle).T.double(), upper=False)
        turned, spread, _ = torch.linalg.svd(whitened, full_matrices=False)
        keep = max(1, min(self.found, len(means) - 1))
        found = torch.linalg.solve_triangular(root.T, (turned * spread.sqrt())[:, :keep], upper=True).float()
        found = F.pad(found, (0, self.found - keep))
        return found, middle @ found


def class_scatter(z: Tensor, y: Tensor, classes: Tensor, fold_of_class: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Means ``[C, d]`` of ``classes`` (ascending) by rows ``z [n, d]`` with classes ``y [n]``, the covariance within
    all classes ``[d, d]``, and those within the classes of all folds but one ``[folds, d, d]``."""
    place, fold = torch.searchsorted(classes, y), fold_of_class[y]
    size = torch.bincount(place, minlength=len(classes)).clamp(min=1)
    means = z.new_zeros(len(classes), z.shape[1]).index_add_(0, place, z) / size[:, None]
    away, folds = z - means[place], int(fold_of_class.max()) + 1
    scatter = torch.stack([away[fold == f].T @ away[fold == f] for f in range(folds)])
    total, sizes = scatter.sum(0), torch.bincount(fold, minlength=folds)
    return means, total / max(len(z), 1), (total - scatter) / (len(z) - sizes).clamp(min=1)[:, None, None]


def sample_per_class(y: Tensor, classes: Tensor, most: int = 200) -> Tensor:
    """At most ``most`` random nodes of each class, so that large classes do not dominate."""
    nodes = torch.isin(y, classes).nonzero().ravel()
    nodes = nodes[torch.randperm(len(nodes), device=y.device)]
    nodes = nodes[torch.argsort(y[nodes], stable=True)]
    first = torch.searchsorted(y[nodes], y[nodes])  # where the node's class begins
    return nodes[torch.arange(len(nodes), device=y.device) - first < most]


def within_folds(scores: Tensor, fold: Tensor, tasks: Tasks) -> Tensor:
    """``scores [T, M, N]`` without the classes of other folds than the query's."""
    of_class = torch.zeros_like(tasks.shots()).scatter_(1, tasks.support_y, fold[tasks.support])
    elsewhere = fold[tasks.query][:, :, None] != of_class[:, None, :]
    return scores.masked_fill(elsewhere, -1e4)


def few_shot_accuracy(z: Tensor, y: Tensor, shots: int = 3) -> float:
    """The share of rows ``z [n, d]`` that are nearest to the mean of the first few rows of their own class.

    The classes ``y [n]`` are in ascending order.
    """
    shown = torch.arange(len(y), device=y.device) - torch.searchsorted(y, y) < shots
    classes, y = y.unique(return_inverse=True)
    means = class_means(z[None, shown], y[None, shown], len(classes))
    right = cosine_scores(z[None, ~shown], means)[0].argmax(1) == y[~shown]
    return int(right.sum()) / max(len(right), 1)
