"""What is shown of a node, and how it is found: the columns of its row, its text, its neighbours."""

import re
from collections import Counter
from functools import cached_property

import numpy as np

from ..classifier.open_set import MEANING
from ..errors import InputError
from ..report.nodes import NodeRows

IMAGE = re.compile(r"(https?://[A-Za-z0-9.-]+(?::[0-9]+)?)/\S+\.(?:png|jpe?g|gif|webp)(?:\?\S*)?", re.IGNORECASE)


class Browser(NodeRows):
    """What is known of each node, its neighbours, and a search in all of it."""

    def neighbours(self, node: int) -> list[int]:
        """The first 60 neighbours."""
        start, end = self.graph.indptr[node : node + 2].tolist()
        found: list[int] = self.graph.indices[start : min(end, start + 60)].long().tolist()
        return found

    def search(self, words: str, most: int = 30) -> list[int]:
        """Nodes whose name or title, else whose row, holds all the words: the same first, then those that begin so;
        then those whose texts mean the same, where a text encoder has read them."""
        whole, wanted = words.casefold().strip(), sorted(words.casefold().split(), key=len, reverse=True)
        if not wanted:
            return []
        names = [(name, self.title(node).casefold()) for node, name in enumerate(self._names)]
        hits = [node for node, (name, title) in enumerate(names) if whole in name or whole in title]
        hits.sort(key=lambda node: (whole not in names[node], not any(one.startswith(whole) for one in names[node])))
        more = (node for node, line in enumerate(self._lines) if all(word in line for word in wanted))
        found = dict.fromkeys(hits[:most])
        while len(found) < most and (node := next(more, None)) is not None:
            found[node] = None
        if len(found) < most and MEANING in self.graph.blocks:
            found |= dict.fromkeys(self.classifier.search(words, most).nodes.tolist())
        return list(found)[:most]

    def values(self, most: int = 200) -> dict[str, list[tuple[str, int]]]:
        """The commonest values of each column that repeats some, and how often they occur."""
        counted = {name: Counter(filter(None, values)) for name, values in self.columns.items()}
        return {name: found.most_common(most) for name, found in counted.items() if 2 * len(found) <= found.total()}

    def matching(self, column: str, value: str) -> list[int]:
        """The nodes with a value in a column."""
        if column not in self.columns:
            raise InputError(f"there is no column {column!r:.80}; there are {', '.join(self.columns)}")
        return [node for node, cell in enumerate(self.columns[column]) if cell == value]

    def image_hosts(self, most: int = 20) -> tuple[str, ...]:
        """Where the pictures are that cells give the address of: the page may load these and no others."""
        cells = (cell for values in self.columns.values() for cell in values)
        found = {host[1] for cell in cells if (host := IMAGE.fullmatch(cell.strip()))}
        return tuple(sorted(found)[:most])

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
