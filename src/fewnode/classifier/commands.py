"""From the folder of a saved model to tables of predictions, and to its accuracy."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import InputError
from ..files import PathLike, readable
from ..store import one_thread
from ..tables import check_writable, find_id, read_columns
from ..tables.write import writing_columns
from ..training.evaluate import Evaluation, NodeProgress, evaluate
from .classifier import FewShotClassifier
from .inputs import class_name, class_sizes, find_nodes, sorted_by_name
from .predictions import UNKNOWN, Predictions
from .simulation import Counts, Expectation

Say = Callable[[str], None]  # told in a line what is being done


def load_attached(folder: PathLike, *, say: Say = lambda _: None, **where: Any) -> FewShotClassifier:
    """The classifier in ``folder``, on its graph or on the one in other files (``edges``, ``nodes``, ``features``);
    ``memory`` bounds the work on a store."""
    say(f"Loading the model in {folder} ...")
    classifier = FewShotClassifier.load(folder, **where)
    if classifier.graph is None:
        raise InputError(f"{folder} was saved without its data: name the tables with edges= and nodes=")
    return classifier


def load_adapted(
    folder: PathLike,
    support: PathLike | None,
    *,
    among: Literal["all", "new"] | None = None,
    wanted: Sequence[str] = (),
    say: Say = lambda _: None,
    how: Mapping[str, Any] | None = None,
    **where: Any,
) -> FewShotClassifier:
    """The classifier of ``load_attached``, adapted to the examples of the table ``support``, if there is one.

    ``among`` and ``how`` (``priors``, ``include_unlisted``, ``descriptions``, ``use_class_names``) are those of
    ``FewShotClassifier.adapt``; ``among`` is "all" unless the graph has no label. Nodes that are ``wanted`` later are
    looked up as soon as the graph is read: a misspelt one is reported before any work.
    """
    if support is not None:
        readable(support)
    classifier = load_attached(folder, say=say, **where)
    graph = classifier.graph
    assert graph is not None
    find_nodes(graph, wanted, "nodes asked for")
    said: dict[str, str] = {}
    examples = {} if support is None else classifier.read_examples(support, said)
    how = {**(how or {}), "descriptions": said | dict((how or {}).get("descriptions") or {})}
    if among is None and not bool((graph.y >= 0).any()):
        say("note: no node has a label, so predictions are closed-set")
        among = "new"
    try:
        return classifier.adapt(examples, among=among or "all", **how)
    except InputError as error:
        raise InputError(f"{support}: {error}" if support is not None else str(error)) from error


@dataclass(frozen=True)
class PredictedTables:
    """What ``predict_tables`` wrote: how many ``rows``, how many of each class, the node with the smallest margin, what
    is to be expected (None for closed-set predictions); and the predictions ``found``, unless the graph is a store."""

    classifier: FewShotClassifier
    rows: int
    counts: dict[str, int]
    least_sure: str
    expectation: Expectation | None
    found: Predictions | None = None


@one_thread
def predict_tables(
    folder: PathLike,
    support: PathLike | None,
    out: PathLike,
    *,
    nodes_file: PathLike | None = None,
    new_nodes: PathLike | None = None,
    new_edges: PathLike | None = None,
    force: bool = False,
    progress: NodeProgress | None = None,
    adapting: Mapping[str, Any] | None = None,
    **writing: Any,
) -> PredictedTables:
    """Predict the nodes without a label, or those of ``nodes_file``, and write the table ``out``.

    Or those of the table ``new_nodes``, which are appended to the graph by ``new_edges``; only what they touch is made.
    ``adapting`` are further arguments of ``load_adapted``, ``writing`` those of ``write_predictions``; ``progress`` is
    told how many nodes of how many are done.
    """
    check_writable(out, force)
    if new_nodes is None and new_edges is not None:
        raise InputError("new edges are those of new nodes: name their table with new_nodes=")
    nodes: Any = ()
    if nodes_file is not None:
        table = read_columns(nodes_file)
        column = next(iter(table.columns)) if len(table.columns) == 1 else find_id(table, (), ())[0]
        nodes = table.text(column, "nodes to predict")
    classifier = load_adapted(folder, support, wanted=nodes, **(adapting or {}))
    if new_nodes is not None:
        parts: Iterable[Predictions] = [classifier.predict_proba(new_nodes=new_nodes, new_edges=new_edges)]
    else:
        if nodes_file is None:
            nodes, graph = classifier.unlabelled(), classifier.graph
            if graph is not None and not graph.space.on_disk:  # names on disk are not sorted
                nodes = sorted_by_name(graph, nodes)
        parts = classifier.iter_proba(nodes, progress=progress)
    return write_predictions(classifier, parts, out, force=force, **writing)


def write_predictions(
    classifier: FewShotClassifier,
    parts: Iterable[Predictions],
    out: PathLike,
    *,
    threshold: float = 0.0,
    thresholds: Mapping[str, float] | None = None,
    all_probabilities: bool = False,
    force: bool = False,
    raw_cells: bool = False,
) -> PredictedTables:
    """Write predictions to the table ``out`` as they come, and sum them up; those of a store are not held in memory."""
    question, counts, kept, rows, closest = classifier.question, Counter[str](), list[Predictions](), 0, (2.0, "")
    in_memory, expected = classifier.graph is not None and not classifier.graph.space.on_disk, list[Counts]()
    with writing_columns(out, force, raw_cells) as write:
        for part in parts:
            table = part.table(threshold, thresholds, all_probabilities=all_probabilities)
            write(table)
            counts.update(table["label"])
            rows += len(part)
            if len(part):
                at = int(table["margin"].argmin())
                closest = min(closest, (float(table["margin"][at]), part.names[at]))
            if question is not None:
                expected.append(question.counts(part.probabilities, part.accepted(threshold, thresholds)))
            kept += [part] if in_memory else []
    return PredictedTables(
        classifier,
        rows,
        {name: counts[name] for name in (*classifier.classes_, UNKNOWN)},
        closest[1],
        question.expectation(sum(expected[1:], expected[0])) if question is not None and expected else None,
        Predictions.concatenate(kept) if kept else None,
    )


@one_thread
def evaluate_tables(
    folder: PathLike,
    *,
    n_way: int | None = None,
    k_shot: int | None = None,
    n_query: int | None = None,
    n_tasks: int = 500,
    seed: int = 0,
    say: Say = lambda _: None,
) -> tuple[FewShotClassifier, Evaluation, dict[str, Any]]:
    """A user's model and its accuracy on tasks of its own graph. The classes of the tasks are those it neither learned
    from nor was selected on, if two of them have enough labels, else its validation classes; the last value says
    which, and what the simulations of open-set classification achieved."""
    classifier = load_attached(folder, say=say)
    model, graph, known, shape = classifier.model, classifier.graph, classifier.known, classifier.shape
    assert model is not None and graph is not None
    k_shot, n_query = k_shot or shape["k_shot"], n_query or shape["n_query"]
    large = {int(c): class_name(graph, int(c)) for c in (class_sizes(graph) >= k_shot + n_query).nonzero()[0]}
    others = [c for c, name in large.items() if name not in known.names()]
    chosen = others if len(others) >= 2 else [c for c, name in large.items() if name in known.validation]
    if len(chosen) < 2:
        raise InputError(
            f"tasks with {k_shot} examples and {n_query} queries of each class need two classes of {k_shot + n_query} "
            f"labelled nodes that the model did not learn from; there are {len(chosen)}. Ask for fewer with n_query="
        )
    n_way = n_way or min(shape["n_way"], len(chosen))
    found = evaluate(model, graph, chosen, n_way=n_way, k_shot=k_shot, n_query=n_query, n_tasks=n_tasks, seed=seed)
    facts = {"classes": [large[c] for c in chosen], "kind": "unseen" if chosen is others else "validation"}
    return classifier, found, facts | {"open_set": classifier.simulated(k_shot)}
