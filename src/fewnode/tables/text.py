"""Texts as counts of words: the words are learned from one table and found again in the next.

Counts, not weights: how rare a word is, is weighed once, where features are reduced (``nn.features``)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

MAX_WORDS = 20_000  # the commonest words


def word_counts(texts: Sequence[str], words: Sequence[str] | None = None) -> tuple[Any, tuple[str, ...]]:
    """Counts [N, words] of the words in the texts; of ``words`` alone, where a model brings them."""
    from sklearn.feature_extraction.text import CountVectorizer

    rare = 2 if len(texts) >= 100 and words is None else 1  # a word of one node says nothing about another
    limit = MAX_WORDS if words is None else None
    vectorizer = CountVectorizer(
        stop_words="english", min_df=rare, max_features=limit, vocabulary=words, dtype=np.float32
    )
    counts = vectorizer.fit_transform(texts)
    return counts, tuple(vectorizer.get_feature_names_out().tolist())
