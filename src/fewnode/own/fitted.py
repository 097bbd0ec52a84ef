"""A model fitted on a user's graph: trained, compared, and written into a folder and back."""

import warnings
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, Self

from .. import inference
from ..errors import InputError
from ..evaluation import summarize
from ..graph import Graph
from ..nn.landmarks import wordless_bytes
from ..storage import PathLike
from ..store.sizes import said
from ..store.space import Space
from ..tasks import ClassSplit
from ..training import loop
from ..training.callbacks import Callback
from . import calibration, persistence
from .attached import AttachedModel
from .classes import KnownClasses, choose_split
from .features import FeatureSchema
from .inputs import graph_of
from .openworld.rehearsal import Progress
from .openworld.spreading import COPIES
from .tables import TableSource


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
                f"{said(max(needed, Space.least(n, COPIES)))} or more, or import it with columns"
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
