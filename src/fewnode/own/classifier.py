"""A user's own graph: learn from its labelled classes, name new ones by a few examples, get every node's class."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

import torch
from torch import Tensor

from .. import inference
from ..errors import InputError, one_of
from ..graph import Graph
from ..methods.base import Method
from . import calibration
from .calibration import Calibration
from .explain.explanation import Explainer, Explanation
from .explain.open_explanation import OpenExplainer
from .fitted import FittedModel
from .inputs import examples_of
from .later.newcomers import Newcomers
from .later.tables import read_later
from .openworld import opening
from .openworld.expectation import Expectation
from .openworld.priors import checked_priors
from .openworld.question import BATCH
from .openworld.rehearsal import Progress
from .predictions import Candidates, Predictions
from .suggest import Suggester, Suggestions
from .support import Examples, Support, changed, find_nodes, node_name, resolve


class FewShotClassifier(FittedModel):
    """Fit on a graph's labelled classes, adapt to new ones by examples, predict every node.

    ``notes`` says what was decided on the way; ``expect`` what to expect of predictions. ``calibration`` holds the
    expected accuracy and calibration error of the closed question.

    Args:
        method: a name of ``fewnode ls methods``; ``options`` go to it.
        min_size: labelled nodes a class needs to be learned from (twice ``k_shot`` unless given).

    Example:
        >>> import fewnode
        >>> graph, split = fewnode.planted(300, 6, seed=0)
        >>> known = fewnode.training_view(graph, split)  # only the base classes have labels
        >>> classifier = fewnode.FewShotClassifier("probe").fit(known)
        >>> members = (graph.y == split.novel[0]).nonzero().flatten().tolist()
        >>> found = classifier.adapt({"new": members[:3]}).find("new", top=5)
        >>> sum(node in members for node in found.nodes.tolist())
        5
    """

    def adapt(
        self,
        examples: Any,
        *,
        among: Literal["all", "new"] = "all",
        priors: Mapping[str, float] | None = None,
        pool: Iterable[Any] | None = None,
        progress: Progress = lambda what, part: None,
    ) -> Self:
        """Learn new classes from examples, one or more each.

        In the open question, examples of "other" show what is none of the classes; those of a known class are one more
        label of it, which is not predicted but changes nothing else until the model is fitted again. Without any
        example, nodes are of a known class or "other".

        Args:
            examples: ``{class: [nodes]}``, or a DataFrame with the columns id and label. Nodes are given by their own
                ids, where they have any, or by their numbers.
            among: "all" asks whether a node is of a known class, of a new one, or of none of these ("other"); "new" is
                the closed choice of the literature, which forces every node into one of two or more new classes.
            priors: ``{class: share of the unlabelled nodes}`` for new classes and "other", where it is known.
            pool: the nodes on which other shares are estimated; all without a label, if not given.
            progress: told what is being done where the known classes have to be learned first, as in ``learn_known``.
        """
        one_of("among", among, ("all", "new"))
        graph = self._graph()
        examples = examples_of(examples)
        if among == "new":
            support = resolve(examples, graph, self.known)
            if priors:
                raise InputError("priors belong to the open question (among 'all'); the closed one has none")
            found = self._calibrated(support)
            self.support, self.calibration, self.question = support, found, None
            return self
        world = self._open_world(progress)
        other = opening.other_name(world.classes)
        support = resolve(examples, graph, self.known, least=0, other=other)
        fixed = checked_priors(priors, support.classes[: support.n_new], other)
        nodes = None if pool is None else find_nodes(graph, pool, "pool")
        self.question = world.ask(support.examples(), others=support.of(other), fixed=fixed, other=other, pool=nodes)
        self.support, self.calibration = support, None
        return self

    def partial_adapt(self, add: Examples | None = None, remove: Examples | None = None) -> Self:
        """Add examples to classes (or a new class), or take some back: ``{class: [nodes]}``. In the open question only
        what they touch is computed again; shares said with ``adapt`` stay."""
        support, graph = self._support(), self._graph()
        examples = changed(support, graph, add or {}, remove or {})
        if self.question is None:
            return self.adapt(examples, among="new")
        other = self.question.other
        support = resolve(examples, graph, self.known, least=0, other=other)
        self.question = self.question.with_examples(support.examples(), support.of(other))
        self.support = support
        return self

    def predict_proba(
        self, nodes: Iterable[Any] | None = None, *, progress: inference.NodeProgress | None = None
    ) -> Predictions:
        """Calibrated probabilities of nodes given by id or name, by default of all; in pieces that fit into memory."""
        support, graph = self._support(), self._graph()
        ids = torch.arange(graph.num_nodes, device=graph.device)
        ids = ids if nodes is None else find_nodes(graph, nodes, "nodes to predict")
        names = [node_name(graph, i) for i in ids.tolist()]
        if self.question is not None:
            question = self.question
            found = Predictions(ids.cpu(), names, question.classes, question.probabilities(ids).cpu(), question.kinds)
            if progress is not None:
                progress(len(ids), len(ids))
            return found
        model, graph, state, support, calibrated = self._adapted()
        known = (support.nodes, support.y, len(support.classes))
        scores = inference.score_nodes(model, graph, state, *known, ids, progress)
        return Predictions(ids.cpu(), names, support.classes, calibrated.probabilities(scores).cpu())

    def predict(
        self, nodes: Iterable[Any] | None = None, threshold: float = 0.0, thresholds: Mapping[str, float] | None = None
    ) -> list[str]:
        """The class of each node, by default of all; "unknown" where its probability is below the threshold."""
        return self.predict_proba(nodes).labels(threshold, thresholds)

    def append(self, nodes: Any, edges: Any = ()) -> Predictions:
        """Probabilities of nodes that arrive later, in the open question; only what they touch is computed.

        Nodes appended before stay: new ones may be joined to them. The predictions of all other nodes stay as they are;
        to take the new nodes into account there as well, ``attach`` the whole graph.

        Args:
            nodes: a graph of the new nodes, with names that the fitted graph does not have and its feature columns; or
                a table of them, as a file or a DataFrame, like the one the model was fitted on.
            edges: beside a graph, pairs of names (and a weight) that join new nodes to old ones; beside a table, a
                table of edges.
        """
        self._support()
        if self.question is None:
            raise InputError("appended nodes are asked the open question: adapt(..., among='all') first")
        if self._graph().space is not None:
            raise InputError("nodes cannot be appended to a graph in a store; import it again with them")
        world, graph = self._with_relay(), self._graph()
        count = None
        if not isinstance(nodes, Graph):
            (nodes, count), edges = read_later(self.source, self.vocabulary, graph, nodes, edges), ()
        came = Newcomers.of(graph, self._fitted()[1], world, nodes, edges, self.newcomers, count)
        count, self.newcomers = nodes.num_nodes if count is None else count, came
        return came.predicted(graph, world, self.question, count)

    def find(self, label: str, top: int = 100) -> Candidates:
        """The ``top`` nodes without a label that are likeliest of the class ``label``."""
        one_of("class", label, self.classes_)
        nodes = self.unlabelled()
        if not 1 <= top <= len(nodes):
            raise InputError(f"top is {top}; there are {len(nodes)} nodes without a label")
        at = self.classes_.index(label)
        parts = nodes.split(BATCH) if self._graph().space is not None else [nodes]
        likely = torch.cat([self.predict_proba(part).probabilities[:, at] for part in parts])
        values, order = likely.sort(descending=True, stable=True)  # nodes that are equally likely in the graph's order
        chosen = nodes.cpu()[order[:top]]
        names = [node_name(self._graph(), i) for i in chosen.tolist()]
        return Candidates(label, chosen, names, values[:top])

    def suggest(
        self,
        n: int = 10,
        by: str = "teach",
        label: str | None = None,
        *,
        among: Iterable[Any] | None = None,
        told: Iterable[Any] = (),
    ) -> Suggestions:
        """The ``n`` nodes worth a look next.

        Args:
            by: "teach" (what a label would teach most), "margin" (the least sure), "doubtful" and "sure" (of the class
                ``label``), "other" (likeliest none of the classes), "typical" (of each region) or "random".
            label: the class for "doubtful" and "sure".
            among: the nodes to choose from; by default all without a label.
            told: nodes that were answered or skipped already: they are not asked about, and their like less often.

        Example:
            >>> import fewnode
            >>> graph, split = fewnode.planted(300, 6, seed=0)
            >>> classifier = fewnode.FewShotClassifier("probe").fit(fewnode.training_view(graph, split))
            >>> len(classifier.suggest(4, by="typical"))  # before there is any example
            4
        """
        graph, support = self._graph(), self.support
        if among is not None:
            nodes = find_nodes(graph, among, "nodes to ask about")
        else:
            nodes = (graph.y < 0).nonzero().flatten() if support is None else self.unlabelled()
        found = None if support is None else self.predict_proba(nodes)
        shots = {} if support is None else dict(zip(support.classes, support.shots(), strict=True))
        return Suggester(graph, self.coordinates(), nodes, found, shots).suggest(n, by, label, told)

    def coordinates(self) -> Tensor:
        """Where the nodes lie, ``[N, d]``: as the open question sees them, or as the method does, side by side."""
        if self.question is not None:
            return self.question.model.x
        return torch.cat([part.float() for part in self.embeddings()], 1)

    def expect(
        self, found: Predictions, threshold: float = 0.0, thresholds: Mapping[str, float] | None = None
    ) -> Expectation:
        """What is to be expected of predictions in the open: the share of right rows, precision and recall of each new
        class, accuracy on known classes; each with an interval, and what was assumed."""
        if self.question is None or found.kinds is None:
            raise InputError("expectations are for predictions among 'all'; the closed question has `calibration`")
        return self.question.expect(found.probabilities, found.accepted(threshold, thresholds))

    def explain(self, node: int | str, *, n_neighbours: int = 5) -> Explanation:
        """Why a node gets its class, and what would change it; see ``open_explanation.OpenExplainer``."""
        if n_neighbours < 0:
            raise InputError(f"n_neighbours is {n_neighbours}; it is 0 or more")
        (at,) = find_nodes(self._graph(), [node], "node to explain").tolist()
        if self.question is not None:
            return OpenExplainer(self._graph(), self.question, at).explain(n_neighbours)
        return Explainer(*self._adapted()).explain(at, n_neighbours)

    def unlabelled(self) -> torch.Tensor:
        """All nodes that have no label, in the graph or as an example."""
        open_ = self._graph().y < 0
        open_[self._support().nodes] = False
        nodes = open_.nonzero().flatten()
        if not len(nodes):
            raise InputError("every node has a label already; say with --nodes-file which ones to predict")
        return nodes

    @property
    def classes_(self) -> tuple[str, ...]:
        """The classes that can be predicted, in the order of the probabilities."""
        support = self._support()
        return support.classes if self.question is None else self.question.classes

    def _calibrated(self, support: Support) -> Calibration:
        split = self.known.split(self._graph())
        return calibration.calibrated(self._fitted()[0], *self._attached(), split, support, self.calibrations)

    def _support(self) -> Support:
        self._graph()
        if self.support is None:
            raise InputError("there are no classes to choose from: call adapt({class: [nodes], ...}) first")
        return self.support

    def _adapted(self) -> tuple[Method, Graph, Any, Support, Calibration]:
        """What the method's own scores need, in the closed question."""
        support = self._support()
        graph, state = self._attached()
        found = self.calibration or self._calibrated(support)
        return self._fitted()[0], graph, state, support, found
