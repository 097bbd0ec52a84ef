"""Features made ready without labels: words weighted by rarity, then a truncated SVD."""

import hashlib
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..graph import Graph
from ..graph.arrays import CacheKey, csr_parts, csr_tensor, leading_eigenvectors, random_block, transposed
from ..graph.operators import AT_ONCE, bounding, column_means, feature_rows, gram_by_rows, mass_by_rows, row_bytes
from ..store import Space, chunks

Gram = Callable[[Tensor], Tensor]  # the product of a matrix X^T X with some columns

CLEARLY = 1.25  # times as strong as anything the fitted graph has outside the basis
NARROW = 8  # directions of a first, cheap search


class ReducedFeatures(nn.Module):
    """TF-IDF and a truncated SVD for bags of words; the principal directions for dense features.

    The rarities and the directions are learned once (``fit``) and kept as buffers, so that another graph with the same
    columns gets the same coordinates. Output ``[N, rank]``, dense float32.
    """

    idf: Tensor
    centre: Tensor
    basis: Tensor
    weakest: Tensor  # what is not clearly stronger than this did not make it into the basis

    def __init__(self, in_channels: int, rank: int = 256) -> None:
        super().__init__()
        self.register_buffer("idf", torch.ones(in_channels))
        self.register_buffer("centre", torch.zeros(in_channels))
        self.register_buffer("basis", torch.zeros(in_channels, min(rank, in_channels)))
        self.register_buffer("weakest", torch.zeros(()))
        self.copied: tuple[Tensor, int, Tensor] | None = None  # the basis, its version, what it is a copy of

    def fit(self, graph: Graph) -> "ReducedFeatures":
        """Learn rarities and directions from all rows of the graph's features; they are kept in its cache."""
        self._check(graph)
        fitted = graph.cache.get(REDUCTION.of(self.basis.shape[1]), lambda: self._fitted(graph))
        self.load_state_dict(fitted.state_dict())
        self.copied = (self.basis, self.basis._version, fitted.basis)
        none = self.basis[:, :0]
        rows = none.new_zeros(0 if graph.space else graph.num_nodes, 0)
        # Nothing of this graph is beyond the basis: the weakest was chosen so.
        graph.cache.get(BEYOND, lambda: (rows, none), source=self._source())
        return self

    def _fitted(self, graph: Graph) -> "ReducedFeatures":
        fitted, space = ReducedFeatures(*self.basis.shape).to(graph.device), bounding(graph.x, graph.space)
        if graph.space is None:
            return fitted._learn(graph.x, space)
        # Threads and memory have a part in the rounding; views that were begun belong to what was learned first.
        name = f"features-{hashlib.sha256(f'{graph.fingerprint} {self.basis.shape}'.encode()).hexdigest()[:16]}"
        packed = graph.space.kept(name, lambda: fitted._learn(graph.x, space, AT_ONCE)._packed())
        parts = packed.split([part.numel() for part in self.state_dict().values()])
        for own, part in zip(fitted.state_dict().values(), parts, strict=True):
            own.copy_(part.view_as(own))
        return fitted

    def _packed(self) -> Tensor:
        return torch.cat([part.flatten() for part in self.state_dict().values()])

    def _learn(self, x: Tensor, space: Space | None, at_once: int | None = None) -> "ReducedFeatures":
        if is_bag_of_words(x):
            self.idf.copy_(rarities(x))
        elif x.layout == torch.strided:
            self.centre.copy_(column_means(x, space))
        gram, rank = self._gram(x, space, at_once), self.basis.shape[1]
        values, directions = leading_eigenvectors(gram, random_block(x.shape[1], rank).to(self.basis), rank)
        self.basis.copy_(directions)
        beyond = self._leftover(gram, NARROW)[0]  # the search for the basis may have missed what is as strong
        self.weakest.copy_(torch.cat([values[-1:], beyond[:1], 1e-6 * values[:1]]).max())
        return self

    def forward(self, graph: Graph) -> Tensor:
        self._check(graph)
        return graph.cache.get(REDUCED, lambda: self._weighted(graph.x) @ self.basis, source=self._source())

    def beyond(self, graph: Graph) -> Tensor:
        """Coordinates ``[N, up to rank]`` of another graph along directions that the basis lacks: words of classes that
        the fitted graph did not have. Only directions clearly stronger than the weakest of the basis count, so the
        fitted graph has none, and a graph of a few nodes has none either."""
        return self._weighted_beyond(graph)[0]

    def beyond_basis(self, graph: Graph) -> Tensor:
        """Those directions ``[F, up to rank]``."""
        return self._weighted_beyond(graph)[1]

    def _weighted_beyond(self, graph: Graph) -> tuple[Tensor, Tensor]:
        self._check(graph)
        return graph.cache.get(BEYOND, lambda: self._beyond(graph), source=self._source())

    def _source(self) -> Tensor:
        """The basis; or, while it is an untouched copy, the one it was copied from: models fitted on one graph then
        share all that is made from it."""
        if self.copied is None:
            return self.basis
        copy, version, original = self.copied
        return original if copy is self.basis and copy._version == version else self.basis

    def _beyond(self, graph: Graph) -> tuple[Tensor, Tensor]:
        gram = self._gram(graph.x, graph.space)
        for rank in (NARROW, self.basis.shape[1]):  # mostly there are few or none, which is found out cheaply
            values, directions = self._leftover(gram, rank)
            strong = values > CLEARLY * self.weakest
            if int(strong.sum()) < rank:
                break
        found = directions[:, strong]
        if graph.space is not None:  # the coordinates are made with the others, in blocks
            return found.new_zeros(0, found.shape[1]), found
        return self._weighted(graph.x) @ found, found

    def _leftover(self, gram: Gram, rank: int) -> tuple[Tensor, Tensor]:
        """Eigenvalues, and the leading right singular vectors of the weighted features orthogonal to the basis."""

        def outside(v: Tensor) -> Tensor:
            return v - self.basis @ (self.basis.T @ v)

        start = random_block(len(self.basis), rank).to(self.basis)
        return leading_eigenvectors(lambda v: outside(gram(outside(v))), start, rank)

    def _gram(self, x: Tensor, space: Space | None, at_once: int | None = None) -> Gram:
        """``v -> X^T X v`` of the weighted features."""
        if space is None:
            return gram_product(self._weighted(x), at_once)
        return gram_by_rows(lambda rows: self.weighted_rows(x, rows), x, space)

    def weighted_rows(self, x: Tensor, rows: slice) -> Tensor:
        """Some rows of the weighted features."""
        return self._weighted(feature_rows(x, rows))

    def _check(self, graph: Graph) -> None:
        if graph.num_features != len(self.idf):
            raise InputError(f"the model knows {len(self.idf)} feature columns, the graph has {graph.num_features}")

    def _weighted(self, x: Tensor) -> Tensor:
        return x - self.centre if x.layout == torch.strided else tfidf(x, self.idf)


WEIGHTED_COLUMNS = CacheKey[Tensor]("weighted features by column")
REDUCTION = CacheKey[ReducedFeatures]("reduction")
REDUCED = CacheKey[Tensor]("reduced features")
BEYOND = CacheKey[tuple[Tensor, Tensor]]("features beyond the basis")


def is_bag_of_words(x: Tensor) -> bool:
    """Sparse and nowhere negative: counts or flags, for which rarity is meaningful. Rows of length one with other
    values than flags have been weighted by whoever made them."""
    if x.layout != torch.sparse_csr:
        return False
    values = x.values()
    if values.numel() == 0 or float(values.min()) < 0 or float(values.max()) > 1 or float(values.min()) == 1:
        return values.numel() == 0 or float(values.min()) >= 0
    return not all(_unit_rows(feature_rows(x, rows)) for rows in chunks(len(x), 2 * row_bytes(x)))


def _unit_rows(x: Tensor) -> bool:
    """Whether all rows that are not empty have the length one."""
    indptr, _, values = csr_parts(x)
    rows = torch.repeat_interleave(torch.arange(len(x), device=x.device), (indptr[1:] - indptr[:-1]).long())
    squared = torch.zeros(len(x), device=x.device).index_add_(0, rows, values.float().square())
    return bool(((squared - 1).abs() < 1e-3).logical_or(squared == 0).all())


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


def column_mass(graph: Graph, z: Tensor, idf: Tensor, centre: Tensor) -> Tensor:
    """How much of each feature column, weighted as ``ReducedFeatures`` does, the rows of ``z [N, B]`` bring: [F, B]."""
    if graph.space is not None:
        plain = graph.x.layout == torch.strided
        mass = mass_by_rows(graph.x, z, graph.space, None if plain else lambda part: tfidf(part, idf))
        return mass - centre[:, None] * z.sum(0) if plain else mass
    if graph.x.layout == torch.strided:
        return feature_mass(graph.x, z, idf, centre)
    back = graph.cache.get(WEIGHTED_COLUMNS, lambda: transposed(tfidf(graph.x, idf)), source=idf)
    return back @ z


def feature_mass(x: Tensor, z: Tensor, idf: Tensor, centre: Tensor) -> Tensor:
    """The same for features in memory, once."""
    if x.layout == torch.strided:
        return x.T @ z - centre[:, None] * z.sum(0)
    return transposed(tfidf(x, idf)) @ z


def row_directions(x: Tensor, rank: int, start: Tensor) -> tuple[Tensor, Tensor]:
    """The squared singular values and the leading right singular vectors [F, rank] of a sparse or dense matrix."""
    return leading_eigenvectors(gram_product(x), start, rank)


def gram_product(x: Tensor, at_once: int | None = None) -> Gram:
    """``v -> x^T x v``; so many columns of ``v`` ``at_once``, by default all."""
    back = transposed(x) if x.layout == torch.sparse_csr else x.T
    if at_once is None:
        return lambda v: back @ (x @ v)
    return lambda v: torch.cat([back @ (x @ some.contiguous()) for some in v.split(at_once, 1)], 1)
