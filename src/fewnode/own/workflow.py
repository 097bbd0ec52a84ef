"""From a user's tables to a saved model, and from a saved model to predictions: one call for each command."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from ..cluster import Engine
from ..datasets import load_dataset
from ..errors import InputError
from ..graph import Graph
from ..inference import NodeProgress
from ..io import check_writable, find_id, read_columns, write_columns
from ..storage import PathLike, readable
from ..store.names import StoredNames
from ..tasks import ClassSplit
from ..training.callbacks import Callback
from .classes import KnownClasses, choose_split
from .classifier import FewShotClassifier
from .openworld.rehearsal import Progress
from .order import natural_order
from .persistence import check_folder
from .predictions import Candidates, Predictions
from .streaming import Answered, write_predictions
from .support import find_nodes, read_examples
from .tables import TableSource
from .unfinished import forget, stopped_early, unfinished

Say = Callable[[str], None]  # told in a line what is being done


@dataclass(frozen=True)
class FittedTables:
    """What ``fit_tables`` did: the classifier, what it read, and its accuracy beside that of the floor ``probe``."""

    classifier: FewShotClassifier
    graph: Graph
    split: ClassSplit
    beside_probe: tuple[float, float] | None


def fit_tables(
    source: TableSource,
    out: PathLike,
    *,
    force: bool = False,
    resume: bool = False,
    method: str = "vantage",
    settings: Mapping[str, Any] | None = None,
    understood: Callable[[Graph, ClassSplit, TableSource], None] | None = None,
    training: AbstractContextManager[Callback] | None = None,
    learning: Progress = lambda what, part: None,
    memory: int | None = None,
    engine: Engine | None = None,
) -> FittedTables:
    """Read a graph from tables, fit a ``FewShotClassifier`` on it and save it in the folder ``out``.

    Args:
        source: the tables and the names of their columns.
        out, force: where the model goes; a model that is there already is only replaced with ``force``.
        resume: go on with the training that was stopped or killed before it was whole, to the model it would have made.
        method, settings: the method and further arguments of ``FewShotClassifier``.
        understood: told the graph, the classes that will be learned from and what the tables were taken for, before the
            training starts.
        training: entered for the time of the training; gives the callback that is told its progress.
        learning: told what is being learned of the known classes after that, and which part of it is done.
        memory, engine: bytes that the work on a store may take, and who does it, if not this process alone.
    """
    state = unfinished(out, resume)
    force = force or (resume and stopped_early(out))
    check_folder(out, force)
    graph, source = source.understood(memory, engine)
    classifier = FewShotClassifier(method, **(settings or {}))
    split = choose_split(graph, classifier.min_size)
    if understood is not None:
        understood(graph, split, source)
    with training or nullcontext() as callback:
        classifier.fit(graph, split, source=source, resume=state, callback=callback)
    classifier.save(out, force=force, progress=learning)
    if not classifier.interrupted:
        forget(state)
    worth = method != "probe" and not classifier.interrupted and not source.stored  # the probe holds all in memory
    return FittedTables(classifier, graph, split, classifier.compare() if worth else None)


def load_attached(
    folder: PathLike,
    *,
    edges: PathLike | None = None,
    nodes: PathLike | None = None,
    features: PathLike | None = None,
    memory: int | None = None,
    say: Say = lambda _: None,
) -> FewShotClassifier:
    """The classifier in ``folder``, on its graph or on the one in other tables; ``memory`` bounds work on a store."""
    say(f"Loading the model in {folder} ...")
    classifier = FewShotClassifier.load(folder)
    say("Reading the graph ...")
    tables = {"edges": edges, "nodes": nodes, "features": features}
    return classifier.attach(remembered_graph(classifier, folder, tables, say, memory))


def load_adapted(
    folder: PathLike,
    support: PathLike,
    *,
    among: Literal["all", "new"] | None = None,
    priors: Mapping[str, float] | None = None,
    edges: PathLike | None = None,
    nodes: PathLike | None = None,
    features: PathLike | None = None,
    wanted: Sequence[str] = (),
    memory: int | None = None,
    engine: Engine | None = None,
    say: Say = lambda _: None,
) -> FewShotClassifier:
    """The classifier in ``folder``, on its graph or on the one in other tables, adapted to the examples of ``support``.

    ``among`` and ``priors`` are those of ``FewShotClassifier.adapt``; unless the graph has no label at all, the open
    question is asked.
    ``memory`` bounds the work on a store, ``engine`` does it.
    Nodes that are ``wanted`` later are looked up as soon as the graph is read: a misspelt one is told before any work.
    """
    say(f"Loading the model in {folder} ...")
    classifier = FewShotClassifier.load(folder)
    readable(support)
    say("Reading the graph ...")
    given = {"edges": edges, "nodes": nodes, "features": features}
    graph = remembered_graph(classifier, folder, given, say, memory, engine)
    find_nodes(graph, wanted, "nodes asked for")
    examples = _examples(classifier, support, graph)
    classifier.attach(_without_examples(graph, classifier.known, examples))
    if among is None and not bool((graph.y >= 0).any()):
        say("note: no node has a label, so only the new classes can be told apart (--among new)")
    among = among or ("all" if bool((graph.y >= 0).any()) else "new")
    try:
        return classifier.adapt(examples, among=among, priors=priors, progress=_said_once(say))
    except InputError as error:
        raise InputError(f"{support}: {error}") from error


def _examples(classifier: FewShotClassifier, support: PathLike, graph: Graph) -> dict[str, list[str]]:
    columns = {} if classifier.source is None else classifier.source.columns
    names = graph.node_names or tuple(map(str, range(graph.num_nodes)))
    nodes = names if isinstance(names, StoredNames) else frozenset(names)
    return read_examples(support, columns=columns, nodes=nodes, known=classifier.known.names())


def _without_examples(graph: Graph, known: KnownClasses, examples: Mapping[str, Sequence[str]]) -> Graph:
    """The graph without the labels of the classes that are new: where the examples stand in the table of nodes."""
    names = graph.class_names or ()
    new = [c for c, name in enumerate(names) if name in examples and name not in known.names()]
    if not new:
        return graph
    hidden = torch.isin(graph.y, torch.tensor(new, device=graph.device))
    return graph.with_labels(torch.where(hidden, -1, graph.y)) if bool(hidden.any()) else graph


def _said_once(say: Say) -> Progress:
    """Progress in lines: one for each thing that is done."""
    told: list[str] = []

    def progress(what: str, part: float) -> None:
        if what not in (*told, "done"):
            told.append(what)
            say(f"{what[:1].upper()}{what[1:]} ...")

    return progress


def remembered_graph(
    classifier: FewShotClassifier,
    folder: PathLike,
    given: Mapping[str, PathLike | None],
    say: Say,
    memory: int | None = None,
    engine: Engine | None = None,
) -> Graph:
    """The graph in the tables given, else in those of the fitting, else the data set the model was trained on."""
    edges = given.get("edges")
    if edges is None and any(given.values()):
        raise InputError("another graph needs its edges: name them with --edges")
    assert classifier.model is not None and classifier.schema is not None
    if classifier.source is None:
        if edges is not None:
            return TableSource.of(edges, given.get("nodes"), given.get("features")).read(None, memory, engine)
        if classifier.model.card.dataset is None:
            raise InputError(f"{folder} does not remember its tables: name them with --edges and --nodes")
        return load_dataset(classifier.model.card.dataset)[0]
    if edges is None and (lost := classifier.source.missing()):
        raise InputError(f"{lost}, which the model was fitted on, is gone: name the tables with --edges and --nodes")
    graph = classifier.read(memory=memory, engine=engine, **given)
    if edges is None and not classifier.unchanged(graph):
        say("note: the tables have changed since the model was fitted; they are taken as they are now")
    elif edges is None and not classifier.reads_the_same() and (changed := classifier.changed_labels(graph)):
        say(f"note: labels have changed since the model was fitted ({changed}); they are taken as they are now")
    return graph


@dataclass(frozen=True)
class PredictedTables:
    """What ``predict_tables`` wrote: ``answered`` in all, and the predictions ``found``, if they were in memory."""

    classifier: FewShotClassifier
    answered: Answered
    found: Predictions | None = None


def predict_tables(
    folder: PathLike,
    support: PathLike,
    out: PathLike,
    *,
    threshold: float = 0.0,
    thresholds: Mapping[str, float] | None = None,
    all_probabilities: bool = False,
    nodes_file: PathLike | None = None,
    new_nodes: PathLike | None = None,
    new_edges: PathLike | None = None,
    force: bool = False,
    raw_cells: bool = False,
    scoring: AbstractContextManager[NodeProgress] | None = None,
    **where: Any,
) -> PredictedTables:
    """Predict the nodes without a label, or those of ``nodes_file``, and write the table ``out``.

    Or those of the table ``new_nodes``, which are appended to the graph by ``new_edges``; only what they touch is made.
    ``where`` are the arguments of ``load_adapted``; ``scoring`` is entered for the time of the predictions.
    """
    check_writable(out, force)
    if (new_nodes is None) != (new_edges is None):
        raise InputError("nodes that arrive later need both: --new-nodes FILE --new-edges FILE")
    wanted = None if nodes_file is None else _wanted(nodes_file)
    classifier = load_adapted(folder, support, **where)
    graph = classifier.graph
    if graph is not None and graph.space is not None and new_nodes is None:
        nodes = classifier.unlabelled() if wanted is None else find_nodes(graph, wanted, "nodes to predict")
        how: dict[str, Any] = {"threshold": threshold, "thresholds": thresholds, "all_probabilities": all_probabilities}
        with scoring or nullcontext() as progress:
            how |= {"force": force, "raw_cells": raw_cells, "progress": progress}
            return PredictedTables(classifier, write_predictions(classifier, nodes, out, **how))
    if new_nodes is not None and new_edges is not None:
        found = classifier.append(new_nodes, new_edges)
    else:
        with scoring or nullcontext() as progress:
            found = classifier.predict_proba(classifier.unlabelled() if wanted is None else wanted, progress=progress)
        found = found if wanted is not None else by_name(found)
    write_columns(out, found.table(threshold, thresholds, all_probabilities=all_probabilities), force, raw_cells)
    return PredictedTables(classifier, Answered.of(classifier, found, threshold, thresholds), found)


def by_name(found: Predictions) -> Predictions:
    """In the order of the names: that of the graph is none a reader would know."""
    order = natural_order(found.names)
    names, probabilities = [found.names[i] for i in order], found.probabilities[order]
    return replace(found, nodes=found.nodes[order], names=names, probabilities=probabilities)


def _wanted(file: PathLike) -> list[str]:
    """The nodes named in a table: in its column of ids, or its only one."""
    table = read_columns(file)
    named = next(iter(table.columns)) if len(table.columns) == 1 else find_id(table, (), ())[0]
    return table.text(named, "nodes to predict")


def find_tables(
    folder: PathLike,
    support: PathLike,
    out: PathLike,
    *,
    label: str | None = None,
    top: int = 200,
    force: bool = False,
    raw_cells: bool = False,
    **where: Any,
) -> tuple[FewShotClassifier, Candidates]:
    """Write the ``top`` unlabelled nodes that are likeliest of the new class ``label``, by default the only one."""
    check_writable(out, force)
    classifier = load_adapted(folder, support, **where)
    assert classifier.support is not None
    names = classifier.support.classes[: classifier.support.n_new]
    if label is None and len(names) > 1:
        raise InputError(f"{support} names {len(names)} classes: say which to find with --class ({', '.join(names)})")
    found = classifier.find(names[0] if label is None else label, top)
    write_columns(out, found.table(), force, raw_cells)
    return classifier, found
