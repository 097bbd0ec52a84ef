"""Texts as weighted words (TF-IDF): learned from one table, applied again to the next."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MAX_WORDS = 20_000  # the commonest words


def learned(texts: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """TF-IDF features [N, words] (rows of length one) with the words found in the texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    rare = 2 if len(texts) >= 100 else 1  # a word of one node says nothing about another
    vectorizer = TfidfVectorizer(stop_words="english", min_df=rare, max_features=MAX_WORDS, dtype=np.float32)
    x = vectorizer.fit_transform(texts)
    return x, tuple(vectorizer.get_feature_names_out().tolist())


def weighted(texts: Sequence[str], vocabulary: Mapping[str, float]) -> tuple[Any, tuple[str, ...]]:
    """The same features with words and weights learned before; other words are left out."""
    from scipy.sparse import diags_array
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    words = tuple(vocabulary)
    counts = CountVectorizer(stop_words="english", vocabulary=words, dtype=np.float32).transform(texts)
    x = counts @ diags_array(np.array(list(vocabulary.values()), dtype=np.float32))
    return normalize(x.tocsr()), words


def word_weights(x: Any, words: Sequence[str]) -> dict[str, float]:
    """The vocabulary that ``learned`` used, read back from its features: how rare a word is shows in its column."""
    seen = np.bincount(x.indices, minlength=len(words))
    weights = np.log((1 + x.shape[0]) / (1 + seen)) + 1
    return dict(zip(words, weights.tolist(), strict=True))
