"""Why a node got its class in the open question; every influence is found by asking again without the thing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...errors import InputError
from ...graph import Graph
from ..openworld.question import ROWS, OpenQuestion
from ..support import node_name
from .explanation import Change, Column, Example, Explanation, Neighbour, given_labels
from .locality import Locality, NodeRows, Surroundings

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
