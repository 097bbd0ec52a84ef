"""The bundled graph from end to end: train, test beside the floors, name five new classes, write a report.

WordNet: 117,659 meanings of English words, linked by what they have to do with each other; a class is a field of
meaning. Nothing is downloaded.      python examples/quickstart.py [quickstart.html]
"""

import html
import io
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fewnode
from fewnode.evaluation import Evaluation
from fewnode.inference import embed
from fewnode.own.explanation import embeddings_of
from fewnode.storage import atomic_write
from fewnode.training.callbacks import TrainingProgress

# Five classes no model has been taught, each named by three examples.
EXAMPLES = {
    "food": ["bread.noun.01", "cheese.noun.01", "soup.noun.01"],
    "plant": ["oak.noun.02", "fern.noun.01", "tulip.noun.01"],
    "thing people make": ["chair.noun.01", "violin.noun.01", "bridge.noun.01"],
    "substance": ["granite.noun.01", "oxygen.noun.01", "salt.noun.01"],
    "way to move": ["walk.verb.01", "swim.verb.01", "jump.verb.01"],
}
TRUE = dict(zip(EXAMPLES, ["noun.food", "noun.plant", "noun.artifact", "noun.substance", "verb.motion"], strict=True))
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
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"]  # Okabe and Ito's, which everybody can tell apart
STYLE = """body { font: 16px sans-serif; max-width: 60rem; margin: auto; padding: 1rem } svg { max-width: 100% }
td, th { padding: .2rem .8rem; text-align: left }"""
STARTED = time.perf_counter()


@dataclass
class Findings:
    """What the report shows."""

    accuracy: dict[str, Evaluation]
    curve: list[Any]
    confusion: Tensor  # [true, said], shares of each row
    places: Tensor  # [B, 2], a picture of the embedding
    kinds: Tensor  # [B], the class of each point
    words: list[tuple[str, str, float, str]]
    calibration: str


def say(text: str) -> None:
    print(f"[{time.perf_counter() - STARTED:5.1f} s] {text}", flush=True)


def main(out: Path) -> None:
    say("Loading the bundled graph ...")
    graph, split = fewnode.load_dataset("wordnet")
    say(str(graph))
    say("Making six views of every node (the slowest part) ...")
    classifier = fewnode.FewShotClassifier("vantage", **SHAPE, **LIGHT)
    classifier.fit(graph, split, callback=told)
    assert classifier.model is not None
    say("Testing on 500 tasks of unseen classes, beside what needs no training ...")
    accuracy = {"vantage": fewnode.evaluate(classifier.model, graph, split.novel, **SHAPE)}
    say(f"  vantage: {accuracy['vantage']}")
    for name, options in FLOORS.items():
        floor = fewnode.fit("probe", graph, split, **SHAPE, **options)
        accuracy[name] = fewnode.evaluate(floor, graph, split.novel, **SHAPE)
        say(f"  {name}: {accuracy[name]}")
    say("Five new classes, three examples each; the other words of these fields are classified ...")
    findings = classify(classifier, graph, accuracy)
    for word, label, sure, truth in findings.words:
        print(f"  {word:<10} {label:<18} {100 * sure:3.0f} % sure   (WordNet: {truth})")
    print(findings.calibration)
    if find_spec("matplotlib") is None:
        say("For the report with figures: pip install 'fewnode[report]'")
        return
    write_page(out, findings)
    say(f"Report with figures: {out}")


def told(now: TrainingProgress) -> None:
    if now.step % 10 == 0 or now.step == 1:
        checked = "" if now.accuracy is None else f", validation {100 * now.accuracy:.1f} %"
        say(f"Training vantage: step {now.step} of {now.steps}, loss {now.loss:.2f}{checked}")


def classify(classifier: fewnode.FewShotClassifier, graph: fewnode.Graph, accuracy: dict[str, Evaluation]) -> Findings:
    assert graph.class_names is not None and classifier.model is not None
    classifier.adapt(EXAMPLES, among="new")  # the closed question: which of these five
    truth = {graph.class_names.index(field): i for i, field in enumerate(TRUE.values())}
    kind = torch.tensor([truth.get(c, -1) for c in range(graph.num_classes)])[graph.y]
    assert classifier.support is not None and classifier.calibration is not None
    kind[classifier.support.nodes] = -1
    nodes = (kind >= 0).nonzero().flatten()
    found = classifier.predict_proba(nodes)
    said = found.probabilities.argmax(1)
    counts = torch.zeros(5, 5).index_put_((kind[nodes], said), torch.ones(len(nodes)), accumulate=True)
    some = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))[:1000]
    p = classifier.predict_proba(SHOWN)
    words = [
        (name.split(".")[0], label, float(sure), graph.class_names[int(graph.y[graph.node_names.index(name)])])  # type: ignore[union-attr]
        for name, label, sure in zip(SHOWN, p.labels(), p.probabilities.amax(1), strict=True)
    ]
    right = float((said == kind[nodes]).float().mean())
    learned = classifier.calibration
    text = (
        f"{len(nodes):,} words, {100 * right:.1f} % right (expected from validation tasks: "
        f"{100 * (learned.accuracy or 0):.1f} %); calibration error {100 * (learned.ece_before or 0):.1f} % "
        f"before and {100 * (learned.ece_after or 0):.1f} % after calibration"
    )
    confusion = counts / counts.sum(1, keepdim=True)
    seen = embeddings_of(embed(classifier.model, classifier.graph), graph.num_nodes)  # type: ignore[arg-type]
    places = picture_of(torch.cat([part[nodes[some]].float() for part in seen], 1))
    return Findings(accuracy, list(classifier.model.card.curve), confusion, places, kind[nodes][some], words, text)


def picture_of(rows: Tensor) -> Tensor:
    """The rows along their two principal directions, [B, 2]."""
    centred = rows - rows.mean(0)
    directions: torch.Tensor = torch.linalg.svd(centred, full_matrices=False).Vh[:2]
    return centred @ directions.T


def figures(found: Findings) -> dict[str, Any]:
    """The four figures, by title."""
    from matplotlib.figure import Figure

    def blank() -> tuple[Any, Any]:
        figure = Figure(figsize=(4.8, 3.4), layout="constrained")
        return figure, figure.subplots()

    accuracy, axis = blank()
    scores = [100 * one.accuracy for one in found.accuracy.values()]
    axis.barh(list(found.accuracy), scores, xerr=[100 * one.interval for one in found.accuracy.values()], color=COLOURS)
    axis.set(xlabel="accuracy on 500 tasks of unseen classes, %", xlim=(0, 100))
    curve, axis = blank()
    axis.plot(*zip(*((step, 100 * share) for step, share in found.curve), strict=True), marker="o", color=COLOURS[0])
    axis.set(xlabel="training step", ylabel="validation accuracy, %")
    places, axis = blank()
    for place, name in enumerate(EXAMPLES):
        inside = found.kinds == place
        axis.scatter(*found.places[inside].T.numpy(), s=6, color=COLOURS[place], label=name)
    axis.legend(fontsize="small", markerscale=2)
    axis.set(xticks=[], yticks=[])
    confusion, axis = blank()
    axis.imshow(found.confusion, cmap="Blues", vmin=0, vmax=1)
    for true in range(5):
        for said in range(5):
            share = float(found.confusion[true, said])
            axis.text(
                said, true, f"{100 * share:.0f}", ha="center", va="center", color="white" if share > 0.5 else "black"
            )
    axis.set(xlabel="classified as", ylabel="true field, % of its words", yticks=range(5), yticklabels=list(EXAMPLES))
    axis.set_xticks(range(5), list(EXAMPLES), rotation=30, ha="right")
    return {
        "Accuracy by method": accuracy,
        "Training": curve,
        "Words of the five fields, as vantage embeds them": places,
        "Which field is taken for which": confusion,
    }


def write_page(out: Path, found: Findings) -> None:
    """One HTML file with everything in it."""
    parts = []
    for title, figure in figures(found).items():
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        drawing = buffer.getvalue()
        parts.append(f"<h2>{title}</h2>{drawing[drawing.index('<svg') :]}")
    rows = "".join(
        f"<tr><td>{html.escape(word)}<td>{html.escape(label)}<td>{100 * sure:.0f} %<td>{html.escape(truth)}"
        for word, label, sure, truth in found.words
    )
    body = (
        f"<h1>fewnode quickstart</h1><p>{html.escape(found.calibration)}.</p>{''.join(parts)}<h2>Some words</h2>"
        f"<table><tr><th>word<th>classified as<th>sure<th>in WordNet{rows}</table>"
    )
    head = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>fewnode quickstart</title><style>{STYLE}</style>'
    )
    with atomic_write(out, "w") as file:
        file.write(head + body)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "quickstart.html"))
