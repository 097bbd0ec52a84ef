"""A few words about a node, so that a person knows which one it is: its text, its words, or its unusual columns."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..graph import Graph
from ..graph.csr import csr_parts
from ..io import find_id, read_columns
from ..own.classifier import FewShotClassifier
from ..own.features import FeatureSchema

LENGTH = 100  # letters of a text
WORDS, COLUMNS = 6, 3


class Details:
    """``of(nodes)`` describes each node; ``title`` says how, and is empty where the graph has nothing to show."""

    def __init__(self, classifier: FewShotClassifier) -> None:
        assert classifier.graph is not None and classifier.schema is not None
        self.graph, self.schema = classifier.graph, classifier.schema
        self.texts = _texts(classifier)
        x = self.graph.features
        self.sparse = x is not None and x.layout == torch.sparse_csr
        named = x is not None and self.graph.feature_names is not None
        self.title = "" if not named else "its rarest words or columns" if self.sparse else "its most unusual columns"
        if self.texts is not None:
            self.title = "text"

    def of(self, nodes: Tensor) -> list[str]:
        if self.texts is not None:
            return [_cut(self.texts[node]) for node in nodes.tolist()]
        if not self.title:
            return [""] * len(nodes)
        return _heaviest(self.graph, nodes) if self.sparse else _unusual(self.graph, self.schema, nodes)


def _texts(classifier: FewShotClassifier) -> Sequence[str] | None:
    """The texts of all nodes, if the graph is the one in the files the model remembers."""
    source, graph = classifier.source, classifier.graph
    if source is None or graph is None or not source.text_column or source.nodes is None:
        return None
    if source.missing() or not classifier.on_own_graph():
        return None
    table = read_columns(source.nodes)
    ids = source.columns.get("id_column") or find_id(table, (), ())[0]
    texts = dict(zip(table.text(ids, "ids"), table.text(source.text_column, "texts"), strict=True))
    return [texts.get(name, "") for name in graph.node_names or ()] or None


def _cut(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LENGTH else f"{words[: LENGTH - 1]}…"


def _heaviest(graph: Graph, nodes: Tensor) -> list[str]:
    """The words or columns that a node has most of, rare ones counting more."""
    assert graph.features is not None and graph.feature_names is not None
    indptr, indices, values = (part.cpu() for part in csr_parts(graph.features))
    names = graph.feature_names
    rarity = (graph.num_nodes / torch.bincount(indices, minlength=len(names)).clamp_min(1)).log()
    found = []
    for node in nodes.tolist():  # only the few rows that are shown
        part = slice(int(indptr[node]), int(indptr[node + 1]))
        order = (values[part] * rarity[indices[part]]).argsort(descending=True, stable=True)[:WORDS]
        found.append(_cut(", ".join(names[i] for i in indices[part][order].tolist())))
    return found


def _unusual(graph: Graph, schema: FeatureSchema, nodes: Tensor) -> list[str]:
    """The columns furthest from their mean, in the user's units."""
    assert graph.features is not None and graph.feature_names is not None
    x = graph.features[nodes].cpu().double()
    scale, centre = torch.ones(x.shape[1]), torch.zeros(x.shape[1])
    if schema.scale is not None and schema.centre is not None:
        scale, centre = torch.tensor(schema.scale), torch.tensor(schema.centre)
    furthest = x.abs().topk(min(COLUMNS, x.shape[1]), dim=1).indices
    values = (x * scale + centre).gather(1, furthest)
    names = graph.feature_names
    return [
        _cut(", ".join(f"{names[c]} {value:.4g}" for c, value in zip(columns, row, strict=True)))
        for columns, row in zip(furthest.tolist(), values.tolist(), strict=True)
    ]
