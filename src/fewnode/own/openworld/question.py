"""The open question: is a node of a known class, of one of a few new ones, or of none of these?

It is asked on the label-free views of the graph, whatever the method: they are there before any label, known classes
are told apart on them by all their labels, and a new class is one direction in them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ...graph import Graph
from ...graph.bounded import smoother
from ...graph.edge_use import EdgeUse
from ...graph.relations import union
from ...nn.views import ViewSources
from ...store.rows import by_rows
from ...store.space import Space
from . import membership, priors
from .coordinates import Frame
from .expectation import Expectation, Tally, expectation, tallied
from .known_head import KnownHead
from .membership import Membership
from .moments import Direction, Moments
from .recipe import Recipe
from .rehearsal import Progress, Rehearsed, rehearse
from .relay import Relay

POOL = 20_000  # unlabelled nodes from which the shares of the classes are estimated
USUAL_SHOTS = 3  # taken where there is no example yet
BATCH = 1 << 16  # nodes scored at a time, and ...
ROWS = 1 << 12  # ... rows of coordinates copied at a time, which stay in the processor's cache


@dataclass(frozen=True)
class OpenWorldModel:
    """What is known of a graph before any new class is named.

    ``x [N, d]`` are coordinates of the nodes, ``y [N]`` their known classes (-1 where unknown), named by ``classes``;
    ``log_known [N, C]`` says which known class a node is, if it is of one; ``facts`` are those of ``node_facts``. With
    the ``recipe``, which explanations need, all of these can be made again for one node; with the ``relay``, which is
    read when it is needed, they can be made for nodes that arrive later. ``use`` is what edges count.
    """

    classes: tuple[str, ...]
    x: Tensor
    y: Tensor
    log_known: Tensor
    facts: Tensor
    moments: Moments
    rehearsed: tuple[Rehearsed, ...]
    recipe: Recipe | None = None
    relay: Relay | None = None
    use: EdgeUse = field(default_factory=EdgeUse)

    @classmethod
    def fit(
        cls,
        graph: Graph,
        views: Sequence[Tensor],
        y: Tensor,
        classes: tuple[str, ...],
        *,
        sources: ViewSources | None = None,
        use: EdgeUse | None = None,
        space: Space | None = None,
        progress: Progress = lambda what, part: None,
        seed: int = 0,
    ) -> "OpenWorldModel":
        """Learn the known ``classes`` from the labels ``y [N]`` (positions in ``classes``; -1: unknown).

        ``sources`` of the views make explanations possible; ``use`` is what the views make of edges; ``space`` is where
        rows of all nodes go, if the graph is on disk. ``progress`` is told what is being done, and which part of it is
        done.
        """
        use = use or EdgeUse()
        edges = smoother(union(use.seen(graph)))
        progress("joining the views", 0.0)
        frame = Frame.of(views, space, use.length)
        x = frame.all_coordinates(views, space)
        moments = Moments.of(x, y)
        if space is not None:
            space.release()
        progress("learning the known classes", 0.0)
        head = KnownHead.fit(x, edges, y, seed)
        logits, alone = head.logits(x, edges, y)
        found = rehearse(x, edges, y, head, float((y < 0).float().mean()), progress, seed)
        masses = [membership.spread_mass(edges, part) for part in membership.masses_given(y)]
        facts = membership.all_facts(x, moments, logits, alone, masses, space)
        shape = (len(y), len(classes))
        log_known = by_rows(space, "log_known", shape, torch.float32, lambda rows: logits[rows].log_softmax(1))
        recipe = None if sources is None else Recipe.of(sources, frame, head, x, y, space)
        progress("done", 1.0)
        return cls(classes, x, y, log_known, facts, moments, tuple(found), recipe, use=use)

    def ask(
        self,
        examples: Mapping[str, Tensor],
        *,
        others: Tensor | None = None,
        fixed: Mapping[str, float] | None = None,
        other: str = "other",
        pool: Tensor | None = None,
    ) -> "OpenQuestion":
        """The question with new classes shown by the nodes ``examples``; ``fixed`` shares are not estimated.

        The nodes ``others`` are said to be of no class. The shares of the groups are estimated on the nodes ``pool``,
        by default all that have no label.
        """
        pool = self._pool(pool)
        question = OpenQuestion(self, {}, {}, other, dict(fixed or {}), pool, torch.empty(0), pool[:0])
        return question.with_examples(examples, others)

    def _pool(self, pool: Tensor | None) -> Tensor:
        nodes = (self.y < 0).nonzero().flatten() if pool is None else pool
        nodes = nodes if len(nodes) else torch.arange(len(self.y), device=self.y.device)
        order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0)).to(nodes.device)
        return nodes[order[:POOL]]

    def nearest(self, shots: float) -> Rehearsed:
        """What was rehearsed with the number of examples nearest to ``shots``, by ratio."""
        return min(self.rehearsed, key=lambda one: max(one.shots / shots, shots / one.shots))


@dataclass(frozen=True)
class OpenQuestion:
    """New classes beside the known ones: ``examples`` and ``directions`` by name, and the ``shares`` of all groups.

    Groups are: known (all together), each new class, other. Where ``others`` were shown, what is like them has a
    direction too, and a share before that of whatever else is of no class; the answer is the sum of both.
    """

    model: OpenWorldModel
    examples: dict[str, Tensor]
    directions: dict[str, Direction]
    other: str
    fixed: dict[str, float]
    pool: Tensor
    shares: Tensor
    others: Tensor
    memberships: list[Membership] = field(default_factory=list)

    @property
    def classes(self) -> tuple[str, ...]:
        """New classes first, then the known ones, then other."""
        known = [name for name in self.model.classes if name not in self.examples]
        return (*self.examples, *known, self.other)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of each class: new, known or other."""
        n_new = len(self.examples)
        return (*["new"] * n_new, *["known"] * (len(self.classes) - n_new - 1), "other")

    def with_examples(self, examples: Mapping[str, Tensor], others: Tensor | None = None) -> "OpenQuestion":
        """The same question with other examples: only classes whose examples changed get a new direction.

        ``others`` replaces the nodes that are said to be of no class, if it is given.
        """
        return self.with_each([examples], others)[0]

    def with_each(self, several: Sequence[Mapping[str, Tensor]], others: Tensor | None = None) -> list["OpenQuestion"]:
        """The same question with each of several other examples; the pool is looked at once for all of them."""
        asked = [self._showing(examples, self.others if others is None else others) for examples in several]
        widths = [2 * len(one.directions) for one in asked]
        projections = self._projections(self.pool, [part for one in asked for part in one.directions.values()])
        facts, found = self.model.facts[self.pool], []
        for one, own in zip(asked, projections.split(widths, 1), strict=True):
            free = ~torch.isin(self.pool, torch.cat([*one.examples.values(), one.others]))
            utilities = one._utilities(facts[free], own[free])
            found.append(replace(one, shares=priors.estimate(utilities, one._assumed(), one._fixed())))
        return found

    def _fixed(self) -> dict[int, float]:
        """The shares that were said, by group; both parts of other have half of it."""
        groups = [None, *self.directions, self.other]
        places = {name: [i for i, one in enumerate(groups) if one == name] for name in self.fixed}
        return {i: self.fixed[name] / len(at) for name, at in places.items() for i in at}

    def _showing(self, examples: Mapping[str, Tensor], others: Tensor) -> "OpenQuestion":
        """The question with these examples, before the shares are estimated."""
        shown = {**examples, self.other: others} if len(others) else dict(examples)
        before = {**self.examples, self.other: self.others}
        directions = {}
        for name, nodes in shown.items():
            same = name in self.directions and torch.equal(before[name], nodes)
            rows = self.model.x[nodes].float()
            directions[name] = self.directions[name] if same else self.model.moments.direction(rows)
        shots = [len(nodes) for nodes in shown.values()]
        usual = sum(shots) / len(shots) if shots else USUAL_SHOTS
        taught = [self.model.nearest(shot).membership for shot in (*shots, usual)]
        return replace(self, examples=dict(examples), others=others, directions=directions, memberships=taught)

    def _projections(self, nodes: Tensor, directions: Sequence[Direction]) -> Tensor:
        """``[B, 2 * directions]``: both weights of each in turn."""
        if not directions:
            return self.model.facts.new_zeros(len(nodes), 0)
        weights = torch.cat([part.weights for part in directions], 1)
        parts = [self.model.x[some].float() @ weights for some in nodes.split(ROWS)]
        return torch.cat(parts) - self.model.moments.mean @ weights

    def utilities(self, nodes: Tensor) -> Tensor:
        """Log odds of the groups against known, ``[B, G]`` (both parts of other), at the shares of rehearsals."""
        return self._utilities(self.model.facts[nodes], self._projections(nodes, list(self.directions.values())))

    def _utilities(self, facts: Tensor, projections: Tensor) -> Tensor:
        columns = []
        for i, (direction, taught) in enumerate(zip(self.directions.values(), self.memberships, strict=False)):
            own = membership.class_facts(projections[:, 2 * i : 2 * i + 2], facts, direction)
            columns.append(taught.utilities(facts, own[:, None])[:, 1])
        other = self.memberships[-1].utilities(facts, facts.new_zeros(len(facts), 0, 4))[:, -1]
        return torch.stack([torch.zeros_like(other), *columns, other], 1)

    def groups(self, nodes: Tensor) -> Tensor:
        """Probabilities ``[B, G]`` of known (all together), each new class, and other."""
        parts = [priors.with_shares(self.utilities(part), self._assumed(), self.shares) for part in nodes.split(BATCH)]
        found = torch.cat(parts) if parts else self.model.facts.new_zeros(0, len(self.directions) + 2)
        n = 1 + len(self.examples)
        return torch.cat([found[:, :n], found[:, n:].sum(1, keepdim=True)], 1)

    def probabilities(self, nodes: Tensor) -> Tensor:
        """Probabilities ``[B, classes]`` in the order of ``classes``."""
        groups = self.groups(nodes)
        return torch.cat([groups[:, 1:-1], groups[:, :1] * self._known(nodes), groups[:, -1:]], 1)

    def expect(self, probabilities: Tensor, accepted: Tensor) -> Expectation:
        """What is to be expected of rows with these probabilities, of which only the ``accepted`` get a label."""
        return self.expectation(self.tally(probabilities, accepted))

    def tally(self, probabilities: Tensor, accepted: Tensor) -> Tally:
        """The sums over some rows that expectations are made from."""
        n_new = len(self.examples)
        known, new, other = probabilities[:, n_new:-1], probabilities[:, :n_new], probabilities[:, -1:]
        best = known.max(1, keepdim=True).values if known.shape[1] else torch.zeros_like(other)
        groups = torch.cat([known.sum(1, keepdim=True), new, other], 1)
        return tallied(torch.cat([best, new, other], 1), groups, accepted.float(), torch.ones_like(other[:, 0]))

    def expectation(self, tally: Tally) -> Expectation:
        """What is to be expected of the rows of a tally."""
        shots = sum(len(nodes) for nodes in self.examples.values())
        taught = self.model.nearest(shots / len(self.examples) if self.examples else USUAL_SHOTS)
        return expectation(tuple(self.examples), tally, taught.gaps, taught.episodes)

    def _known(self, nodes: Tensor) -> Tensor:
        """Which known class, if any; a class that is shown by examples now is no longer among them."""
        log = self.model.log_known[nodes]
        keep = [i for i, name in enumerate(self.model.classes) if name not in self.examples]
        return log.softmax(1) if len(keep) == log.shape[1] else log[:, keep].softmax(1)

    def _assumed(self) -> Tensor:
        """The shares at which the utilities were learned."""
        n_new = len(self.directions)
        parts = [taught.assumed(n_new) for taught in self.memberships]
        shares = torch.stack([parts[-1][0], *(part[1] for part in parts[:-1]), parts[-1][-1]])
        return (shares / shares.sum()).to(self.model.facts)
