"""How good a user's model is on tasks of its own graph: ``fewnode evaluate`` of what ``fewnode fit-own`` wrote."""

from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..evaluation import Evaluation, evaluate
from ..storage import PathLike
from .classes import class_name, class_sizes
from .classifier import FewShotClassifier
from .loading import Say, remembered_graph


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
