"""How people recognise and find a node: by the columns of its row, its text, its neighbours, or its main features."""

import re
from collections import Counter
from collections.abc import Collection
from functools import cached_property

import numpy as np
from scipy import sparse as sp

from ..classifier.classifier import FewShotClassifier
from ..classifier.inputs import node_name, node_title
from ..classifier.open_set import MEANING
from ..errors import InputError
from ..graph.arrays import to_scipy

IMAGE = re.compile(r"(https?://[A-Za-z0-9.-]+(?::[0-9]+)?)/\S+\.(?:png|jpe?g|gif|webp)(?:\?\S*)?", re.IGNORECASE)


class NodeRows:
    """Rows of the node table if the model has it (with the ``columns``, by default all), otherwise named features; the
    neighbours of nodes; and a search in all of these."""

    def __init__(self, classifier: FewShotClassifier, columns: Collection[str] | None = None) -> None:
        assert classifier.graph is not None
        self.classifier, self.graph = classifier, classifier.graph
        self.columns: dict[str, list[str]] = {}
        self._telling: np.ndarray | None = None
        if classifier.source is not None and (columns is None or columns):
            names = [self.name(i) for i in range(self.graph.num_nodes)]
            self.columns = classifier.source.node_columns(names, columns or ())

    def name(self, node: int) -> str:
        return node_name(self.graph, node)

    def title(self, node: int) -> str:
        return node_title(self.graph, node)

    def row(self, node: int) -> list[tuple[str, str]]:
        """Names and values of the columns of a node; long values and long lists are shortened."""
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

    def tell(self, choice: np.ndarray) -> None:
        """Find the words that distinguish the nodes of each class, given the class of each node (-1: none).

        ``summary`` then shows the part of a long text that holds most of these words.
        """
        self._telling = None
        if self._words is None or self.graph.feature_names is None or choice.max() < 0:
            return
        (words, rarity), chosen, classes = self._words, np.flatnonzero(choice >= 0), int(choice.max()) + 1
        if classes * words.shape[1] < 1 << 25:
            members = sp.csr_matrix((np.ones(len(chosen)), (choice[chosen], chosen)), (classes, len(choice)))
            share = (members @ (words > 0)).toarray() / members.sum(1).A.clip(1)
            self._telling = (share - (words > 0).mean(0).A1) * rarity

    def about(self, node: int) -> dict[str, str]:
        """Title, text and columns of a node, in the form that other programs show."""
        row, title = dict(self.row(node)), self.title(node)
        return {**row, "title": title, "text": row.get("text") or max(row.values(), key=len, default=title)}

    def summary(self, node: int, label: int = -1) -> str:
        """The longest text beside the title, or the first three features, in one line.

        Of a long text, it is the part with the words that distinguish the class ``label``.
        """
        row, title = self.row(node), self.title(node)
        beside = [(name, value) for name, value in row if " ".join(value.split()) != title]
        texts = [value if re.search(r"[^\W\d_]", value) else f"{name} {value}" for name, value in beside]
        if not self.columns and len(row) > 1:
            texts = [", ".join(f"{name} {value}" for name, value in row[:3])]
        text = max((" ".join(text.split()) for text in texts), key=lambda text: (" " in text, len(text)), default="")
        if len(text) <= 160 or self._telling is None or self._words is None or label < 0:
            return text[:160]
        names, worth = self.graph.feature_names or (), self._telling[label]
        told = {names[i].casefold(): worth[i] for i in self._words[0][node].indices if worth[i] > 0}
        found = [(word.start(), told.get(word[0].casefold(), 0.0)) for word in re.finditer(r"\w+", text)]
        sums = [sum(w for at, w in found if start <= at < start + 150) for start, _ in found]
        start = found[int(np.argmax(sums))][0] if any(sums) else 0
        return f"… {text[start : start + 158]}" if start else text[:160]

    def neighbours(self, node: int) -> list[int]:
        """The first 60 neighbours."""
        start, end = self.graph.indptr[node : node + 2].tolist()
        found: list[int] = self.graph.indices[start : min(end, start + 60)].long().tolist()
        return found

    def search(self, words: str, most: int = 30) -> list[int]:
        """Nodes whose name or title, or otherwise whose row, contains all the words.

        Equal texts come first, then texts that begin with the words, then nodes with texts of similar meaning, if a
        text encoder has read them.
        """
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
        """The most common values of each column in which some repeat, and their numbers."""
        counted = {name: Counter(filter(None, values)) for name, values in self.columns.items()}
        return {name: found.most_common(most) for name, found in counted.items() if 2 * len(found) <= found.total()}

    def matching(self, column: str, value: str) -> list[int]:
        """The nodes with a value in a column."""
        if column not in self.columns:
            raise InputError(f"there is no column {column!r:.80}; there are {', '.join(self.columns)}")
        return [node for node, cell in enumerate(self.columns[column]) if cell == value]

    def image_hosts(self) -> tuple[str, ...]:
        """The hosts of the pictures whose addresses are in cells: the page may load pictures from these hosts only."""
        cells = (cell for values in self.columns.values() for cell in values)
        found = {host[1] for cell in cells if (host := IMAGE.fullmatch(cell.strip()))}
        return tuple(sorted(found)[:20])

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
