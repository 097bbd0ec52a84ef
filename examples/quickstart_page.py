"""The page of the quickstart: what was found, by which examples, what is wrong, and what to do next. One HTML file."""

import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fewnode
from fewnode.classifier.predictions import Predictions
from fewnode.classifier.simulation import Estimate, Expectation
from fewnode.files import atomic_write
from fewnode.training.evaluate import Evaluation

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"]  # Okabe and Ito's, which everybody can tell apart
GREY = "#999999"
STYLE = """
body { font: 17px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1.5rem; color: #1a1a1a }
.lead { font-size: 1.25rem } svg { width: 100%; height: auto } figure { margin: 0 }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 1.5rem }
table { border-collapse: collapse; width: 100% } caption { text-align: left; font-weight: 600; padding: .3rem 0 }
td, th { padding: .25rem .7rem .25rem 0; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums } .soft { color: #595959 }
pre { background: #f3f3f3; padding: .8rem; overflow-x: auto } dt { font-weight: 600 } dd { margin: 0 0 .5rem }
dl { columns: 2 24rem } dt { break-after: avoid }
"""
TERMS = {
    "new class": "a class without any label, named here by three examples",
    "known class": "a class of which many labels were given; all of them are learned from",
    "other": "none of these: the field that nobody named should come out here",
    "precision": "of the words called so, the share that is",
    "recall": "of the words that are, the share that was called so",
    "expected": "what was said before the truth was looked at, from simulated novel classes; in "
    "brackets, what held in nine of ten of them",
    "sure": "the probability of the class that was said; 80 % sure should be right in 80 of 100 cases",
    "task": "a small test: five classes nobody taught the model, three examples of each, ten words of each to classify",
    "probe": "a classifier that is not trained at all; what training is worth is the distance to it",
    "view": "one way to see a word, made without labels: its own words or its links, from near or far",
}
NEXT = """fewnode fit --edges edges.csv --nodes nodes.csv --out runs/own
fewnode predict runs/own --support examples.csv --out predictions.csv --report page.html"""


@dataclass(frozen=True)
class Findings:
    """What the page shows; ``truth`` is what each of the words ``found`` really is."""

    classifier: fewnode.FewShotClassifier
    found: Predictions
    expected: Expectation
    truth: Sequence[str]
    accuracy: Mapping[str, Evaluation]
    examples: Mapping[str, Sequence[str]]
    fields: Mapping[str, int]

    @property
    def new(self) -> list[str]:
        return list(self.examples)

    def groups(self) -> tuple[Tensor, Tensor]:
        """What each word is and what it was called: a new class by its place, then known, then other."""
        place = {name: i for i, name in enumerate(self.new)} | {"other": len(self.new) + 1}
        of = [[place.get(name, len(self.new)) for name in names] for names in (self.truth, self.found.labels())]
        return torch.tensor(of[0]), torch.tensor(of[1])

    def right(self) -> Tensor:
        return torch.tensor([a == b for a, b in zip(self.truth, self.found.labels(), strict=True)])


def percent(share: float | None) -> str:
    return "–" if share is None or share != share else f"{100 * share:.0f} %"


def told(one: Estimate) -> str:
    return f'{percent(one.value)} <span class="soft">({percent(one.low)[:-2]} to {percent(one.high)})</span>'


def write_page(out: Path, found: Findings) -> None:
    """One HTML file with everything in it."""
    parts = [
        f"<h1>Five new fields of meaning, fifteen examples</h1><p class=lead>{_sentence(found)}</p>",
        f"<h2>The examples that were given</h2>{_examples(found)}",
        f"<h2>What was found, beside the truth</h2>{_classes(found)}",
        f"<div class=pair>{_figure('What was called what', _confusion(found))}"
        f"{_figure('Is 80 % sure right in 80 of 100 cases?', _reliability(found))}</div>",
        f"<h2>Hits and mistakes</h2><div class=pair>{_words(found, True)}{_words(found, False)}</div>",
        f"<h2>The words as the model sees them</h2>{_figure('', _map(found))}",
        "<p>1,500 words of the new fields, and as many others in grey; the examples are ringed. The picture keeps two "
        "of many directions: fields that overlap here may still be told apart.</p>",
        f"<h2>What training is worth</h2>{_training_text(found)}<div class=pair>"
        f"{_figure('Accuracy on 500 tasks of unseen classes', _methods(found))}"
        f"{_figure('While it learned', _curve(found))}</div>",
        f"<h2>Words on this page</h2><dl>{''.join(f'<dt>{k}<dd>{v}' for k, v in TERMS.items())}</dl>",
        f"<h2>Next: your own files</h2>{_next()}",
    ]
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    with atomic_write(out, "w") as file:
        file.write(f"{head}<title>fewnode quickstart</title><style>{STYLE}</style><body>{''.join(parts)}")


def _sentence(found: Findings) -> str:
    true, called = found.groups()
    n = len(found.new)
    new = called < n
    precision = float((true[new] == called[new]).float().mean())
    recall = float((true == called)[true < n].float().mean())
    right = percent(float(found.right().float().mean()))
    shots = len(next(iter(found.examples.values())))
    return (
        f"From {shots} examples of each of {n} new fields, {int(new.sum()):,} of {len(called):,} words without a label "
        f"were called one of them: {percent(precision)} of these are right, and {percent(recall)} of the words of "
        f"these fields were found. Over all words, known fields included, {right} are right; "
        f"{told(found.expected.right)} were expected before the truth was looked at."
    )


def _examples(found: Findings) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(name)}<td>{', '.join(html.escape(word.split('.')[0]) for word in words)}"
        for name, words in found.examples.items()
    )
    known = found.classifier.question.model.classes  # type: ignore[union-attr]
    return (
        f"<table><tr><th>new field<th>examples{rows}</table><p>Beside them {len(known)} fields are known by most of "
        "their labels; a fifth of these labels was taken away too, to see whether they come back, and one field "
        "(phenomena of nature) has neither labels nor examples: nobody says that it exists.</p>"
    )


def _classes(found: Findings) -> str:
    true, called = found.groups()
    rows = []
    for i, name in enumerate([*found.new, "a known field", "other"]):
        said, is_ = called == i, true == i
        hit = found.right() & said
        precision, recall = float(hit.sum() / said.sum()), float(hit.sum() / is_.sum())
        one = found.expected.classes.get(name)
        beside = (told(one.precision), told(one.recall)) if one else ("", told(found.expected.known) if i == 5 else "")
        cells = (
            f"{int(is_.sum()):,}",
            f"{int(said.sum()):,}",
            percent(precision),
            beside[0],
            percent(recall),
            beside[1],
        )
        rows.append(f"<tr><td>{html.escape(name)}" + "".join(f"<td class=n>{cell}" for cell in cells))
    titles = ("words there are", "called so", "precision", "expected", "recall", "expected")
    return (
        f"<table><tr><th>field{''.join(f'<th class=n>{title}' for title in titles)}{''.join(rows)}</table>"
        "<p>A word of a known field is right only if it is the right one of these fields.</p>"
    )


def _words(found: Findings, hits: bool) -> str:
    """Of each new field a few words: hits from sure to less sure, or the surest mistakes, false alarms and misses."""
    true, called = found.groups()
    sure = found.found.probabilities.amax(1)
    chosen: list[int] = []
    for i in range(len(found.new)):
        said, is_ = called == i, true == i
        for part, each in ((said & is_, 4),) if hits else ((said & ~is_, 2), (is_ & ~said, 2)):
            nodes = part.nonzero().flatten()
            order = nodes[sure[nodes].argsort(descending=True, stable=True)]
            order = order[:: max(len(order) // each, 1)] if hits else order
            chosen += [node for node in order.tolist() if node not in chosen][:each]
    labels = found.found.labels()
    rows = [
        (found.found.names[k].split(".")[0].replace("_", " "), labels[k], float(sure[k]), found.truth[k])
        for k in chosen
    ]
    body = "".join(
        f"<tr><td>{html.escape(word)}<td>{html.escape(label)}<td class=n>{percent(p)}<td>{html.escape(is_)}"
        for word, label, p, is_ in rows
    )
    title = "Right, from sure to less sure" if hits else "Wrong, the surest: false alarms and misses"
    return f"<table><caption>{title}</caption><tr><th>word<th>called<th class=n>sure<th>is{body}</table>"


def _training_text(found: Findings) -> str:
    best = max((one.accuracy, name) for name, one in found.accuracy.items())
    floor = max((one.accuracy, name) for name, one in found.accuracy.items() if name.startswith("probe"))
    own = found.accuracy["vantage"].accuracy
    return (
        f"<p>On 500 small tasks of fields that nobody taught it, vantage gets {100 * own:.1f} % right, "
        f"{html.escape(floor[1])}, which is not trained, {100 * floor[0]:.1f} %. "
        f"{'' if best[1] == 'vantage' else 'Here training was not worth it. '}"
        "This is a light training of a few seconds; results of whole ones are in the documentation.</p>"
    )


def _next() -> str:
    return (
        "<p>Two tables are enough: nodes with an id, a label where you know it, and columns or a text; and edges, "
        f"each from one id to another. A third names the examples: id and label.</p><pre>{NEXT}</pre>"
        "<p>The first command prints what it took each column for. The second writes what every node without a label "
        "is, how sure that is, and a page like this one, without the truth, with the nodes to label next. "
        "<code>python examples/own_graph.py people</code> writes such files to try it with; docs/your-graph.md goes "
        "through them.</p>"
    )


# --- figures ------------------------------------------------------------------------------------------------


def _figure(title: str, figure: Any) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawing = buffer.getvalue()
    heading = f"<h3>{title}</h3>" if title else ""
    return f"<figure>{heading}{drawing[drawing.index('<svg') :]}</figure>"


def _blank(width: float = 6.4, height: float = 4.6) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _confusion(found: Findings) -> Any:
    true, called = found.groups()
    names = [*found.new, "known", "other"]
    n = len(names)
    counts = torch.zeros(n, n).index_put_((true, called), torch.ones(len(true)), accumulate=True)
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
    figure, axis = _blank()
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for row in range(n):
        for column in range(n):
            share = float(shares[row, column])
            dark = "white" if share > 0.5 else "black"
            axis.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color=dark)
    axis.set(xlabel="called", ylabel="is (% of its words)", yticks=range(n), yticklabels=names)
    axis.set_xticks(range(n), names, rotation=30, ha="right")
    return figure


def _reliability(found: Findings) -> Any:
    sure, right = found.found.probabilities.amax(1), found.right().float()
    place = (10 * sure).long().clamp(0, 9)
    rows = torch.bincount(place, minlength=10)
    mean, share = (torch.bincount(place, part, minlength=10) / rows.clamp(min=1) for part in (sure, right))
    full = rows > 20
    figure, axis = _blank()
    axis.plot([0, 100], [0, 100], color=GREY, linestyle="--", label="as sure as right")
    axis.plot(100 * mean[full], 100 * share[full], marker="o", color=COLOURS[0], label="these words")
    axis.set(xlabel="sure, %", ylabel="right, %", xlim=(0, 101), ylim=(0, 101))
    axis.legend(loc="upper left")
    return figure


def _map(found: Findings) -> Any:
    true, _ = found.groups()
    x = found.classifier.question.model.x  # type: ignore[union-attr]
    chance = torch.randperm(len(true), generator=torch.Generator().manual_seed(0))
    new, rest = chance[true[chance] < len(found.new)][:1500], chance[true[chance] >= len(found.new)][:1500]
    rows = x[found.found.nodes[new]]
    directions = torch.linalg.svd(rows - rows.mean(0), full_matrices=False).Vh[:2].T
    figure, axis = _blank(13, 6)
    axis.scatter(*((x[found.found.nodes[rest]] - rows.mean(0)) @ directions).T, s=5, color="#dddddd", label="others")
    places = (rows - rows.mean(0)) @ directions
    support = found.classifier.support
    assert support is not None
    for i, name in enumerate(found.new):
        axis.scatter(*places[true[new] == i].T, s=9, color=COLOURS[i], label=name)
        given = (x[support[name]] - rows.mean(0)) @ directions
        axis.scatter(*given.T, s=110, facecolors="none", edgecolors="black")
        axis.scatter(*given.T, s=30, color=COLOURS[i])
    axis.legend(markerscale=2, loc="upper left", bbox_to_anchor=(1, 1))
    axis.set(xticks=[], yticks=[])
    return figure


def _methods(found: Findings) -> Any:
    figure, axis = _blank(6.4, 3.4)
    scores = [100 * one.accuracy for one in found.accuracy.values()]
    errors = [100 * one.interval for one in found.accuracy.values()]
    bars = axis.barh(list(found.accuracy), scores, xerr=errors, color=[COLOURS[0], GREY, GREY])
    axis.bar_label(bars, fmt="%.1f %%", padding=6)
    axis.invert_yaxis()
    axis.set(xlabel="right, %", xlim=(0, 100))
    return figure


def _curve(found: Findings) -> Any:
    figure, axis = _blank(6.4, 3.4)
    assert found.classifier.model is not None
    steps, shares = zip(*found.classifier.model.card.curve, strict=True)
    axis.plot(steps, [100 * share for share in shares], marker="o", color=COLOURS[0])
    axis.set(xlabel="training step", ylabel="validation tasks right, %")
    return figure
