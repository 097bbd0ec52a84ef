"""Why a node got its class in the open question; every influence is found by asking again without the thing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from ..graph import Graph
from .explanation import Change, Column, Example, Explanation, Neighbour, given_labels
from .locality import Locality, NodeRows, Surroundings
from .openworld import OpenQuestion
from .support import node_name

LABELLED = 3  # nodes shown of a known class, and ...
EXAMPLES = 10  # ... examples of a new class that are tried without, the most similar first
COLUMNS, CANDIDATES = 8, 256  # columns shown for and against; the weightiest of all, among which they are sought
MOST = 5  # things that are taken away together to change the answer

Effect = tuple[float, float]  # by how much the margin and the log odds shrink
TINY = 1e-12


class OpenExplainer:
    """Explains the answer of an open question for one ``node``.

    The probabilities are those that ``predict`` gives. The influence of an example is exact: the question is asked again
    without it, shares included. That of an edge or of a column is exact at the node itself; ``locality`` says what is
    held fixed elsewhere. The margin is that of the chosen class over the runner-up.
    """

    def __init__(self, graph: Graph, question: OpenQuestion, node: int) -> None:
        recipe = question.model.recipe
        if recipe is None:
            raise InputError("this model keeps nothing to explain its answers by; fit it again")
        self.graph, self.question, self.node = graph, question, node
        self.locality = Locality(graph, recipe, question.model.moments, question.model.y)
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
            self._neighbours(*around, edges),
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
        """How much less the margin and the log odds are in the rows of ``p [1 + B, classes]`` than in the first."""
        margin = p[:, self.best] - p[:, self.second]
        odds = p[:, self.best].clamp(min=TINY).log() - p[:, self.second].clamp(min=TINY).log()
        return list(zip((margin[0] - margin[1:]).tolist(), (odds[0] - odds[1:]).tolist(), strict=True))

    def _change(
        self,
        what: str,
        effects: Mapping[int, Effect],
        ask: Callable[[Sequence[Sequence[int]]], Tensor],
        name: Callable[[int], str],
    ) -> Change | None:
        """The fewest of these, taken in the order of their evidence, without which the answer is another; None if
        ``MOST`` of them do not suffice."""
        order = sorted((u for u, (_, odds) in effects.items() if odds > 0), key=lambda u: -effects[u][1])[:MOST]
        if not order:
            return None
        p, c = ask([order[: i + 1] for i in range(len(order))]).max(1)
        for i, other in enumerate(c.tolist()):
            if other != self.best:
                gone = tuple(name(u) for u in order[: i + 1])
                return Change(what, gone, self.question.classes[other], float(p[i]))
        return None

    # --- edges ------------------------------------------------------------------------------------------

    def _similarity(self, nodes: Tensor) -> Tensor:
        x = self.question.model.x
        return F.cosine_similarity(x[self.at], x[nodes], dim=1)

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
            influence, evidence = edges.get(u, (None, None))
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
            Example(node_name(self.graph, node), name, s, *effects.get(node, (None, None)))
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
        asked = [self.p.new_zeros(0, len(self.p))]
        for gone in parts:
            left = {}
            for name, nodes in self.question.examples.items():
                rest = nodes[~torch.isin(nodes, torch.tensor(gone, device=nodes.device))]
                left[name] = rest if len(rest) else nodes
            asked.append(self.question.with_examples(left).probabilities(self.at))
        return torch.cat(asked)

    # --- columns ----------------------------------------------------------------------------------------

    def _column_name(self, column: int) -> str:
        names = self.graph.feature_names
        return names[column] if names else f"column {column}"

    def _columns(self, scene: Surroundings) -> tuple[tuple[Column, ...], dict[int, Effect]]:
        """The columns that speak most for the chosen class and most against, and what those do that were tried."""
        if not self.graph.has_features:
            return (), {}
        words = scene.words[:, 0]
        weighty = (words.abs().sum(0) * self.locality.recipe.sources.words.norm(dim=1)).topk(
            min(CANDIDATES, words.shape[1])
        )
        tried = weighty.indices[weighty.values > 0]
        parts = [[column] for column in tried.tolist()]
        p = torch.cat([self._asked(scene.first(1)), self._without_columns(scene, parts)])
        own = torch.cat([p[:1], self._without_columns(scene, parts, own=True)])
        found = [
            Column(self._column_name(column), influence, evidence, mine)
            for (column,), (influence, evidence), (_, mine) in zip(
                parts, self._effects(p), self._effects(own), strict=True
            )
        ]
        found.sort(key=lambda one: -one.evidence)
        speaking = [one for one in found[:COLUMNS] if one.evidence > 0]
        against = [one for one in found[-COLUMNS:] if one.evidence < 0]
        return (*speaking, *against), {c: effect for (c,), effect in zip(parts, self._effects(p), strict=True)}

    def _without_columns(self, scene: Surroundings, parts: Sequence[Sequence[int]], own: bool = False) -> Tensor:
        """Probabilities when columns are blank at the node and all around, or only in its ``own`` features."""
        many = scene.first(len(parts))
        words = many.words.clone()
        row = torch.tensor([i for i, part in enumerate(parts) for _ in part], dtype=torch.long, device=words.device)
        column = torch.tensor([c for part in parts for c in part], dtype=torch.long, device=words.device)
        if own:
            words[:, row, column] -= scene.own[:, :1] * scene.words[0, 0, column]  # the first view: its features alone
        else:
            words[:, row, column] = 0
        return self._asked(replace(many, words=words))
