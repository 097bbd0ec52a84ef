"""Features made ready without labels: words weighted by rarity, reduced to their main directions."""

import torch
from torch import Tensor, nn

from ..csr import csr_parts, csr_tensor, transposed
from ..errors import InputError
from ..graph import Graph
from ..spectral import main_directions, random_block


class ReducedFeatures(nn.Module):
    """TF-IDF and a truncated SVD for bags of words; the main directions around the mean for dense features.

    The rarities and the directions are learned once (``fit``) and kept as buffers, so that another graph with the same
    columns gets the same coordinates. Output ``[N, rank]``, dense float32.
    """

    idf: Tensor
    centre: Tensor
    basis: Tensor

    def __init__(self, in_channels: int, rank: int = 256) -> None:
        super().__init__()
        self.register_buffer("idf", torch.ones(in_channels))
        self.register_buffer("centre", torch.zeros(in_channels))
        self.register_buffer("basis", torch.zeros(in_channels, min(rank, in_channels)))

    def fit(self, graph: Graph) -> "ReducedFeatures":
        """Learn rarities and directions from all rows of the graph's features."""
        x = graph.x
        if is_bag_of_words(x):
            self.idf.copy_(rarities(x))
        elif x.layout == torch.strided:
            self.centre.copy_(x.mean(0))
        self.basis.copy_(row_directions(self._weighted(x), self.basis.shape[1]))
        return self

    def forward(self, graph: Graph) -> Tensor:
        if graph.num_features != len(self.idf):
            raise InputError(f"the model knows {len(self.idf)} feature columns, the graph has {graph.num_features}")
        return graph.memo("reduced", lambda: self._weighted(graph.x) @ self.basis, owner=self.basis)

    def _weighted(self, x: Tensor) -> Tensor:
        return x - self.centre if x.layout == torch.strided else tfidf(x, self.idf)


def is_bag_of_words(x: Tensor) -> bool:
    """Sparse and nowhere negative: counts or flags, for which rarity is meaningful."""
    return x.layout == torch.sparse_csr and (x.values().numel() == 0 or float(x.values().min()) >= 0)


def rarities(x: Tensor) -> Tensor:
    """Inverse document frequency of every column of a CSR matrix, smoothed as if one more row had all columns."""
    seen = torch.bincount(x.col_indices(), minlength=x.shape[1])
    return torch.log((1 + len(x)) / (1 + seen)) + 1


def tfidf(x: Tensor, idf: Tensor) -> Tensor:
    """Rows of a CSR matrix times the rarities, each of length one (empty rows stay empty). Counts above one are damped
    to 1 + log: a word used ten times is not ten words."""
    indptr, indices, values = csr_parts(x)
    values = torch.where(values > 1, 1 + values.clamp(min=1).log(), values) * idf[indices.long()]
    rows = torch.repeat_interleave(torch.arange(len(x), device=x.device), (indptr[1:] - indptr[:-1]).long())
    squared = torch.zeros(len(x), device=x.device, dtype=values.dtype).index_add_(0, rows, values.square())
    return csr_tensor(indptr, indices, values * squared.clamp(min=1e-24).rsqrt()[rows], x.shape)


def row_directions(x: Tensor, rank: int, start: Tensor | None = None) -> Tensor:
    """The main directions [F, rank] of the rows of a sparse or dense matrix: its leading right singular vectors."""
    back = transposed(x) if x.layout == torch.sparse_csr else x.T
    start = random_block(x.shape[1], rank).to(x) if start is None else start
    return main_directions(lambda v: back @ (x @ v), start, rank)[1]
