"""What is shown of a node, and how it is found: the columns of its row, its text, its neighbours."""

from functools import cached_property
from itertools import pairwise

import torch

from ..classifier.classifier import FewShotClassifier
from ..classifier.inputs import node_name
from ..graph.arrays import csr_parts


class Browser:
    """The rows of the node table if the model remembers it, else the named features; and a search in all of it."""

    def __init__(self, classifier: FewShotClassifier) -> None:
        assert classifier.graph is not None
        self.classifier, self.graph = classifier, classifier.graph
        names = [self.name(i) for i in range(self.graph.num_nodes)]
        self.columns = {} if classifier.source is None else classifier.source.node_columns(names)

    def name(self, node: int) -> str:
        return node_name(self.graph, node)

    def row(self, node: int) -> list[tuple[str, str]]:
        """Names and values of what is known of a node; long values and long lists are cut."""
        if self.columns:
            return [(name, values[node][:2000]) for name, values in self.columns.items() if values[node]]
        x, names = self.graph.features, self.graph.feature_names
        if x is None or names is None:
            return []
        if x.layout == torch.sparse_csr:
            indptr, indices, values = csr_parts(x)
            part = slice(int(indptr[node]), int(indptr[node + 1]))
            heaviest = indices[part][values[part].argsort(descending=True)].tolist()
            return [("words", ", ".join(names[i] for i in heaviest[:40]))]
        return [(name, f"{value:.4g}") for name, value in zip(names[:40], x[node, :40].tolist(), strict=True)]

    def summary(self, node: int) -> str:
        """The longest value, in one line."""
        values = [value for _, value in self.row(node)]
        return " ".join(max(values, key=len, default="").split())[:160]

    def neighbours(self, node: int) -> list[int]:
        """The first 60 neighbours."""
        start, end = self.graph.indptr[node : node + 2].tolist()
        found: list[int] = self.graph.indices[start : min(end, start + 60)].long().tolist()
        return found

    def search(self, words: str, most: int = 30) -> list[int]:
        """Nodes whose name, else whose row, holds all the words; the exact name first, then names that begin so."""
        whole, wanted = words.casefold().strip(), words.casefold().split()
        if not wanted:
            return []
        longest = max(wanted, key=len)  # a quick test that few lines pass
        hits = [node for node, name in enumerate(self._names) if whole in name]
        hits.sort(key=lambda node: (self._names[node] != whole, not self._names[node].startswith(whole)))
        more = (
            node
            for lines in (self._names, self._lines)
            for node, line in enumerate(lines)
            if longest in line and all(word in line for word in wanted)
        )
        found = dict.fromkeys(hits[:most])
        while len(found) < most and (node := next(more, None)) is not None:
            found[node] = None
        return list(found)

    @cached_property
    def _names(self) -> list[str]:
        return [self.name(i).casefold() for i in range(self.graph.num_nodes)]

    @cached_property
    def _lines(self) -> list[str]:
        """The name of each node and all of its row."""
        x, names = self.graph.features, self.graph.feature_names
        texts = [""] * self.graph.num_nodes
        if self.columns:
            texts = [" ".join(row) for row in zip(*self.columns.values(), strict=True)]
        elif x is not None and names is not None and x.layout == torch.sparse_csr:
            indptr, indices, _ = (part.tolist() for part in csr_parts(x))
            texts = [" ".join(names[i] for i in indices[a:b]) for a, b in pairwise(indptr)]
        return [f"{name}\n{text.casefold()}" for name, text in zip(self._names, texts, strict=True)]
