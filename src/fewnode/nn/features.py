"""Features reduced without labels: words are weighted by rarity, then a truncated SVD is applied."""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ..errors import InputError
from ..graph import Graph
from ..graph.arrays import (
    csr_parts,
    csr_tensor,
    hash_ranks,
    leading_eigenvectors,
    random_block,
    to_scipy,
    to_tensor,
)
from ..graph.operators import column_means, columns_of, feature_rows, gram_product, row_bytes
from ..store import Space, chunks

Gram = Callable[[Tensor], Tensor]  # the product of a matrix X^T X with some columns


class ReducedFeatures(nn.Module):
    """TF-IDF and a truncated SVD for bags of words; principal directions for dense features.

    Each block of columns gets separate directions. The rarities and the directions are learned once (``fit``) and kept
    as buffers, so another graph with the same columns gets the same coordinates. The output is ``[N, rank]``, dense
    float32.
    """

    idf: Tensor
    centre: Tensor
    basis: Tensor
    sparse: Tensor  # [1], whether sparse features were learned from: others are brought into their form
    weakest: Tensor  # of each block: the strength of the strongest direction outside the basis, or of its last column

    def __init__(self, in_channels: int, rank: int = 256, blocks: Sequence[int] = ()) -> None:
        super().__init__()
        self.rank, self.blocks = rank, tuple(blocks) or (in_channels,)
        self.ranks = [min(rank, width) for width in self.blocks]
        ends, places = ([0, *accumulate(widths)] for widths in (self.blocks, self.ranks))
        # Of each block: its columns of the features, and those of the basis.
        self.places = [(slice(*a), slice(*b)) for a, b in zip(pairwise(ends), pairwise(places), strict=True)]
        self.register_buffer("idf", torch.ones(in_channels))
        self.register_buffer("centre", torch.zeros(in_channels))
        self.register_buffer("sparse", torch.zeros(1))
        self.register_buffer("basis", torch.zeros(in_channels, sum(self.ranks)))
        self.register_buffer("weakest", torch.zeros(len(self.blocks)))
        self.copied: tuple[Tensor, int, Tensor] | None = None  # the basis, its version, what it is a copy of

    def fit(self, graph: Graph) -> "ReducedFeatures":
        """Learn rarities and directions from all rows of the graph's features. They are kept in the graph's cache."""
        self._check(graph)
        fitted = graph.cache.get(("reduction", self.rank, self.blocks), lambda: self._fitted(graph))
        self.load_state_dict(fitted.state_dict())
        self.copied = (self.basis, self.basis._version, fitted.basis)
        none = self.basis[:, :0]  # nothing of this graph is beyond the basis: the weakest was chosen so
        graph.cache.get(BEYOND, lambda: none, source=self.source())
        return self

    def _fitted(self, graph: Graph) -> "ReducedFeatures":
        fitted = ReducedFeatures(len(self.idf), self.rank, self.blocks).to(graph.device)
        # Threads and memory have a part in the rounding; views begun on disk belong to what was learned first.
        space = graph.space.within("reduction", graph.fingerprint, f"{self.basis.shape} {self.blocks}")
        learned = space.kept("learned", lambda: parameters_to_vector(fitted._learn(graph).buffers()))
        vector_to_parameters(learned, fitted.buffers())
        return fitted

    def _learn(self, graph: Graph) -> "ReducedFeatures":
        x, names, space = graph.x, graph.feature_names, graph.space
        self.sparse.fill_(x.layout == torch.sparse_csr)
        if is_bag_of_words(x):
            self.idf.copy_(rarities(x))
        elif x.layout == torch.strided:
            self.centre.copy_(column_means(x, space))
        for block, (columns, place) in enumerate(self.places):
            gram, rank = self._gram(x, columns, space), self.ranks[block]
            order = torch.arange(self.blocks[block]) if names is None else hash_ranks(names[columns])
            start = random_block(order, rank).to(self.basis)
            values, self.basis[columns, place] = leading_eigenvectors(gram, start, rank)
            # the search for the basis may have missed an equally strong direction
            beyond = leftover(gram, self.basis[columns, place], 8)[0]
            self.weakest[block] = torch.cat([values[-1:], beyond[:1], 1e-6 * values[:1]]).max()
        return self

    def _gram(self, x: Tensor, columns: slice, space: Space) -> Gram:
        return gram_product(x, space, lambda part: feature_columns(self.weighted(part), columns))

    def padded(self, rank: int) -> Tensor:
        """The basis with ``rank`` columns for each block."""
        parts = self.basis.split(self.ranks, 1)
        return torch.cat([F.pad(part, (0, rank - part.shape[1])) for part in parts], 1)

    def block_of(self, directions: Tensor) -> Tensor:
        """The block of each of the ``directions [F, k]``, which are zero outside it."""
        ends = torch.tensor(self.blocks, device=directions.device).cumsum(0)
        return torch.searchsorted(ends, directions.abs().argmax(0), right=True)

    def forward(self, graph: Graph) -> Tensor:
        self._check(graph)
        return graph.cache.get("reduced features", lambda: self.weighted(graph.x) @ self.basis, source=self.source())

    def beyond_basis(self, graph: Graph) -> Tensor:
        """Directions ``[F, up to rank]`` of another graph that the basis lacks, such as words of classes that are not
        in the fitted graph.

        Only directions clearly stronger than the weakest of the basis count. The fitted graph and graphs of a few nodes
        therefore have none.
        """
        self._check(graph)
        return graph.cache.get(BEYOND, lambda: self._beyond(graph), source=self.source())

    def source(self) -> Tensor:
        """The basis, or the one from which it was copied if the copy is unchanged.

        Models fitted on one graph then share all arrays that are computed from it.
        """
        if self.copied is None:
            return self.basis
        copy, version, original = self.copied
        return original if copy is self.basis and copy._version == version else self.basis

    def _beyond(self, graph: Graph) -> Tensor:
        found = []
        for block, (columns, place) in enumerate(self.places):
            gram = self._gram(graph.x, columns, graph.space)
            for rank in (8, self.ranks[block]):  # mostly there are few or none, which is found out cheaply
                values, directions = leftover(gram, self.basis[columns, place], rank)
                strong = values > 1.25 * self.weakest[block]
                if int(strong.sum()) < rank:
                    break
            found.append(F.pad(directions[:, strong], (0, 0, columns.start, len(self.basis) - columns.stop)))
        return torch.cat(found, 1)

    def _check(self, graph: Graph) -> None:
        if graph.num_features != len(self.idf):
            raise InputError(f"the model knows {len(self.idf)} feature columns, the graph has {graph.num_features}")

    def weighted(self, x: Tensor) -> Tensor:
        """Features, or some rows of them, before the reduction, read as those that were learned from."""
        if not self.sparse:
            return x.to_dense() - self.centre
        return tfidf(x if x.layout == torch.sparse_csr else x.to_sparse_csr(), self.idf)


def leftover(gram: Gram, basis: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues, and the leading right singular vectors of features with this ``gram`` orthogonal to the basis."""

    def outside(v: Tensor) -> Tensor:
        return v - basis @ (basis.T @ v)

    start = random_block(torch.arange(len(basis)), rank).to(basis)
    return leading_eigenvectors(lambda v: outside(gram(outside(v))), start, rank)


def feature_columns(x: Tensor, columns: slice) -> Tensor:
    """Some columns of dense or sparse features."""
    if columns == slice(0, x.shape[1]):
        return x
    return x[:, columns] if x.layout != torch.sparse_csr else to_tensor(to_scipy(x)[:, columns], x.device)


BEYOND = "features beyond the basis"


def is_bag_of_words(x: Tensor) -> bool:
    """Whether features are sparse and never negative: counts or flags, for which rarity is meaningful.

    Rows of length one with values other than flags have already been weighted, so they do not count.
    """
    if x.layout != torch.sparse_csr:
        return False
    if x.values().numel() == 0:
        return True
    least, most = (float(value) for value in x.values().aminmax())
    if least < 0 or least == 1 or most > 1:
        return least >= 0
    some = (feature_rows(x, rows) for rows in chunks(len(x), 2 * row_bytes(x)))
    squares = (_squared_lengths(rows.crow_indices(), rows.values().float()) for rows in some)
    return not all(bool(((squared - 1).abs() < 1e-3).logical_or(squared == 0).all()) for squared in squares)


def _squared_lengths(indptr: Tensor, values: Tensor) -> Tensor:
    rows = torch.repeat_interleave((indptr[1:] - indptr[:-1]).long())
    return values.new_zeros(len(indptr) - 1).index_add_(0, rows, values.square())


def rarities(x: Tensor) -> Tensor:
    """Inverse document frequency of every column of a CSR matrix, smoothed as if one more row had all columns."""
    seen = torch.bincount(x.col_indices(), minlength=x.shape[1])
    return torch.log((1 + len(x)) / (1 + seen)) + 1


def tfidf(x: Tensor, idf: Tensor) -> Tensor:
    """Rows of a CSR matrix times the rarities, each of length one (empty rows stay empty).

    Counts above one are damped to 1 + log.
    """
    indptr, indices, values = csr_parts(x)
    values = torch.where(values > 1, 1 + values.clamp(min=1).log(), values) * idf[indices.long()]
    scale = _squared_lengths(indptr, values).clamp(min=1e-24).rsqrt()
    scale = torch.repeat_interleave(scale, (indptr[1:] - indptr[:-1]).long())
    return csr_tensor(indptr, indices, values * scale, x.shape)


def weighted_features(graph: Graph, idf: Tensor) -> Tensor:
    """The TF-IDF of sparse features in memory, computed once."""
    return graph.cache.get("weighted features", lambda: tfidf(graph.x, idf), source=idf)


def column_mass(graph: Graph, z: Tensor, idf: Tensor, centre: Tensor) -> Tensor:
    """The contribution of the rows of ``z [N, B]`` to each feature column, weighted as in ``ReducedFeatures``: [F,
    B]."""
    if not graph.space.on_disk and graph.x.layout == torch.sparse_csr:
        return columns_of(weighted_features(graph, idf), z)
    return feature_mass(graph.x, z, idf, centre, graph.space)


def feature_mass(x: Tensor, z: Tensor, idf: Tensor, centre: Tensor, space: Space) -> Tensor:
    """The same for features that are weighted once, in chunks of rows."""
    sparse = x.layout == torch.sparse_csr
    total = z.new_zeros(x.shape[1], z.shape[1], dtype=torch.float64)
    for rows in space.rows(len(x), 2 * row_bytes(x)):
        part = feature_rows(x, rows)
        total += columns_of(tfidf(part, idf) if sparse else part, z[rows])
    return (total if sparse else total - centre[:, None] * z.sum(0)).to(z.dtype)
