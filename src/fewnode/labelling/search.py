"""What is shown of a node, and how it is found: the columns of its row, its text, its neighbours."""

from functools import cached_property

import numpy as np

from ..report.nodes import NodeRows


class Browser(NodeRows):
    """What is known of each node, its neighbours, and a search in all of it."""

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
        texts, names = [""] * self.graph.num_nodes, self.graph.feature_names
        if self.columns:
            texts = [" ".join(row) for row in zip(*self.columns.values(), strict=True)]
        elif self._words is not None and names is not None:
            words = self._words[0]
            texts = [" ".join(names[i] for i in row) for row in np.split(words.indices, words.indptr[1:-1])]
        return [f"{name}\n{text.casefold()}" for name, text in zip(self._names, texts, strict=True)]
