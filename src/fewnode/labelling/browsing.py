"""What a person reads of a node, and finds it by: the columns of its row, its text, its neighbours."""

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate, pairwise

import torch

from ..errors import InputError
from ..graph.csr import csr_parts
from ..io import find_id, read_columns
from ..own.classifier import FewShotClassifier
from ..own.support import node_name

LONGEST = 2000  # letters of a value that are shown
WORDS = 40  # words or columns of a row that has no table
NEIGHBOURS = 60
BREAK = "\n"


class Browser:
    """The rows of the nodes' table if the model remembers it, else the named features; and a search in all of it."""

    def __init__(self, classifier: FewShotClassifier) -> None:
        assert classifier.graph is not None
        self.classifier, self.graph = classifier, classifier.graph
        self.columns = self._table()

    def _table(self) -> dict[str, list[str]]:
        """Every column of the table of nodes, in the order of the graph's nodes."""
        source = self.classifier.source
        if source is None or source.nodes is None or source.missing():
            return {}
        table = read_columns(source.nodes)
        try:
            key = source.columns.get("id_column") or find_id(table, (), ())[0]
        except InputError:  # rows that are nodes by their place alone
            return {}
        row = {name: i for i, name in enumerate(table.text(key, "ids"))}
        order = [row.get(self.name(i), -1) for i in range(self.graph.num_nodes)]
        plain = [name for name, column in table.columns.items() if name != key and column.ndim == 1]
        texts = {name: [*table.text(name, "columns"), ""] for name in plain}  # the last: no row
        return {name: [values[i] for i in order] for name, values in texts.items()}

    def name(self, node: int) -> str:
        return node_name(self.graph, node)

    def row(self, node: int) -> list[tuple[str, str]]:
        """Names and values of what is known of a node."""
        if self.columns:
            return [(name, values[node][:LONGEST]) for name, values in self.columns.items() if values[node]]
        return list(self._features(node))

    def _features(self, node: int) -> Iterator[tuple[str, str]]:
        x, names = self.graph.features, self.graph.feature_names
        if x is None or names is None:
            return
        if x.layout == torch.sparse_csr:
            indptr, indices, values = csr_parts(x)
            part = slice(int(indptr[node]), int(indptr[node + 1]))
            words = [names[i] for i in indices[part][values[part].argsort(descending=True)].tolist()[:WORDS]]
            yield "words", ", ".join(words)
            return
        for name, value in list(zip(names, x[node].tolist(), strict=True))[:WORDS]:
            yield name, f"{value:.4g}"

    def summary(self, node: int) -> str:
        """The longest value, in one line: what tells a node best."""
        values = [value for _, value in self.row(node)]
        return " ".join(max(values, key=len, default="").split())[:160]

    def neighbours(self, node: int) -> list[int]:
        """The first neighbours, at most ``NEIGHBOURS``."""
        start, end = self.graph.indptr[node : node + 2].tolist()
        found: list[int] = self.graph.indices[start : min(end, start + NEIGHBOURS)].long().tolist()
        return found

    # --- search -----------------------------------------------------------------------------------------

    def search(self, words: str, most: int = 30) -> list[int]:
        """Nodes whose name, else whose row, holds all the words; exact names first."""
        wanted = words.casefold().split()
        if not wanted:
            return []
        whole = words.casefold().strip()
        found = dict.fromkeys(self._names.nodes_with(f"{BREAK}{whole}{BREAK}", most))
        for start in (f"{BREAK}{whole}", whole):
            found |= dict.fromkeys(self._names.nodes_with(start, most - len(found)))
        longest = max(wanted, key=len)
        for text in (self._names, self._texts):
            for node in text.nodes_with(longest, 1 << 30):
                if len(found) >= most:
                    return list(found)[:most]
                if all(word in text.lines[node] or word in self._names.lines[node] for word in wanted):
                    found[node] = None
        return list(found)[:most]

    @cached_property
    def _names(self) -> "Lines":
        return Lines([self.name(i) for i in range(self.graph.num_nodes)])

    @cached_property
    def _texts(self) -> "Lines":
        if self.columns:
            return Lines([" ".join(row) for row in zip(*self.columns.values(), strict=True)])
        sparse = self.graph.features is not None and self.graph.features.layout == torch.sparse_csr
        if not sparse or self.graph.feature_names is None:
            return Lines([""] * self.graph.num_nodes)
        return Lines(self._words())

    def _words(self) -> list[str]:
        assert self.graph.features is not None and self.graph.feature_names is not None
        indptr, indices, _ = (part.tolist() for part in csr_parts(self.graph.features))
        names = self.graph.feature_names
        return [" ".join(names[i] for i in indices[a:b]) for a, b in pairwise(indptr)]


class Lines:
    """One line for each node, as one text: a word is found in it many times faster than line by line."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = [line.casefold().replace(BREAK, " ") for line in lines]
        self.text = BREAK + BREAK.join(self.lines) + BREAK
        self.starts = list(accumulate((len(line) + 1 for line in self.lines), initial=1))

    def nodes_with(self, part: str, most: int) -> Iterator[int]:
        """The nodes whose line holds ``part``, in their order; a line break stands for the start or end of a line."""
        at, given = 0, 0
        while given < most and (at := self.text.find(part, at)) >= 0:
            node = bisect_right(self.starts, at + part.startswith(BREAK)) - 1
            yield node
            given, at = given + 1, self.starts[node + 1] - 1
