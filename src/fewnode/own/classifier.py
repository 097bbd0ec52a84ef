"""A user's own graph: learn from its labelled classes, name new ones by a few examples, get every node's class."""

import warnings
from collections.abc import Iterable
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
from . import calibration, persistence
from .calibration import Calibration
from .classes import KnownClasses, choose_split
from .explanation import Explainer, Explanation
from .features import FeatureSchema
from .predictions import Predictions
from .support import Examples, Support, find_nodes, node_name, resolve, with_known
from .tables import TableSource

SHOTS, WAYS = (1, 3, 5, 10), (2, 5)  # calibrated while fitting, for graphs that have no validation labels
KNOWN_SHOTS = 10  # examples of each known class, where those are offered too


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
        self.folder: Path | None = None
        self._state: Any = None

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
        self.vocabulary = None
        if source is not None and source.text_column and graph.feature_names:
            self.vocabulary = graph.feature_names
        self._take(ready)
        self.calibrations = self._usual_calibrations()
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
        if not self.named_classes:  # numbers of classes, as a data set's model knows them, mean nothing elsewhere
            split = model.card.split if graph.fingerprint == schema.fingerprint else None
            self.known = KnownClasses.of(graph, ClassSplit(**split)) if split else KnownClasses()
        self._take(schema.fit(graph))
        return self

    def _take(self, graph: Graph) -> None:
        model, _ = self._fitted()
        model.rehead()  # the user's classes may be any number
        self.graph = graph.to(next(model.parameters(), torch.empty(0)).device)
        self.support = self.calibration = self._state = None

    def read(self, **files: PathLike | None) -> Graph:
        """The graph in other files (``edges``, ``nodes``, ``features``) with the columns and words of those the model
        was fitted on; without any, those very files."""
        if self.source is None:
            raise InputError(
                "this model does not remember any tables; name edges and nodes (they are read as new ones)"
            )
        return self.source.elsewhere(**files).read(self.vocabulary)

    def adapt(self, examples: Examples, *, among: Literal["new", "all"] = "new") -> "FewShotClassifier":
        """Learn new classes from examples ``{class: [nodes by id or name]}``, one or more each.

        ``among="all"`` also offers the classes the model knows, shown by labelled nodes of the graph.
        """
        one_of("among", among, ("new", "all"))
        graph, _ = self._attached()
        support = resolve(examples, graph, self.known)
        if among == "all":
            support = with_known(support, graph, self.known, KNOWN_SHOTS, self.shape["seed"])
        self.calibration = self._calibrated(support)
        self.support = support
        return self

    def predict_proba(
        self, nodes: Iterable[Any] | None = None, *, progress: inference.NodeProgress | None = None
    ) -> Predictions:
        """Calibrated probabilities of nodes given by id or name, by default of all; in pieces that fit into memory."""
        model, graph, state, support, found = self._adapted()
        if nodes is None:
            ids = torch.arange(graph.num_nodes, device=graph.device)
        else:
            ids = find_nodes(graph, nodes, "nodes to predict")
        known = (support.nodes, support.y, len(support.classes))
        scores = inference.score_nodes(model, graph, state, *known, ids, progress)
        names = [node_name(graph, i) for i in ids.tolist()]
        return Predictions(ids.cpu(), names, support.classes, found.probabilities(scores, support.n_new).cpu())

    def explain(self, node: int | str, *, n_neighbours: int = 5) -> Explanation:
        """Why a node gets its class; see ``explanation.Explainer``."""
        model, graph, state, support, found = self._adapted()
        (at,) = find_nodes(graph, [node], "node to explain").tolist()
        return Explainer(model, graph, state, support, found).explain(at, n_neighbours)

    def save(self, folder: PathLike, *, force: bool = False) -> None:
        """Write the model and what it knows of classes, features and files; a model in its place needs ``force``."""
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
        )
        large = self.graph is not None and self.graph.num_nodes >= persistence.LARGE and self.on_own_graph()
        persistence.save(kept, folder, force, self._attached()[1] if large else None)

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
        made.vocabulary = kept.vocabulary
        made.min_size = made.min_size if kept.min_size is None else kept.min_size
        return made

    @property
    def interrupted(self) -> bool:
        """Whether the training was stopped by hand."""
        return self.model is not None and self.model.card.interrupted

    def unlabelled(self) -> torch.Tensor:
        """All nodes that have no label, in the graph or as an example."""
        _, graph, _, support, _ = self._adapted()
        open_ = graph.y < 0
        open_[support.nodes] = False
        nodes = open_.nonzero().flatten()
        if not len(nodes):
            raise InputError("every node has a label already; say with --nodes-file which ones to predict")
        return nodes

    # --- calibration and state --------------------------------------------------------------------------

    def _calibrated(self, support: Support) -> Calibration:
        """From validation tasks like the user's; else as learned while fitting; else from the examples themselves."""
        model, _ = self._fitted()
        graph, state = self._attached()
        mixed = KNOWN_SHOTS if support.n_new < len(support.classes) else 0
        shots = support.shots()[: support.n_new]
        drawn = calibration.validation_tasks(graph.y, self.known.split(graph), shots, mixed)
        if drawn is not None:
            tasks, n_new = drawn
            return calibration.calibrate(inference.score_tasks(model, graph, tasks, state), tasks, n_new, "validation")
        if self.calibrations and not mixed:
            return calibration.nearest(self.calibrations, len(shots), sum(shots) / len(shots))
        left = calibration.left_out_tasks(support)
        if left is None:
            return Calibration()
        return calibration.calibrate(inference.score_tasks(model, graph, left, state), left, left.n_way, "examples")

    def _usual_calibrations(self) -> list[Calibration]:
        model, _ = self._fitted()
        graph, state = self._attached()
        split = self.known.split(graph)
        found: dict[tuple[int, float], Calibration] = {}
        for way in WAYS:
            for shot in SHOTS:
                drawn = calibration.validation_tasks(graph.y, split, [shot] * way)
                if drawn is None:
                    return []
                tasks, n_new = drawn
                key = (tasks.n_way, float(tasks.shots().float().mean()))
                if key not in found:
                    scores = inference.score_tasks(model, graph, tasks, state)
                    found[key] = calibration.calibrate(scores, tasks, n_new, "validation")
        return list(found.values())

    def _fitted(self) -> tuple[Method, FeatureSchema]:
        if self.model is None or self.schema is None:
            raise InputError("this classifier is not fitted: call fit(graph) first, or load a saved one")
        return self.model, self.schema

    def _attached(self) -> tuple[Graph, Any]:
        model, _ = self._fitted()
        if self.graph is None:
            raise InputError("no graph is attached: call attach(graph) first")
        if self._state is None and self.folder is not None and self.on_own_graph():
            self._state = persistence.read_embedding(self.folder, self.graph.device)
        if self._state is None:
            self._state = inference.embed(model, self.graph)
        return self.graph, self._state

    def on_own_graph(self) -> bool:
        """Whether the attached graph is the one the model was fitted on, to the last edge and feature."""
        model, _ = self._fitted()
        return self.graph is not None and self.graph.fingerprint == model.card.graph

    def _adapted(self) -> tuple[Method, Graph, Any, Support, Calibration]:
        model, _ = self._fitted()
        graph, state = self._attached()
        if self.support is None or self.calibration is None:
            raise InputError("there are no classes to choose from: call adapt({class: [nodes], ...}) first")
        return model, graph, state, self.support, self.calibration
