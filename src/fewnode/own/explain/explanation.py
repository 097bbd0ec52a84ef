"""Why a node got its class: the examples it resembles, what its neighbours contribute, how clear it was."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ... import inference
from ...graph import Graph
from ...methods.base import Method
from ...tasks import Tasks
from ..calibration import Calibration
from ..classes import class_name
from ..support import Support, node_name


@dataclass(frozen=True)
class Example:
    """An example of a class (of a known one: a labelled node): how alike it is, from -1 to 1, and its influence: by how
    much the margin would shrink without it (None where it was not computed: the only example of its class, a labelled
    node of a known class). ``evidence`` is the same in log odds, which still tell where probabilities are near 1."""

    node: str
    label: str
    similarity: float
    influence: float | None
    evidence: float | None = None


@dataclass(frozen=True)
class Neighbour:
    """A neighbour: the label it has (``labelled``) or would get itself, its weight (share of the similarity of all
    neighbours), and its influence: by how much the margin would shrink without the edge (None where it was not
    computed); ``evidence`` is the same in log odds."""

    node: str
    label: str
    weight: float
    influence: float | None
    labelled: bool = False
    evidence: float | None = None


@dataclass(frozen=True)
class Column:
    """A word or column of the features, of which the node and what is around it have ``more`` (or less) than average:
    by how much the margin, and the log odds, would shrink if they had just the average. ``own`` are the log odds that
    the node's own features alone make. Negative: it speaks against the class."""

    name: str
    more: bool
    influence: float
    evidence: float
    own: float


@dataclass(frozen=True)
class Change:
    """What would change the answer: without these ``edges`` (given by the neighbours), ``examples`` or ``columns`` the
    node would get another label."""

    what: str
    without: tuple[str, ...]
    label: str
    probability: float


@dataclass(frozen=True)
class Explanation:
    """``probabilities`` of all classes, ``margins`` of the chosen one over each other, nearest examples, neighbours.

    In the open question also the ``kind`` of the label (known, new, other), the ``columns`` that speak for it and
    against, and the ``changes`` of the answer that were found, with how much was ``tried``. ``given`` is the label that
    the node has already.
    """

    node: str
    label: str
    probability: float
    probabilities: dict[str, float]
    margins: dict[str, float]
    examples: tuple[Example, ...]
    neighbours: tuple[Neighbour, ...]
    degree: int
    kind: str | None = None
    given: str | None = None
    columns: tuple[Column, ...] = ()
    changes: tuple[Change, ...] = ()
    tried: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Explainer:
    """Explains decisions of one adapted model in the closed question; ``open_explanation`` has those in the open one.

    Influences are exact: the examples' by scoring again without each of them, the neighbours' by embedding the graph
    again without the edge, which costs one pass over the graph for each of the neighbours asked for.
    """

    def __init__(self, model: Method, graph: Graph, state: Any, support: Support, calibration: Calibration) -> None:
        self.model, self.graph, self.state = model, graph, state
        self.support, self.calibration = support, calibration

    def explain(self, node: int, n_neighbours: int = 5) -> Explanation:
        """Explain one node; the influence of its ``n_neighbours`` likest neighbours is computed, the others' is not."""
        at = torch.tensor([node], device=self.graph.device)
        p = self._probabilities(self.graph, self.state, at)[0]
        order = p.argsort(descending=True)
        best, second = order[:2].tolist()
        classes = self.support.classes
        margins = {classes[c]: float(p[best] - p[c]) for c in order[1:].tolist()}
        return Explanation(
            node_name(self.graph, node),
            classes[best],
            float(p[best]),
            {classes[c]: float(p[c]) for c in order.tolist()},
            margins,
            self._examples(node, best, second),
            self._neighbours(node, best, second, n_neighbours),
            int(self.graph.degree[node]),
            given=given_labels(self.graph, self.support.examples(), at).get(node),
        )

    def _probabilities(self, graph: Graph, state: Any, nodes: Tensor) -> Tensor:
        support = self.support
        known = (support.nodes, support.y, len(support.classes))
        scores = inference.score_nodes(self.model, graph, state, *known, nodes)
        return self.calibration.probabilities(scores)

    def _margin(self, graph: Graph, state: Any, node: int, best: int, second: int) -> float:
        p = self._probabilities(graph, state, torch.tensor([node], device=graph.device))[0]
        return float(p[best] - p[second])

    def _similarity(self, node: int, others: Tensor) -> Tensor:
        """Mean over the tensors the model sees the nodes by: cosine around the mean of all nodes."""
        parts = embeddings_of(self.state, self.graph.num_nodes)
        return torch.stack([_cosines(part, node, others) for part in parts]).mean(0)

    def _examples(self, node: int, best: int, second: int) -> tuple[Example, ...]:
        support = self.support
        shots, similarity = support.shots(), self._similarity(node, support.nodes)
        without = self._margins_without(node, best, second)
        margin = self._margin(self.graph, self.state, node, best, second)
        return tuple(
            Example(
                node_name(self.graph, int(support.nodes[i])),
                support.classes[int(support.y[i])],
                float(similarity[i]),
                margin - without[i] if shots[int(support.y[i])] > 1 else None,
            )
            for i in similarity.argsort(descending=True).tolist()
        )

    def _margins_without(self, node: int, best: int, second: int) -> dict[int, float]:
        """The margin with each dispensable example left out, by its position: one batch of tasks."""
        support = self.support
        out, rest = support.leave_one_out()
        if not len(out):
            return {}
        query = torch.full((len(out), 1), node, device=out.device)
        tasks = Tasks(support.nodes[rest], support.y[rest], query, None, len(support.classes))
        scores = inference.score_tasks(self.model, self.graph, tasks, self.state)[:, 0]
        p = self.calibration.probabilities(scores)
        return dict(zip(out.tolist(), (p[:, best] - p[:, second]).tolist(), strict=True))

    def _neighbours(self, node: int, best: int, second: int, limit: int) -> tuple[Neighbour, ...]:
        start, end = self.graph.indptr[node : node + 2].tolist()
        around = self.graph.indices[start:end].long()
        if not len(around):
            return ()
        alike = self._similarity(node, around).clamp(min=0)
        weight = alike / alike.sum().clamp(min=1e-12)
        order = weight.argsort(descending=True, stable=True)
        chosen = self._probabilities(self.graph, self.state, around).argmax(-1).tolist()
        given = given_labels(self.graph, self.support.examples(), around)
        influence = self._influences(node, around[order[:limit]], best, second)
        return tuple(
            Neighbour(
                node_name(self.graph, int(around[i])),
                given.get(int(around[i]), self.support.classes[chosen[i]]),
                float(weight[i]),
                influence.get(int(around[i])),
                int(around[i]) in given,
            )
            for i in order.tolist()
        )

    def _influences(self, node: int, others: Tensor, best: int, second: int) -> Mapping[int, float]:
        margin = self._margin(self.graph, self.state, node, best, second)
        found = {}
        for other in others.tolist():
            cut = without_edge(self.graph, node, other)
            found[other] = margin - self._margin(cut, inference.embed(self.model, cut), node, best, second)
        return found


def given_labels(graph: Graph, examples: Mapping[str, Tensor], nodes: Tensor) -> dict[int, str]:
    """The labels that those of ``nodes [B]`` have which have one: as an example of a new class, or in the graph."""
    labels = zip(nodes.tolist(), graph.y[nodes].tolist(), strict=True)
    found = {node: class_name(graph, label) for node, label in labels if label >= 0}
    for name, shown in examples.items():
        found |= dict.fromkeys(nodes[torch.isin(nodes, shown)].tolist(), name)
    return found


def without_edge(graph: Graph, a: int, b: int) -> Graph:
    """The graph without the edge between two nodes; features stay as they are, structural ones too."""
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes, device=graph.device), graph.degree)
    columns = graph.indices.long()
    keep = ~(((rows == a) & (columns == b)) | ((rows == b) & (columns == a)))
    return graph.with_arcs(keep).with_features(graph.x, graph.feature_names)


def embeddings_of(state: Any, n: int) -> list[Tensor]:
    """The matrices with a row for each node in what a method's ``embed`` returned."""
    parts = [state] if isinstance(state, Tensor) else list(state.values() if isinstance(state, Mapping) else state)
    found = [part for part in parts if isinstance(part, Tensor) and part.ndim == 2 and len(part) == n]
    if not found:
        raise TypeError(f"embed returned {type(state).__name__}, which holds no tensor with one row per node")
    return found


def _cosines(z: Tensor, node: int, others: Tensor) -> Tensor:
    centre = z.mean(0, dtype=torch.float32)
    return F.cosine_similarity(z[node][None] - centre, z[others] - centre, dim=-1)
