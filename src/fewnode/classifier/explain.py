"""Why a node got its class; every influence is found by asking again without the thing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from ..graph import Graph
from ..graph.arrays import csr_parts
from ..graph.edge_types import EdgeUse, relation, types_at, union
from ..graph.operators import adjacency, times_rows, weighted_adjacency
from ..methods.base import Method
from ..nn.features import column_mass
from ..nn.views import BESIDE, FAR_STEPS, NEAR_STEPS, WORDS, centred
from ..tasks import Tasks
from ..training import evaluate as inference
from .calibration import Calibration
from .inputs import Support, class_name, node_name
from .known_classes import FAINT, SPREADS, scores
from .novelty import Moments, node_facts
from .open_set import ROWS, OpenQuestion, Recipe


# --- Why a node got its class: the examples it resembles, what its neighbours contribute, how clear it was.
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


# --- The views and opinions of one node as they would be without some of its edges, and nothing of any other node.
class CutWalks:
    """Walks that start at one node of a graph without some of the node's edges: one column for each of ``cuts``, which
    lists the neighbours whose edges are gone. All matrices are ``[N, cuts]``."""

    def __init__(self, graph: Graph, node: int, cuts: Sequence[Sequence[int]]) -> None:
        self.graph, self.node, self.n_cuts = graph, node, len(cuts)
        self.matrix, self.pattern = weighted_adjacency(graph), adjacency(graph)
        device = graph.device
        self.cut = torch.tensor([i for i, part in enumerate(cuts) for _ in part], dtype=torch.long, device=device)
        self.other = torch.tensor([u for part in cuts for u in part], dtype=torch.long, device=device)
        self.at = torch.full_like(self.other, node)
        self.forth = self._arcs(self.at, self.other)  # a directed graph may have only one of the two arcs
        self.back = self._arcs(self.other, self.at)
        one = torch.ones(graph.num_nodes, 1, device=device)
        self.row_sums = self._less((self.matrix @ one)[:, 0] + 1, self.forth, self.back)
        self.column_sums = self._less((self.matrix.T @ one)[:, 0] + 1, self.back, self.forth)
        listed = _column_counts(graph)
        self.rarity = torch.log((1 + graph.num_nodes) / (1 + listed)) + 1  # of the links: as on the whole graph

    def _arcs(self, rows: Tensor, columns: Tensor) -> Tensor:
        """What the arc from column to row counts, 0 if there is none."""
        indptr, indices, values = csr_parts(self.matrix.matrix)
        found = torch.zeros(len(rows), device=indptr.device)
        for place, (r, c) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
            at = slice(int(indptr[r]), int(indptr[r + 1]))
            found[place] = values[at][indices[at] == c].sum()
        return found

    def _less(self, whole: Tensor, at_node: Tensor, at_other: Tensor) -> Tensor:
        """``whole [N]`` for each cut, less what is given for every edge that is gone, at both of its ends."""
        sums = whole[:, None].repeat(1, self.n_cuts)
        sums.index_put_((self.at, self.cut), -at_node, accumulate=True)
        return sums.index_put_((self.other, self.cut), -at_other, accumulate=True)

    def start(self) -> Tensor:
        first = torch.zeros_like(self.row_sums)
        first[self.node] = 1
        return first

    def _handed_on(self, z: Tensor, keep: float = 0.0, *, listed: bool = False) -> Tensor:
        """``A'^T z + keep z``: each row's mass handed to those it lists, of the adjacency without the edges; ``listed``
        ones count one each, whatever their weights."""
        forth, back = ((part > 0).to(part) if listed else part for part in (self.forth, self.back))
        moved = torch.addmm(z, (self.pattern if listed else self.matrix).transpose, z, beta=keep)
        moved.index_put_((self.other, self.cut), -forth * z[self.at, self.cut], accumulate=True)
        return moved.index_put_((self.at, self.cut), -back * z[self.other, self.cut], accumulate=True)

    def two_steps(self) -> Tensor:
        """The row of the mean over two-step walks, without self-loops."""
        mass = self.row_sums - 1
        share = torch.where(mass > 1e-4, mass, 1.0).reciprocal()
        return self._handed_on(share * self._handed_on(share * self.start()))

    def smoothed(self, wanted: Sequence[tuple[int, float]]) -> list[Tensor]:
        """The rows of personalised PageRank with the ``wanted`` (steps, restart), all from the same walk.

        The walk is scaled by the root of the row sums until the end, so that a step takes one scaling instead of two.
        """
        root = self.row_sums.sqrt()
        scale = (self.row_sums * self.column_sums).rsqrt()
        z, longest = self.start() / root, max(steps for steps, _ in wanted)
        totals = [torch.zeros_like(z) for _ in wanted]
        for step in range(longest + 1):
            for total, (steps, restart) in zip(totals, wanted, strict=True):
                if step <= steps:
                    total.add_(z, alpha=(1 - restart) ** step * (restart if step < steps else 1))
            if step < longest:
                z = self._handed_on(z, keep=1.0).mul_(scale)
        return [total.mul_(root) for total in totals]

    def lists(self, *parts: Tensor) -> list[Tensor]:
        """Each of ``parts`` times the neighbour lists (TF-IDF, each with the node itself)."""
        squared = self.rarity.square()
        lengths = (self.pattern @ squared[:, None])[:, 0] + squared
        forth, back = (self.forth > 0).float(), (self.back > 0).float()
        shares = self._less(lengths, forth * squared[self.other], back * squared[self.node])
        shares = shares.clamp(min=1e-24).rsqrt()
        return [self._handed_on(z * shares, keep=1.0, listed=True).mul_(self.rarity[:, None]) for z in parts]


@dataclass(frozen=True)
class NodeRows:
    """Rows ``[B, ...]`` of the open-world model that one node would have."""

    x: Tensor
    log_known: Tensor
    facts: Tensor


@dataclass(frozen=True)
class Surroundings:
    """What reaches one node, for each of ``B`` cuts: ``words [4, B, d]`` and ``links [2, B, rank]`` of the views before
    they are centred, with those beside the node along each relation below, and its ``edge_types [B, K]``; the
    ``opinions [4, B, C]``, in the order of ``spread_opinions``, with the node's own part in the last two,
    ``say [2, B]``; and the ``masses [2, B]`` of labelled nodes and of all. ``columns [4 or more, F]`` is what the first
    cut has of each feature column in the views of words, ``own [4 or more]`` the weight of the node's own features in
    it."""

    words: Tensor
    links: Tensor
    opinions: Tensor
    say: Tensor
    masses: Tensor
    columns: Tensor
    own: Tensor
    edge_types: Tensor

    def first(self, words: Tensor) -> "Surroundings":
        """Those of the first cut with other words ``[4, B, d]``."""
        n = words.shape[1]
        links, opinions = (part[:, :1].expand(-1, n, -1) for part in (self.links, self.opinions))
        say, masses = (part[:, :1].expand(-1, n) for part in (self.say, self.masses))
        edge_types = self.edge_types[:1].expand(n, -1)
        return replace(self, words=words, links=links, opinions=opinions, say=say, masses=masses, edge_types=edge_types)


class Locality:
    """Makes the rows of one node again, by the recipe of the open-world model."""

    def __init__(self, graph: Graph, recipe: Recipe, moments: Moments, y: Tensor, use: EdgeUse | None = None) -> None:
        self.use = use or EdgeUse()
        self.whole = self.use.seen(graph)
        self.graph, self.recipe, self.moments, self.y = union(self.whole), recipe, moments, y

    @torch.no_grad()
    def surroundings(self, node: int, cuts: Sequence[Sequence[int]]) -> Surroundings:
        """What reaches the node for each of ``cuts``: lists of neighbours to which there is no edge."""
        walks = CutWalks(self.graph, node, cuts)
        (far_steps, near_steps), sources = [(steps, restart) for restart, steps in SPREADS], self.recipe.sources
        near, far, labels_far, labels_near = walks.smoothed((NEAR_STEPS, FAR_STEPS, far_steps, near_steps))
        two = walks.two_steps()
        beside = [_beside(relation(self.whole, name), node, cuts) for name in self.use.relations]
        views = torch.cat([walks.start(), two, near, far, *beside], 1)
        columns = column_mass(self.graph, views, sources.idf, sources.centre).T
        links = times_rows(torch.cat(walks.lists(two, near, *beside), 1).T, sources.links)
        said = torch.cat([labels_far, labels_near], 1)
        labelled = (self.y >= 0).nonzero().flatten()
        labels = said.new_zeros(self.recipe.answers.shape[1], said.shape[1])
        labels.index_add_(0, self.y[labelled], said[labelled])
        n = len(cuts)
        return Surroundings(
            (columns @ sources.words).unflatten(0, (len(WORDS) + len(beside), n)),
            links.unflatten(0, (2 + len(beside), n)),
            torch.cat([labels.T, times_rows(said.T, self.recipe.answers)]).unflatten(0, (4, n)),
            said[node].unflatten(0, (2, n)) * float(self.y[node] < 0),
            torch.stack([labels_near[labelled].sum(0), labels_near.sum(0)]),
            columns[::n],
            views[node, ::n],
            types_at(self.whole, self.use.types, node, cuts),
        )

    @torch.no_grad()
    def rows(self, node: int, around: Surroundings) -> NodeRows:
        """The rows that the node has in such surroundings."""
        sources, head = self.recipe.sources, self.recipe.head
        beside = zip(around.words[len(WORDS) :], around.links[2:], strict=True)
        h = [*around.words[: len(WORDS)], *around.links[:2], *(part[:, :BESIDE] for pair in beside for part in pair)]
        h += [around.edge_types] if self.use.types else []
        views = [centred(part, mean) for part, mean in zip(h, sources.means, strict=True)]
        x = self.recipe.frame.coordinates(views)
        alone = scores(x, head.weights)
        own = alone.softmax(1) - self.recipe.answers[node].float()  # what it says itself has changed as well
        opinions = around.opinions.clone()
        opinions[2:] += around.say[:, :, None] * own
        count = torch.bincount(self.y[self.y >= 0], minlength=opinions.shape[2]).float()
        faint = FAINT * (count + 1) / (count.sum() + len(count))
        spoken = ((opinions + faint) / (opinions.sum(2, keepdim=True) + FAINT)).log()
        logits = head.mix[0] * alone + torch.einsum("o,obc->bc", head.mix[1:], spoken)
        facts = node_facts(x, self.moments, logits, alone, *around.masses)
        return NodeRows(x, logits.log_softmax(1), facts)


def _column_counts(graph: Graph) -> Tensor:
    """How many lists each node is in, its own among them."""
    return torch.bincount(graph.indices.long(), minlength=graph.num_nodes).float() + 1


def _beside(graph: Graph, node: int, cuts: Sequence[Sequence[int]]) -> Tensor:
    """The row of the mean over the neighbours of a node, ``[N, cuts]``."""
    start, end = graph.indptr[node : node + 2].tolist()
    others = graph.indices[start:end].long()
    values = torch.ones(len(others), device=graph.device) if graph.weights is None else graph.weights[start:end]
    rows = torch.zeros(graph.num_nodes, len(cuts), device=graph.device)
    for at, cut in enumerate(cuts):
        left = values * ~torch.isin(others, torch.tensor(cut, dtype=torch.long, device=graph.device))
        rows[others, at] = left / left.sum().clamp(min=1e-12)
    return rows


# --- Why a node got its class in the open question; every influence is found by asking again without the thing.
LABELLED = 3  # nodes shown of a known class, and ...
EXAMPLES = 10  # ... examples of a new class that are tried without, the most similar first
COLUMNS, CANDIDATES = 8, 128  # columns shown for and against; the weightiest of all, among which they are sought
MOST = 5  # things that are taken away together to change the answer

AROUND = 200  # neighbours listed, the likest first
TINY, FAINTEST = 1e-12, 1e-35  # the least weight, and the least probability of which a logarithm is taken


class Effect(NamedTuple):
    """By how much the margin and the log odds shrink, and what is answered then."""

    influence: float
    evidence: float
    choice: int
    probability: float


class OpenExplainer:
    """Explains the answer of an open question for one ``node``.

    The probabilities are those that ``predict`` gives. The influence of an example is exact: the question is asked
    again without it, shares included. That of an edge or of a column is exact at the node itself; ``locality`` says
    what is held fixed elsewhere. The margin is that of the chosen class over the runner-up.
    """

    def __init__(self, graph: Graph, question: OpenQuestion, node: int) -> None:
        recipe = question.model.recipe
        if recipe is None:
            raise InputError("this model keeps nothing to explain its answers by; fit it again")
        model = question.model
        self.locality = Locality(graph, recipe, model.moments, model.y, model.use)
        self.graph, self.question, self.node = self.locality.graph, question, node
        self.basis, self.usual = recipe.sources.words, recipe.sources.columns()
        self.at = torch.tensor([node], device=graph.device)
        self.p = question.probabilities(self.at)[0]
        self.best, self.second = self.p.topk(2).indices.tolist()

    def explain(self, n_neighbours: int = 5) -> Explanation:
        """Explain the node; the edges to its ``n_neighbours`` likest neighbours are tried without."""
        classes, order = self.question.classes, self.p.argsort(descending=True).tolist()
        around = self._around()
        tried = around[0][:n_neighbours].tolist()
        scene = self.locality.surroundings(self.node, [[], *([u] for u in tried)])
        edges = dict(zip(tried, self._effects(self._asked(scene)), strict=True))
        examples, dispensable = self._examples()
        columns, taken = self._columns(scene)
        changes = (
            self._change("edges", edges, self._without_edges, lambda u: node_name(self.graph, u)),
            self._change("examples", dispensable, self._without_examples, lambda u: node_name(self.graph, u)),
            self._change("columns", taken, lambda parts: self._without_columns(scene, parts), self._column_name),
        )
        return Explanation(
            node_name(self.graph, self.node),
            classes[self.best],
            float(self.p[self.best]),
            {classes[c]: float(self.p[c]) for c in order},
            {classes[c]: float(self.p[self.best] - self.p[c]) for c in order if c != self.best},
            examples,
            self._neighbours(around[0][:AROUND], around[1][:AROUND], edges),
            int(self.graph.degree[self.node]),
            self.question.kinds[self.best],
            given_labels(self.graph, self.question.examples, self.at).get(self.node),
            columns,
            tuple(change for change in changes if change is not None),
            {"edges": len(edges), "examples": len(dispensable), "columns": len(taken)},
        )

    # --- asking again -----------------------------------------------------------------------------------

    def _ask(self, rows: NodeRows) -> Tensor:
        """Probabilities ``[B, classes]`` of a node with such rows."""
        unknown = torch.full((len(rows.x),), -1, device=rows.x.device)
        world = replace(self.question.model, x=rows.x, y=unknown, log_known=rows.log_known, facts=rows.facts)
        return replace(self.question, model=world).probabilities(torch.arange(len(unknown), device=unknown.device))

    def _asked(self, scene: Surroundings) -> Tensor:
        return self._ask(self.locality.rows(self.node, scene))

    def _effects(self, p: Tensor) -> list[Effect]:
        """What the rows of ``p [1 + B, classes]`` change of the first."""
        margin = p[:, self.best] - p[:, self.second]
        odds = p[:, self.best].clamp(min=FAINTEST).log() - p[:, self.second].clamp(min=FAINTEST).log()
        likeliest, choice = p[1:].max(1)
        columns = margin[0] - margin[1:], odds[0] - odds[1:], choice, likeliest
        return [Effect(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _change(
        self,
        what: str,
        effects: Mapping[int, Effect],
        ask: Callable[[Sequence[Sequence[int]]], Tensor],
        name: Callable[[int], str],
    ) -> Change | None:
        """The fewest of these, taken in the order of their evidence, without which the answer is another; None if
        ``MOST`` of them do not suffice."""
        order = sorted((u for u, effect in effects.items() if effect.evidence > 0), key=lambda u: -effects[u].evidence)
        order = order[:MOST]
        answers = [(effects[u].choice, effects[u].probability) for u in order[:1]]
        if len(order) > 1 and answers[0][0] == self.best:
            p, choice = ask([order[: i + 1] for i in range(1, len(order))]).max(1)
            answers += zip(choice.tolist(), p.tolist(), strict=True)
        for i, (choice_then, probability) in enumerate(answers):
            if choice_then != self.best:
                gone = tuple(name(u) for u in order[: i + 1])
                return Change(what, gone, self.question.classes[choice_then], probability)
        return None

    # --- edges ------------------------------------------------------------------------------------------

    def _similarity(self, nodes: Tensor) -> Tensor:
        """Cosines of the node's coordinates with those of others ``[B]``."""
        x = self.question.model.x
        own = F.normalize(x[self.node].float(), dim=0)
        hubs = nodes.split(ROWS)  # a hub has very many neighbours
        return torch.cat([F.normalize(x[some].float(), dim=1) @ own for some in hubs])

    def _around(self) -> tuple[Tensor, Tensor]:
        """The neighbours and their weights, the likest first."""
        start, end = self.graph.indptr[self.node : self.node + 2].tolist()
        around = self.graph.indices[start:end].long()
        alike = self._similarity(around).clamp(min=0)
        weight, order = (alike / alike.sum().clamp(min=TINY)).sort(descending=True, stable=True)
        return around[order], weight

    def _without_edges(self, cuts: Sequence[Sequence[int]]) -> Tensor:
        return self._asked(self.locality.surroundings(self.node, cuts))

    def _neighbours(self, around: Tensor, weight: Tensor, edges: Mapping[int, Effect]) -> tuple[Neighbour, ...]:
        given = given_labels(self.graph, self.question.examples, around)
        chosen = self.question.probabilities(around).argmax(1).tolist()
        found = []
        for u, w, c in zip(around.tolist(), weight.tolist(), chosen, strict=True):
            influence, evidence = edges[u][:2] if u in edges else (None, None)
            label = given.get(u, self.question.classes[c])
            found.append(Neighbour(node_name(self.graph, u), label, w, influence, u in given, evidence))
        return tuple(found)

    # --- examples ---------------------------------------------------------------------------------------

    def _examples(self) -> tuple[tuple[Example, ...], dict[int, Effect]]:
        """Examples of the chosen class and of the runner-up, the likest first; and what those do without which their
        class still has one."""
        found: list[tuple[float, int, str]] = []
        for name in (self.question.classes[self.best], self.question.classes[self.second]):
            nodes = self._members(name)
            similarity = self._similarity(nodes)
            most = EXAMPLES if name in self.question.examples else LABELLED
            top = similarity.topk(min(most, len(nodes)))
            found += [(s, int(nodes[i]), name) for s, i in zip(top.values.tolist(), top.indices.tolist(), strict=True)]
        shots = {name: len(nodes) for name, nodes in self.question.examples.items()}
        tried = [node for _, node, name in found if shots.get(name, 0) > 1]
        p = torch.cat([self.p[None], self._without_examples([[node] for node in tried])])
        effects = dict(zip(tried, self._effects(p), strict=True))
        return tuple(
            Example(node_name(self.graph, node), name, s, *(effects[node][:2] if node in effects else (None, None)))
            for s, node, name in sorted(found, reverse=True)
        ), effects

    def _members(self, name: str) -> Tensor:
        """The nodes that show a class: its examples, or all that are labelled so, but the node itself."""
        if name in self.question.examples:
            return self.question.examples[name]
        model = self.question.model
        number = model.classes.index(name) if name in model.classes else -2
        nodes = (model.y == number).nonzero().flatten()
        return nodes[nodes != self.node]

    def _without_examples(self, parts: Sequence[Sequence[int]]) -> Tensor:
        """Probabilities ``[B, classes]`` when the question is asked without these; a class keeps at least one."""
        if not parts:
            return self.p.new_zeros(0, len(self.p))
        several = []
        for gone in parts:
            out = torch.tensor(gone, device=self.at.device)
            left = {name: nodes[~torch.isin(nodes, out)] for name, nodes in self.question.examples.items()}
            several.append({name: rest if len(rest) else self.question.examples[name] for name, rest in left.items()})
        return torch.cat([one.probabilities(self.at) for one in self.question.with_each(several)])

    # --- columns ----------------------------------------------------------------------------------------

    def _column_name(self, column: int) -> str:
        names = self.graph.feature_names
        return names[column] if names else f"column {column}"

    def _columns(self, scene: Surroundings) -> tuple[tuple[Column, ...], dict[int, Effect]]:
        """The columns that speak most for the chosen class and most against, and what those do that were tried."""
        if not self.graph.has_features:
            return (), {}
        unusual = scene.columns - self.usual
        weight = unusual.abs().sum(0) * self.basis.norm(dim=1)
        weighty = weight.topk(min(CANDIDATES, len(weight)))
        parts = [[column] for column in weighty.indices[weighty.values > 0].tolist()]
        p = self._without_columns(scene, [[], *parts])
        own = self._without_columns(scene, [[], *parts], own=True)
        more = (unusual.sum(0) > 0).tolist()
        effects = dict(zip([column for (column,) in parts], self._effects(p), strict=True))
        found = [
            Column(self._column_name(column), more[column], effect.influence, effect.evidence, mine.evidence)
            for (column, effect), mine in zip(effects.items(), self._effects(own), strict=True)
        ]
        found.sort(key=lambda one: -one.evidence)
        speaking = [one for one in found[:COLUMNS] if one.evidence > 0]
        return (*speaking, *(one for one in found[-COLUMNS:] if one.evidence < 0)), effects

    def _without_columns(self, scene: Surroundings, parts: Sequence[Sequence[int]], own: bool = False) -> Tensor:
        """Probabilities when columns are average at the node and all around, or only in its ``own`` features."""
        row = torch.tensor([i for i, part in enumerate(parts) for _ in part], dtype=torch.long, device=self.at.device)
        column = torch.tensor([c for part in parts for c in part], dtype=torch.long, device=self.at.device)
        gone = scene.columns[:, column] - self.usual[:, column]
        if own:  # the first view is the node's own features alone
            gone = scene.own[:, None] * gone[:1]
        words = scene.words[:, :1].repeat(1, len(parts), 1)
        words.index_add_(1, row, gone[:, :, None] * self.basis[column], alpha=-1)
        return self._asked(scene.first(words))
