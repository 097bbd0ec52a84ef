"""A page about predictions on a user's graph: what was found, how far to trust it, and what to do next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from ..classifier.classifier import FewShotClassifier
from ..classifier.features import FeatureSchema
from ..classifier.inputs import Support, node_name
from ..classifier.predictions import UNKNOWN, Predictions
from ..errors import InputError
from ..files import PathLike, atomic_write
from ..graph import Graph
from ..graph.arrays import csr_parts
from ..tables.columns import read_columns
from ..tables.roles import find_id
from .templating import environment, render

# --- A few words about a node, so that a person knows which one it is: its text, its words, or its unusual columns.
LENGTH = 100  # letters of a text
WORDS, COLUMNS = 6, 3


class Details:
    """``of(nodes)`` describes each node; ``title`` says how, and is empty where the graph has nothing to show."""

    def __init__(self, classifier: FewShotClassifier) -> None:
        assert classifier.graph is not None and classifier.schema is not None
        self.graph, self.schema = classifier.graph, classifier.schema
        self.texts = _texts(classifier)
        x = self.graph.features
        self.sparse = x is not None and x.layout == torch.sparse_csr
        named = x is not None and self.graph.feature_names is not None
        self.title = "" if not named else "its rarest words or columns" if self.sparse else "its most unusual columns"
        if self.texts is not None:
            self.title = "text"

    def of(self, nodes: Tensor) -> list[str]:
        if self.texts is not None:
            return [_cut(self.texts[node]) for node in nodes.tolist()]
        if not self.title:
            return [""] * len(nodes)
        return _heaviest(self.graph, nodes) if self.sparse else _unusual(self.graph, self.schema, nodes)


def _texts(classifier: FewShotClassifier) -> Sequence[str] | None:
    """The texts of all nodes, if the graph is the one in the files the model remembers."""
    source, graph = classifier.source, classifier.graph
    if source is None or graph is None or not source.text_column or source.nodes is None:
        return None
    if source.missing() or not classifier.on_own_graph():
        return None
    table = read_columns(source.nodes)
    ids = source.columns.get("id_column") or find_id(table, (), ())[0]
    texts = dict(zip(table.text(ids, "ids"), table.text(source.text_column, "texts"), strict=True))
    return [texts.get(name, "") for name in graph.node_names or ()] or None


def _cut(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LENGTH else f"{words[: LENGTH - 1]}…"


def _heaviest(graph: Graph, nodes: Tensor) -> list[str]:
    """The words or columns that a node has most of, rare ones counting more."""
    assert graph.features is not None and graph.feature_names is not None
    indptr, indices, values = (part.cpu() for part in csr_parts(graph.features))
    names = graph.feature_names
    rarity = (graph.num_nodes / torch.bincount(indices, minlength=len(names)).clamp_min(1)).log()
    found = []
    for node in nodes.tolist():  # only the few rows that are shown
        part = slice(int(indptr[node]), int(indptr[node + 1]))
        order = (values[part] * rarity[indices[part]]).argsort(descending=True, stable=True)[:WORDS]
        found.append(_cut(", ".join(names[i] for i in indices[part][order].tolist())))
    return found


def _unusual(graph: Graph, schema: FeatureSchema, nodes: Tensor) -> list[str]:
    """The columns furthest from their mean, in the user's units."""
    assert graph.features is not None and graph.feature_names is not None
    x = graph.features[nodes].cpu().double()
    scale, centre = torch.ones(x.shape[1]), torch.zeros(x.shape[1])
    if schema.scale is not None and schema.centre is not None:
        scale, centre = torch.tensor(schema.scale), torch.tensor(schema.centre)
    furthest = x.abs().topk(min(COLUMNS, x.shape[1]), dim=1).indices
    values = (x * scale + centre).gather(1, furthest)
    names = graph.feature_names
    return [
        _cut(", ".join(f"{names[c]} {value:.4g}" for c, value in zip(columns, row, strict=True)))
        for columns, row in zip(furthest.tolist(), values.tolist(), strict=True)
    ]


# --- What a page about a user's own graph says: counts, expectations, and the nodes worth looking at, as plain values.
CLASSES = 30  # in the list of sizes
NAMED = 5  # new classes in the first sentence
RANKED = 10  # surest, and as many least sure, of each new class
NEXT, NEXT_EACH = 20, 3  # nodes to label next, and of one predicted class where there are enough classes
BINS = 10


@dataclass(frozen=True)
class NodeRow:
    """One predicted node; ``probability`` is that of the class the table is about."""

    name: str
    label: str
    probability: float
    runner_up: str
    margin: float
    detail: str


@dataclass(frozen=True)
class ClassRow:
    """A class: new, known, other or unknown; nodes that were labelled (given as examples, if new) and predicted."""

    name: str
    kind: str
    labelled: int
    predicted: int


@dataclass(frozen=True)
class Bin:
    """Rows whose probability is from ``low`` up to ``high``, and the accuracy to be expected of them (None: no row)."""

    low: float
    high: float
    rows: int
    accuracy: float | None


class Answers:
    """Predictions as a page needs them: of each node the class, the runner-up, and whether the class is given.

    ``kinds`` are those of the classes; in the closed question all of them are new.
    """

    def __init__(self, found: Predictions, threshold: float, thresholds: Mapping[str, float] | None) -> None:
        if not len(found):
            raise InputError("no node was predicted, so there is nothing to report")
        self.found, self.classes = found, found.classes
        self.kinds = found.kinds or ("new",) * len(found.classes)
        self.accepted = found.accepted(threshold, thresholds)
        self.best, self.choice = found.probabilities.max(1)
        top = found.probabilities.topk(2, dim=1)
        tied = top.indices[:, 0] != self.choice  # equal probabilities: the two functions may differ in which is first
        self.runner_up = torch.where(tied, top.indices[:, 0], top.indices[:, 1])
        self.margin = top.values[:, 0] - top.values[:, 1]
        self.counts: list[int] = torch.bincount(self.choice[self.accepted], minlength=len(self.classes)).tolist()
        self.unknown = int((~self.accepted).sum())

    def of_kind(self, kind: str) -> list[int]:
        """Positions of the classes of a kind."""
        return [i for i, one in enumerate(self.kinds) if one == kind]

    def called(self, position: int) -> Tensor:
        """Rows that are given the class."""
        return ((self.choice == position) & self.accepted).nonzero().flatten()

    def rows(self, chosen: Tensor, details: Details, position: int | None = None) -> list[NodeRow]:
        """Rows to show, with the probability of the class at ``position``, by default of the likeliest."""
        nodes = self.found.nodes[chosen]
        texts = details.of(nodes)
        shown = []
        for row, text in zip(chosen.tolist(), texts, strict=True):
            c = int(self.choice[row])
            p = float(self.found.probabilities[row, c if position is None else position])
            label = self.classes[c] if self.accepted[row] else UNKNOWN
            runner_up = self.classes[int(self.runner_up[row])]
            shown.append(NodeRow(self.found.names[row], label, p, runner_up, float(self.margin[row]), text))
        return shown


def headline(answers: Answers) -> list[tuple[int, str, str]]:
    """What the first sentence counts: how many nodes, what they are like, and the class, if it is one."""
    new = sorted(answers.of_kind("new"), key=lambda i: -answers.counts[i])
    parts = [(answers.counts[i], "like", answers.classes[i]) for i in new[:NAMED]]
    left, known, other = (
        sum(answers.counts[i] for i in part)
        for part in (new[NAMED:], answers.of_kind("known"), answers.of_kind("other"))
    )
    more = [
        (left, f"like one of {len(new) - NAMED} more new classes", ""),
        (known, "like a known class", ""),
        (other, "like none of these", ""),
        (answers.unknown, "too unsure to say", ""),
    ]
    return parts + [part for part in more if part[0]]


def class_rows(classifier: FewShotClassifier, answers: Answers) -> list[ClassRow]:
    """New classes first, then other and unknown, then the known ones, those with most predictions first."""
    assert classifier.support is not None
    labelled = dict(zip(classifier.support.classes, classifier.support.shots(), strict=True))
    if classifier.question is not None:
        model = classifier.question.model
        sizes = torch.bincount(model.y[model.y >= 0], minlength=len(model.classes)).tolist()
        labelled = dict(zip(model.classes, sizes, strict=True)) | labelled
    order = {"new": 0, "other": 1, "known": 3}
    rows = [
        (order[kind], -count, ClassRow(name, kind, 0 if kind == "other" else labelled.get(name, 0), count))
        for name, kind, count in zip(answers.classes, answers.kinds, answers.counts, strict=True)
    ]
    if answers.unknown:
        rows.append((2, 0, ClassRow(UNKNOWN, UNKNOWN, 0, answers.unknown)))
    return [row for *_, row in sorted(rows, key=lambda part: part[:2])]


def ranked(answers: Answers, details: Details) -> list[dict[str, Any]]:
    """Of each new class the surest and the least sure nodes; of one that no node is given, the likeliest instead."""
    parts = []
    for c in answers.of_kind("new"):
        rows = answers.called(c)
        order = rows[answers.best[rows].argsort(descending=True, stable=True)]
        likeliest = order.new_empty(0)
        if not len(rows):
            likeliest = answers.found.probabilities[:, c].argsort(descending=True, stable=True)[:RANKED]
        parts.append(
            {
                "name": answers.classes[c],
                "count": len(rows),
                "surest": answers.rows(order[:RANKED], details, c),
                "least": answers.rows(order[RANKED:][-RANKED:].flip(0), details, c),
                "likeliest": answers.rows(likeliest, details, c),
            }
        )
    return parts


def bins(answers: Answers) -> list[Bin]:
    """Rows by the probability of their class. If probabilities are right, their mean is the accuracy."""
    place = (answers.best * BINS).long().clamp(0, BINS - 1)
    rows = torch.bincount(place, minlength=BINS)
    mean = torch.bincount(place, answers.best.double(), minlength=BINS) / rows
    first = int(rows.nonzero()[0])
    return [
        Bin(i / BINS, (i + 1) / BINS, int(rows[i]), float(mean[i]) if rows[i] else None) for i in range(first, BINS)
    ]


def to_label(answers: Answers, details: Details) -> list[NodeRow]:
    """Nodes whose label would teach most: the least margins, from every predicted class a few."""
    present: Sequence[int] = answers.choice.unique().tolist()
    each = max(NEXT_EACH, -(-NEXT // len(present)))
    parts = []
    for c in present:
        rows = (answers.choice == c).nonzero().flatten()
        parts.append(rows[answers.margin[rows].argsort(stable=True)[:each]])
    rows = torch.cat(parts)
    return answers.rows(rows[answers.margin[rows].argsort(stable=True)[:NEXT]], details)


# --- A picture of the nodes in two dimensions, as paths of an SVG: new classes by colour and shape, the rest in grey.
WIDTH, HEIGHT, EDGE = 1440, 900, 24  # of the picture, in its own units
NODES = 4_000  # shown at most
NEW_PART = 0.25  # of the new classes in the directions shown
STYLES = 12  # new classes with a look of their own; there are 6 colours and 5 shapes
LABELLED, KNOWN, OTHER, UNSURE, MORE, NEW = range(6)  # NEW and above: the new classes
TITLES = (
    "labelled",
    "predicted, a known class",
    "predicted, none of the classes",
    "predicted, unknown",
    "predicted, more new classes",
)
SHAPES = (
    "m-7 -7h14v14h-14z",  # square
    "m0 -9l9 16h-18z",  # triangle
    "m0 -10l9 10 -9 10 -9 -10z",  # diamond
    "m0 9l9 -16h-18z",  # triangle, point down
    "m-3 -9h6v6h6v6h-6v6h-6v-6h-6v-6h6z",  # plus
)
COLOURS = 6
DOT = "h0"  # a line of no length with round ends


@dataclass(frozen=True)
class Layer:
    """Nodes drawn alike: ``shown`` of ``total``, as one ``path``; ``style`` is a CSS class, ``symbol`` a path."""

    title: str
    style: str
    symbol: str
    shown: int
    total: int
    path: str
    name: str = ""  # of the new class


@dataclass(frozen=True)
class Mark:
    """An example: where it is, and what it is called."""

    x: int
    y: int
    name: str
    label: str
    style: str
    symbol: str


@dataclass(frozen=True)
class Map:
    """The picture, what it shows of all nodes, and its size."""

    layers: tuple[Layer, ...]
    marks: tuple[Mark, ...]
    shown: int
    total: int
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def legend(self) -> list[Layer]:
        """The new classes first; they are drawn last, above the rest."""
        return sorted(self.layers, key=lambda layer: not layer.name)


def draw_map(classifier: FewShotClassifier, answers: Answers) -> Map:
    """Every example, then nodes of new classes, then others at random, as many as fit."""
    graph, support = classifier.graph, classifier.support
    assert graph is not None and support is not None
    layer, examples = _layers(classifier, answers), support.nodes.cpu()
    layer[examples] = -1  # drawn apart
    chosen = _sample(layer, NODES - len(examples))
    groups = torch.cat([NEW + support.y.cpu(), layer[chosen]])
    place = _places(_coordinates(classifier, torch.cat([examples, chosen])), groups)
    at, rest = place[: len(examples)], place[len(examples) :]
    marks = tuple(
        Mark(x, y, node_name(graph, node), support.classes[c], *_style(NEW + c))
        for (x, y), node, c in zip(at.tolist(), examples.tolist(), support.y.tolist(), strict=True)
    )
    drawn = [_layer(k, layer, chosen, rest, answers) for k in range(int(layer.max()) + 1)]
    return Map(tuple(one for one in drawn if one.total), marks, len(place), int((layer >= 0).sum()) + len(marks))


def _layers(classifier: FewShotClassifier, answers: Answers) -> Tensor:
    """Of each node of the graph the layer it is drawn in, -1 for none: without a label and not asked for."""
    assert classifier.graph is not None
    layer = torch.where(classifier.graph.y.cpu() >= 0, LABELLED, -1)
    number = torch.tensor([{"known": KNOWN, "other": OTHER, "new": NEW}[kind] for kind in answers.kinds])
    new = torch.tensor(answers.of_kind("new"))
    number[new] += torch.arange(len(new))
    number[number >= NEW + STYLES] = MORE
    layer[answers.found.nodes] = torch.where(answers.accepted, number[answers.choice], UNSURE)
    return layer


def _sample(layer: Tensor, size: int) -> Tensor:
    nodes = (layer >= 0).nonzero().flatten()
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))]
    first = (layer[nodes] < MORE).long().argsort(stable=True)  # MORE and above are new
    return nodes[first[: max(size, 0)]]


def _coordinates(classifier: FewShotClassifier, nodes: Tensor) -> Tensor:
    """Coordinates of the nodes: those in which the open question is asked, or the embeddings of the method."""
    question = classifier.question
    parts = classifier.embeddings() if question is None else [question.model.x]
    return torch.cat([part[nodes.to(part.device)].float() for part in parts], 1).cpu()


def _places(x: Tensor, groups: Tensor) -> Tensor:
    """Whole-numbered places [n, 2] in the picture: the two principal directions of nodes in some groups.

    New classes have a fixed part in the directions, each the same, or a small one would have none. Half of a place is
    the value, half its rank, so that a dense middle can be seen and a few outliers do not crowd the rest.
    """
    x = (x - x.mean(0)).double()
    new = groups >= NEW
    sizes = torch.bincount(groups * new)
    sizes[0] = (~new).sum()
    weight = 1.0 / sizes[groups * new].double()
    weight[~new] *= (1 - NEW_PART) / NEW_PART * max(int((sizes[NEW:] > 0).sum()), 1)
    directions = torch.linalg.eigh((x * weight[:, None]).T @ x)[1][:, -2:].flip(1)
    directions = directions * directions.gather(0, directions.abs().argmax(0, keepdim=True)).sign()
    flat = x @ directions
    flat = torch.cat([flat, flat.new_zeros(len(flat), 2 - flat.shape[1])], 1)
    low, high = flat.quantile(torch.tensor([0.005, 0.995], dtype=flat.dtype), dim=0)
    value = ((flat - low) / (high - low).clamp_min(1e-12)).clamp(0, 1)
    rank = flat.argsort(dim=0, stable=True).argsort(dim=0) / max(len(flat) - 1, 1)
    share = (value + rank) / 2
    size = torch.tensor([WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE])
    places: Tensor = (EDGE + share * size).round().long()
    return places


def _layer(k: int, layer: Tensor, chosen: Tensor, place: Tensor, answers: Answers) -> Layer:
    at: Sequence[list[int]] = place[layer[chosen] == k].tolist()
    style, symbol = _style(k)
    path = "".join(f"M{x} {y}{symbol}" for x, y in at)
    name = answers.classes[answers.of_kind("new")[k - NEW]] if k >= NEW else ""
    title = TITLES[k] if k < NEW else "predicted"
    return Layer(title, style, symbol, len(at), int((layer == k).sum()), path, name)


def _style(k: int) -> tuple[str, str]:
    if k < MORE:
        return f"dot {('labelled', 'known', 'other', 'unknown')[k]}", DOT
    if k == MORE or k >= NEW + STYLES:
        return "new more", SHAPES[0]
    place = k - NEW
    return f"new colour{place % COLOURS}", SHAPES[(place + place // COLOURS) % len(SHAPES)]


# --- A page about a user's own graph: what was found, how far to trust it, and what to do next. One file, nothing else.
EXAMPLES = 20  # of a class that are named


def check_page(path: PathLike, force: bool = False) -> Path:
    """``path`` if a page may be written there: to be asked before the work that fills it."""
    page = Path(path)
    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{page}: a page must end in .html, not {page.suffix or 'nothing'!r}")
    if page.is_dir():
        raise InputError(f"{page} is a folder; name a file")
    if page.exists() and not force:
        raise InputError(f"{page} exists already; choose another name or overwrite it (--force, in Python force=True)")
    environment()
    return page


def write_own_page(
    classifier: FewShotClassifier,
    found: Predictions,
    path: PathLike,
    threshold: float = 0.0,
    thresholds: Mapping[str, float] | None = None,
) -> Path:
    """Write the page about ``found``, predictions of the adapted ``classifier``; thresholds as in ``found.labels``."""
    text = own_page(classifier, found, threshold, thresholds)
    with atomic_write(path) as file:
        file.write(text.encode("utf-8", "replace"))
    return Path(path)


def own_page(
    classifier: FewShotClassifier,
    found: Predictions,
    threshold: float = 0.0,
    thresholds: Mapping[str, float] | None = None,
) -> str:
    """The HTML of the page."""
    graph, support = classifier.graph, classifier.support
    if graph is None or support is None:
        raise InputError("a page needs an adapted classifier: call attach(graph) and adapt({class: [nodes]}) first")
    answers, details = Answers(found, threshold, thresholds), Details(classifier)
    closed = found.kinds is None
    sizes = class_rows(classifier, answers)
    return render(
        "own_page.html",
        version=__version__,
        rows=len(found),
        unlabelled=_unlabelled(graph, support, found),
        closed=closed,
        threshold=threshold,
        thresholds=thresholds or {},
        told=headline(answers),
        kinds=set(answers.kinds),
        expected=None if closed else classifier.expect(found, threshold, thresholds),
        calibration=classifier.calibration,
        examples=_examples(graph, support),
        sizes=sizes[:CLASSES],
        sizes_left=sizes[CLASSES:],
        largest=max(max(row.labelled, row.predicted) for row in sizes),
        map=draw_map(classifier, answers),
        ranked=ranked(answers, details),
        bins=bins(answers),
        next=to_label(answers, details),
        detail=details.title,
    )


def _unlabelled(graph: Graph, support: Support, found: Predictions) -> bool:
    """Whether all rows are about nodes without a label."""
    labelled = graph.y.cpu() >= 0
    labelled[support.nodes.cpu()] = True
    return not bool(labelled[found.nodes].any())


def _examples(graph: Graph, support: Support) -> list[dict[str, Any]]:
    return [
        {"name": name, "count": len(nodes), "nodes": [node_name(graph, i) for i in nodes[:EXAMPLES].tolist()]}
        for name, nodes in support.examples().items()
    ]
