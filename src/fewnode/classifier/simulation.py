"""Simulated novel classes: known classes are hidden and shown again by a few examples, as new classes will be.

From these simulations come the weights of the novelty model, and intervals around the accuracy to expect: by how much
the accuracy that probabilities imply missed the true one.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..graph.operators import Operator
from . import novelty
from .known_classes import KnownClassModel
from .novelty import DEFAULT, Episode, Moments, NoveltyModel, class_features, node_features, propagated_mass

Progress = Callable[[str, float], None]  # told what is being done, and which part of all is done
Figures = dict[str, list[float]]  # right and known: one number each; precision and recall: one for each new class


# The accuracy to expect


@dataclass(frozen=True)
class Estimate:
    """A figure to expect and its 90 % interval; None where it is not defined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ClassExpectation:
    """Of a new class: the share of right ones among the nodes ``called`` so, the share of its ``members`` found."""

    precision: Estimate
    recall: Estimate
    called: int
    members: float


@dataclass(frozen=True)
class Expectation:
    """Of ``rows`` predictions: the share of ``right`` ones over all, and on nodes that are of a ``known`` class.

    ``simulations`` is how many simulations with novel classes the intervals come from; 0 means that nothing was
    measured.
    """

    rows: int
    right: Estimate
    known: Estimate
    classes: dict[str, ClassExpectation]
    simulations: int
    assumed: tuple[str, ...] = (
        "labels of known classes are missing at random",
        "new classes are as hard to tell as known classes that were simulated as novel",
        "nodes of no class shown are as rare as in the simulations",
        "the examples are typical of their class",
    )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Counts:
    """Sums over ``rows`` for each group ``[G]`` (known, each new class, other): nodes that are rightly called so, that
    are called so, and that are members. They can be expected values."""

    correct: Tensor
    called: Tensor
    members: Tensor
    rows: float

    @classmethod
    def expected(cls, best: Tensor, groups: Tensor, accepted: Tensor, weight: Tensor) -> "Counts":
        """What probabilities imply.

        ``groups [n, G]`` are those of the groups; ``best [n, G]`` the same with that of the best known class in the
        first column; rows that are not ``accepted [n]`` get no label and are not right; ``weight [n]`` counts them.
        """
        confidence, choice = best.max(1)
        called = accepted * weight
        return cls._of(choice, confidence * called, called, (groups * weight[:, None]).sum(0), weight)

    @classmethod
    def achieved(cls, best: Tensor, truth: Tensor, right: Tensor, weight: Tensor) -> "Counts":
        """What is true by the group ``truth [n]``, and by whether the best known class is ``right [n]``."""
        choice = best.argmax(1)
        correct = ((choice == truth) & (right | (truth > 0))) * weight
        return cls._of(choice, correct, weight, torch.bincount(truth, weight, minlength=best.shape[1]), weight)

    @classmethod
    def _of(cls, choice: Tensor, correct: Tensor, called: Tensor, members: Tensor, weight: Tensor) -> "Counts":
        correct, called = (torch.bincount(choice, part.double(), minlength=len(members)) for part in (correct, called))
        return cls(correct, called, members.double(), float(weight.double().sum()))

    def __add__(self, other: "Counts") -> "Counts":
        correct, called = self.correct + other.correct, self.called + other.called
        return Counts(correct, called, self.members + other.members, self.rows + other.rows)

    def figures(self) -> Figures:
        """Accuracy over all rows and on known nodes; precision (nan where a class is never called) and recall."""
        precision, recall = self.correct / self.called, self.correct / self.members
        return {
            "right": [float(self.correct.sum()) / self.rows],
            "known": [float(recall[0])],
            "precision": precision[1:-1].tolist(),
            "recall": recall[1:-1].tolist(),
        }


def differences(true: Figures, implied: Figures) -> Figures:
    """By how much the true figures are above the implied ones; undefined ones are left out."""
    found = {name: [a - b for a, b in zip(true[name], implied[name], strict=True)] for name in true}
    return {name: [gap for gap in part if not math.isnan(gap)] for name, part in found.items()}


def estimate(value: float, gaps: Sequence[float], counted: float) -> Estimate:
    """A figure with its 90 % interval: the ``gaps`` of simulations, and the sampling error of ``counted`` nodes."""
    if math.isnan(value):
        return Estimate(None, None, None)
    if len(gaps) < 5:  # too few to say anything
        return Estimate(value, 0.0, 1.0)
    low, high = torch.tensor(gaps).quantile(torch.tensor([0.05, 0.95])).tolist()
    sampling = 1.645 * (max(value * (1 - value), 0.0) / max(counted, 1.0)) ** 0.5
    below, above = math.hypot(min(low, 0.0), sampling), math.hypot(max(high, 0.0), sampling)
    return Estimate(value, max(value - below, 0.0), min(value + above, 1.0))


def expectation(names: Sequence[str], counts: Counts, gaps: Mapping[str, Sequence[float]], n: int) -> Expectation:
    """The accuracy to expect of rows with such ``counts``; ``n`` simulations missed the true figures by ``gaps``."""
    implied, members = counts.figures(), counts.members.tolist()
    called = [round(count) for count in counts.called.tolist()]

    def figure(name: str, at: int, counted: float) -> Estimate:
        return estimate(implied[name][at], gaps.get(name, ()), counted)

    classes = {
        name: ClassExpectation(
            figure("precision", i, called[i + 1]), figure("recall", i, members[i + 1]), called[i + 1], members[i + 1]
        )
        for i, name in enumerate(names)
    }
    rows = round(counts.rows)
    return Expectation(rows, figure("right", 0, rows), figure("known", 0, members[0]), classes, n)


# The simulations


@dataclass(frozen=True)
class Simulated:
    """What ``episodes`` with classes shown by ``shots`` examples teach, and by how much figures missed the truth."""

    shots: int
    novelty: NoveltyModel
    gaps: dict[str, list[float]]
    episodes: int


@dataclass(frozen=True)
class Simulation:
    """A sample of nodes ``[n]`` of the graph as it is when the classes ``hidden`` have no labels; ``x`` is centred."""

    number: int
    hidden: tuple[int, ...]
    x: Tensor
    y: Tensor
    nodes: Tensor
    weight: Tensor
    confidence: Tensor
    right: Tensor
    moments: Moments


def simulate(
    x: Tensor,
    edges: Operator,
    y: Tensor,
    model: KnownClassModel,
    unlabelled: float,
    progress: Progress,
    seed: int = 0,
    shots: Sequence[int] = (1, 3, 5, 10, 20),
) -> list[Simulated]:
    """Learn from simulated novel classes, for several numbers of examples; ``DEFAULT`` with fewer than three classes.

    ``unlabelled`` is the part of the nodes that has no label.
    """
    random = torch.Generator().manual_seed(seed)
    plans = _hidden_classes(y, random)
    simulations, found, without_other = [], list[Simulated](), list[Simulated]()
    for number, hidden in enumerate(plans):
        progress("simulating novel classes", number / (len(plans) + len(shots)))
        simulations.append(_simulation(number, x, edges, y, model, hidden, min(max(unlabelled, 0.1), 0.4), random))
    for number, shot in enumerate(shots):
        progress("simulating novel classes", (len(plans) + number) / (len(plans) + len(shots)))
        episodes = [one for simulation in simulations for one in _episodes(simulation, shot, random)]
        if episodes:
            one = Simulated(shot, novelty.learn(episodes), _gaps(episodes), len(episodes))
            with_other = any(bool((e.truth > e.n_new).any()) for e in episodes)
            (found if with_other else without_other).append(one)
    return _completed(found, without_other)


def _completed(found: list[Simulated], without_other: list[Simulated]) -> list[Simulated]:
    """Where no class was left to be simulated as other, its weights come from the nearest number of examples."""
    learned = found or [Simulated(3, DEFAULT, {}, 0)]
    for one in without_other:
        nearest = min(learned, key=lambda other: abs(other.shots - one.shots)).novelty
        shares = (*one.novelty.shares[:2], nearest.shares[2])
        found = [*found, replace(one, novelty=replace(one.novelty, other=nearest.other, shares=shares))]
    return sorted(found, key=lambda one: one.shots) or learned


def _shuffled(values: Tensor, random: torch.Generator) -> Tensor:
    return values[torch.randperm(len(values), generator=random).to(values.device)]


def _hidden_classes(y: Tensor, random: torch.Generator) -> list[list[int]]:
    """The classes hidden in each of at most three simulations: six, or half of all classes, of five nodes or more."""
    sizes = torch.bincount(y[y >= 0])
    usable = _shuffled((sizes > 4).nonzero().flatten().cpu(), random).tolist()
    n = min(3, max(1, len(usable) // 3))
    most = min(6, len(sizes) // 2)
    return [usable[i::n][:most] for i in range(n)] if len(sizes) >= 3 and most and usable else []


@torch.no_grad()
def _simulation(
    number: int,
    x: Tensor,
    edges: Operator,
    y: Tensor,
    model: KnownClassModel,
    hidden: list[int],
    part: float,
    random: torch.Generator,
) -> Simulation:
    """The known-class model and the features of nodes without the labels of the ``hidden`` classes, and without those
    of the given ``part`` of the other nodes."""
    away = torch.isin(y, torch.tensor(hidden, device=y.device))
    known = _shuffled(((y >= 0) & ~away).nonzero().flatten(), random)
    blanked = known[: max(1, round(part * len(known)))]
    left = torch.where(away, -1, y).index_fill(0, blanked, -1)
    columns = left[left >= 0].unique()
    position = torch.full((int(y.max()) + 2,), -1, device=y.device)  # the last entry is looked up by the unknown -1
    position[columns] = torch.arange(len(columns), device=y.device)
    left = position[left]
    moments, refitted = Moments.of(x, left), model.refit(x, left, columns, edges.space)
    if edges.space is not None:
        edges.space.release()
    nodes, weight = _sample(y, blanked, hidden, random)
    logits, alone = refitted.logits(x, edges, left, nodes)
    best = logits.log_softmax(1).max(1)
    masses = (propagated_mass(edges, given.float())[nodes] for given in (left >= 0, torch.ones_like(left)))
    rows = x[nodes].float()
    features = node_features(rows, moments, logits, alone, *masses)
    right = columns[best.indices] == y[nodes]
    z = rows - moments.mean
    return Simulation(number, tuple(hidden), z, y[nodes], features, weight, best.values.exp(), right, moments)


def _sample(y: Tensor, blanked: Tensor, hidden: list[int], random: torch.Generator) -> tuple[Tensor, Tensor]:
    """At most 3,000 nodes of known classes and 600 of each hidden one, and how many nodes each stands for."""
    parts = [(blanked, 3_000), *((_shuffled((y == c).nonzero().flatten(), random), 600) for c in hidden)]
    weights = [torch.full((min(len(nodes), most),), max(len(nodes) / most, 1.0)) for nodes, most in parts]
    return torch.cat([nodes[:most] for nodes, most in parts]), torch.cat(weights).to(y.device)


def _episodes(simulation: Simulation, shots: int, random: torch.Generator) -> Iterator[Episode]:
    """Three rounds over the hidden classes, two new ones at a time, every other time with a third one as "other"."""
    large = [c for c in simulation.hidden if int((simulation.y == c).sum()) >= shots + 4]
    for _ in range(3):
        left = [large[i] for i in torch.randperm(len(large), generator=random).tolist()]
        while left:
            n_other = int(len(left) >= 3 and float(torch.rand(1, generator=random)) < 0.5)
            new, other, left = left[:2], left[2 : 2 + n_other], left[2 + n_other :]
            if len(new) == 2 or len(large) == 1:
                yield _episode(simulation, new, other, shots, random)


def _episode(simulation: Simulation, new: list[int], other: list[int], shots: int, random: torch.Generator) -> Episode:
    y, moments = simulation.y, simulation.moments
    truth = torch.where(torch.isin(y, torch.tensor(simulation.hidden, device=y.device)), -1, 0)
    classes, examples = [], []
    for i, c in enumerate(new):
        members = _shuffled((y == c).nonzero().flatten(), random)
        truth[members] = i + 1
        examples.append(members[:shots])
        direction = moments.direction(simulation.x[members[:shots]] + moments.mean)
        classes.append(class_features(simulation.x @ direction.weights, simulation.nodes, direction))
    for c in other:
        truth[y == c] = len(new) + 1
    truth[torch.cat(examples)] = -1
    kept = truth >= 0
    per_node = simulation.nodes, simulation.weight, simulation.confidence, simulation.right
    nodes, weight, confidence, right = (part[kept] for part in per_node)
    classes_of = torch.stack(classes, 1)[kept]
    return Episode(nodes, classes_of, truth[kept], weight, confidence, right, simulation.number)


def _gaps(episodes: Sequence[Episode]) -> Figures:
    """By how much the figures of each episode missed the truth, with weights learned on the other simulations."""
    found: Figures = {"right": [], "known": [], "precision": [], "recall": []}
    for number in sorted({one.simulation for one in episodes}):
        others = [one for one in episodes if one.simulation != number]
        model = novelty.learn(others or episodes)
        for one in (one for one in episodes if one.simulation == number):
            for name, gaps in _gap(model, one).items():
                found[name] += gaps
    return found


def _gap(model: NoveltyModel, one: Episode) -> Figures:
    utilities, assumed = model.utilities(one.nodes, one.classes), model.assumed(one.n_new).to(one.nodes)
    shares = novelty.estimate_shares(utilities, assumed, weight=one.weight)
    groups = novelty.with_shares(utilities, assumed, shares)
    best = torch.cat([groups[:, :1] * one.confidence[:, None], groups[:, 1:]], 1)
    implied = Counts.expected(best, groups, torch.ones_like(one.weight), one.weight)
    return differences(Counts.achieved(best, one.truth, one.right, one.weight).figures(), implied.figures())
