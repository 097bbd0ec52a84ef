"""A user's own graph: learn from its labelled classes, name new ones by a few examples, get every node's class."""

import warnings
from collections.abc import Iterable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import torch

from .. import inference
from ..errors import InputError, one_of
from ..graph import Graph
from ..methods.base import Method
from ..storage import PathLike
from ..tasks import ClassSplit
from ..training import loop
from . import calibration, opening, persistence
from .calibration import Calibration
from .classes import KnownClasses, choose_split
from .expectation import Expectation
from .explanation import Explainer, Explanation
from .features import FeatureSchema
from .open_explanation import OpenExplainer
from .openworld import OpenQuestion, OpenWorldModel
from .predictions import Candidates, Predictions
from .priors import checked_priors
from .rehearsal import Progress
from .support import Examples, Support, changed, find_nodes, node_name, resolve, with_known
from .tables import TableSource


class FewShotClassifier:
    """Fit on a graph's labelled classes, adapt to new ones by examples, predict every node.

    ``notes`` says what was decided on the way; ``calibration`` holds the expected accuracy and calibration error.

    Args:
        method: a name of ``fewnode ls methods``; ``options`` go to it.
        min_size: labelled nodes a class needs to be learned from (twice ``k_shot`` unless given).
    """

    def __init__(
        self,
        method: str = "vantage",
        *,
        n_way: int = 5,
        k_shot: int = 5,
        n_query: int = 10,
        min_size: int | None = None,
        seed: int = 0,
        device: str = "auto",
        **options: Any,
    ) -> None:
        self.method, self.options, self.device = method, options, device
        self.shape: dict[str, Any] = {"n_way": n_way, "k_shot": k_shot, "n_query": n_query, "seed": seed}
        self.min_size = max(2, 2 * k_shot) if min_size is None else min_size
        self.notes: list[str] = []
        self.known, self.named_classes = KnownClasses(), True
        self.calibrations: list[Calibration] = []
        self.vocabulary: tuple[str, ...] | None = None
        self.source: TableSource | None = None
        self.model: Method | None = None
        self.schema: FeatureSchema | None = None
        self.graph: Graph | None = None
        self.support: Support | None = None
        self.calibration: Calibration | None = None
        self.question: OpenQuestion | None = None
        self.folder: Path | None = None
        self.inputs: str | None = None
        self._state: Any = None
        self._open: OpenWorldModel | None = None
        self._unchanged: Graph | None = None  # read from the very files the model was fitted on
        self._own = False

    def fit(
        self,
        graph: Graph,
        split: ClassSplit | None = None,
        *,
        source: TableSource | None = None,
        callback: loop.Callback | None = None,
    ) -> "FewShotClassifier":
        """Train on the base classes of ``split``, by default chosen by size; without two such classes nothing is
        trained and the method is ``probe``. ``source`` names the files the graph came from."""
        split = choose_split(graph, self.min_size) if split is None else split
        self.notes, self.folder = [], None
        method, options = self._trainable(split)
        self.schema = FeatureSchema.of(graph)
        ready = self.schema.fit(graph)
        usable = split if split.base else None
        self.model = loop.fit(
            method,
            ready,
            usable,
            **self.shape,
            device=self.device,
            callback=callback,
            **options,
        )
        self.notes += self.model.card.notes
        self.known, self.source = KnownClasses.of(graph, split), source
        self.inputs = None if source is None or source.missing() else source.digest()
        self.vocabulary = None
        if source is not None and source.text_column and graph.feature_names:
            self.vocabulary = graph.feature_names
        self._take(ready)
        self._own = True
        self.calibrations = calibration.usual_calibrations(self.model, *self._attached(), self.known.split(ready))
        return self

    def _trainable(self, split: ClassSplit) -> tuple[str, dict[str, Any]]:
        if len(split.base) >= 2:
            return self.method, self.options
        if self.method != "probe":
            note = (
                f"fewer than two classes have {self.min_size} labelled nodes or more, so there is nothing to train "
                f"{self.method} on: the training-free probe is used instead"
            )
            self.notes.append(note)
            warnings.warn(note, stacklevel=3)
            return "probe", {}
        return self.method, self.options

    def compare(self, method: str = "probe", **options: Any) -> tuple[float, float] | None:
        """Accuracy of this model and of another method on the same validation tasks, so that what training is worth can
        be seen; None without validation classes."""
        model, _ = self._fitted()
        graph, state = self._attached()
        split = self.known.split(graph)
        drawn = calibration.validation_tasks(graph.y, split, [self.shape["k_shot"]] * self.shape["n_way"])
        if drawn is None:
            return None
        other = loop.fit(method, graph, split, **self.shape, device=str(graph.device), **options)
        own = inference.score_tasks(model, graph, drawn[0], state)
        its = inference.score_tasks(other, graph, drawn[0], inference.embed(other, graph))
        return inference.accuracy(own, drawn[0]), inference.accuracy(its, drawn[0])

    def attach(self, graph: Graph) -> "FewShotClassifier":
        """Work on another graph with the same features; examples given before belong to the old one and are dropped."""
        model, schema = self._fitted()
        own = graph is self._unchanged
        if not self.named_classes:  # numbers of classes, as a data set's model knows them, mean nothing elsewhere
            split = model.card.split if graph.fingerprint == schema.fingerprint else None
            self.known = KnownClasses.of(graph, ClassSplit(**split)) if split else KnownClasses()
        self._take(schema.fit(graph))
        self._own = own
        return self

    def _take(self, graph: Graph) -> None:
        model, _ = self._fitted()
        model.rehead()  # the user's classes may be any number
        self.graph = graph.to(next(model.parameters(), torch.empty(0)).device)
        self.support = self.calibration = self.question = self._state = self._open = None
        self._own = False

    def read(self, **files: PathLike | None) -> Graph:
        """The graph in other files (``edges``, ``nodes``, ``features``) with the columns and words of those the model
        was fitted on; without any, those very files."""
        if self.source is None:
            raise InputError(
                "this model does not remember any tables; name edges and nodes (they are read as new ones)"
            )
        source = self.source.elsewhere(**files)
        graph = source.read(self.vocabulary)
        self._unchanged = graph if self.inputs is not None and source.digest() == self.inputs else None
        return graph

    def unchanged(self, graph: Graph) -> bool:
        """Whether a graph is the one the model was fitted on: read from the same files, or equal to the last bit."""
        return graph is self._unchanged or graph.fingerprint == self._fitted()[1].fingerprint

    def learn_known(self, progress: Progress = lambda what, part: None) -> "FewShotClassifier":
        """Prepare the open question now, which ``adapt`` and ``save`` would do otherwise: learn the known classes of the
        attached graph from all their labels. ``progress`` is told what is being done and which part of it is done."""
        self._open_world(progress)
        return self

    def adapt(
        self,
        examples: Examples,
        *,
        among: Literal["all", "new"] = "all",
        priors: Mapping[str, float] | None = None,
        pool: Iterable[Any] | None = None,
        progress: Progress = lambda what, part: None,
    ) -> "FewShotClassifier":
        """Learn new classes from examples ``{class: [nodes by id or name]}``, one or more each.

        Args:
            among: "all" asks whether a node is of a known class, of a new one, or of none of these ("other"); "new" is
                the closed choice of the literature, which forces every node into one of two or more new classes.
            priors: ``{class: share of the unlabelled nodes}`` for new classes and "other", where it is known.
            pool: the nodes on which other shares are estimated; all without a label, if not given.
            progress: told what is being done where the known classes have to be learned first, as in ``learn_known``.
        """
        one_of("among", among, ("all", "new"))
        graph = self._graph()
        support = resolve(examples, graph, self.known, least=2 if among == "new" else 1)
        if among == "new":
            if priors:
                raise InputError("priors belong to the open question (among 'all'); the closed one has none")
            found = self._calibrated(support)
            self.support, self.calibration, self.question = support, found, None
            return self
        world = self._open_world(progress)
        other = opening.other_name(world.classes)
        if other in support.classes:
            raise InputError(f"{other!r} is what nodes of no class are called; leave it out, or name it otherwise")
        fixed = checked_priors(priors, support.classes, other)
        nodes = None if pool is None else find_nodes(graph, pool, "pool")
        self.question = world.ask(support.examples(), fixed=fixed, other=other, pool=nodes)
        self.support, self.calibration = support, None
        return self

    def partial_adapt(self, add: Examples | None = None, remove: Examples | None = None) -> "FewShotClassifier":
        """Add examples to new classes (or a new class), or take some back: ``{class: [nodes]}``. In the open question
        only what they touch is computed again; shares said with ``adapt`` stay."""
        support, graph = self._support(), self._graph()
        examples = changed(support, graph, add or {}, remove or {})
        if self.question is None:
            return self.adapt(examples, among="new")
        support = resolve(examples, graph, self.known, least=1)
        self.question, self.support = self.question.with_examples(support.examples()), support
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
        return Predictions(ids.cpu(), names, support.classes, calibrated.probabilities(scores, support.n_new).cpu())

    def predict(
        self, nodes: Iterable[Any] | None = None, threshold: float = 0.0, thresholds: Mapping[str, float] | None = None
    ) -> list[str]:
        """The class of each node, by default of all; "unknown" where its probability is below the threshold."""
        return self.predict_proba(nodes).labels(threshold, thresholds)

    def find(self, label: str, top: int = 100) -> Candidates:
        """The ``top`` nodes without a label that are likeliest of the new class ``label``."""
        one_of("class", label, self._support().classes)
        nodes = self.unlabelled()
        if not 1 <= top <= len(nodes):
            raise InputError(f"top is {top}; there are {len(nodes)} nodes without a label")
        found = self.predict_proba(nodes)
        best = found.probabilities[:, found.classes.index(label)].topk(top)
        chosen = best.indices.tolist()
        return Candidates(label, found.nodes[best.indices], [found.names[i] for i in chosen], best.values)

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

    def save(self, folder: PathLike, *, force: bool = False, progress: Progress = lambda what, part: None) -> None:
        """Write the model and what it knows of classes, features and files; a model in its place needs ``force``.

        The open question is prepared, if that is not done yet, so that loading does not have to; ``progress`` is told.
        """
        model, schema = self._fitted()
        kept = persistence.SavedClassifier(
            model,
            schema,
            self.notes,
            self.known,
            tuple(self.calibrations),
            self.source,
            self.vocabulary,
            self.min_size,
            self.inputs,
        )
        own = self.graph is not None and self.on_own_graph()
        large = own and self._graph().num_nodes >= persistence.LARGE
        labelled = own and bool((self._graph().y >= 0).any())
        world = self._open_world(progress) if labelled else None
        persistence.save(kept, folder, force, self._attached()[1] if large else None, world)

    @classmethod
    def load(cls, folder: PathLike) -> "FewShotClassifier":
        """What ``save`` (or ``fewnode train``) wrote; ``attach`` a graph to it next."""
        kept = persistence.load(folder)
        card = kept.model.card
        shape: dict[str, Any] = {"n_way": card.n_way, "k_shot": card.k_shot, "n_query": card.n_query, "seed": card.seed}
        made = cls(card.method, **shape, **card.options)
        made.model, made.schema, made.notes, made.folder = kept.model, kept.schema, kept.notes, Path(folder)
        made.named_classes = kept.known is not None
        made.known = kept.known or made.known
        made.calibrations, made.source = list(kept.calibrations), kept.source
        made.vocabulary, made.inputs = kept.vocabulary, kept.inputs
        made.min_size = made.min_size if kept.min_size is None else kept.min_size
        return made

    @property
    def interrupted(self) -> bool:
        """Whether the training was stopped by hand."""
        return self.model is not None and self.model.card.interrupted

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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments this classifier was made with."""
        return {"method": self.method, **self.shape, "min_size": self.min_size, "device": self.device, **self.options}

    def set_params(self, **params: Any) -> "FewShotClassifier":
        """The same classifier with other arguments, not fitted."""
        FewShotClassifier.__init__(self, **{**self.get_params(), **params})
        return self

    def __repr__(self) -> str:
        usual = {name: part.default for name, part in signature(FewShotClassifier).parameters.items()}
        usual["min_size"] = max(2, 2 * self.shape["k_shot"])
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if usual.get(name) != value]
        state = "not fitted" if self.model is None else f"fitted, {self.model.card.method}"
        return f"FewShotClassifier({', '.join(given)}) [{state}]"

    # --- calibration and state --------------------------------------------------------------------------

    def _calibrated(self, support: Support) -> Calibration:
        split = self.known.split(self._graph())
        return calibration.calibrated(self._fitted()[0], *self._attached(), split, support, self.calibrations)

    def _open_world(self, progress: Progress = lambda what, part: None) -> OpenWorldModel:
        """The open-world model of the attached graph: as it was kept for these very labels, or made now."""
        if self._open is None:
            graph = self._graph()
            y, classes = opening.known_labels(graph, None if self.named_classes else self.known)
            if self.folder is not None and self.on_own_graph():
                self._open = opening.load(self.folder, y, classes)
            if self._open is None:
                self._open = opening.open_world(self._fitted()[0], graph, y, classes, progress)
        return self._open

    def _fitted(self) -> tuple[Method, FeatureSchema]:
        if self.model is None or self.schema is None:
            raise InputError("this classifier is not fitted: call fit(graph) first, or load a saved one")
        return self.model, self.schema

    def _graph(self) -> Graph:
        self._fitted()
        if self.graph is None:
            raise InputError("no graph is attached: call attach(graph) first")
        return self.graph

    def _attached(self) -> tuple[Graph, Any]:
        graph = self._graph()
        if self._state is None and self.folder is not None and self.on_own_graph():
            self._state = persistence.read_embedding(self.folder, graph.device)
        if self._state is None:
            self._state = inference.embed(self._fitted()[0], graph)
        return graph, self._state

    def on_own_graph(self) -> bool:
        """Whether the attached graph is the one the model was fitted on, by its files or to the last edge and feature."""
        return self._own or (self.graph is not None and self.graph.fingerprint == self._fitted()[0].card.graph)

    def _support(self) -> Support:
        self._graph()
        if self.support is None:
            raise InputError("there are no classes to choose from: call adapt({class: [nodes], ...}) first")
        return self.support

    def _adapted(self) -> tuple[Method, Graph, Any, Support, Calibration]:
        """What the method's own scores need; in the open question known classes are shown to it by a few nodes each."""
        support = self._support()
        graph, state = self._attached()
        if self.question is not None:
            support = with_known(support, graph, self.known, calibration.KNOWN_SHOTS, self.shape["seed"])
        found = self.calibration or self._calibrated(support)
        return self._fitted()[0], graph, state, support, found
