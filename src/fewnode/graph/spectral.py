"""Leading eigenvectors of large sparse matrices, and structural features for graphs without features."""

from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from .csr import to_tensor, transposed

STEPS = 6  # of the subspace iteration


def leading_eigenvectors(
    apply: Callable[[Tensor], Tensor], start: Tensor, rank: int, *, steps: int = STEPS
) -> tuple[Tensor, Tensor]:
    """The ``rank`` leading eigenvalues and eigenvectors [size, rank] of a symmetric matrix given as ``apply(v) = M v``.

    Subspace iteration from a random block ``start [size, at least rank]``: a handful of products with a thin block and
    a QR of that block, whatever the size of M.
    """
    block = start
    for _ in range(steps):
        block = torch.linalg.qr(apply(block)).Q
    values, vectors = torch.linalg.eigh(block.T @ apply(block))
    top = values.abs().argsort(descending=True)[:rank]
    return values[top], block @ vectors[:, top]


def random_block(size: int, rank: int, seed: int = 0) -> Tensor:
    """A start for ``rank`` eigenvectors: normal numbers, with a few columns to spare."""
    return torch.randn(size, min(rank + 16, size), generator=torch.Generator().manual_seed(seed))


def structural_bytes(nodes: int, arcs: int, rank: int = 128) -> int:
    """What ``structural_features`` takes in memory: five blocks of the iteration, and the ratios both ways."""
    return 20 * (rank + 16) * nodes + 40 * arcs


def structural_features(adjacency: sp.csr_matrix, rank: int = 128) -> Tensor:
    """Where a node sits in the graph, float32 [N, rank]; rows have length one, those of isolated nodes zero.

    The leading singular vectors of how much likelier each edge is than chance (a positive log ratio, as sparse as the
    graph), smoothed over two steps. After ProNE (Zhang et al., IJCAI 2019).
    """
    n = adjacency.shape[0]
    degree = np.maximum(np.asarray(adjacency.sum(1)).ravel(), 1)
    walk = (sp.diags_array(1 / degree) @ adjacency).tocsr()
    chance = np.asarray(walk.sum(0)).ravel() ** 0.75
    walk.data = np.maximum(np.log(walk.data * chance.sum() / chance[walk.indices]), 0)
    ratios = to_tensor(walk.astype("float32"))
    back = transposed(ratios)
    values, directions = leading_eigenvectors(lambda v: back @ (ratios @ v), random_block(n, rank), rank)
    features = (ratios @ directions) * values.clamp(min=1e-9) ** -0.25
    scale = sp.diags_array((1 + degree) ** -0.5)
    step = to_tensor((scale @ (adjacency + sp.identity(n)) @ scale).tocsr().astype("float32"))
    return torch.nn.functional.normalize(step @ (step @ features), dim=1)
