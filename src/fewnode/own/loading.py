"""A saved classifier brought back to its graph, or to another one, and adapted to the examples in a table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch

from ..cluster import Engine
from ..datasets import load_dataset
from ..errors import InputError
from ..graph import Graph
from ..storage import PathLike, readable
from ..store.names import StoredNames
from .classes import KnownClasses
from .classifier import FewShotClassifier
from .openworld.rehearsal import Progress
from .support import find_nodes, read_examples
from .tables import TableSource

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
