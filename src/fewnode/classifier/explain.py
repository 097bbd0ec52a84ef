"""Explanations: the influence of an edge, example or column is the change of the probabilities without it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..graph import Graph
from ..graph.operators import adjacency, arcs_of, rows_of, times_rows
from ..nn.features import column_mass
from ..nn.views import FAR_STEPS, NEAR_STEPS, WORDS
from ..training import evaluate as inference
from .calibration import ClosedSetTask
from .inputs import class_name, node_name, node_title
from .known_classes import PROPAGATION, HopFeatures, linear
from .open_set import MEANING, OpenSetModel, OpenSetTask, meaning_columns


@dataclass(frozen=True)
class Example:
    """An example of a class, or a labelled node of a known class.

    ``similarity`` to the explained node lies between -1 and 1. ``influence`` is the decrease of the margin without the
    example; None if it was not computed (for the only example of a class, and for labelled nodes of a known class).
    ``evidence`` is the same in log odds, which still differ if probabilities are near 1.
    """

    node: str
    label: str
    similarity: float
    influence: float | None
    evidence: float | None = None
    title: str = ""


@dataclass(frozen=True)
class Neighbour:
    """A neighbour of the explained node.

    It has a label (``labelled``) or a predicted one, and a weight: its share of the similarity of all neighbours.
    ``influence`` is the decrease of the margin without the edge (None if it was not computed), and ``evidence`` the
    same in log odds.
    """

    node: str
    label: str
    weight: float
    influence: float | None
    labelled: bool = False
    evidence: float | None = None
    title: str = ""


@dataclass(frozen=True)
class Column:
    """A feature column or word of which the node and its surroundings have ``more`` (or less) than average.

    A word "... (meaning)" is a word of the node's text as a text encoder reads it. The influence is the decrease of the
    margin, and the evidence that of the log odds, if the value were average; negative values count against the class.
    ``own`` is the part of the log odds that comes from the node's own features alone.
    """

    name: str
    more: bool
    influence: float
    evidence: float
    own: float


@dataclass(frozen=True)
class Change:
    """A change after which the node would get another label: without these ``edges`` (given by the neighbours),
    ``examples`` or ``columns``."""

    what: str
    without: tuple[str, ...]
    label: str
    probability: float


@dataclass(frozen=True, repr=False)
class Explanation:
    """The explanation of the prediction of a node.

    ``probabilities`` are those of all classes, and ``margins`` those of the predicted class over each other class;
    nearest examples and neighbours follow. In open-set classification there are also the ``kind`` of the label (known,
    new, other), the ``columns`` for and against it, and the ``changes`` that lead to another label, with how much was
    ``tried``. ``given`` is the label that the node already has.
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
    title: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __repr__(self) -> str:
        """The answer and what carries most of it; the fields have the rest."""
        runner_up, margin = next(iter(self.margins.items()))
        lines = [f"{self.node} is {self.label} ({self.probability:.1%}); {runner_up} is {margin:.1%} behind"]
        for what, rows in (("like", self.examples), ("neighbours", self.neighbours)):
            told = [(one, "" if one.evidence is None else f", {one.evidence:+.2f}") for one in rows[:3]]
            shown = [f"{one.node} ({one.label}{evidence})" for one, evidence in told]
            lines += [f"  {what}: {', '.join(shown)}"] if shown else []
        columns = [f"{one.name} ({one.evidence:+.2f})" for one in self.columns if one.evidence > 0]
        lines += [f"  columns: {', '.join(columns[:5])}"] if columns else []
        lines += [f"  without {', '.join(change.without)}: {change.label}" for change in self.changes]
        return "\n".join(lines)


class Effect(NamedTuple):
    """The decrease of the margin and the log odds without something, and the prediction then."""

    influence: float
    evidence: float
    choice: int
    probability: float


def _told(effect: Effect | None) -> tuple[float | None, float | None]:
    """Influence and evidence, if they were computed."""
    return (None, None) if effect is None else effect[:2]


class Explainer:
    """Explains the prediction of one ``node`` in a task.

    Subclasses define the similarity of nodes, and the probabilities without some edges. The margin is that of the
    predicted class over the runner-up. Up to ``together`` items are removed at once to find a change of the prediction.
    """

    together = 5

    def __init__(self, graph: Graph, task: OpenSetTask | ClosedSetTask, node: int) -> None:
        self.graph, self.task, self.node = graph, task, node
        self.classes, self.examples = task.classes, task.examples
        self.at = torch.tensor([node], device=graph.device)
        self.p = task.probabilities(self.at)[0]
        self.best, self.second = self.p.topk(2).indices.tolist()

    def similarity(self, nodes: Tensor) -> Tensor:
        """The similarity of ``nodes [B]`` to the node, from -1 to 1."""
        raise NotImplementedError

    def without_edges(self, cuts: Sequence[Sequence[int]]) -> Tensor:
        """Probabilities ``[cuts, classes]`` of the node without its edges to the neighbours in each cut."""
        raise NotImplementedError

    def without_examples(self, parts: Sequence[Sequence[int]]) -> Tensor:
        """Probabilities ``[parts, classes]`` of the node without the examples in each part; a class keeps at least one
        example."""
        found = []
        for part in parts:
            gone = torch.tensor(part, device=self.at.device)
            left = {name: nodes[~torch.isin(nodes, gone)] for name, nodes in self.examples.items()}
            task = self.task.with_examples({n: rest if len(rest) else self.examples[n] for n, rest in left.items()})
            found.append(task.probabilities(self.at))
        return torch.cat(found)

    def members(self, name: str) -> Tensor:
        """The examples of a class."""
        return self.examples[name]

    def explain(self, n_neighbours: int = 5) -> Explanation:
        """Explain the node. The edges to its ``n_neighbours`` most similar neighbours are removed in turn."""
        order = self.p.argsort(descending=True).tolist()
        around, weight = self._around()
        tried = around[:n_neighbours].tolist()
        edges = dict(zip(tried, self._effects(self.without_edges([[], *([u] for u in tried)])), strict=True))
        examples, dispensable = self._examples()
        columns, taken, without_columns = self._columns()
        changes = (
            self._change("edges", edges, self.without_edges, self._name),
            self._change("examples", dispensable, self.without_examples, self._name),
            self._change("columns", taken, without_columns, self._column_name),
        )
        return Explanation(
            self._name(self.node),
            self.classes[self.best],
            float(self.p[self.best]),
            {self.classes[c]: float(self.p[c]) for c in order},
            {self.classes[c]: float(self.p[self.best] - self.p[c]) for c in order if c != self.best},
            examples,
            self._neighbours(around[:200], weight[:200], edges),
            int(self.graph.degree[self.node]),
            kind=None if self.task.kinds is None else self.task.kinds[self.best],
            given=given_labels(self.graph, self.examples, self.at).get(self.node),
            columns=columns,
            changes=tuple(change for change in changes if change is not None),
            tried={"edges": len(edges), "examples": len(dispensable), "columns": len(taken)},
            title=node_title(self.graph, self.node),
        )

    def _name(self, node: int) -> str:
        return node_name(self.graph, node)

    def _column_name(self, column: int) -> str:
        names = self.graph.feature_names
        return names[column] if names else f"column {column}"

    def _effects(self, p: Tensor) -> list[Effect]:
        """What the rows of ``p [1 + B, classes]`` change of the first."""
        margin = p[:, self.best] - p[:, self.second]
        log_p = p.clamp(min=1e-35).log()
        odds = log_p[:, self.best] - log_p[:, self.second]
        likeliest, choice = p[1:].max(1)
        columns = margin[0] - margin[1:], odds[0] - odds[1:], choice, likeliest
        return [Effect(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _change(
        self,
        what: str,
        effects: Mapping[int, Effect],
        without: Callable[[Sequence[Sequence[int]]], Tensor],
        name: Callable[[int], str],
    ) -> Change | None:
        """The fewest of these, taken in the order of their evidence, without which the prediction is another; None if
        there is no such change."""
        order = sorted((u for u, effect in effects.items() if effect.evidence > 0), key=lambda u: -effects[u].evidence)
        order = order[: self.together]
        found = [(effects[u].choice, effects[u].probability) for u in order[:1]]
        if len(order) > 1 and found[0][0] == self.best:
            p, choice = without([order[: i + 1] for i in range(1, len(order))]).max(1)
            found += zip(choice.tolist(), p.tolist(), strict=True)
        for i, (then, probability) in enumerate(found):
            if then != self.best:
                return Change(what, tuple(map(name, order[: i + 1])), self.classes[then], probability)
        return None

    def _around(self) -> tuple[Tensor, Tensor]:
        """The neighbours and their weights, the most similar first."""
        start, end = self.graph.indptr[self.node : self.node + 2].tolist()
        around = self.graph.indices[start:end].long()
        alike = self.similarity(around).clamp(min=0)
        weight, order = (alike / alike.sum().clamp(min=1e-12)).sort(descending=True, stable=True)
        return around[order], weight

    def _neighbours(self, around: Tensor, weight: Tensor, edges: Mapping[int, Effect]) -> tuple[Neighbour, ...]:
        given = given_labels(self.graph, self.examples, around)
        chosen = self.task.probabilities(around).argmax(1).tolist()
        found = []
        for u, w, c in zip(around.tolist(), weight.tolist(), chosen, strict=True):
            influence, evidence = _told(edges.get(u))
            told = w, influence, u in given, evidence, node_title(self.graph, u)
            found.append(Neighbour(self._name(u), given.get(u, self.classes[c]), *told))
        return tuple(found)

    def _examples(self) -> tuple[tuple[Example, ...], dict[int, Effect]]:
        """Examples of the chosen class and of the runner-up (ten each; three labelled nodes of a known class), the most
        similar first; and the effects of those without which their class still has one."""
        found: list[tuple[float, int, str]] = []
        for name in (self.classes[self.best], self.classes[self.second]):
            nodes = self.members(name)
            top = self.similarity(nodes).topk(min(10 if name in self.examples else 3, len(nodes)))
            found += [(s, int(nodes[i]), name) for s, i in zip(top.values.tolist(), top.indices.tolist(), strict=True)]
        tried = [node for _, node, name in found if name in self.examples and len(self.examples[name]) > 1]
        p = torch.cat([self.p[None], self.without_examples([[node] for node in tried])]) if tried else self.p[None]
        effects = dict(zip(tried, self._effects(p), strict=True))
        return tuple(
            Example(self._name(node), name, s, *_told(effects.get(node)), title=node_title(self.graph, node))
            for s, node, name in sorted(found, reverse=True)
        ), effects

    def _columns(self) -> tuple[tuple[Column, ...], dict[int, Effect], Callable[[Sequence[Sequence[int]]], Tensor]]:
        """Columns that speak for and against the class, the effects of those tried, and how to take some away."""
        return (), {}, self.without_edges


class ClosedSetExplainer(Explainer):
    """For closed-set classification. The graph is embedded again without an edge to find its influence."""

    together = 1
    task: ClosedSetTask

    def similarity(self, nodes: Tensor) -> Tensor:
        """The mean over the embeddings of the cosine around the mean of all nodes."""
        cosines = []
        for z in embeddings_of(self.task.state, self.graph.num_nodes):
            mean = z.mean(0, dtype=torch.float32)
            cosines.append(F.cosine_similarity(z[self.at] - mean, z[nodes] - mean, dim=-1))
        return torch.stack(cosines).mean(0)

    def without_edges(self, cuts: Sequence[Sequence[int]]) -> Tensor:
        found = []
        for cut in cuts:
            task = self.task
            if cut:
                graph = without_edges(self.graph, self.node, cut)
                task = replace(task, graph=graph, state=inference.embed(task.model, graph))
            found.append(task.probabilities(self.at))
        return torch.cat(found)


@dataclass(frozen=True)
class Surroundings:
    """What reaches a node, for each of ``B`` cuts.

    ``words [4, B, d]`` and ``links [2, B, rank]`` are its views before they are centred; ``labels [2, B, C]`` are the
    labels propagated far and near; ``mass [B]`` is that of all nodes, near. ``columns [4, F]`` are the feature columns
    in the words of the first cut, ``weights [4]`` the weight of the node's own features in them.
    """

    words: Tensor
    links: Tensor
    labels: Tensor
    mass: Tensor
    columns: Tensor
    weights: Tensor
    hops: Tensor

    def with_words(self, words: Tensor, hops: Tensor) -> "Surroundings":
        """Those of the first cut with other words ``[4, B, d]`` and logits of the regression on features ``[B, C]``."""
        n = words.shape[1]
        links, labels = (part[:, :1].expand(-1, n, -1) for part in (self.links, self.labels))
        return replace(self, words=words, links=links, labels=labels, mass=self.mass[:1].expand(n), hops=hops)


class OpenSetExplainer(Explainer):
    """For open-set classification. The influence of an example is exact: class shares are estimated again without it.
    The influence of an edge or a column is exact at the node: its views, propagated labels and novelty features are
    computed again; bases, means and models stay as they are."""

    task: OpenSetTask

    def __init__(
        self, graph: Graph, task: OpenSetTask, node: int, occluded: tuple[Sequence[str], Tensor] | None = None
    ) -> None:
        """``occluded`` are words of the node's text, and what each adds to the vector of the text ``[words, dim]``."""
        self.occluded = occluded
        self.model = task.model
        self.uncut: Surroundings | None = None
        self.hop_weights: Tensor | None = None  # [3, F, C] of the regression on features, at the node and around it
        if len(self.model.known.hops):
            features = HopFeatures.of(graph, self.model.sources)
            self.hop_weights = features.scale * features.hops(self.model.known.hops)
        super().__init__(self.model.use.seen(graph), task, node)

    def similarity(self, nodes: Tensor) -> Tensor:
        """Cosines of the coordinates; a few rows at a time, as a hub has very many neighbours."""
        own = F.normalize(self.model.x[self.node].float(), dim=0)
        return torch.cat([F.normalize(self.model.x[some].float(), dim=1) @ own for some in nodes.split(1 << 12)])

    def members(self, name: str) -> Tensor:
        """Its examples, or all other nodes that are labelled so."""
        if name in self.examples:
            return self.examples[name]
        number = self.model.classes.index(name) if name in self.model.classes else -2
        nodes = (self.model.y == number).nonzero().flatten()
        return nodes[nodes != self.node]

    def without_edges(self, cuts: Sequence[Sequence[int]]) -> Tensor:
        around = self.surroundings(cuts)
        if not cuts[0]:  # nothing is cut: what columns are taken from
            self.uncut = around
        return self.predicted(around)

    @torch.no_grad()
    def surroundings(self, cuts: Sequence[Sequence[int]]) -> Surroundings:
        """What reaches the node for each of ``cuts``: lists of neighbours to which there is no edge."""
        walks, sources, y, n = CutWalks(self.graph, self.node, cuts), self.model.sources, self.model.y, len(cuts)
        steps = [(steps, restart) for restart, steps in PROPAGATION]
        near, far, *propagated = walks.smoothed((NEAR_STEPS, FAR_STEPS, *steps))
        two = walks.two_steps()
        views = torch.cat([walks.start(), two, near, far], 1)
        columns = column_mass(self.graph, views, sources.idf, sources.centre).T
        hops = torch.zeros(n, len(self.model.classes), device=self.at.device)
        if self.hop_weights is not None:
            one = column_mass(self.graph, walks.one_step(), sources.idf, sources.centre).T
            parts = zip((columns[:n], one, columns[n : 2 * n]), self.hop_weights, strict=True)
            hops = sum((part @ weights for part, weights in parts), hops) + self.model.known.hops[-1]
        links = times_rows(torch.cat([walks.lists(two), walks.lists(near)], 1).T, sources.links)
        reach = torch.cat(propagated, 1)
        labelled = (y >= 0).nonzero().flatten()
        labels = reach.new_zeros(len(self.model.classes), reach.shape[1])
        labels.index_add_(0, y[labelled], reach[labelled])
        return Surroundings(
            (columns @ sources.words).unflatten(0, (len(WORDS), n)),
            links.unflatten(0, (2, n)),
            labels.T.unflatten(0, (2, n)),
            propagated[1].sum(0),
            columns[::n],
            views[self.node, ::n],
            hops,
        )

    @torch.no_grad()
    def rows(self, around: Surroundings) -> OpenSetModel:
        """The open-set model with the rows of the node there, ``[B, ...]``, in place of those of the graph."""
        x = self.model.pca.transform(self.model.sources.centred([*around.words, *around.links]))
        alone = linear(x, self.model.known.weights) + around.hops
        return self.model.with_rows(x, alone, around.labels, around.mass)

    def predicted(self, around: Surroundings) -> Tensor:
        """Probabilities ``[B, classes]`` of the node there."""
        rows = torch.arange(around.words.shape[1], device=self.at.device)
        return replace(self.task, model=self.rows(around)).probabilities(rows)

    def _columns(self) -> tuple[tuple[Column, ...], dict[int, Effect], Callable[[Sequence[Sequence[int]]], Tensor]]:
        """The eight columns that speak most for the chosen class and the eight most against, among the 128 of which the
        node and its surroundings have most beyond or below the average."""
        if not self.graph.has_features:
            return super()._columns()
        around = self.uncut or self.surroundings([[]])
        unusual = around.columns - self.model.sources.columns()[: len(WORDS)]

        def without(parts: Sequence[Sequence[int]], own: bool = False) -> Tensor:
            """Probabilities when columns are average in all views, or only in the node's ``own`` features."""
            pairs = [(i, column) for i, part in enumerate(parts) for column in part]
            row, column = torch.tensor(pairs, dtype=torch.long, device=self.at.device).view(-1, 2).T
            gone = around.weights[:, None] * unusual[:1, column] if own else unusual[:, column]
            words = around.words[:, :1].repeat(1, len(parts), 1)
            words.index_add_(1, row, gone[:, :, None] * self.model.sources.words[column], alpha=-1)
            hops = around.hops[:1].repeat(len(parts), 1)
            if self.hop_weights is not None:  # the mean over neighbours is not among the views: as over two steps
                weights = self.hop_weights[:1] if own else self.hop_weights
                much = gone[:1] if own else gone[[0, 1, 1]]
                hops.index_add_(0, row, (much[:, :, None] * weights[:, column]).sum(0), alpha=-1)
            return self.predicted(around.with_words(words, hops))

        weight = unusual.abs().sum(0) * self.model.sources.words.norm(dim=1)
        if MEANING in self.graph.blocks:
            weight[meaning_columns(self.graph)] = 0  # the columns of a vector mean nothing one by one
        weight = weight.topk(min(128, len(weight)))
        tried = weight.indices[weight.values > 0].tolist()
        parts = [[], *([column] for column in tried)]
        effects, own = (self._effects(without(parts, own)) for own in (False, True))
        more = (unusual.sum(0) > 0).tolist()
        found = [
            Column(self._column_name(c), more[c], effect.influence, effect.evidence, mine.evidence)
            for c, effect, mine in zip(tried, effects, own, strict=True)
        ]
        if self.occluded is not None:
            names, vectors = self.occluded
            columns = meaning_columns(self.graph)
            gone = vectors * around.columns[0, columns].norm() @ self.model.sources.words[columns]
            gone = torch.cat([torch.zeros_like(gone[:1]), gone])
            words = around.words[:, :1] - around.weights[:, None, None] * gone
            changed = self._effects(self.predicted(around.with_words(words, around.hops[:1].expand(len(gone), -1))))
            spoken = zip(names, changed, strict=True)
            found += [Column(f"{word} (meaning)", True, *one[:2], one.evidence) for word, one in spoken]
        found.sort(key=lambda one: -one.evidence)
        shown = [one for one in found[:8] if one.evidence > 0] + [one for one in found[-8:] if one.evidence < 0]
        return tuple(shown), dict(zip(tried, effects, strict=True)), without


class CutWalks:
    """Walks from one node of an undirected graph without some of its edges: one column for each of ``cuts``, which list
    the neighbours whose edges are gone. All matrices are ``[N, cuts]``."""

    def __init__(self, graph: Graph, node: int, cuts: Sequence[Sequence[int]]) -> None:
        self.node, self.weighted, self.pattern = node, arcs_of(graph), adjacency(graph)
        pairs = torch.tensor([(i, u) for i, cut in enumerate(cuts) for u in cut], dtype=torch.long, device=graph.device)
        self.cut, self.other = pairs.view(-1, 2).T
        ends = torch.ones(graph.num_nodes, 2, device=graph.device)  # all nodes, and this one
        ends[:, 1] = torch.arange(graph.num_nodes, device=graph.device) == node
        mass, weight = (self.weighted @ ends).T
        self.gone, self.n_cuts = weight[self.other], len(cuts)
        self.mass = self._less(mass, self.gone, self.gone)
        self.rarity = torch.log((1 + graph.num_nodes) / (2 + graph.degree)) + 1  # a list has the node itself too

    def _less(self, whole: Tensor, at_node: Tensor, at_other: Tensor) -> Tensor:
        """``whole [N]`` for each cut, less what is given for every edge that is gone, at both of its ends."""
        sums = whole[:, None].repeat(1, self.n_cuts)
        sums[self.node].index_add_(0, self.cut, at_node, alpha=-1)
        sums[self.other, self.cut] -= at_other
        return sums

    def _step(self, z: Tensor, listed: bool = False) -> Tensor:
        """``A z`` without the edges; ``listed`` ones count one each, whatever their weights."""
        gone = torch.ones_like(self.gone) if listed else self.gone
        moved = (self.pattern if listed else self.weighted) @ z
        moved[self.node].index_add_(0, self.cut, gone * z[self.other, self.cut], alpha=-1)
        moved[self.other, self.cut] -= gone * z[self.node, self.cut]
        return moved

    def start(self) -> Tensor:
        first = torch.zeros_like(self.mass)
        first[self.node] = 1
        return first

    def one_step(self) -> Tensor:
        """The row of the mean over the neighbours."""
        return self._step(torch.where(self.mass > 1e-4, self.mass, 1.0).reciprocal() * self.start())

    def two_steps(self) -> Tensor:
        """The row of the mean over two-step walks, without self-loops."""
        return self._step(torch.where(self.mass > 1e-4, self.mass, 1.0).reciprocal() * self.one_step())

    def smoothed(self, wanted: Sequence[tuple[int, float]]) -> list[Tensor]:
        """The rows of personalised PageRank with the ``wanted`` (steps, restart), all from the same walk, which is
        scaled by the root of the degrees until the end."""
        degree = self.mass + 1
        z, longest = self.start() / degree.sqrt(), max(steps for steps, _ in wanted)
        totals = [torch.zeros_like(z) for _ in wanted]
        for step in range(longest + 1):
            for total, (steps, restart) in zip(totals, wanted, strict=True):
                if step <= steps:
                    total.add_(z, alpha=(1 - restart) ** step * (restart if step < steps else 1))
            if step < longest:
                z = self._step(z).add_(z).div_(degree)
        return [total.mul_(degree.sqrt()) for total in totals]

    def lists(self, z: Tensor) -> Tensor:
        """``z`` times the neighbour lists (TF-IDF, each with the node itself), with the rarities of the whole graph."""
        squared = self.rarity.square()
        lengths = (self.pattern @ squared[:, None])[:, 0] + squared
        z = z * self._less(lengths, squared[self.other], squared[self.node].expand_as(self.gone)).clamp(1e-24).rsqrt()
        return self._step(z, listed=True).add_(z).mul_(self.rarity[:, None])


def given_labels(graph: Graph, examples: Mapping[str, Tensor], nodes: Tensor) -> dict[int, str]:
    """The labels of those of ``nodes [B]`` that have one: as an example of a new class, or in the graph."""
    labels = zip(nodes.tolist(), graph.y[nodes].tolist(), strict=True)
    found = {node: class_name(graph, label) for node, label in labels if label >= 0}
    for name, shown in examples.items():
        found |= dict.fromkeys(nodes[torch.isin(nodes, shown)].tolist(), name)
    return found


def without_edges(graph: Graph, node: int, others: Sequence[int]) -> Graph:
    """The graph without the edges between a node and others; features stay as they are, structural ones too."""
    rows, columns = rows_of(graph), graph.indices.long()
    gone = torch.tensor(others, device=graph.device)
    cut = ((rows == node) & torch.isin(columns, gone)) | ((columns == node) & torch.isin(rows, gone))
    return graph.with_arcs(~cut).with_features(graph.x, graph.feature_names, graph.blocks)


def embeddings_of(state: Any, n: int) -> list[Tensor]:
    """The matrices with a row for each node in what a method's ``embed`` returned."""
    parts = [state] if isinstance(state, Tensor) else list(state.values() if isinstance(state, Mapping) else state)
    found = [part for part in parts if isinstance(part, Tensor) and part.ndim == 2 and len(part) == n]
    if not found:
        raise TypeError(f"embed returned {type(state).__name__}, which holds no tensor with one row per node")
    return found
