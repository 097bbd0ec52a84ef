"""``FewShotClassifier``: learn the labelled classes of a graph, name new ones by a few examples, classify all nodes."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor

from ..errors import InputError, one_of
from ..files import Manifest, PathLike
from ..graph import Graph
from ..methods.base import Method
from ..nn.landmarks import wordless_bytes
from ..store import Engine, Space, format_bytes
from ..tasks import ClassSplit
from ..training import evaluate as inference
from ..training import loop
from ..training.evaluate import summarize
from ..training.loop import Callback
from . import calibration
from . import folder as persistence
from . import open_set as opening
from .calibration import Calibration
from .explain import Explainer, Explanation, OpenExplainer, embeddings_of
from .features import FeatureSchema
from .inputs import (
    Examples,
    KnownClasses,
    Support,
    TableSource,
    changed,
    choose_split,
    examples_of,
    find_nodes,
    graph_of,
    node_name,
    resolve,
)
from .known_classes import COPIES
from .new_nodes import NewNodes, read_later
from .novelty import checked_priors
from .open_set import BATCH, OpenQuestion, OpenSetModel
from .predictions import Candidates, Predictions
from .simulation import Expectation, Progress
from .suggest import Suggester, Suggestions


# --- A model and the graph it works on: how it gets there, and what is made of that graph when it is first needed.
class AttachedModel:
    """A method trained on the labelled classes of a graph, the graph it works on, and what was made of both."""

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
        self.new_nodes: NewNodes | None = None
        self.folder: Path | None = None
        self.manifest: Manifest | None = None
        self.inputs: str | None = None
        self._state: Any = None
        self._open: OpenSetModel | None = None
        self._unchanged: Graph | None = None  # read from the very files the model was fitted on
        self._own = False

    def attach(self, graph: Any = None, *, edges: Any = None, nodes: Any = None, x: Any = None, y: Any = None) -> Self:
        """Work on another graph with the same features, given as to ``fit``; DataFrames are read with the columns and
        words of those the model was fitted on. Examples given before belong to the old graph and are dropped."""
        model, schema = self._fitted()
        graph, _ = graph_of(graph, edges, nodes, self.source, x=x, y=y)
        own = graph is self._unchanged
        if not self.named_classes:  # numbers of classes, as a data set's model knows them, mean nothing elsewhere
            split = model.card.split if graph.fingerprint == schema.fingerprint else None
            self.known = KnownClasses.of(graph, ClassSplit(**split)) if split else KnownClasses()
        self._take(schema.fit(graph))
        self._own = own
        return self

    def _take(self, graph: Graph) -> None:
        model, _ = self._fitted()
        model.reset_head()  # the user's classes may be any number
        self.graph = graph.to(next(model.parameters(), torch.empty(0)).device)
        self.support = self.calibration = self.question = self.new_nodes = self._state = self._open = None
        self._own = False

    def read(self, *, memory: int | None = None, engine: Engine | None = None, **files: PathLike | None) -> Graph:
        """The graph in other files (``edges``, ``nodes``, ``features``) with the columns and words of those the model
        was fitted on; without any, those very files. ``memory`` bounds the work on a store, ``engine`` does it."""
        if self.source is None or not (self.source.files() or any(files.values())):
            raise InputError(
                "this model does not remember any tables; name edges and nodes (they are read as new ones)"
            )
        source = self.source.elsewhere(**files)
        graph = source.read(self.vocabulary, memory, engine)
        self._unchanged = graph if self.inputs is not None and source.digest() == self.inputs else None
        return graph

    def unchanged(self, graph: Graph) -> bool:
        """Whether a graph is the one the model was fitted on: read from the same files, or equal to the last bit."""
        return graph is self._unchanged or graph.fingerprint == self._fitted()[1].fingerprint

    def reads_the_same(self) -> bool:
        """Whether the last graph was read from the very files the model was fitted on, unchanged."""
        return self._unchanged is not None

    def changed_labels(self, graph: Graph) -> str | None:
        """How the labels of the graph the model was fitted on have changed since, in words."""
        if self.folder is None or self.manifest is None or graph.space is not None or not bool((graph.y >= 0).any()):
            return None
        y, classes = opening.known_labels(graph, None if self.named_classes else self.known)
        return opening.changed_labels(self.folder, self.manifest, y, classes)

    def learn_known(self, progress: Progress = lambda what, part: None) -> Self:
        """Learn the known classes of the attached graph from all their labels now; else ``adapt`` or ``save`` does it.
        ``progress`` is told what is being done and which part of it is done."""
        self._open_world(progress)
        return self

    def embeddings(self) -> list[torch.Tensor]:
        """What the method sees the nodes of the attached graph by: one matrix or more with a row for each node."""
        graph, state = self._attached()
        return embeddings_of(state, graph.num_nodes)

    def on_own_graph(self) -> bool:
        """Whether the attached graph is the one the model was fitted on: by its files, or to the last feature."""
        return self._own or (self.graph is not None and self.graph.fingerprint == self._fitted()[0].card.graph)

    def _open_world(self, progress: Progress = lambda what, part: None) -> OpenSetModel:
        """The open-world model of the attached graph: as it was kept for these very labels, or made now."""
        if self._open is None:
            graph = self._graph()
            y, classes = opening.known_labels(graph, None if self.named_classes else self.known)
            if graph.space is not None:
                self._open = opening.open_set_on_disk(self._fitted()[0], graph, y, classes, progress)
            elif (kept := self._kept()) is not None:
                self._open = opening.load(*kept, y, classes)
            if self._open is None:
                self._open = opening.open_world(self._fitted()[0], graph, y, classes, progress)
        return self._open

    def _with_relay(self, progress: Progress = lambda what, part: None) -> OpenSetModel:
        """The open-world model with what nodes that arrive later need."""
        world = self._open_world(progress)
        if world.relay is None and world.recipe is not None:
            kept = self._kept()
            relay = None if kept is None else opening.load_relay(*kept, world.x.device)
            relay = relay or opening.relay_of(self._fitted()[0], self._graph(), world)
            self._open = world = replace(world, relay=relay)
        return world

    def _kept(self) -> tuple[Path, Manifest] | None:
        """The folder with what was made of the attached graph, if it was read from one."""
        kept = self.folder is not None and self.manifest is not None and self.on_own_graph()
        return (self.folder, self.manifest) if kept else None  # type: ignore[return-value]

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
        if self._state is None and (kept := self._kept()) is not None:
            self._state = persistence.read_embedding(*kept, graph.device)
        if self._state is None:
            self._state = inference.embed(self._fitted()[0], graph)
        return graph, self._state


# --- A model fitted on a user's graph: trained, compared, and written into a folder and back.
class Comparison(NamedTuple):
    """Accuracies on the same tasks, and half of the 95 % interval of their difference."""

    own: float
    other: float
    interval: float


class FittedModel(AttachedModel):
    """A method trained on the labelled classes of a graph. ``FewShotClassifier`` is what to use; this is the part of it
    that knows nothing of questions."""

    def fit(
        self,
        graph: Any = None,
        split: ClassSplit | None = None,
        *,
        edges: Any = None,
        nodes: Any = None,
        x: Any = None,
        y: Any = None,
        source: TableSource | None = None,
        resume: PathLike | None = None,
        callback: Callback | None = None,
        **columns: Any,
    ) -> Self:
        """Train on the base classes of ``split``, by default chosen by size; without two such classes nothing is
        trained and the method is ``probe``.

        Args:
            graph: a ``Graph``, or anything that ``Graph.of`` takes: of NetworkX, PyTorch Geometric, ...
            split: the classes to learn from and to select on.
            edges: instead of a graph, a DataFrame with a row for each edge, an adjacency, or edges [2, E].
            nodes, x, y: beside edges, a DataFrame with a row for each node; or features [N, F] and labels [N].
            source, resume: the files the graph came from; a folder that keeps the state of the training.
            callback: told a ``TrainingProgress`` after every step.
            columns: beside DataFrames, the options of ``Graph.from_files``: ``weight_column``, ``directed``, ...
        """
        if not isinstance(split, ClassSplit | None):
            raise InputError(f"split is a {type(split).__name__}; give a ClassSplit, and a table of nodes as nodes=")
        graph, understood = graph_of(graph, edges, nodes, columns=columns, x=x, y=y)
        source = source or understood
        split = choose_split(graph, self.min_size) if split is None else split
        if graph.space is not None:
            self._check_on_disk(graph, split)
        if source is not None and source.memory is None and source.files() and not source.missing():
            source = source.understood()[1]
        self.notes, self.folder, self.manifest = [], None, None
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
            resume=None if resume is None else Path(resume),
            callback=callback,
            **options,
        )
        self.notes += self.model.card.notes
        self.known = KnownClasses.of(graph, split)
        self._remember(source)
        self._take(ready)
        self._own = True
        self.calibrations = calibration.usual_calibrations(self.model, *self._attached(), self.known.split(ready))
        return self

    def _remember(self, source: TableSource | None) -> None:
        self.source, self.vocabulary = source, None if source is None else source.words
        there = source is not None and source.files() and not source.missing()
        self.inputs = source.digest() if source is not None and there else None

    def _check_on_disk(self, graph: Graph, split: ClassSplit) -> None:
        if self.method != "vantage":
            raise InputError(f"{self.method} holds the whole graph in memory; a store is for vantage")
        if len(split.base) < 2:
            raise InputError(
                f"fewer than two classes have {self.min_size} labelled nodes or more, so there is nothing to train on. "
                "Label more nodes, or ask for fewer with --min-size"
            )
        assert graph.space is not None
        n = graph.num_nodes
        needed = Space.memory_for(wordless_bytes(n, len(graph.indices)), n)
        if not graph.has_features and graph.space.memory < needed:
            raise InputError(
                "a graph without feature columns gets structural ones, which are made in memory: give --memory "
                f"{format_bytes(max(needed, Space.least(n, COPIES)))} or more, or import it with columns"
            )
        graph.space.check(n, COPIES)  # before hours of views: what neighbours say takes the most
        self.device = "cpu"

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

    def compare(self, method: str = "probe", **options: Any) -> Comparison | None:
        """Accuracy of this model and of another method on the same validation tasks, so that what training is worth can
        be seen; None without validation classes."""
        model, _ = self._fitted()
        graph, state = self._attached()
        split = self.known.split(graph)
        tasks = calibration.validation_tasks(graph.y, split, [self.shape["k_shot"]] * self.shape["n_way"])
        if tasks is None:
            return None
        other = loop.fit(method, graph, split, **self.shape, device=str(graph.device), **options)
        own = inference.score_tasks(model, graph, tasks, state)
        its = inference.score_tasks(other, graph, tasks, inference.embed(other, graph))
        mine, theirs = (inference.accuracies(scores, tasks) for scores in (own, its))
        return Comparison(float(mine.mean()), float(theirs.mean()), summarize(mine - theirs, tasks).interval)

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
        here = own and self._graph().space is None  # what is made of a graph on disk stays in its store
        large = here and self._graph().num_nodes >= persistence.LARGE
        labelled = own and bool((self._graph().y >= 0).any())
        world = self._with_relay(progress) if labelled and here else None
        if labelled and not here:
            self._open_world(progress)
        persistence.save(kept, folder, force, self._attached()[1] if large else None, world)

    @classmethod
    def load(cls, folder: PathLike) -> Self:
        """What ``save`` (or ``fewnode train``) wrote; ``attach`` a graph to it next."""
        kept = persistence.load(folder)
        card = kept.model.card
        shape: dict[str, Any] = {"n_way": card.n_way, "k_shot": card.k_shot, "n_query": card.n_query, "seed": card.seed}
        made = cls(card.method, **shape, **card.options)
        made.model, made.schema, made.notes, made.folder = kept.model, kept.schema, kept.notes, Path(folder)
        made.manifest = kept.manifest
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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments this classifier was made with."""
        size = None if self.min_size == max(2, 2 * self.shape["k_shot"]) else self.min_size
        return {"method": self.method, **self.shape, "min_size": size, "device": self.device, **self.options}

    def set_params(self, **params: Any) -> Self:
        """The same classifier with other arguments, not fitted."""
        type(self).__init__(self, **{**self.get_params(), **params})
        return self

    def __repr__(self) -> str:
        usual = {name: part.default for name, part in signature(type(self)).parameters.items()}
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if usual.get(name) != value]
        state = "not fitted" if self.model is None else f"fitted, {self.model.card.method}"
        return f"{type(self).__name__}({', '.join(given)}) [{state}]"


# --- A user's own graph: learn from its labelled classes, name new ones by a few examples, get every node's class.
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
        came = NewNodes.of(graph, self._fitted()[1], world, nodes, edges, self.new_nodes, count)
        count, self.new_nodes = nodes.num_nodes if count is None else count, came
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
