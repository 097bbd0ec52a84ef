"""Passes over the features of a graph on disk, a chunk of rows at a time."""

import hashlib
from collections.abc import Callable

import torch
from torch import Tensor

from ..store.rows import by_rows
from ..store.space import Space, chunks
from .csr import csr_parts, csr_tensor, to_scipy

AT_ONCE = 64  # columns that features are multiplied with at once, where memory is bounded: the bits are the same
WIDE = 2048  # columns up to which X^T X is made once instead of multiplied again and again


def feature_rows(x: Tensor, rows: slice) -> Tensor:
    """Some rows of dense or sparse features."""
    if x.layout != torch.sparse_csr:
        return x[rows]
    indptr, columns, values = csr_parts(x)
    ends = indptr[rows.start : rows.stop + 1]
    arcs = slice(int(ends[0]), int(ends[-1]))
    return csr_tensor(ends - ends[0], columns[arcs], values[arcs], (len(ends) - 1, x.shape[1]))


def row_bytes(x: Tensor) -> int:
    """What a row of features takes, on average."""
    return 4 * x.shape[1] if x.layout != torch.sparse_csr else 16 * (1 + x.values().numel() // max(len(x), 1))


def bounding(x: Tensor, space: Space | None) -> Space | None:
    """The space, if the features do not fit into its memory for a truncated SVD; else None, as for features in memory.
    What fits is made as it is there: the signs of singular vectors hang on the last digit, and with them the numbers
    that the search for the directions of links starts from."""
    if space is None:
        return None
    sparse = x.layout == torch.sparse_csr  # weighted, by rows and by columns; dense ones are read and centred
    features = 32 * x.values().numel() if sparse else 8 * x.numel()
    return None if space.has_room(features + 4 * AT_ONCE * len(x), len(x)) else space


def column_means(x: Tensor, space: Space | None) -> Tensor:
    """The mean of each column of dense features."""
    if space is None:
        return x.mean(0)
    total = x.new_zeros(x.shape[1], dtype=torch.float64)
    for rows in space.rows(len(x), row_bytes(x)):
        total += x[rows].double().sum(0)
    return (total / len(x)).float()


def column_spread(x: Tensor, space: Space | None) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean of each column of dense features, in double precision."""
    if space is None:
        return torch.std_mean(x.double(), dim=0, correction=0)
    means, count = x.new_zeros(x.shape[1], dtype=torch.float64), 0
    squares = torch.zeros_like(means)
    for rows in space.rows(len(x), 3 * row_bytes(x)):  # moments of chunks joined: no small difference of large numbers
        part = x[rows].double()
        mean, both = part.mean(0), count + len(part)
        squares += (part - mean).square().sum(0) + (mean - means).square() * (count * len(part) / both)
        means += (mean - means) * (len(part) / both)
        count = both
    return (squares / count).sqrt(), means


def standardised(x: Tensor, centre: Tensor, scale: Tensor, space: Space) -> Tensor:
    """``(x - centre) / scale`` on disk, under a name of its own."""
    name = f"features-{hashlib.sha256(torch.cat([centre, scale]).numpy().tobytes()).hexdigest()[:16]}"
    shape = (len(x), x.shape[1])
    return by_rows(space, name, shape, torch.float32, lambda rows: (x[rows] - centre).div_(scale))


def gram_by_rows(weighted: Callable[[slice], Tensor], x: Tensor, space: Space) -> Callable[[Tensor], Tensor]:
    """``v -> X^T X v`` for the rows that ``weighted`` gives of features like ``x``."""
    if x.layout != torch.sparse_csr and x.shape[1] <= WIDE:
        gram = x.new_zeros(x.shape[1], x.shape[1], dtype=torch.float64)
        for rows in space.rows(len(x), 2 * row_bytes(x)):
            part = weighted(rows)
            gram += part.T @ part
        return lambda v: (gram @ v.double()).to(v.dtype)

    def product(v: Tensor) -> Tensor:
        total = torch.zeros_like(v, dtype=torch.float64)
        for rows in space.rows(len(x), 2 * (row_bytes(x) + 4 * v.shape[1])):
            part = weighted(rows)
            total += columns_of(part, part @ v)
        return total.to(v.dtype)

    return product


def columns_of(part: Tensor, z: Tensor) -> Tensor:
    """``part^T z`` without turning a sparse matrix round."""
    if part.layout != torch.sparse_csr:
        return part.T @ z
    return torch.from_numpy(to_scipy(part).T @ z.numpy())


def mass_by_rows(x: Tensor, z: Tensor, space: Space, weighted: Callable[[Tensor], Tensor] | None) -> Tensor:
    """``X^T z`` of the features, after ``weighted``, with ``z [N, B]``."""
    total = z.new_zeros(x.shape[1], z.shape[1], dtype=torch.float64)
    for rows in space.rows(len(x), 2 * row_bytes(x)):
        part = feature_rows(x, rows)
        total += columns_of(part if weighted is None else weighted(part), z[rows])
    return total.to(z.dtype)


def times_rows(left: Tensor, rows: Tensor) -> Tensor:
    """``left [B, N] @ rows [N, W]``; rows in half precision, as on disk, are looked at a chunk at a time."""
    if rows.dtype == left.dtype:
        return left @ rows
    total = left.new_zeros(left.shape[0], rows.shape[1])
    for some in chunks(len(rows), 4 * rows.shape[1]):
        total += left[:, some] @ rows[some].float()
    return total
