"""The bundled graph from end to end: train, name five new classes by three examples each, ask about every word, report.

WordNet: 117,659 meanings of English words, linked by what they have to do with each other; a class is a field of
meaning. Nothing is downloaded.      python examples/quickstart.py [quickstart.html]
"""

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fewnode
from fewnode.classifier.predictions import Predictions
from fewnode.training.evaluate import Evaluation
from fewnode.training.loop import TrainingProgress

# Five fields whose labels the model never sees, each named by three examples ...
EXAMPLES = {
    "food": ["bread.noun.01", "cheese.noun.01", "soup.noun.01"],
    "plant": ["oak.noun.02", "fern.noun.01", "tulip.noun.01"],
    "thing people make": ["chair.noun.01", "violin.noun.01", "bridge.noun.01"],
    "substance": ["granite.noun.01", "oxygen.noun.01", "salt.noun.01"],
    "way to move": ["walk.verb.01", "swim.verb.01", "jump.verb.01"],
}
TRUE = dict(zip(EXAMPLES, ["noun.food", "noun.plant", "noun.artifact", "noun.substance", "verb.motion"], strict=True))
NOBODY = "noun.phenomenon"  # ... a field nobody names: its words should be called "other" ...
BLANK = 0.2  # ... and a share of the other labels, which are taken away to see whether they come back
SHOWN = ["pizza.noun.01", "cactus.noun.01", "umbrella.noun.01", "bicycle.noun.01", "bronze.noun.01", "crawl.verb.01"]
FLOORS: dict[str, dict[str, Any]] = {
    "probe": {},
    "probe without the graph": {"smooth": False},
}  # nothing is trained in these
SHAPE: dict[str, Any] = {"n_way": 5, "k_shot": 3}
LIGHT: dict[str, Any] = {
    "rank": 128,
    "steps": 50,
    "check_every": 10,
}  # a look, not a result: half the width, a third of the steps
STARTED = time.perf_counter()


def say(text: str) -> None:
    print(f"[{time.perf_counter() - STARTED:5.1f} s] {text}", flush=True)


def main(out: Path) -> None:
    say("Loading the bundled graph ...")
    graph, split = fewnode.load_dataset("wordnet")
    say(str(graph))
    say("Making six views of every node (the slowest part) ...")
    classifier = fewnode.FewShotClassifier("vantage", **SHAPE, **LIGHT)
    classifier.fit(graph.with_labels(hidden_labels(graph)), split, callback=told, progress=stages())
    assert classifier.model is not None
    say("Testing on 500 tasks of unseen classes ...")
    accuracy = {"vantage": fewnode.evaluate(classifier.model, graph, split.novel, **SHAPE)}
    say(f"  vantage: {accuracy['vantage']}")
    classifier.adapt(EXAMPLES)
    say("Five new classes, three examples each: every word without a label is asked what it is ...")
    found = classifier.predict_proba(classifier.unlabelled())
    truth = true_names(graph, found)
    labels = found.labels()
    right = sum(a == b for a, b in zip(labels, truth, strict=True))
    expected = classifier.expect(found)
    say(
        f"{len(found):,} words: {100 * right / len(found):.1f} % right "
        f"(expected {100 * (expected.right.value or 0):.1f} %)"
    )
    for word, label, sure, field in some_words(classifier, graph):
        print(f"  {word:<10} {label:<18} {100 * sure:3.0f} % sure   (WordNet: {field})")
    accuracy |= floors(graph, split)
    if find_spec("matplotlib") is None:
        say("For the page with figures: pip install 'fewnode[report]'")
        return
    from quickstart_page import Findings, write_page

    write_page(out, Findings(classifier, found, expected, truth, accuracy, EXAMPLES, meanings(graph)))
    say(f"What was found, with figures: {out}")


def told(now: TrainingProgress) -> None:
    if now.step % 10 == 0 or now.step == 1:
        checked = "" if now.accuracy is None else f", validation {100 * now.accuracy:.1f} %"
        say(f"Training vantage: step {now.step} of {now.steps}, loss {now.loss:.2f}{checked}")


def stages() -> Any:
    """Says each thing that is done once."""
    told: set[str] = set()

    def tell(what: str, part: float) -> None:
        if what not in told | {"done"}:
            told.add(what)
            say(f"  {what} ...")

    return tell


def hidden_labels(graph: fewnode.Graph) -> Tensor:
    """The labels a user would have: none of the new fields, none of the field nobody names, most of the others."""
    assert graph.class_names is not None
    hidden = torch.tensor([graph.class_names.index(field) for field in (*TRUE.values(), NOBODY)])
    chance = torch.rand(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    return torch.where(torch.isin(graph.y, hidden) | (chance < BLANK), -1, graph.y)


def floors(graph: fewnode.Graph, split: fewnode.ClassSplit) -> dict[str, Evaluation]:
    say("The same tasks without any training ...")
    accuracy = {}
    for name, options in FLOORS.items():
        floor = fewnode.fit("probe", graph, split, **SHAPE, **options)
        accuracy[name] = fewnode.evaluate(floor, graph, split.novel, **SHAPE)
        say(f"  {name}: {accuracy[name]}")
    return accuracy


def true_names(graph: fewnode.Graph, found: Predictions) -> list[str]:
    """What each word really is, in the words of the predictions."""
    assert graph.class_names is not None
    name = {field: new for new, field in TRUE.items()} | {NOBODY: "other"}
    fields = [graph.class_names[c] for c in graph.y[found.nodes].tolist()]
    return [name.get(field, field) for field in fields]


def some_words(classifier: fewnode.FewShotClassifier, graph: fewnode.Graph) -> list[tuple[str, str, float, str]]:
    assert graph.class_names is not None and graph.node_names is not None
    found = classifier.predict_proba(SHOWN)
    sure = found.probabilities.amax(1).tolist()
    fields = [graph.class_names[int(graph.y[node])] for node in found.nodes]
    return [(name.split(".")[0], *rest) for name, *rest in zip(SHOWN, found.labels(), sure, fields, strict=True)]


def meanings(graph: fewnode.Graph) -> dict[str, int]:
    """How many words each field has."""
    assert graph.class_names is not None
    sizes = torch.bincount(graph.y, minlength=graph.num_classes).tolist()
    return dict(zip(graph.class_names, sizes, strict=True))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "quickstart.html"))
