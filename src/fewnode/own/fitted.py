"""A model fitted on a user's graph: how it gets there, to another graph, and into a folder and back."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch

from .. import inference
from ..cluster import Engine
from ..errors import InputError
from ..graph import Graph
from ..graph.spectral import structural_bytes
from ..methods.base import Method
from ..storage import PathLike
from ..storage.manifest import Manifest
from ..store.sizes import said
from ..tasks import ClassSplit
from ..training import loop
from ..training.callbacks import Callback
from . import calibration, persistence
from .calibration import Calibration
from .classes import KnownClasses, choose_split
from .features import FeatureSchema
from .inputs import graph_of
from .later.newcomers import Newcomers
from .openworld import opening
from .openworld.question import OpenQuestion, OpenWorldModel
from .openworld.rehearsal import Progress
from .support import Support
from .tables import TableSource


class FittedModel:
    """A method trained on the labelled classes of a graph, and the graph it works on. ``FewShotClassifier`` is what to
    use; this is the part of it that knows nothing of questions."""

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
        self.newcomers: Newcomers | None = None
        self.folder: Path | None = None
        self.manifest: Manifest | None = None
        self.inputs: str | None = None
        self._state: Any = None
        self._open: OpenWorldModel | None = None
        self._unchanged: Graph | None = None  # read from the very files the model was fitted on
        self._own = False

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
        self.known, self.source = KnownClasses.of(graph, split), source
        named = source is not None and source.files() and not source.missing()
        self.inputs = source.digest() if source is not None and named else None
        self.vocabulary = None if source is None else source.words
        self._take(ready)
        self._own = True
        self.calibrations = calibration.usual_calibrations(self.model, *self._attached(), self.known.split(ready))
        return self

    def _check_on_disk(self, graph: Graph, split: ClassSplit) -> None:
        if self.method != "vantage":
            raise InputError(f"{self.method} holds the whole graph in memory; a store is for vantage")
        if len(split.base) < 2:
            raise InputError(
                f"fewer than two classes have {self.min_size} labelled nodes or more, so there is nothing to train on. "
                "Label more nodes, or ask for fewer with --min-size"
            )
        assert graph.space is not None
        needed = structural_bytes(graph.num_nodes, len(graph.indices))
        if not graph.has_features and not graph.space.has_room(needed, graph.num_nodes):
            raise InputError(
                "a graph without feature columns gets structural ones, which are made in memory: give --memory "
                f"{said(graph.space.memory_for(needed, graph.num_nodes))} or more, or import it with columns"
            )
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

    def compare(self, method: str = "probe", **options: Any) -> tuple[float, float] | None:
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
        return inference.accuracy(own, tasks), inference.accuracy(its, tasks)

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
        model.rehead()  # the user's classes may be any number
        self.graph = graph.to(next(model.parameters(), torch.empty(0)).device)
        self.support = self.calibration = self.question = self.newcomers = self._state = self._open = None
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

    def on_own_graph(self) -> bool:
        """Whether the attached graph is the one the model was fitted on: by its files, or to the last feature."""
        return self._own or (self.graph is not None and self.graph.fingerprint == self._fitted()[0].card.graph)

    def _open_world(self, progress: Progress = lambda what, part: None) -> OpenWorldModel:
        """The open-world model of the attached graph: as it was kept for these very labels, or made now."""
        if self._open is None:
            graph = self._graph()
            y, classes = opening.known_labels(graph, None if self.named_classes else self.known)
            if graph.space is not None:
                self._open = opening.open_world_on_disk(self._fitted()[0], graph, y, classes, progress)
            elif (kept := self._kept()) is not None:
                self._open = opening.load(*kept, y, classes)
            if self._open is None:
                self._open = opening.open_world(self._fitted()[0], graph, y, classes, progress)
        return self._open

    def _with_relay(self, progress: Progress = lambda what, part: None) -> OpenWorldModel:
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
