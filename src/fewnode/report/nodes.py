"""What a person can recognise a node by: the columns of its row, its text, or its most telling features."""

from collections.abc import Collection
from functools import cached_property

import numpy as np
from scipy import sparse as sp

from ..classifier.classifier import FewShotClassifier
from ..classifier.inputs import node_name
from ..graph.arrays import to_scipy


class NodeRows:
    """Rows of the node table if the model remembers it (of the ``columns``, by default all), else named features."""

    def __init__(self, classifier: FewShotClassifier, columns: Collection[str] | None = None) -> None:
        assert classifier.graph is not None
        self.classifier, self.graph = classifier, classifier.graph
        self.columns: dict[str, list[str]] = {}
        if classifier.source is not None and (columns is None or columns):
            names = [self.name(i) for i in range(self.graph.num_nodes)]
            self.columns = classifier.source.node_columns(names, columns or ())

    def name(self, node: int) -> str:
        return node_name(self.graph, node)

    def row(self, node: int) -> list[tuple[str, str]]:
        """Names and values of what is known of a node; long values and long lists are cut."""
        if self.columns:
            return [(name, values[node][:2000]) for name, values in self.columns.items() if values[node]]
        names, x = self.graph.feature_names, self.graph.features
        if names is None or x is None:
            return []
        if self._words is not None:  # those with the largest values, weighted by their rarity
            words, rarity = self._words
            row = words[node]
            heaviest = row.indices[(-row.data * rarity[row.indices]).argsort(kind="stable")[:40]]
            return [("words", ", ".join(names[i] for i in heaviest))]
        values, schema = x[node].double().cpu().numpy(), self.classifier.schema
        furthest = (-np.abs(values)).argsort(kind="stable")[:40]  # from the mean
        if schema is not None and schema.scale is not None and schema.centre is not None:
            values = values * schema.scale + schema.centre  # in the user's units
        return [(names[i], f"{values[i]:.4g}") for i in furthest]

    @cached_property
    def _words(self) -> tuple[sp.csr_matrix, np.ndarray] | None:
        """Sparse features (of several blocks the first: words), and the rarity of their columns."""
        if self.graph.features is None or self.graph.features.layout == self.graph.indptr.layout:
            return None
        words = to_scipy(self.graph.features)[:, : next(iter(self.graph.blocks.values()), None)]
        return words, np.log(words.shape[0] / words.getnnz(axis=0).clip(1))

    def summary(self, node: int) -> str:
        """The longest value, or the first three features, in one line."""
        row = self.row(node)
        texts = [value for _, value in row]
        if not self.columns and len(row) > 1:
            texts = [", ".join(f"{name} {value}" for name, value in row[:3])]
        return " ".join(max(texts, key=len, default="").split())[:160]
