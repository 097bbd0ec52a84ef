"""The work of commands: from the folder of a saved model to tables of predictions, and to its accuracy."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..files import PathLike
from ..store import one_thread
from ..tables.write import writing_columns
from ..training.evaluate import Evaluation, NodeProgress, evaluate
from .classifier import FewShotClassifier
from .inputs import class_name, class_sizes, sorted_by_name
from .predictions import UNKNOWN, Predictions
from .simulation import Counts, Expectation

Say = Callable[[str], None]  # told in a line what is being done


def load_attached(folder: PathLike, *, say: Say = lambda _: None, **where: Any) -> FewShotClassifier:
    """The classifier in ``folder``, with its graph or with one in other files (``edges``, ``nodes``, ``features``).

    ``memory`` limits the work on a store.
    """
    say(f"Loading the model in {folder} ...")
    classifier = FewShotClassifier.load(folder, **where)
    if classifier.graph is None:
        raise InputError(f"{folder} was saved without its data: name the tables with edges= and nodes=")
    return classifier


@dataclass(frozen=True)
class PredictedTables:
    """The result of ``predict_tables``.

    It holds the number of ``rows``, the number of each class, the node with the smallest margin, the expected accuracy
    (None for closed-set predictions), and the predictions ``found``, unless the graph is a store.
    """

    rows: int
    counts: dict[str, int]
    least_sure: str
    expectation: Expectation | None
    found: Predictions | None = None


@one_thread
def predict_tables(
    classifier: FewShotClassifier,
    out: PathLike,
    *,
    nodes: Any = None,
    new_nodes: PathLike | None = None,
    new_edges: PathLike | None = None,
    threshold: float = 0.0,
    thresholds: Mapping[str, float] | None = None,
    all_probabilities: bool = False,
    force: bool = False,
    raw_cells: bool = False,
    progress: NodeProgress | None = None,
) -> PredictedTables:
    """Predict nodes and write the predictions to the table ``out``.

    The nodes are those without a label, or ``nodes``, or the nodes of the table ``new_nodes``. Rows are written as they
    are computed, so predictions on a store are not held in memory. ``progress`` is called with the number of nodes that
    are done and the number of all nodes.
    """
    in_memory = classifier.graph is not None and not classifier.graph.space.on_disk
    if new_nodes is not None or new_edges is not None:
        parts: Iterable[Predictions] = [classifier.predict_proba(new_nodes=new_nodes, new_edges=new_edges)]
    else:
        if nodes is None:
            nodes = classifier.unlabelled()
            if in_memory and classifier.graph is not None:  # names on disk are not sorted
                nodes = sorted_by_name(classifier.graph, nodes)
        parts = classifier.iter_proba(nodes, progress=progress)
    question, counts, rows, closest = classifier.question, Counter[str](), 0, (2.0, "")
    kept, expected = list[Predictions](), list[Counts]()
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
) -> tuple[Evaluation | None, dict[str, Any]]:
    """The accuracy of a user's model on tasks of its own graph.

    The classes of the tasks are those on which the model was neither trained nor selected, if two of them have enough
    labels, and otherwise its validation classes. Without any, the accuracy is None. The second value says which classes
    were used, and gives the results of the simulations of open-set classification.
    """
    classifier = load_attached(folder)
    model, graph, known = classifier.model, classifier.graph, classifier.known
    assert model is not None and graph is not None
    k_shot, n_query = k_shot or classifier.k_shot, n_query or classifier.n_query
    large = {int(c): class_name(graph, int(c)) for c in (class_sizes(graph) >= k_shot + n_query).nonzero()[0]}
    others = [c for c, name in large.items() if name not in known.names()]
    chosen = others if len(others) >= 2 else [c for c, name in large.items() if name in known.validation]
    open_set = classifier.simulated(k_shot) if bool((graph.y >= 0).any()) else {"simulations": 0}
    if len(chosen) < 2 <= len(large) and open_set["simulations"]:
        return None, {"classes": [], "kind": None, "open_set": open_set}
    if len(chosen) < 2:
        raise InputError(
            f"tasks with {k_shot} examples and {n_query} queries of each class need two classes of {k_shot + n_query} "
            f"labelled nodes that the model did not learn from; there are {len(chosen)}. Ask for fewer with n_query="
        )
    n_way = n_way or min(classifier.n_way, len(chosen))
    found = evaluate(model, graph, chosen, n_way=n_way, k_shot=k_shot, n_query=n_query, n_tasks=n_tasks, seed=seed)
    facts = {"classes": [large[c] for c in chosen], "kind": "unseen" if chosen is others else "validation"}
    return found, facts | {"open_set": open_set}
