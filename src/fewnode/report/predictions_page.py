"""A page about predictions on a user's graph: the results, their expected accuracy, and what to label next."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from ..classifier.classifier import FewShotClassifier
from ..classifier.inputs import node_name, node_title
from ..classifier.open_set import OpenSetTask
from ..classifier.predictions import UNKNOWN, Predictions
from ..errors import InputError
from ..files import PathLike, atomic_write
from ..tables.schema import flagged
from .nodes import NodeRows
from .templating import render


def write_predictions_page(
    classifier: FewShotClassifier,
    found: Predictions,
    path: PathLike,
    threshold: float = 0.0,
    thresholds: Mapping[str, float] | None = None,
) -> Path:
    """Write the page about ``found``, predictions of the adapted ``classifier``; thresholds as in ``found.labels``."""
    graph, support = classifier.graph, classifier.support
    if graph is None or support is None:
        raise InputError("a page needs an adapted classifier: call attach(graph) and adapt({class: [nodes]}) first")
    source = classifier.source if classifier.on_fitted_graph else None
    texts = () if source is None else flagged(source.columns, "text")
    answers, about = Answers(found, threshold, thresholds), NodeRows(classifier, texts)
    choice = torch.full((graph.num_nodes,), -1)
    choice[found.nodes] = answers.choice
    about.tell(choice.numpy())
    labelled = (graph.y.cpu() >= 0).index_fill(0, torch.cat([graph.y[:0], *support.values()]).cpu(), True)
    page = render(
        "predictions_page.html",
        version=__version__,
        rows=len(found),
        unlabelled=not bool(labelled[found.nodes].any()),
        closed=found.kinds is None,
        threshold=threshold,
        thresholds=thresholds or {},
        kinds=set(answers.kinds),
        expected=None if found.kinds is None else classifier.expect(found, threshold, thresholds),
        calibration=classifier.calibration,
        examples={
            name: [(node_name(graph, i), node_title(graph, i)) for i in support[name].tolist()]
            for name in [found.classes[c] for c in answers.new]
        },
        sizes=class_sizes(classifier, answers),
        map=draw_map(classifier, answers),
        ranked=ranked(answers, about),
        bins=confidence_bins(answers, classifier.question),
        next=to_label(answers, about),
    )
    with atomic_write(path) as file:
        file.write(page.encode("utf-8", "replace"))
    return Path(path)


class Answers:
    """Predictions as the page needs them: the likeliest class of each row, whether it is accepted, and its margin.

    ``kinds`` are those of the classes (in closed-set classification, all are new).
    """

    def __init__(self, found: Predictions, threshold: float, thresholds: Mapping[str, float] | None) -> None:
        if not len(found):
            raise InputError("no node was predicted, so there is nothing to report")
        self.found, self.kinds = found, found.kinds or ("new",) * len(found.classes)
        self.new = [c for c, kind in enumerate(self.kinds) if kind == "new"]
        self.accepted = found.accepted(threshold, thresholds)
        self.table, self.counts = found.table(threshold, thresholds), found.counts(threshold, thresholds)
        self.best, self.choice = found.probabilities.max(1)
        self.margin = self.best - found.probabilities.scatter(1, self.choice[:, None], -1.0).amax(1)

    def rows(self, chosen: Tensor, about: NodeRows) -> list[dict[str, Any]]:
        """Rows of the table to show, each with a description of its node."""
        nodes = self.found.nodes[chosen].tolist()
        rows = [{key: values[row] for key, values in self.table.items()} for row in chosen.tolist()]
        told = zip(rows, nodes, self.choice[chosen].tolist(), strict=True)
        return [row | {"about": about.summary(node, c)} for row, node, c in told]


def class_sizes(classifier: FewShotClassifier, answers: Answers) -> list[dict[str, Any]]:
    """Classes with the numbers of labelled nodes (of a new class: its examples) and of predicted nodes.

    New classes come first, then other and unknown, then the known ones, those with most predictions first.
    """
    assert classifier.support is not None
    labelled = {name: len(nodes) for name, nodes in classifier.support.items()}
    if classifier.question is not None:  # examples of known classes are among their labels
        model = classifier.question.model
        sizes = torch.bincount(model.y[model.y >= 0], minlength=len(model.classes)).tolist()
        labelled |= dict(zip(model.classes, sizes, strict=True))
    kinds = {**dict(zip(answers.found.classes, answers.kinds, strict=True)), UNKNOWN: UNKNOWN}
    rows = [
        {"name": name, "kind": kinds[name], "labelled": labelled.get(name, 0), "predicted": count}
        for name, count in answers.counts.items()
        if count or name != UNKNOWN
    ]
    order = ("new", "other", UNKNOWN, "known")
    return sorted(rows, key=lambda row: (order.index(row["kind"]), -row["predicted"]))


def ranked(answers: Answers, about: NodeRows) -> list[dict[str, Any]]:
    """The ten most and the ten least certain nodes of each new class.

    For a class without nodes, they are the likeliest nodes instead, with the probability of this class.
    """
    parts = []
    for c in answers.new:
        probability = answers.found.probabilities[:, c]
        order = probability.argsort(descending=True, stable=True)
        called = order[((answers.choice == c) & answers.accepted)[order]]
        nearest = order[: 0 if len(called) else 10]
        shown = {"surest": called[:10], "least": called[10:][-10:].flip(0), "likeliest": nearest}
        tables = {key: answers.rows(chosen, about) for key, chosen in shown.items()}
        for row, value in zip(tables["likeliest"], probability[nearest].tolist(), strict=True):
            row["probability"] = value
        parts.append({"name": answers.found.classes[c], "count": len(called), **tables})
    return parts


def confidence_bins(answers: Answers, question: OpenSetTask | None) -> list[dict[str, Any]]:
    """Rows by the probability of their class, in tenths, with the expected accuracy.

    The expected accuracy is the mean probability, corrected by its error in simulations.
    """
    place, found = (answers.best * 10).long().clamp(0, 9), list[dict[str, Any]]()
    for i in range(int(place.min()), 10):
        sure = answers.best[place == i]
        value = float(sure.mean()) if len(sure) else None
        if value is not None and question is not None:
            value = question.band_accuracy(i, value, len(sure)).value
        found.append({"low": i / 10, "rows": len(sure), "accuracy": value})
    return found


def to_label(answers: Answers, about: NodeRows) -> list[dict[str, Any]]:
    """The 20 nodes whose labels are most useful.

    They have the smallest margins; at most three have the same predicted class (more if there are fewer than seven
    classes).
    """
    present: Sequence[int] = answers.choice.unique().tolist()
    each = max(3, -(-20 // len(present)))
    order = answers.margin.argsort(stable=True)
    rows = torch.cat([order[answers.choice[order] == c][:each] for c in present])
    return answers.rows(rows[answers.margin[rows].argsort(stable=True)[:20]], about)


def draw_map(classifier: FewShotClassifier, answers: Answers, size: int = 4000) -> dict[str, Any]:
    """A picture of at most ``size`` nodes: every example, then nodes of new classes, then others at random.

    ``layers`` hold the points of nodes that are drawn alike: labelled, predicted as known, other or unknown, and then
    one layer for each new class. ``examples`` are points with the names of the node and the class.
    """
    graph, support = classifier.graph, classifier.support
    assert graph is not None and support is not None
    new, examples = answers.new, torch.cat([graph.y[:0], *support.values()]).cpu()
    places = torch.tensor([place for place, nodes in enumerate(support.values()) for _ in nodes], dtype=torch.long)
    number = [4 + new.index(c) if c in new else {"known": 1, "other": 2}[kind] for c, kind in enumerate(answers.kinds)]
    layer = torch.where(graph.y.cpu() >= 0, 0, -1)
    layer[answers.found.nodes] = torch.where(answers.accepted, torch.tensor(number)[answers.choice], 3)
    layer[examples] = -1  # drawn apart
    nodes = (layer >= 0).nonzero().flatten()
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))]
    nodes = nodes[(layer[nodes] < 4).long().argsort(stable=True)][: max(size - len(examples), 0)]
    x, shown = classifier.coordinates(), layer[nodes]
    x = x[torch.cat([examples, nodes]).to(x.device)].double().cpu()
    points = _layout(x, torch.cat([4 + places, shown]))
    names = ["", "", "", "", *(answers.found.classes[c] for c in new)]
    totals = layer[layer >= 0].bincount(minlength=len(names)).tolist()
    layers = [
        {"place": k - 4, "name": names[k], "points": points[len(examples) :][shown == k].tolist(), "total": totals[k]}
        for k in range(len(names))
    ]
    titles = [node_title(graph, node) or node_name(graph, node) for node in examples.tolist()]
    marked = zip(points.tolist(), titles, places.tolist(), strict=False)  # the examples are the first points
    marks = [{"x": x, "y": y, "name": name, "label": [*support][c], "place": c} for (x, y), name, c in marked]
    return {"layers": layers, "examples": marks, "shown": len(points), "total": sum(totals) + len(marks)}


def _layout(x: Tensor, groups: Tensor) -> Tensor:
    """Points [n, 2] in a picture of 1440 by 900: the two principal components, with every group weighted the same.

    A coordinate is half the value and half its rank, so that a dense middle can be seen and outliers do not crowd the
    rest.
    """
    x = x - x.mean(0)
    weighted = x / torch.bincount(groups)[groups, None]
    directions = torch.linalg.eigh(weighted.T @ x)[1][:, -2:].flip(1)
    directions = directions * directions.gather(0, directions.abs().argmax(0, keepdim=True)).sign()
    flat = x @ directions
    flat = torch.cat([flat, flat.new_zeros(len(flat), 2 - flat.shape[1])], 1)
    low, high = flat.quantile(torch.tensor([0.005, 0.995], dtype=flat.dtype), dim=0)
    value = ((flat - low) / (high - low).clamp_min(1e-12)).clamp(0, 1)
    rank = flat.argsort(dim=0, stable=True).argsort(dim=0) / max(len(flat) - 1, 1)
    points: Tensor = (24 + (value + rank) / 2 * torch.tensor([1392, 852])).round().long()
    return points
