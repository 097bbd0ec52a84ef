"""Main directions of large sparse matrices, and the features a graph without any gets from them."""

from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from .csr import to_tensor


def main_directions(
    apply: Callable[[Tensor], Tensor], size: int, rank: int, *, steps: int = 6, seed: int = 0, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """The ``rank`` leading eigenvalues and eigenvectors [size, rank] of a symmetric matrix given as ``apply(v) = M v``.

    Subspace iteration: a handful of products with a thin block and a QR of that block, whatever the size of M.
    """
    rank = min(rank, size)
    generator = torch.Generator().manual_seed(seed)
    block = torch.randn(size, min(rank + 16, size), generator=generator).to(device)
    for _ in range(steps):
        block = torch.linalg.qr(apply(block)).Q
    values, vectors = torch.linalg.eigh(block.T @ apply(block))
    top = values.abs().argsort(descending=True)[:rank]
    return values[top], block @ vectors[:, top]


def structural_features(adjacency: sp.csr_matrix, rank: int = 128) -> Tensor:
    """Where a node sits in the graph, float32 [N, rank]: the leading eigenvectors of D^-1/2 (A + I) D^-1/2, each scaled by
    its squared eigenvalue, as a two-step walk weighs them."""
    with_loops = adjacency + sp.identity(adjacency.shape[0], "float32", format="csr")
    scale = sp.diags_array(np.asarray(with_loops.sum(1)).ravel() ** -0.5)
    walk = to_tensor((scale @ with_loops @ scale).tocsr().astype("float32"))
    values, vectors = main_directions(lambda v: walk @ v, walk.shape[0], rank)
    return vectors * values.square()
