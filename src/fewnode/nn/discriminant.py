"""What told base classes apart: Fisher's discriminant directions of random units of several views."""

import hashlib

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..store import Space, by_rows, scratch
from .whitening import sample_per_class

UNITS = 1024  # random ReLU units
COLUMNS = 64  # of each view that the units read, the leading ones: with all of them it was no better
LENGTH = 3.0  # of a row before the units; their biases have a standard deviation of one half
ROWS = 8192  # that are made at a time


class Discriminant(nn.Module):
    """Every node in the at most C - 1 directions in which the means of C base classes lie apart.

    Several views ``[N, rank]`` side by side go through random ReLU units, which are the same for every model. The units
    are whitened by their covariance within base classes and turned to the principal directions of the whitened class
    means, each as long as the root of its spread; nothing is trained by steps.

    Directions found on many classes tell new ones apart, too, those found on a few do not. How much they count is
    learned as for the whitening: nodes of base classes are seen in the directions that the *other* folds taught.

    R. A. Fisher: The Use of Multiple Measurements in Taxonomic Problems. Annals of Eugenics, 1936. C. R. Rao: The
    Utilization of Multiple Measurements in Problems of Biological Classification. JRSS B, 1948. Random units: W. F.
    Schmidt, M. A. Kraaijveld, R. P. W. Duin: Feedforward Neural Networks with Random Weights. ICPR 1992.
    """

    matrix: Tensor
    centre: Tensor
    weight: Tensor
    bias: Tensor
    fold_rows: Tensor

    def __init__(self, views: int, rank: int, base_classes: int, shrinkage: float = 0.03) -> None:
        super().__init__()
        self.columns, self.shrinkage = min(rank, COLUMNS), shrinkage
        self.found = max(1, min(base_classes - 1, UNITS))
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(views * self.columns, UNITS, generator=generator) * LENGTH / views**0.5
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("bias", torch.randn(UNITS, generator=generator) / 2, persistent=False)
        self.register_buffer("matrix", torch.zeros(UNITS, self.found))
        self.register_buffer("centre", torch.zeros(self.found))
        self.register_buffer("fold_rows", torch.zeros(0, self.found), persistent=False)

    @torch.no_grad()
    def fit(
        self, views: list[Tensor], y: Tensor, base: list[int], fold_of_class: Tensor, space: Space | None = None
    ) -> None:
        """Find the directions from the views and the labels of base classes. ``fold_rows [N, found]`` are the rows of
        these classes' nodes in the directions that the other folds taught; in the ``space``, if the graph is on disk.
        """
        classes = torch.tensor(base, device=y.device)
        nodes = sample_per_class(y, classes)
        position, fold = torch.searchsorted(classes, y[nodes]), fold_of_class[classes]
        z = self._units(views, nodes)
        size = torch.bincount(position, minlength=len(classes)).clamp(min=1)
        means = z.new_zeros(len(classes), UNITS).index_add_(0, position, z) / size[:, None]
        z -= means[position]
        folds = range(int(fold.max()) + 1)
        scatter = [z[fold[position] == f].T @ z[fold[position] == f] for f in folds]
        whole = torch.stack(scatter).sum(0)
        self.matrix[:], self.centre[:] = self._directions(whole / size.sum(), means)
        self.fold_rows = z.new_zeros(len(y), self.found) if space is None else scratch(space, len(y), self.found)
        for f in folds:
            rest, own = fold != f, torch.isin(y, classes[fold == f]).nonzero().ravel()
            taught = self._directions((whole - scatter[f]) / size[rest].sum().clamp(min=1), means[rest])
            for some in [own] if space is None else own.split(ROWS):
                self.fold_rows[some] = self._rows(views, some, *taught)

    def forward(self, views: list[Tensor], space: Space | None = None) -> Tensor:
        """The rows of all nodes, ``[N, found]``, of length one; in the ``space``, if the graph is on disk."""
        n, name = len(views[0]), f"taught-{hashlib.sha256(self.matrix.cpu().numpy().tobytes()).hexdigest()[:16]}"
        nodes = torch.arange(n, device=views[0].device)

        def made(rows: slice) -> Tensor:
            return self._rows(views, nodes[rows], self.matrix, self.centre)

        return by_rows(space, name, (n, self.found), torch.float32, made, width=len(self.weight))

    def _rows(self, views: list[Tensor], nodes: Tensor, matrix: Tensor, centre: Tensor) -> Tensor:
        parts = [self._units(views, some) @ matrix - centre for some in nodes.split(ROWS)]
        return F.normalize(torch.cat(parts), dim=1) if parts else matrix.new_zeros(0, self.found)

    def _units(self, views: list[Tensor], nodes: Tensor) -> Tensor:
        """``[B, UNITS]``, the random units of ``nodes [B]``."""
        z = torch.cat([view[nodes, : self.columns].float() for view in views], 1)
        return torch.relu(z @ self.weight + self.bias)

    def _directions(self, within: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        """The directions ``[UNITS, found]`` and where the mean of all classes lies in them.

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
