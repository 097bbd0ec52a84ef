"""A page about predictions on a user's graph: what was found, how far to trust it, and what to do next."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from ..classifier.classifier import FewShotClassifier
from ..classifier.inputs import node_name
from ..classifier.predictions import UNKNOWN, Predictions
from ..errors import InputError
from ..files import PathLike, atomic_write
from ..graph.arrays import csr_parts
from ..tables import find_id, read_columns
from .templating import environment, render, short


def check_page(path: PathLike, force: bool = False) -> Path:
    """``path`` if a page may be written there: to be called before the work that fills it."""
    page = Path(path)
    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{page}: a page must end in .html, not {page.suffix or 'nothing'!r}")
    if page.is_dir():
        raise InputError(f"{page} is a folder; name a file")
    if page.exists() and not force:
        raise InputError(f"{page} exists already; choose another name or overwrite it (--force, in Python force=True)")
    environment()  # refuses where Jinja is not installed
    return page


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
    answers, details = Answers(found, threshold, thresholds), Details(classifier)
    labelled = (graph.y.cpu() >= 0).index_fill(0, support.nodes.cpu(), True)
    sizes = class_sizes(classifier, answers)
    text = render(
        "predictions_page.html",
        version=__version__,
        rows=len(found),
        unlabelled=not bool(labelled[found.nodes].any()),
        closed=found.kinds is None,
        threshold=threshold,
        thresholds=thresholds or {},
        counts=headline(answers),
        kinds=set(answers.kinds),
        expected=None if found.kinds is None else classifier.expect(found, threshold, thresholds),
        calibration=classifier.calibration,
        examples={
            name: [node_name(graph, node) for node in nodes.tolist()] for name, nodes in support.examples().items()
        },
        sizes=sizes,
        map=draw_map(classifier, answers),
        ranked=ranked(answers, details),
        bins=confidence_bins(answers),
        next=to_label(answers, details),
        detail=details.title,
    )
    with atomic_write(path) as file:
        file.write(text.encode("utf-8", "replace"))
    return Path(path)


class Details:
    """``of(nodes)`` describes each node so that a person can recognise it: by its text, its rarest words or its most
    unusual columns, which ``title`` names; it is empty where the graph has none of them."""

    def __init__(self, classifier: FewShotClassifier) -> None:
        assert classifier.graph is not None
        self.graph, self.schema = classifier.graph, classifier.schema
        self.texts, self.title = _texts(classifier), ""
        x = self.graph.features
        self.sparse = x is not None and x.layout == torch.sparse_csr
        if self.texts is not None:
            self.title = "text"
        elif x is not None and self.graph.feature_names is not None:
            self.title = "its rarest words or columns" if self.sparse else "its most unusual columns"

    def of(self, nodes: Tensor) -> list[str]:
        if self.texts is not None:
            found = [" ".join(self.texts[node].split()) for node in nodes.tolist()]
        elif not self.title:
            found = [""] * len(nodes)
        else:
            found = self._rarest(nodes) if self.sparse else self._most_unusual(nodes)
        return [short(text, 100) for text in found]

    def _rarest(self, nodes: Tensor) -> list[str]:
        """The words or columns with the largest values, weighted by their rarity."""
        assert self.graph.features is not None and self.graph.feature_names is not None
        indptr, indices, values = (part.cpu() for part in csr_parts(self.graph.features))
        names, found = self.graph.feature_names, []
        rarity = (self.graph.num_nodes / torch.bincount(indices, minlength=len(names)).clamp_min(1)).log()
        for node in nodes.tolist():  # only the few rows that are shown
            part = slice(int(indptr[node]), int(indptr[node + 1]))
            order = (values[part] * rarity[indices[part]]).argsort(descending=True, stable=True)[:6]
            found.append(", ".join(names[i] for i in indices[part][order].tolist()))
        return found

    def _most_unusual(self, nodes: Tensor) -> list[str]:
        """The three columns furthest from their mean, in the user's units."""
        assert self.graph.features is not None and self.graph.feature_names is not None
        x, names = self.graph.features[nodes].cpu().double(), self.graph.feature_names
        furthest = x.abs().topk(min(3, x.shape[1]), dim=1).indices
        if self.schema is not None and self.schema.scale is not None and self.schema.centre is not None:
            x = x * torch.tensor(self.schema.scale) + torch.tensor(self.schema.centre)
        return [
            ", ".join(f"{names[c]} {row[c]:.4g}" for c in columns)
            for columns, row in zip(furthest.tolist(), x.tolist(), strict=True)
        ]


def _texts(classifier: FewShotClassifier) -> Sequence[str] | None:
    """The texts of all nodes, if the graph is the one in the files that the model was fitted on."""
    source, graph = classifier.source, classifier.graph
    if source is None or graph is None or not source.text_column or source.nodes is None:
        return None
    if source.missing() or not classifier.on_fitted_graph:
        return None
    table = read_columns(source.nodes)
    ids = source.columns.get("id_column") or find_id(table, (), ())[0]
    texts = dict(zip(table.text(ids, "ids"), table.text(source.text_column, "texts"), strict=True))
    return [texts.get(name, "") for name in graph.node_names or ()] or None


class Answers:
    """Predictions as the page needs them: for each row its class, the runner-up, and whether the class is accepted.

    ``kinds`` are those of the classes (in closed-set classification all are new), ``counts`` their numbers of rows.
    """

    def __init__(self, found: Predictions, threshold: float, thresholds: Mapping[str, float] | None) -> None:
        if not len(found):
            raise InputError("no node was predicted, so there is nothing to report")
        self.found, self.classes = found, found.classes
        self.kinds = found.kinds or ("new",) * len(found.classes)
        self.accepted = found.accepted(threshold, thresholds)
        self.best, self.choice = found.probabilities.max(1)
        second, self.runner_up = found.probabilities.scatter(1, self.choice[:, None], -1.0).max(1)
        self.margin = self.best - second
        self.counts: list[int] = torch.bincount(self.choice[self.accepted], minlength=len(self.classes)).tolist()
        self.unknown = int((~self.accepted).sum())

    def of_kind(self, kind: str) -> list[int]:
        """Positions of the classes of a kind."""
        return [i for i, one in enumerate(self.kinds) if one == kind]

    def rows(self, chosen: Tensor, details: Details, position: int | None = None) -> list[dict[str, Any]]:
        """Rows to show, with the probability of the class at ``position``, by default of the likeliest."""
        descriptions = details.of(self.found.nodes[chosen])
        return [
            {
                "name": self.found.names[row],
                "label": self.classes[self.choice[row]] if self.accepted[row] else UNKNOWN,
                "probability": float(self.found.probabilities[row, self.choice[row] if position is None else position]),
                "runner_up": self.classes[self.runner_up[row]],
                "margin": float(self.margin[row]),
                "detail": detail,
            }
            for row, detail in zip(chosen.tolist(), descriptions, strict=True)
        ]


def headline(answers: Answers) -> list[tuple[int, str, str]]:
    """The counts of the first sentence: how many nodes, what they are like, and the class, if it is one."""
    new = sorted(answers.of_kind("new"), key=lambda i: -answers.counts[i])
    parts = [(answers.counts[i], "like", answers.classes[i]) for i in new[:5]]
    rest = (
        (sum(answers.counts[i] for i in new[5:]), f"like one of {len(new) - 5} more new classes", ""),
        (sum(answers.counts[i] for i in answers.of_kind("known")), "like a known class", ""),
        (sum(answers.counts[i] for i in answers.of_kind("other")), "like none of these", ""),
        (answers.unknown, "too unsure to say", ""),
    )
    return parts + [part for part in rest if part[0]]


def class_sizes(classifier: FewShotClassifier, answers: Answers) -> list[dict[str, Any]]:
    """Classes with the nodes that were labelled (of a new class: its examples) and those that were predicted: new
    classes first, then other and unknown, then the known ones, those with most predictions first."""
    assert classifier.support is not None
    labelled: dict[str, int] = {}
    if classifier.question is not None:
        model = classifier.question.model
        sizes = torch.bincount(model.y[model.y >= 0], minlength=len(model.classes)).tolist()
        labelled = dict(zip(model.classes, sizes, strict=True))
    labelled |= dict(zip(classifier.support.classes, classifier.support.shots(), strict=True))
    rows = [
        {"name": name, "kind": kind, "labelled": 0 if kind == "other" else labelled.get(name, 0), "predicted": count}
        for name, kind, count in zip(answers.classes, answers.kinds, answers.counts, strict=True)
    ]
    if answers.unknown:
        rows.append({"name": UNKNOWN, "kind": UNKNOWN, "labelled": 0, "predicted": answers.unknown})
    order = ("new", "other", UNKNOWN, "known")
    return sorted(rows, key=lambda row: (order.index(row["kind"]), -row["predicted"]))


def ranked(answers: Answers, details: Details) -> list[dict[str, Any]]:
    """The ten surest and the ten least sure nodes of each new class; of a class without nodes the likeliest instead."""
    parts = []
    for c in answers.of_kind("new"):
        rows = ((answers.choice == c) & answers.accepted).nonzero().flatten()
        order = rows[answers.best[rows].argsort(descending=True, stable=True)]
        likeliest = answers.found.probabilities[:, c].argsort(descending=True, stable=True)[: 0 if len(rows) else 10]
        shown = {"surest": order[:10], "least": order[10:][-10:].flip(0), "likeliest": likeliest}
        tables = {key: answers.rows(chosen, details, c) for key, chosen in shown.items()}
        parts.append({"name": answers.classes[c], "count": len(rows), **tables})
    return parts


def confidence_bins(answers: Answers) -> list[dict[str, Any]]:
    """Rows by the probability of their class, in tenths. If probabilities are right, their mean is the accuracy."""
    place = (answers.best * 10).long().clamp(0, 9)
    rows, total = torch.bincount(place, minlength=10), torch.bincount(place, answers.best.double(), minlength=10)
    return [
        {"low": i / 10, "rows": int(rows[i]), "accuracy": float(total[i] / rows[i]) if rows[i] else None}
        for i in range(int(place.min()), 10)
    ]


def to_label(answers: Answers, details: Details) -> list[dict[str, Any]]:
    """The 20 nodes whose labels are worth most: the smallest margins, at most three of a predicted class (more where
    there are fewer than seven classes)."""
    present: Sequence[int] = answers.choice.unique().tolist()
    each = max(3, -(-20 // len(present)))
    order = answers.margin.argsort(stable=True)
    rows = torch.cat([order[answers.choice[order] == c][:each] for c in present])
    return answers.rows(rows[answers.margin[rows].argsort(stable=True)[:20]], details)


def draw_map(classifier: FewShotClassifier, answers: Answers, size: int = 4000) -> dict[str, Any]:
    """A picture of at most ``size`` nodes: every example, then nodes of new classes, then others at random.

    ``layers`` hold the points of nodes that are drawn alike: labelled, predicted as known, other or unknown, and then
    one layer for each new class. ``examples`` are points with the names of the node and the class.
    """
    graph, support = classifier.graph, classifier.support
    assert graph is not None and support is not None
    new, examples = answers.of_kind("new"), support.nodes.cpu()
    number = [4 + new.index(c) if c in new else {"known": 1, "other": 2}[kind] for c, kind in enumerate(answers.kinds)]
    layer = torch.where(graph.y.cpu() >= 0, 0, -1)
    layer[answers.found.nodes] = torch.where(answers.accepted, torch.tensor(number)[answers.choice], 3)
    layer[examples] = -1  # drawn apart
    nodes = (layer >= 0).nonzero().flatten()
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))]
    nodes = nodes[(layer[nodes] < 4).long().argsort(stable=True)][: max(size - len(examples), 0)]
    parts = classifier.embeddings() if classifier.question is None else [classifier.question.model.x]
    everyone = torch.cat([examples, nodes])
    x = torch.cat([part[everyone.to(part.device)].double() for part in parts], 1).cpu()
    points = _layout(x, torch.cat([4 + support.y.cpu(), layer[nodes]]))
    shown = layer[nodes]
    layers = [
        {
            "place": k - 4,
            "name": "" if k < 4 else answers.classes[new[k - 4]],
            "points": points[len(examples) :][shown == k].tolist(),
            "total": int((layer == k).sum()),
        }
        for k in range(4 + len(new))
    ]
    marks = [
        {"x": x, "y": y, "name": node_name(graph, node), "label": support.classes[c], "place": c}
        for (x, y), node, c in zip(points.tolist(), examples.tolist(), support.y.tolist(), strict=False)
    ]
    total = int((layer >= 0).sum()) + len(marks)
    return {"layers": layers, "examples": marks, "shown": len(points), "total": total}


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
