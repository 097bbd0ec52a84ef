"""Edges made from features: each node with those most like it."""

from typing import Any

import numpy as np
from scipy import sparse as sp

from ..errors import InputError

RANK = 64  # coordinates that the nodes are compared in, if they have more features


def nearest_edges(x: Any, k: int) -> np.ndarray:
    """Edges ``[2, N k]`` from each node to the ``k`` nodes of the highest cosine; compared in pieces, never all at
    once."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.neighbors import NearestNeighbors

    n = x.shape[0]
    if not 1 <= k < n:
        raise InputError(f"--knn {k}: each of the {n:,} nodes has {n - 1:,} others; ask for 1 to {n - 1}")
    if sp.issparse(x):
        whole = TfidfTransformer(sublinear_tf=True).fit_transform(x) if (x.data == np.round(x.data)).all() else x
        if x.shape[1] > RANK:
            whole = TruncatedSVD(RANK, random_state=0).fit_transform(whole)
    else:
        spread = x.std(axis=0)
        whole = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)
        if x.shape[1] > RANK:
            whole = TruncatedSVD(RANK, random_state=0).fit_transform(whole)
    search = NearestNeighbors(n_neighbors=k + 1, metric="cosine", algorithm="brute").fit(whole)
    found = search.kneighbors(whole, return_distance=False)
    source = np.repeat(np.arange(n), k + 1)
    target = found.ravel()
    other = source != target
    ranks = np.tile(np.arange(k + 1), n)
    full = np.ones(len(source), dtype=bool)
    missed = np.flatnonzero(np.bincount(source[other], minlength=n) == k + 1)  # equal nodes may hide the node itself
    full[np.isin(source, missed) & (ranks == k)] = False
    return np.stack([source[other & full], target[other & full]]).astype(np.int64)
