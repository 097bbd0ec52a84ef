"""From a user's tables to a saved model, and from a saved model to predictions: one call for each command."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from ..datasets import load_dataset
from ..errors import InputError
from ..files import PathLike, readable
from ..graph import Graph
from ..store import Engine, StoredNames
from ..tables.columns import read_columns
from ..tables.roles import find_id
from ..tables.streams import writing_columns
from ..tables.writing import check_writable, write_columns
from ..tasks import ClassSplit
from ..training.evaluate import Evaluation, NodeProgress, evaluate
from ..training.loop import Callback
from .classifier import Comparison, FewShotClassifier
from .folder import check_folder, forget, stopped_early, unfinished
from .inputs import (
    KnownClasses,
    TableSource,
    choose_split,
    class_name,
    class_sizes,
    find_nodes,
    natural_order,
    read_examples,
)
from .open_set import OpenQuestion
from .predictions import UNKNOWN, Candidates, Predictions
from .simulation import Expectation, Progress, Tally

# --- A saved classifier brought back to its graph, or to another one, and adapted to the examples in a table.
Say = Callable[[str], None]  # told in a line what is being done


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
        say("note: no node has a label, so predictions are closed-set (--closed-set)")
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


# --- How good a user's model is on tasks of its own graph: ``fewnode evaluate`` of what ``fewnode fit`` wrote.
@dataclass(frozen=True)
class EvaluatedTables:
    """What ``evaluate_tables`` measured, and on tasks of which classes: ``unseen`` by the training or not."""

    classifier: FewShotClassifier
    classes: tuple[str, ...]
    unseen: bool
    found: Evaluation


def evaluate_tables(
    folder: PathLike,
    *,
    n_way: int | None = None,
    k_shot: int | None = None,
    n_query: int | None = None,
    n_tasks: int = 500,
    seed: int = 0,
    say: Say = lambda _: None,
) -> EvaluatedTables:
    """Accuracy of a user's model on tasks of its own graph: of classes that it neither learned from nor was selected
    on, if two of them have labels enough by now, else of its validation classes."""
    say(f"Loading the model in {folder} ...")
    classifier = FewShotClassifier.load(folder)
    say("Reading the graph ...")
    graph = remembered_graph(classifier, folder, {}, say)
    classifier.attach(graph)
    k_shot, n_query = k_shot or classifier.shape["k_shot"], n_query or classifier.shape["n_query"]
    sizes, known = class_sizes(graph), classifier.known
    large = [int(c) for c in (sizes >= k_shot + n_query).nonzero()[0]]
    others = [c for c in large if class_name(graph, c) not in known.names()]
    chosen = others if len(others) >= 2 else [c for c in large if class_name(graph, c) in known.validation]
    if len(chosen) < 2:
        raise InputError(
            f"tasks with {k_shot} examples and {n_query} queries of each class need two classes of {k_shot + n_query} "
            f"labelled nodes that the model did not learn from; there are {len(chosen)}. Ask for fewer (--n-query)"
        )
    assert classifier.model is not None and classifier.graph is not None
    shape: dict[str, Any] = {
        "n_way": n_way or min(classifier.shape["n_way"], len(chosen)),
        "k_shot": k_shot,
        "n_query": n_query,
    }
    found = evaluate(classifier.model, classifier.graph, chosen, **shape, n_tasks=n_tasks, seed=seed)
    names = tuple(class_name(graph, c) for c in chosen)
    return EvaluatedTables(classifier, names, len(others) >= 2, found)


# --- Predictions of a graph on disk, written as they are made: no table of all nodes is ever in memory.
ROWS = 1 << 16  # nodes predicted at a time


@dataclass(frozen=True)
class Answered:
    """What was predicted, in all: how many ``rows``, how many of each class, the node with the smallest margin, and
    what is to be expected (None for the closed question)."""

    rows: int
    classes: tuple[str, ...]
    kinds: tuple[str, ...] | None
    counts: dict[str, int]
    least_sure: str
    expectation: Expectation | None

    @classmethod
    def of(
        cls,
        classifier: FewShotClassifier,
        found: Predictions,
        threshold: float,
        thresholds: Mapping[str, float] | None,
    ) -> "Answered":
        """Of predictions in memory."""
        table = found.table(threshold, thresholds)
        expected = None if classifier.question is None else classifier.expect(found, threshold, thresholds)
        closest = str(table["id"][int(table["margin"].argmin())])
        counts = found.counts(threshold, thresholds)
        return cls(len(found), found.classes, found.kinds, counts, closest, expected)


def write_predictions(
    classifier: FewShotClassifier,
    nodes: Tensor,
    out: PathLike,
    *,
    threshold: float = 0.0,
    thresholds: Mapping[str, float] | None = None,
    all_probabilities: bool = False,
    force: bool = False,
    raw_cells: bool = False,
    progress: NodeProgress | None = None,
) -> Answered:
    """Predict ``nodes [B]`` and write the table ``out``, some rows at a time."""
    graph, question = classifier.graph, classifier.question
    space = None if graph is None else graph.space
    parts = nodes.split(ROWS)
    how: dict[str, Any] = {"threshold": threshold, "thresholds": thresholds, "all_probabilities": all_probabilities}
    if question is None or space is None:
        done: Iterable[Part] = map(partial(Part.of, classifier.predict_proba, question, **how), parts)
    else:
        slim = _slim(question)
        ask = partial(_asked, slim, graph.node_names if graph is not None else None)
        done = space.results(partial(Part.of, ask, slim, **how), parts, "predictions, by chunks of rows")
    counts: Counter[str] = Counter()
    tally, closest, rows = None, (2.0, ""), 0
    with writing_columns(out, force, raw_cells) as write:
        for part in done:
            write(part.table)
            counts.update(part.counts)
            closest, rows = min(closest, part.closest), rows + len(part.table["id"])
            tally = part.tally if tally is None or part.tally is None else tally + part.tally
            if progress is not None:
                progress(rows, len(nodes))
    expected = None if question is None or tally is None else question.expectation(tally)
    classes, kinds = (classifier.classes_, None) if question is None else (question.classes, question.kinds)
    return Answered(
        len(nodes), classes, kinds, {name: counts[name] for name in (*classes, UNKNOWN)}, closest[1], expected
    )


@dataclass(frozen=True)
class Part:
    """The predictions of some nodes: the ``table``, and what is to be known of all of them in the end."""

    table: dict[str, Any]
    counts: Counter[str]
    closest: tuple[float, str]
    tally: Tally | None

    @classmethod
    def of(
        cls,
        ask: Callable[[Tensor], Predictions],
        question: OpenQuestion | None,
        nodes: Tensor,
        *,
        threshold: float,
        thresholds: Mapping[str, float] | None,
        all_probabilities: bool,
    ) -> "Part":
        found = ask(nodes)
        table = found.table(threshold, thresholds, all_probabilities=all_probabilities)
        at = int(table["margin"].argmin())
        closest = float(table["margin"][at]), str(table["id"][at])
        accepted = found.accepted(threshold, thresholds)
        tally = None if question is None else question.tally(found.probabilities, accepted)
        return cls(table, Counter(table["label"]), closest, tally)


def _slim(question: OpenQuestion) -> OpenQuestion:
    """The question without what answers do not need: it may be sent to other machines."""
    none = question.pool[:0].clone()
    return replace(question, model=replace(question.model, y=none, recipe=None, relay=None), pool=none)


def _asked(question: OpenQuestion, names: Sequence[str] | None, nodes: Tensor) -> Predictions:
    ids = nodes.tolist()
    called = [names[i] for i in ids] if names else list(map(str, ids))
    return Predictions(nodes, called, question.classes, question.probabilities(nodes), question.kinds)


# --- From a user's tables to a saved model, and from a saved model to predictions: one call for each command.
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
