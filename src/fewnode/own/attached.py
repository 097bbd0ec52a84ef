"""A model and the graph it works on: how it gets there, and what is made of that graph when it is first needed."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch

from .. import inference
from ..cluster import Engine
from ..errors import InputError
from ..graph import Graph
from ..methods.base import Method
from ..storage import PathLike
from ..storage.manifest import Manifest
from ..tasks import ClassSplit
from . import persistence
from .calibration import Calibration
from .classes import KnownClasses
from .explain.explanation import embeddings_of
from .features import FeatureSchema
from .inputs import graph_of
from .later.newcomers import Newcomers
from .openworld import opening
from .openworld.question import OpenQuestion, OpenWorldModel
from .openworld.rehearsal import Progress
from .support import Support
from .tables import TableSource


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
        self.newcomers: Newcomers | None = None
        self.folder: Path | None = None
        self.manifest: Manifest | None = None
        self.inputs: str | None = None
        self._state: Any = None
        self._open: OpenWorldModel | None = None
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

    def embeddings(self) -> list[torch.Tensor]:
        """What the method sees the nodes of the attached graph by: one matrix or more with a row for each node."""
        graph, state = self._attached()
        return embeddings_of(state, graph.num_nodes)

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
