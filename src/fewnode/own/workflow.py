"""From a user's tables to a saved model, and from a saved model to predictions: one call for each command."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from ..cluster import Engine
from ..errors import InputError
from ..graph import Graph
from ..inference import NodeProgress
from ..io import check_writable, find_id, read_columns, write_columns
from ..storage import PathLike
from ..tasks import ClassSplit
from ..training.callbacks import Callback
from .classes import choose_split
from .classifier import FewShotClassifier
from .fitted import Comparison
from .loading import load_adapted
from .openworld.rehearsal import Progress
from .order import natural_order
from .persistence import check_folder
from .predictions import Candidates, Predictions
from .streaming import Answered, write_predictions
from .support import find_nodes
from .tables import TableSource
from .unfinished import forget, stopped_early, unfinished


@dataclass(frozen=True)
class FittedTables:
    """What ``fit_tables`` did: the classifier, what it read, and its accuracy beside that of the floor ``probe``."""

    classifier: FewShotClassifier
    graph: Graph
    split: ClassSplit
    beside_probe: Comparison | None


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
    out: PathLike | None = None,
    *,
    label: str | None = None,
    top: int = 200,
    force: bool = False,
    raw_cells: bool = False,
    **where: Any,
) -> tuple[FewShotClassifier, Candidates]:
    """The ``top`` unlabelled nodes that are likeliest of the new class ``label``, by default the only one; written to
    ``out``, if that is given."""
    if out is not None:
        check_writable(out, force)
    classifier = load_adapted(folder, support, **where)
    assert classifier.support is not None
    names = classifier.support.classes[: classifier.support.n_new]
    if label is None and len(names) > 1:
        raise InputError(f"{support} names {len(names)} classes: say which to find with --class ({', '.join(names)})")
    found = classifier.find(names[0] if label is None else label, top)
    if out is not None:
        write_columns(out, found.table(), force, raw_cells)
    return classifier, found
