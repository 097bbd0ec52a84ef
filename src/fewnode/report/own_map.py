"""A picture of the nodes in two dimensions, as paths of an SVG: new classes by colour and shape, the rest in grey."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..own.classifier import FewShotClassifier
from ..own.support import node_name
from .own_contents import Answers

WIDTH, HEIGHT, EDGE = 1440, 900, 24  # of the picture, in its own units
NODES = 4_000  # shown at most
NEW_PART = 0.25  # of the new classes in the directions shown
STYLES = 12  # new classes with a look of their own; there are 6 colours and 5 shapes
LABELLED, KNOWN, OTHER, UNKNOWN, MORE, NEW = range(6)  # NEW and above: the new classes
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
    layer[answers.found.nodes] = torch.where(answers.accepted, number[answers.choice], UNKNOWN)
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
