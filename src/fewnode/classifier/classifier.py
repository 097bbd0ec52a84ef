"""``FewShotClassifier``: learn the labelled classes of a graph, name new ones by a few examples, classify all nodes."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple, Self

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..datasets.loading import load_dataset
from ..errors import InputError, one_of
from ..files import Manifest, PathLike, Positive, check_place, parse_json, unchanged, whole_folder, write_json
from ..graph import Graph
from ..graph.operators import feature_rows
from ..graph.stored import read_graph, write_graph
from ..methods import find as find_method
from ..methods.base import Method, option_types
from ..nn.features import feature_columns
from ..nn.views import wordless_bytes
from ..store import STORE, column_bytes, methods_in_one_thread
from ..tables import read_columns
from ..tables.schema import MISSING
from ..tables.write import write_table
from ..tasks import ClassSplit
from ..training import checkpoint, loop
from ..training import evaluate as inference
from ..training.loop import Callback
from ..training.progress import Shown, shown
from . import open_set as opening
from .calibration import Calibration, ClosedSetTask
from .explain import ClosedSetExplainer, Explanation, OpenSetExplainer, embeddings_of
from .features import FeatureSchema
from .inputs import (
    Examples,
    KnownClasses,
    TableSource,
    changed_examples,
    choose_split,
    class_name,
    class_sizes,
    find_nodes,
    graph_of,
    name_index,
    names_and_titles,
    node_name,
    read_examples,
    resolve,
)
from .known_classes import COPIES
from .label_issues import LabelIssues, held_out_probabilities
from .new_nodes import NewNodes
from .novelty import checked_priors
from .open_set import OpenSetModel, OpenSetTask
from .predictions import Candidates, Predictions
from .simulation import Expectation
from .suggest import Suggestions, suggest

FORMAT, DOCUMENT, NODES = 7, "classifier.json", "nodes.parquet"
SHAPE = ("n_way", "k_shot", "n_query", "seed")  # of the tasks a method is trained on


class Document(msgspec.Struct, frozen=True):
    """What ``classifier.json`` stores beside the model: classes, features and files."""

    format: int
    classes: KnownClasses
    features: FeatureSchema
    source: TableSource | None
    notes: list[str]
    method: str | None
    min_size: Positive | None


class Growth(NamedTuple):
    """The result of ``grow``.

    ``added`` nodes got a first label, ``changed`` nodes got another one. ``promoted`` classes became known, and
    ``waiting`` classes have too few labels; both map the class to its number of labels.
    """

    added: int
    changed: int
    promoted: dict[str, int]
    waiting: dict[str, int]


@methods_in_one_thread
class FewShotClassifier:
    """An estimator for a user's own graph: it learns labelled classes, adapts to new ones and predicts every node.

    ``notes`` lists what ``fit`` decided. ``expect`` estimates the accuracy of predictions. ``calibration`` holds the
    temperature and the expected accuracy of closed-set predictions.

    Args:
        method: the method of closed-set predictions: a name of ``fewnode ls methods``, ``module:Class``, or a class.
            The default is ``vantage`` with 50 steps of training, which take a second or two.
        n_way, k_shot, n_query: classes, examples and queries of each class in a training task.
        min_size: the least number of labelled nodes of a class that is learned; by default twice ``k_shot``.
        seed: of the initial weights and the training tasks.
        device: "cpu", "cuda", ...; "auto" uses a GPU if there is one.
        text_encoder: the pretrained encoder that reads the texts of tables beside their words: "auto" for the best
            encoder that is installed, "words" for none, or the folder or name of an encoder.
        options: options of the method.

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

    def __init__(
        self,
        method: str | type[Method] | None = None,
        *,
        n_way: int = 5,
        k_shot: int = 5,
        n_query: int = 10,
        min_size: int | None = None,
        seed: int = 0,
        device: str = "auto",
        text_encoder: str = "auto",
        **options: Any,
    ) -> None:
        self._check_names(method, options)
        self.method, self.min_size, self.device, self.options = method, min_size, device, options
        self.text_encoder = text_encoder
        self.n_way, self.k_shot, self.n_query, self.seed = n_way, k_shot, n_query, seed
        # what fit learns, or load reads
        self.model: Method | None = None
        self.schema: FeatureSchema | None = None
        self.known, self.named_classes = KnownClasses(), True
        self.source: TableSource | None = None
        self.notes: list[str] = []
        self.folder: Path | None = None
        self.manifest: Manifest | None = None
        # the graph, whether it is the one of the fit, and what was made of it
        self.graph: Graph | None = None
        self.on_fitted_graph = False
        self._embedding: Any = None
        self._open_set_model: OpenSetModel | None = None
        self._taught: tuple[dict[int, str], OpenSetModel] | None = None  # with further labels of known classes
        self._same_labels = False  # as those the model was saved with
        # what adapt learns
        self.support: dict[str, Tensor] | None = None  # the examples of each class, new classes first
        self.task: OpenSetTask | ClosedSetTask | None = None
        self.include_unlisted = False

    @classmethod
    def _check_names(cls, method: str | type[Method] | None, given: Iterable[str]) -> None:
        """Refuse names that are neither parameters of this class nor options of the method."""
        own = [name for name in signature(cls).parameters if name != "options"]
        if wrong := [name for name in given if name not in own]:
            kind = method if isinstance(method, type) else find_method(method or "vantage")
            for name in wrong:
                one_of("parameter", name, (*own, *option_types(kind)))

    # --- fit and attach -------------------------------------------------------------------------------------

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
        callback: Callback | None = None,
        progress: Shown = "auto",
        **columns: Any,
    ) -> Self:
        """Learn all known classes from their labels, and train the method on the base classes of ``split``.

        With fewer than two base classes, the method is the training-free ``probe``.

        Args:
            graph: a ``Graph``, or anything that ``Graph.of`` accepts: a graph of NetworkX, PyTorch Geometric, ...
            split: the classes to train on and to select on; by default chosen by size.
            edges: instead of a graph, a table with a row for each edge (a DataFrame or a file), an adjacency, or edges
                [2, E].
            nodes, x, y: beside edges, a table with a row for each node; or features [N, F] and labels [N].
            source: the files from which the graph was read.
            callback: called with a ``TrainingProgress`` after every step of the training of a method.
            progress: called with the name of a step and the part of it that is done. By default, a terminal or a
                notebook shows a bar after two seconds; None shows nothing.
            columns: beside tables, the options of ``Graph.from_files``: ``weight_column``, ``directed``, ...

        Returns:
            The classifier itself.
        """
        if not isinstance(split, ClassSplit | None):
            raise InputError(
                f"the second argument is a {type(split).__name__}, not a ClassSplit. A graph has edges: give edges= "
                "and a table of nodes=, or edges= and arrays x= and y="
            )
        columns |= {} if self.text_encoder == "auto" else {"text_encoder": str(self.text_encoder)}
        graph, inferred = graph_of(graph, edges, nodes, columns=columns, x=x, y=y)
        split = self.choose_split(graph) if split is None else split
        source = source or inferred
        self.notes, self.folder, self.manifest = [] if source is None else [*source.notes], None, None
        method, options, stored = self.method, self.options, graph.space.on_disk
        if method is None:
            method, options = "vantage", {"steps": 50, **options}
        if stored and method != "vantage":
            raise InputError(f"{method} holds the whole graph in memory; a store is for vantage")
        if len(split.base) < 2 and method != "probe":
            size = self.least_size()
            few = f"fewer than two classes have {size} labelled nodes or more, so there is nothing to train"
            if stored:
                raise InputError(f"{few} on. Label more nodes, or ask for fewer with min_size=")
            self.notes.append(f"{few} {method} on: the training-free probe is used instead")
            warnings.warn(self.notes[-1], stacklevel=3)  # past the decorator of the class
            method, options = "probe", {}
        if stored:
            _check_memory(graph)
        self.schema = FeatureSchema.of(graph)
        ready = self.schema.fit(graph)
        with shown(progress) as tell:
            training = callback or (lambda now: tell("training", now.step / now.steps))
            how = {name: getattr(self, name) for name in SHAPE} | options
            how |= {"device": "cpu" if stored else self.device, "callback": training}
            tell("making the views", 0.0)
            with warnings.catch_warnings():
                if self.method is None:  # nobody asked for a training, so its tasks are no concern of anybody
                    warnings.simplefilter("ignore")
                self.model = loop.fit(method, ready, split if split.base else None, **how)
            self.notes += self.model.card.notes
            self.known, self.source = KnownClasses.of(graph, split), source
            self._set_graph(ready, fitted=True)
            if bool((graph.y >= 0).any()):
                self.open_set_model(tell)
        return self

    def choose_split(self, graph: Graph) -> ClassSplit:
        """The base and validation classes that ``fit`` chooses by size if no split is given."""
        return choose_split(graph, self.least_size())

    def least_size(self) -> int:
        """The least number of labelled nodes of a class that is learned."""
        return max(2, 2 * self.k_shot) if self.min_size is None else self.min_size

    def attach(self, graph: Any = None, *, edges: Any = None, nodes: Any = None, **more: Any) -> Self:
        """Use the fitted model on another graph with the same features.

        Earlier examples belong to the old graph and are dropped.

        Args:
            graph, edges, nodes: as in ``fit``; tables are read with the columns and words of those of the fit.
            more: ``x`` and ``y`` beside arrays; beside files, ``features`` in a separate file; beside a store, the
                ``memory`` in bytes that the work on it may use.

        Returns:
            The classifier itself.
        """
        model, schema = self._fitted()
        graph, there = graph_of(graph, edges, nodes, self.source, **more)
        ready, fitted = schema.fit(graph), graph.fingerprint == schema.fingerprint
        if self.source is not None and (there is not None or not fitted):
            self.source = replace(self.source, table=None if there is None else there.table)
        if not self.named_classes:  # the class ids of a data set mean nothing in another graph
            split = model.card.split if fitted else None
            self.known = KnownClasses.of(graph, ClassSplit(**split)) if split else KnownClasses()
        self._set_graph(ready, fitted)
        return self

    def _set_graph(self, graph: Graph, fitted: bool) -> None:
        model, _ = self._fitted()
        self.graph, self.on_fitted_graph = graph.to(model.device), fitted
        if self.source is not None:  # the rows of the tables are in another order
            self.graph.cache.get("numbers are ids", lambda: True)
        self.support = self.task = None
        self._embedding = self._open_set_model = self._taught = None
        self._same_labels = False

    def relabel(self, y: Tensor) -> Self:
        """Replace the labels of the graph by ``y [N]``. Earlier examples are dropped."""
        self._set_graph(self._graph().with_labels(y), self.on_fitted_graph)
        return self

    def grow(self, labels: Any, *, progress: Shown = "auto") -> Growth:
        """Learn from new labels without training the method or computing the views again.

        Known classes are learned again with all their labels, new classes with enough labels (``min_size``) become
        known, and probabilities are calibrated again. Earlier examples are dropped.

        Args:
            labels: ``{class: [nodes]}``, or a table of nodes and classes, as in ``adapt``. A node that already has a
                label gets the new one.
            progress: called with the name of a step and the part of it that is done.

        Returns:
            The numbers of added and changed labels, and the classes that became known or still have too few labels.

        Example:
            >>> import fewnode
            >>> graph, split = fewnode.planted(150, 5, seed=0)
            >>> classifier = fewnode.FewShotClassifier("probe").fit(fewnode.training_view(graph, split))
            >>> members = (graph.y == split.novel[0]).nonzero().flatten().tolist()
            >>> classifier.grow({"new": members[:12]}).promoted
            {'new': 12}
        """
        graph, least = self._graph(), self.least_size()
        if not self.on_fitted_graph or not self.named_classes:
            raise InputError("only the graph that a model was fitted on can grow: load the model without another graph")
        columns = {} if self.source is None else self.source.columns
        given = read_examples(labels, graph=graph, columns=columns)
        names, y = [class_name(graph, c) for c in range(graph.num_classes)], graph.y.clone()
        known, waiting, told = set(self.known_labels()[1]), dict[str, int](), dict[int, str]()
        for name, nodes in ((str(name).strip(), nodes) for name, nodes in given.items()):
            ids = find_nodes(graph, nodes, f"class {name!r}").unique()
            if name == opening.other_name(names):  # which is no class
                continue
            if twice := [node for node in ids.tolist() if told.setdefault(node, name) != name]:
                raise InputError(f"node {node_name(graph, twice[0])!r} is labelled {told[twice[0]]!r} and {name!r}")
            if name not in known and len(ids) < least:
                waiting[name] = len(ids)
                continue
            names += [] if name in names else [name]
            y[ids] = names.index(name)
        added, changed = ((y != graph.y) & part for part in (graph.y < 0, graph.y >= 0))
        if not bool((added | changed).any()):
            raise InputError("there is no new label" + (f": a new class needs {least} nodes" if waiting else ""))
        grown, model = replace(graph.with_labels(y), class_names=tuple(names)), None
        if not graph.space.on_disk:
            known_y, classes = opening.known_labels(grown, None)
            with shown(progress) as tell:
                model = self.open_set_model(tell, inductive=True).grown(grown, known_y, classes, tell)
        sizes = dict(zip(names, class_sizes(grown).tolist(), strict=True))
        promoted = {name: n for name, n in sizes.items() if n >= least and name not in self.known.names()}
        self.known = replace(self.known, base=(*self.known.base, *promoted))
        self._set_graph(grown, fitted=True)
        self._open_set_model = model
        return Growth(int(added.sum()), int(changed.sum()), promoted, waiting)

    def known_labels(self) -> tuple[Tensor, tuple[str, ...]]:
        """Labels ``y [N]`` of the known classes (-1 where a node has none), and the names of these classes."""
        return opening.known_labels(self._graph(), None if self.named_classes else self.known)

    def embedding(self) -> Any:
        """The embedding of the attached graph by the method; it is computed once."""
        graph = self._graph()
        if self._embedding is None:
            self._embedding = inference.embed(self._fitted()[0], graph)
        return self._embedding

    def open_set_model(self, progress: Shown = "auto", *, inductive: bool = False) -> OpenSetModel:
        """The open-set model of the attached graph.

        It is read from the folder of the model if it was saved for the same labels, and learned otherwise.
        ``inductive`` adds the arrays that predictions for new nodes need.
        """
        (model, _), graph, found = self._fitted(), self._graph(), self._open_set_model
        saved = None
        if self.on_fitted_graph and self.folder is not None and self.manifest is not None:
            saved = self.folder, self.manifest
        if found is None:
            y, classes = self.known_labels()
            if not graph.space.on_disk and saved is not None:
                found = opening.load(*saved, y, classes)
                self._same_labels = found is not None
            if found is None:
                named = opening.MEANING in graph.blocks and graph.class_names is not None
                names = self.encode_texts([_spaced(name) for name in classes]) if named else None
                with shown(progress) as tell:
                    found = opening.fit_open_set(model, graph, y, classes, tell, names)
        if inductive and found.cached is None:
            cached = None if saved is None or not self._same_labels else opening.load_cached(*saved, found.x.device)
            if cached is None:
                views = opening.views_of(model, graph)
                space = opening.open_set_space(graph, views, found.y, found.classes)
                cached = found.cached_state(graph, views, space.within("new-nodes"))
            found = replace(found, cached=cached)
        self._open_set_model = found
        return found

    def embeddings(self) -> list[Tensor]:
        """The embedding of the attached graph as one or more matrices with a row for each node."""
        return embeddings_of(self.embedding(), self._graph().num_nodes)

    # --- adapt and predict ----------------------------------------------------------------------------------

    def adapt(
        self,
        examples: Any,
        *,
        among: Literal["all", "new"] = "all",
        priors: Mapping[str, float] | None = None,
        include_unlisted: bool = False,
        relearn: bool = True,
        descriptions: Mapping[str, str] | None = None,
        use_class_names: bool = False,
        progress: Shown = "auto",
    ) -> Self:
        """Learn new classes from examples, from descriptions, or from both.

        In open-set classification, examples of "other" belong to none of the classes. Examples of a known class are
        further labels of it, and the class is learned again. Without any examples, each node is of a known class or
        "other".

        Args:
            examples: ``{class: [nodes]}``, or a table of nodes and classes (a DataFrame or a file). Nodes are given by
                their ids, or by their numbers if they have no ids.
            among: "all" is open-set classification: a node belongs to a known class, to a new class, or to none of
                these ("other"). "new" is closed-set classification, the setting of the literature: every node belongs
                to one of two or more new classes.
            priors: ``{class: share of the unlabelled nodes}`` for new classes and "other", if it is known.
            include_unlisted: also predict nodes that occur only in the table of edges.
            relearn: learn known classes again if they have new examples; otherwise they stay unchanged.
            descriptions: ``{class: sentence}``. A class with a description needs no example. A text encoder must have
                read the texts of the graph. The weight of descriptions is learned on the names of known classes.
            use_class_names: use the names of new classes as descriptions if there are no others.
            progress: called with the name of a step and the part of it that is done, while known classes are fitted.

        Returns:
            The classifier itself.

        Example:
            >>> import fewnode
            >>> graph, split = fewnode.planted(300, 6, seed=0)
            >>> classifier = fewnode.FewShotClassifier("probe").fit(fewnode.training_view(graph, split))
            >>> members = (graph.y == split.novel[0]).nonzero().flatten().tolist()
            >>> classifier.adapt({"new": members[:3]}).classes_
            ('new', '0', '2', 'other')
        """
        one_of("among", among, ("all", "new"))
        graph, said = self._graph(), dict[str, str]()
        examples = self.read_examples(examples, said)
        descriptions = said | dict(descriptions or {})
        if among == "new":
            support = resolve(examples, graph, self.known)
            for what, given in (("priors", priors), ("descriptions", descriptions or use_class_names)):
                if given:
                    raise InputError(f"{what} belong to open-set classification; closed-set classification has none")
            task = ClosedSetTask(self._fitted()[0], graph, self.embedding(), support)
            self.task = task.calibrated(self.known.split(graph))
        else:
            model = self.open_set_model(progress)
            other = opening.other_name(model.classes)
            named = self.known.new(examples, other) if use_class_names else []
            texts = {name: _spaced(name) for name in named} | descriptions
            if blank := [name for name, text in texts.items() if not isinstance(text, str) or not text.strip()]:
                raise InputError(f"the description of class {blank[0]!r} is {texts[blank[0]]!r}; write a few words")
            support = resolve(examples, graph, self.known, other, texts)
            vectors = self.encode_texts(list(texts.values())) if texts else None
            rows = () if vectors is None else opening.described_rows(graph, model.sources, model.pca, vectors)
            described = dict(zip(texts, rows, strict=True))
            model = self._with_labels(model, support, relearn, progress)
            new = self.known.new(support, other)
            fixed = checked_priors(priors, tuple(new), other)
            free = ((model.y < 0) & (graph.listed | include_unlisted)).nonzero().flatten()
            how: dict[str, Any] = {"others": support.get(other), "fixed": fixed, "other": other, "pool": free}
            self.task = model.adapt({name: support[name] for name in new}, **how, descriptions=described)
        self.support, self.include_unlisted = support, include_unlisted
        return self

    def _with_labels(
        self, model: OpenSetModel, support: Mapping[str, Tensor], relearn: bool, progress: Shown
    ) -> OpenSetModel:
        """The open-set model with the examples of known classes as further labels; that of the last call is kept. What
        is learned of a store stays in it, so there they change nothing."""
        more = {node: name for name, nodes in support.items() if name in model.classes for node in nodes.tolist()}
        if not more or self._graph().space.on_disk:
            return model
        if relearn and (self._taught is None or self._taught[0] != more):
            y = model.y.clone()
            y[list(more)] = torch.tensor([model.classes.index(name) for name in more.values()], device=y.device)
            with shown(progress) as tell:
                self._taught = more, model.grown(self._graph(), y, model.classes, tell)
        return model if self._taught is None else self._taught[1]

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Vectors ``[K, dim]`` of texts, computed by the encoder that read the texts of the graph."""
        fitted = None if self.source is None else self.source.encoder
        encoder = None if fitted is None else fitted.load_text_encoder()
        opening.meaning_columns(self._graph())
        if encoder is None:
            raise InputError("this model does not know which encoder read its texts: fit it on tables with texts")
        return torch.from_numpy(encoder.encode(texts))

    def read_examples(self, given: Any, said: dict[str, str] | None = None) -> Examples:
        """Examples ``{class: nodes}`` in any form that ``adapt`` accepts.

        The columns of a table may have any name. Descriptions in its column ``description`` are added to ``said``.
        """
        columns = {} if self.source is None else self.source.columns
        return read_examples(given, graph=self._graph(), columns=columns, known=self.known.names(), said=said)

    def partial_adapt(self, add: Any = None, remove: Any = None) -> Self:
        """Add examples to classes or to a new class, or remove examples.

        In open-set classification, only the affected parts are computed again, and the priors given to ``adapt`` stay.

        Args:
            add: further examples, in any form that ``adapt`` accepts.
            remove: examples to remove, in the same form.

        Returns:
            The classifier itself.
        """
        task, graph = self._task(), self._graph()
        assert self.support is not None
        changes = ({} if given is None else self.read_examples(given) for given in (add, remove))
        examples = changed_examples(self.support, graph, *changes)
        if isinstance(task, ClosedSetTask):
            return self.adapt(examples, among="new", include_unlisted=self.include_unlisted)
        self.support = resolve(examples, graph, self.known, task.other, task.descriptions)
        new = {name: self.support[name] for name in self.known.new(self.support, task.other)}
        self.task = task.with_examples(new, self.support.get(task.other, graph.y[:0]))
        return self

    def predict_proba(
        self,
        nodes: Iterable[Any] | None = None,
        *,
        new_nodes: Any = None,
        new_edges: Any = None,
        progress: inference.NodeProgress | None = None,
    ) -> Predictions:
        """Calibrated probabilities of the classes, of nodes of the graph or of new nodes.

        New nodes are not added to the graph: only what they affect is computed, and the predictions of other nodes do
        not change. Use ``attach`` with the whole graph to take them into account everywhere.

        Args:
            nodes: ids or numbers of nodes of the graph; by default all nodes, in the order of the table of nodes.
            new_nodes: a table of new nodes with the columns of the fit, as a file, a DataFrame or a list of records
                (``[{"id": "q1", "age": 40}]``); or a ``Graph`` of them, with names that the fitted graph does not have.
            new_edges: their edges, to old nodes and to each other, if there are any: a table like that of the fit, or
                pairs of names (and a weight).
            progress: called with the number of nodes that are done and the number of all nodes.

        Returns:
            The ids of the nodes and their probabilities; ``table()`` gives columns, ``labels()`` the predicted classes.

        Example:
            >>> import fewnode
            >>> graph, split = fewnode.planted(300, 6, seed=0)
            >>> classifier = fewnode.FewShotClassifier("probe").fit(fewnode.training_view(graph, split))
            >>> tuple(classifier.predict_proba([3, 8]).probabilities.shape)  # two known classes and "other"
            (2, 3)
        """
        if new_nodes is None:
            if new_edges is not None:
                raise InputError("new edges are those of new nodes: name their table with new_nodes=")
            return Predictions.concatenate(list(self.iter_proba(nodes, progress=progress)))
        task, graph = self._task(), self._graph()
        if nodes is not None:
            raise InputError("give either nodes of the graph or new_nodes=, not both")
        if not isinstance(task, OpenSetTask):
            raise InputError("new nodes get open-set predictions: adapt(..., among='all') first")
        (_, schema), own, model = self._fitted(), self.open_set_model(inductive=True), task.model
        if model.cached is None and own.cached is not None:
            labels = {} if model.known is own.known else model.label_state(graph)  # examples are further labels
            model = replace(model, cached=own.cached | labels)
            self.task = task = replace(task, model=model)
        return NewNodes.of(graph, schema, model, self.source, new_nodes, new_edges).predicted(graph, task)

    def iter_proba(
        self,
        nodes: Iterable[Any] | None = None,
        *,
        batch_size: int = 1 << 16,
        progress: inference.NodeProgress | None = None,
    ) -> Iterator[Predictions]:
        """The same as ``predict_proba`` for nodes of the graph, in batches of ``batch_size`` nodes."""
        graph, task = self._graph(), self._task()
        ids = self._in_order() if nodes is None else find_nodes(graph, nodes, "nodes to predict")
        parts, done = ids.split(batch_size), 0
        found = graph.space.results(task.probabilities, parts)
        for part, probabilities in zip(parts, found, strict=True):
            done += len(part)
            if progress is not None:
                progress(done, len(ids))
            names, titles = names_and_titles(graph, part)
            yield Predictions(part.cpu(), names, task.classes, probabilities.cpu(), task.kinds, titles)

    def _in_order(self) -> Tensor:
        """The nodes that are predicted unless others are named, in the order of the table of nodes, if there is one."""
        predicted, source = self.predicted(), self.source
        nodes = predicted.nonzero().flatten()
        if source is None or source.table is None:
            return nodes
        names = read_columns(source.table).text(source.columns["id_column"], "ids")
        place = name_index(self._graph(), names)
        rows = torch.tensor([place[name] for name in dict.fromkeys(names) if name in place], device=nodes.device)
        return torch.cat([rows[predicted[rows]], nodes[~torch.isin(nodes, rows)]])

    def predict(
        self,
        nodes: Iterable[Any] | None = None,
        threshold: float = 0.0,
        thresholds: Mapping[str, float] | None = None,
        *,
        new_nodes: Any = None,
        new_edges: Any = None,
    ) -> np.ndarray:
        """The predicted class of each node.

        Args:
            nodes: ids or numbers of nodes of the graph; by default all nodes, in the order of the table of nodes.
            threshold: a node whose highest probability is lower is "unknown".
            thresholds: ``{class: threshold}`` for single classes.
            new_nodes, new_edges: as in ``predict_proba``.

        Returns:
            The names of the classes as an array of text [n].
        """
        found = self.predict_proba(nodes, new_nodes=new_nodes, new_edges=new_edges)
        return np.array(found.labels(threshold, thresholds), dtype=object)

    def score(self, nodes: Iterable[Any] | None, y: Iterable[Any]) -> float:
        """The accuracy of the predicted classes.

        Args:
            nodes: ids or numbers of nodes of the graph; None for all nodes.
            y: the true class of each of these nodes, by name.

        Returns:
            The share of nodes whose predicted class is the true one.
        """
        predicted, wanted = self.predict(nodes), list(map(str, y.tolist() if isinstance(y, Tensor) else y))
        if len(predicted) != len(wanted):
            raise InputError(f"y has {len(wanted)} classes for {len(predicted)} nodes; give one for each node")
        none = {*MISSING, "-1"}.difference(self.classes_)
        if missing := [i for i, name in enumerate(wanted) if name.casefold() in none]:
            raise InputError(
                f"y[{missing[0]}] is {wanted[missing[0]]!r}, no class ({len(missing):,} such values); give only nodes "
                "whose class you know"
            )
        return float(np.mean(predicted == np.array(wanted, dtype=object))) if wanted else 0.0

    def find(self, label: str | None = None, top: int = 100) -> Candidates:
        """The unlabelled nodes that most likely belong to a class.

        Args:
            label: the class; by default the only new class.
            top: how many nodes to return; fewer if fewer nodes have no label.

        Returns:
            The nodes with their probabilities, the likeliest first.
        """
        if label is None:
            new = list(self._task().examples)
            if len(new) != 1:
                told = f" ({', '.join(new)})" if new else ""
                raise InputError(f"there are {len(new)} new classes{told}: say which class to find with label=")
            label = new[0]
        one_of("class", label, self.classes_)
        nodes = self.unlabelled()
        if top < 1 or not len(nodes):
            raise InputError(f"top is {top}; there are {len(nodes)} nodes without a label")
        at = self.classes_.index(label)
        likely = torch.cat([part.probabilities[:, at] for part in self.iter_proba(nodes)])
        return self._candidates(label, nodes.cpu(), likely, top)

    def _candidates(self, wanted: str, nodes: Tensor, values: Tensor, top: int) -> Candidates:
        """The ``top`` of ``nodes [B]`` by ``values [B]``; nodes with equal values stay in their order."""
        best, order = values.cpu().sort(descending=True, stable=True)
        chosen = nodes[order[:top]]
        names, titles = names_and_titles(self._graph(), chosen)
        return Candidates(wanted, chosen, names, best[:top], titles)

    @torch.no_grad()
    def search(self, text: str, top: int = 20) -> Candidates:
        """The ``top`` nodes whose texts are most similar in meaning to ``text``, with the cosines of their vectors."""
        graph, columns = self._graph(), opening.meaning_columns(self._graph())
        if not text.strip():
            raise InputError("the text to search for is empty; write a few words")
        if top < 1:
            raise InputError(f"top is {top}; it is 1 or more")
        (wanted,) = self.encode_texts([text]).to(graph.device)
        rows = graph.space.rows(graph.num_nodes, 8 * len(wanted))
        parts = (feature_columns(feature_rows(graph.x, some), columns).to_dense() for some in rows)
        alike = torch.cat([normalize(part, dim=1) @ wanted for part in parts])
        return self._candidates(text, torch.arange(graph.num_nodes), alike, top)

    def suggest(
        self,
        n: int = 10,
        by: str = "teach",
        label: str | None = None,
        *,
        among: Iterable[Any] | None = None,
        told: Iterable[Any] = (),
    ) -> Suggestions:
        """The ``n`` nodes to label next.

        Args:
            n: how many nodes to return.
            by: "teach" (the labels that are expected to improve the model most), "margin" (the least certain),
                "doubtful" and "sure" (of the class ``label``), "other" (likeliest none of the classes), "typical" (of
                each region) or "random".
            label: the class for "doubtful" and "sure".
            among: the nodes to choose from; by default all nodes without a label.
            told: nodes that were already answered or skipped; they are left out, and similar nodes are chosen less
                often.

        Returns:
            The nodes, the first one to label first, with their predictions if there are any.

        Example:
            >>> import fewnode
            >>> graph, split = fewnode.planted(300, 6, seed=0)
            >>> classifier = fewnode.FewShotClassifier("probe").fit(fewnode.training_view(graph, split))
            >>> len(classifier.suggest(4, by="typical"))  # before there is any example
            4
        """
        graph, support = self._graph(), self.support
        nodes = self.unlabelled() if among is None else find_nodes(graph, among, "nodes to ask about")
        nodes = nodes[graph.listed[nodes]]  # there is nothing to look at in others
        found = None if support is None else self.predict_proba(nodes)
        shots = {name: len(given) for name, given in (support or {}).items()}
        return suggest(graph, self.coordinates(), nodes, found, shots, n=n, by=by, label=label, told=told)

    def coordinates(self) -> Tensor:
        """Coordinates of the nodes, ``[N, d]``: those of the open-set model, or the embeddings of the method side by
        side."""
        if isinstance(self.task, OpenSetTask):
            return self.task.model.x
        return torch.cat([part.float() for part in self.embeddings()], 1)

    def expect(
        self, found: Predictions, threshold: float = 0.0, thresholds: Mapping[str, float] | None = None
    ) -> Expectation:
        """The expected accuracy of open-set predictions.

        Args:
            found: the result of ``predict_proba``. Rows of labelled nodes are left out, unless there are no others.
            threshold, thresholds: as in ``predict``.

        Returns:
            The expected share of correct rows, precision and recall of each new class, and accuracy on known classes,
            each with an interval, and the assumptions.
        """
        if not isinstance(self.task, OpenSetTask) or found.kinds is None:
            raise InputError("expectations are for predictions among 'all'; closed-set ones have `calibration`")
        graph, rows = self._graph(), torch.ones(len(found), dtype=torch.bool)
        free = self._free().cpu()
        old = found.nodes < graph.num_nodes  # the others are new nodes
        rows[old] = free[found.nodes[old]]
        rows |= not bool(rows.any())
        return self.task.expect(found.probabilities[rows], found.accepted(threshold, thresholds)[rows])

    def simulated(self, k_shot: int | None = None) -> dict[str, Any]:
        """The accuracy of open-set classification in simulations on this graph.

        In each simulation, known classes are hidden and then shown by a few examples.

        Args:
            k_shot: examples of each class; the simulations with the nearest number are used.

        Returns:
            Mean, lowest and highest value of several measures: the share of correct rows, the share of correct rows
            among nodes of known classes, precision and recall of a new class, and the F1 of "other".
        """
        found = self.open_set_model().nearest(k_shot or self.k_shot)
        truth = {name: part for name, part in found.truth.items() if part and "band" not in name}
        figures = {name: {"mean": fmean(part), "low": min(part), "high": max(part)} for name, part in truth.items()}
        return {"simulations": found.episodes, "examples": found.shots, **figures}

    def explain(self, node: int | str, *, n_neighbours: int = 5) -> Explanation:
        """Explain the prediction of a node.

        Args:
            node: the id or number of the node.
            n_neighbours: how many neighbours to list.

        Returns:
            The reasons for the predicted class, and changes that would lead to another class.
        """
        if n_neighbours < 0:
            raise InputError(f"{n_neighbours} neighbours: the number is 0 or more")
        graph, task = self._graph(), self._task()
        (at,) = find_nodes(graph, [node], "node to explain").tolist()
        if isinstance(task, OpenSetTask):
            return OpenSetExplainer(graph, task, at, self._occluded(at)).explain(n_neighbours)
        return ClosedSetExplainer(graph, task, at).explain(n_neighbours)

    def _occluded(self, node: int) -> tuple[list[str], Tensor] | None:
        """The words of a node's text, and what each adds to its vector; None without text encoder or table."""
        graph, source, columns = self._graph(), self.source, []
        if opening.MEANING in graph.blocks and source is not None and source.table is not None:
            columns = np.atleast_1d(source.columns.get("text_column") or []).tolist()
        if source is None or not columns:
            return None
        words = " ".join(cells[0] for cells in source.node_columns([node_name(graph, node)], columns).values()).split()
        tried = list(dict.fromkeys(words))[:60]
        if not tried:
            return None
        vectors = self.encode_texts([" ".join(w for w in words if w != gone) for gone in (None, *tried)])
        return tried, (vectors[:1] - vectors[1:]).to(graph.device)

    def find_label_issues(self, top: int | None = None, *, folds: int = 5, progress: Shown = "auto") -> LabelIssues:
        """The labelled nodes whose label is probably wrong, each with a suggested class.

        Labels are compared with predictions of models that were fitted without them (confident learning).

        Args:
            top: how many nodes to return; by default all nodes whose label is more likely wrong than right.
            folds: the labels are divided into this many parts, which are held out in turn.
            progress: called with the name of a step and the part of it that is done.

        Returns:
            The nodes, the most doubtful first.

        Example:
            >>> import fewnode
            >>> graph, _ = fewnode.planted(300, 6, seed=0)
            >>> y = graph.y.clone()
            >>> y[7] = (y[7] + 1) % 6
            >>> issues = fewnode.FewShotClassifier("probe").fit(graph.with_labels(y)).find_label_issues()
            >>> issues.names
            ['7']
        """
        for name, value, least in (("top", top, 1), ("folds", folds, 2)):
            if value is not None and value < least:
                raise InputError(f"{name} is {value}; it is {least} or more")
        model, graph = self.open_set_model(progress), self._graph()
        with shown(progress) as tell:
            held = held_out_probabilities(model.inputs(graph), model.y, model.known, folds=folds, progress=tell)
        return LabelIssues.of(graph, model.y, model.classes, *held, top)

    def unlabelled(self) -> Tensor:
        """All nodes without a label, in the graph or as an example. Nodes that occur only in the edges are included
        only if they are predicted."""
        nodes = (self._free() & self.predicted()).nonzero().flatten()
        if not len(nodes):
            raise InputError("every node has a label already; name the nodes to predict")
        return nodes

    def _free(self) -> Tensor:
        """Which nodes [N] have no label, in the graph or as an example."""
        free = self._graph().y < 0
        for nodes in (self.support or {}).values():
            free[nodes] = False
        return free

    def predicted(self) -> Tensor:
        """A mask [N] of the nodes that are predicted by default."""
        return self._graph().listed | self.include_unlisted

    @property
    def classes_(self) -> tuple[str, ...]:
        """The classes that can be predicted, in the order of the probabilities."""
        return self._task().classes

    @property
    def question(self) -> OpenSetTask | None:
        """The open-set task; None in closed-set classification."""
        return self.task if isinstance(self.task, OpenSetTask) else None

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of closed-set predictions; None in open-set classification."""
        return self.task.calibration if isinstance(self.task, ClosedSetTask) else None

    # --- save and load --------------------------------------------------------------------------------------

    def save(self, folder: PathLike, *, force: bool = False, data: bool = True, progress: Shown = "auto") -> None:
        """Save the model in a folder.

        The folder also holds the graph and the table of nodes, or the path of the store of the graph. The open-set
        model is learned first if necessary, so that loading does not need to. An error leaves an older model in the
        folder unchanged.

        Args:
            folder: the folder to write.
            force: replace a model that is already in the folder.
            data: whether the folder holds the graph and the table of nodes.
            progress: called with the name of a step and the part of it that is done.
        """
        model, schema = self._fitted()
        target = check_folder(folder, force)
        open_set = None
        if self.on_fitted_graph and self.graph is not None and bool((self.graph.y >= 0).any()):
            in_memory = not self.graph.space.on_disk  # what is made of a graph on disk stays in its store
            made = self.open_set_model(progress, inductive=in_memory)
            open_set = made if in_memory else None
        source = None if self.source is None else self.source.kept()
        method = self.method if self.method is None else model.card.method
        document = Document(FORMAT, self.known, schema, source, self.notes, method, self.min_size)
        with whole_folder(target) as fresh:
            checkpoint.write(model, fresh)
            if open_set is not None:
                opening.save(open_set, fresh)
            if data and self.on_fitted_graph and self.graph is not None and not self.graph.space.on_disk:
                write_graph(self.graph, fresh)
                if self.source is not None and self.source.table is not None:
                    write_table(read_columns(self.source.table), fresh / NODES)
            write_json(fresh / DOCUMENT, msgspec.to_builtins(document))

    @classmethod
    def load(cls, folder: PathLike, graph: Any = None, **where: Any) -> Self:
        """Load a model that ``save`` or ``fewnode train`` wrote.

        Args:
            folder: the folder of the model.
            graph: a graph to use instead of the graph of the fit, as in ``attach``.
            where: further arguments of ``attach``; ``memory`` alone applies to the store of the fit.

        Returns:
            The classifier, with a graph attached.

        Example:
            >>> import fewnode, tempfile
            >>> graph, split = fewnode.planted(150, 5, seed=0)
            >>> folder = tempfile.mkdtemp()
            >>> fewnode.FewShotClassifier("probe").fit(fewnode.training_view(graph, split)).save(folder)
            >>> fewnode.FewShotClassifier.load(folder).graph.num_nodes
            150
        """
        given = {name: value for name, value in where.items() if value is not None}
        elsewhere = graph is not None or bool(given.keys() - {"memory"})
        made = unchanged(Path(folder), lambda: cls._load(Path(folder), not elsewhere))
        model, _ = made._fitted()
        if elsewhere:
            return made.attach(graph, **given)
        if made.source is not None and made.source.edges is not None:
            return made.attach(made.source.infer(**given)[0])
        if given:
            raise InputError(f"{next(iter(given))}= is for a store, and {folder} holds the graph itself")
        return made if model.card.dataset is None else made.attach(load_dataset(model.card.dataset)[0])

    @classmethod
    def _load(cls, source: Path, data: bool) -> Self:
        manifest = checkpoint.read_manifest(source)
        model = checkpoint.read(source, manifest)
        card = model.card
        made = cls(card.method, **{name: getattr(card, name) for name in SHAPE}, **card.options)
        made.model, made.folder, made.manifest = model, source, manifest
        if DOCUMENT not in manifest:
            made.schema, made.notes, made.named_classes = FeatureSchema.of_card(card), list(card.notes), False
            return made
        document, where = manifest.read_bytes(source, DOCUMENT), str(source / DOCUMENT)
        if parse_json(document, dict[str, Any], where).get("format") != FORMAT:
            raise InputError(f"{where} is not of format {FORMAT}, which this version reads; fit the model again")
        found = parse_json(document, Document, where)
        made.known, made.schema, made.source = found.classes, found.features, found.source
        made.notes, made.method, made.min_size = found.notes, found.method, found.min_size
        made.text_encoder = "auto" if found.source is None else found.source.options.get("text_encoder", "auto")
        if data and STORE in manifest:
            if NODES in manifest and made.source is not None:
                manifest.check(source, NODES, "fit the model again")
                made.source = replace(made.source, table=source / NODES)
            made._set_graph(read_graph(source, manifest), fitted=True)
        return made

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor and the options of the method."""
        own = (name for name in signature(type(self)).parameters if name != "options")
        return {name: getattr(self, name) for name in own} | self.options

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor or options of the method. What was fitted stays unchanged until the next
        fit."""
        self._check_names(params.get("method", self.method), params)
        own = {name: params.pop(name) for name in signature(type(self)).parameters if name in params}
        vars(self).update(own, options=self.options | params)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        parts: dict[str, Any] = {"classifier_tags": ClassifierTags(), "input_tags": InputTags(two_d_array=False)}
        return Tags(estimator_type="classifier", target_tags=TargetTags(required=False), **parts)

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self))
        vars(made).update(vars(self))
        return made

    def __getstate__(self) -> dict[str, Any]:
        if self.model is not None:
            raise TypeError(
                "a fitted classifier is not pickled: save(folder) keeps it, FewShotClassifier.load reads it"
            )
        return vars(self)

    def __repr__(self) -> str:
        usual = {name: part.default for name, part in signature(type(self)).parameters.items()}
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if usual.get(name) != value]
        state = ["not fitted" if self.model is None else f"fitted, {self.model.card.method}"]
        if self.graph is not None:
            known = int((class_sizes(self.graph) > 0).sum())
            state.append(f"{self.graph.num_nodes:,} nodes, {known} known classes")
        if self.task is not None and self.task.examples:
            state.append(f"new: {', '.join(self.task.examples)}")
        return f"{type(self).__name__}({', '.join(given)}) [{'; '.join(state)}]"

    # --- what must have been called before ------------------------------------------------------------------

    def _fitted(self) -> tuple[Method, FeatureSchema]:
        if self.model is None or self.schema is None:
            raise InputError("this classifier is not fitted: call fit(graph) first, or load a saved one")
        return self.model, self.schema

    def _graph(self) -> Graph:
        self._fitted()
        if self.graph is None:
            raise InputError("no graph is attached: call attach(graph) first")
        return self.graph

    def _task(self) -> OpenSetTask | ClosedSetTask:
        """The task given to ``adapt``; by default the known classes."""
        if self.task is None:
            self.adapt({})
        assert self.task is not None
        return self.task


def _check_memory(graph: Graph) -> None:
    """Refuse a store that cannot be fitted in its memory, before hours of views; label propagation takes the most."""
    space, n = graph.space, graph.num_nodes
    needed = column_bytes(n, COPIES)
    if not graph.has_features:
        needed = max(needed, wordless_bytes(n, len(graph.indices)))
    space.check(needed, n, "one column at a time" if graph.has_features else "making structural features (none given)")


def check_folder(folder: PathLike, force: bool) -> Path:
    """The folder, if it may be written: it is new or empty, or it holds a model and ``force`` is given."""
    target = Path(folder)
    check_place(target)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; name a folder")
    if target.is_dir() and any(target.iterdir()):
        if not (target / checkpoint.CARD).exists():
            raise InputError(f"{target} holds other files than a model; name a new folder")
        if not force:
            raise InputError(f"{target} holds a model already; choose another folder or overwrite it with force=True")
    return target


def _spaced(name: str) -> str:
    """The name of a class as an encoder reads it: words instead of paths and joined_words."""
    return re.sub(r"[\W_]+", " ", name)
