"""Conversion between torch CSR tensors and SciPy matrices."""

import warnings

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor


def csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A torch CSR tensor from its parts, taken as they are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=False)


def csr_parts(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row pointers, column indices and values of a torch CSR tensor."""
    return matrix.crow_indices(), matrix.col_indices(), matrix.values()


def gather_rows(indptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """All entries of the rows ``[B]`` of a CSR matrix: for each, its position in ``rows`` and among the entries."""
    start, end = indptr.index_select(0, rows), indptr.index_select(0, rows + 1)
    count = (end - start).long()
    owner = torch.repeat_interleave(count)
    shift = (end - count.cumsum(0)).index_select(0, owner)  # from the place in the list to that among all entries
    return owner, shift.add_(torch.arange(len(owner), device=rows.device))


def to_tensor(matrix: sp.csr_matrix | np.ndarray, device: torch.device | str = "cpu") -> Tensor:
    """Torch's form of a SciPy CSR matrix or a NumPy array, sharing memory where it can."""
    if isinstance(matrix, np.ndarray):
        return torch.from_numpy(matrix).to(device)
    indptr, indices, values = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    return csr_tensor(indptr, indices, values, matrix.shape).to(device)


def to_scipy(matrix: Tensor) -> sp.csr_matrix:
    """SciPy's form of a torch CSR tensor."""
    indptr, indices, values = (part.detach().cpu().numpy() for part in csr_parts(matrix))
    return sp.csr_matrix((values, indices, indptr), shape=tuple(matrix.shape))


def transposed(matrix: Tensor) -> Tensor:
    """The transpose, as CSR again."""
    return to_tensor(to_scipy(matrix).T.tocsr(), matrix.device)
