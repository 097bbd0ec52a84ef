"""Simulated novel classes: known classes hidden among all other nodes, and what to expect of real new ones."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..graph.operators import Operator
from . import novelty as priors
from .known_classes import KnownHead
from .novelty import USUAL, Episode, Membership, Moments, class_facts, learn, masses_given, node_facts, spread_mass

# --- What is to be expected of predictions in the open: how many rows are right, and what each new class is worth.
ASSUMED = (
    "labels of known classes are missing at random",
    "new classes are as hard to tell as known classes were when they played new",
    "nodes of no class shown are as rare as they were then",
    "the examples are typical of their class",
)
EDGES = (0.05, 0.95)  # quantiles of what the rehearsals missed by
CHANCE = 1.645  # standard deviations that leave out as much on each side
ENOUGH = 5  # rehearsals without which an interval says nothing

Figures = dict[str, list[float]]  # right and known: one number each; precision and recall: one for each new class


@dataclass(frozen=True)
class Estimate:
    """A figure to be expected, and the interval that held it in nine of ten rehearsals; None where nothing is known."""

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

    ``rehearsals`` is how many times known classes played new to find the intervals; 0 means that nothing was measured.
    """

    rows: int
    right: Estimate
    known: Estimate
    classes: dict[str, ClassExpectation]
    rehearsals: int
    assumed: tuple[str, ...] = ASSUMED

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Tally:
    """Sums over rows from which the figures are made: so much of each group ``[G]`` was hit, called, and is there."""

    hit: Tensor
    call: Tensor
    sizes: Tensor
    right: Tensor
    rows: Tensor

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(a.double() + b.double() for a, b in zip(self._parts(), other._parts(), strict=True)))

    def _parts(self) -> tuple[Tensor, ...]:
        return self.hit, self.call, self.sizes, self.right, self.rows

    def figures(self) -> Figures:
        precision, recall = (self.hit / self.call), (self.hit / self.sizes)  # nan where a class is not called at all
        return {
            "right": [float(self.right / self.rows)],
            "known": [float(recall[0])],
            "precision": precision[1:-1].tolist(),
            "recall": recall[1:-1].tolist(),
        }


def tallied(best: Tensor, groups: Tensor, accepted: Tensor, weight: Tensor) -> Tally:
    """The sums of rows with these probabilities; see ``expected``."""
    confidence, choice = best.max(1)
    confidence = confidence * accepted * weight
    return _tally(confidence, choice, accepted * weight, (groups * weight[:, None]).sum(0), weight.sum())


def expected(best: Tensor, groups: Tensor, accepted: Tensor, weight: Tensor) -> Figures:
    """What probabilities say of themselves.

    ``groups [n, G]`` are those of known, of each new class and of other; ``best [n, G]`` the same with that of the best
    known class in the first column; rows that are not ``accepted [n]`` get no label and are not right.
    """
    return tallied(best, groups, accepted, weight).figures()


def achieved(best: Tensor, truth: Tensor, right: Tensor, weight: Tensor) -> Figures:
    """The same figures by the ``truth [n]`` (a group) and by whether the best known class is ``right [n]``."""
    choice = best.argmax(1)
    hit = ((choice == truth) & (right | (truth > 0))) * weight
    sizes = torch.bincount(truth, weight, minlength=best.shape[1])
    return _tally(hit, choice, weight, sizes, weight.sum()).figures()


def _tally(hits: Tensor, choice: Tensor, called: Tensor, sizes: Tensor, total: Tensor) -> Tally:
    hit, call = (torch.bincount(choice, part, minlength=len(sizes)) for part in (hits, called))
    return Tally(hit, call, sizes, hits.sum(), total)


def missed(true: Figures, told: Figures) -> Figures:
    """By how much the truth was above what was told; figures that do not exist are left out."""
    gaps = {name: [a - b for a, b in zip(true[name], told[name], strict=True)] for name in true}
    return {name: [gap for gap in part if gap == gap] for name, part in gaps.items()}


def estimated(value: float, gaps: Sequence[float], counted: float) -> Estimate:
    """A figure with its interval: what rehearsals missed it by, and the chance of a share of ``counted`` nodes."""
    if value != value:
        return Estimate(None, None, None)
    if len(gaps) < ENOUGH:
        return Estimate(value, 0.0, 1.0)
    low, high = torch.tensor(gaps).quantile(torch.tensor(EDGES)).tolist()
    chance = CHANCE * (max(value * (1 - value), 0.0) / max(counted, 1.0)) ** 0.5
    below, above = math.hypot(min(low, 0.0), chance), math.hypot(max(high, 0.0), chance)
    return Estimate(value, max(value - below, 0.0), min(value + above, 1.0))


def expectation(names: Sequence[str], tally: Tally, gaps: Mapping[str, Sequence[float]], n: int) -> Expectation:
    """What to expect of rows with such a ``tally``; ``n`` rehearsals missed it by ``gaps``."""
    told, members = tally.figures(), tally.sizes.tolist()
    called, rows = [round(count) for count in tally.call.tolist()], round(float(tally.rows))
    classes = {
        name: ClassExpectation(
            estimated(told["precision"][i], gaps.get("precision", ()), called[i + 1]),
            estimated(told["recall"][i], gaps.get("recall", ()), members[i + 1]),
            called[i + 1],
            members[i + 1],
        )
        for i, name in enumerate(names)
    }
    right = estimated(told["right"][0], gaps.get("right", ()), rows)
    known = estimated(told["known"][0], gaps.get("known", ()), members[0])
    return Expectation(rows, right, known, classes, n)


# --- Known classes play new: hidden among all other nodes at their true frequency, shown by a few examples.
SHOTS = (1, 3, 5, 10, 20)
WORLDS, PER_WORLD, ROUNDS = 3, 6, 3
BLANKED = (0.1, 0.4)  # least and largest part of the known nodes that loses its labels in a world
QUERIES = 4  # members that a class which plays new must have beyond its examples
KNOWN_NODES, MEMBERS = 3_000, 600  # nodes of a world: of known classes, and of each class that plays new
WITH_OTHER = 0.5  # part of the episodes in which a class is there that nobody shows

Progress = Callable[[str, float], None]  # told what is being done, and which part of all is done


@dataclass(frozen=True)
class World:
    """Some nodes ``[n]`` of a graph on which the classes ``hidden`` were never labelled."""

    hidden: tuple[int, ...]
    x: Tensor
    y: Tensor
    facts: Tensor
    weight: Tensor
    confidence: Tensor
    right: Tensor
    moments: Moments


@dataclass(frozen=True)
class Rehearsed:
    """What ``episodes`` with classes shown by ``shots`` examples taught, and what the figures missed the truth by."""

    shots: int
    membership: Membership
    gaps: dict[str, list[float]]
    episodes: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def rehearse(
    x: Tensor, edges: Operator, y: Tensor, head: KnownHead, unlabelled: float, progress: Progress, seed: int = 0
) -> list[Rehearsed]:
    """What classes that play new teach, for several numbers of examples; with fewer than three classes, what is usual.

    ``unlabelled`` is the part of the nodes that has no label.
    """
    random = torch.Generator().manual_seed(seed)
    worlds = []
    plans = _hidden_classes(y, random)
    for number, hidden in enumerate(plans):
        progress("known classes play new", number / (len(plans) + len(SHOTS)))
        worlds.append(_world(x, edges, y, head, hidden, min(max(unlabelled, BLANKED[0]), BLANKED[1]), random))
    found: list[Rehearsed] = []
    without_other: list[Rehearsed] = []
    for number, shots in enumerate(SHOTS):
        progress("known classes play new", (len(plans) + number) / (len(plans) + len(SHOTS)))
        episodes = [one for at, world in enumerate(worlds) for one in _episodes(world, at, shots, random)]
        if episodes:
            gaps = _gaps(episodes)
            one = Rehearsed(shots, learn(episodes), gaps, len(episodes))
            (found if any(bool((e.truth > e.n_new).any()) for e in episodes) else without_other).append(one)
    return _completed(found, without_other)


def _completed(found: list[Rehearsed], without_other: list[Rehearsed]) -> list[Rehearsed]:
    """Where no class was left over to play other, how to tell it is taken from the nearest number of examples."""
    taught = found or [Rehearsed(3, USUAL, {}, 0)]
    for one in without_other:
        nearest = min(taught, key=lambda other: abs(other.shots - one.shots)).membership
        known, new, _ = one.membership.shares
        shares = (known, new, nearest.shares[2])
        found.append(replace(one, membership=replace(one.membership, other=nearest.other, shares=shares)))
    return sorted(found, key=lambda one: one.shots) or taught


def _shuffled(values: Tensor, random: torch.Generator) -> Tensor:
    return values[torch.randperm(len(values), generator=random).to(values.device)]


def _hidden_classes(y: Tensor, random: torch.Generator) -> list[list[int]]:
    """The classes hidden in each world: large enough to be shown and found, at most half of all classes at a time."""
    sizes = torch.bincount(y[y >= 0])
    fit = _shuffled((sizes > QUERIES).nonzero().flatten().cpu(), random).tolist()
    n_worlds = min(WORLDS, max(1, len(fit) // 3))
    most = min(PER_WORLD, len(sizes) // 2)
    return [fit[i::n_worlds][:most] for i in range(n_worlds)] if len(sizes) >= 3 and most and fit else []


@torch.no_grad()
def _world(
    x: Tensor, edges: Operator, y: Tensor, head: KnownHead, hidden: list[int], part: float, random: torch.Generator
) -> World:
    away = torch.isin(y, torch.tensor(hidden, device=y.device))
    known = _shuffled(((y >= 0) & ~away).nonzero().flatten(), random)
    blanked = known[: max(1, round(part * len(known)))]
    left = torch.where(away, -1, y)
    left[blanked] = -1
    columns = left[left >= 0].unique()
    number = torch.full((int(y.max()) + 2,), -1, device=y.device)  # the last entry is looked up by the unknown class -1
    number[columns] = torch.arange(len(columns), device=y.device)
    left = number[left]
    moments, fitted = Moments.of(x, left), head.refit(x, left, columns)
    if edges.space is not None:
        edges.space.release()
    nodes, weight = _sample(y, blanked, hidden, random)
    logits, alone = fitted.logits_of(nodes, x, edges, left)
    best = logits.log_softmax(1).max(1)
    masses = (spread_mass(edges, given)[nodes] for given in masses_given(left))
    own = x[nodes].float()
    facts = node_facts(own, moments, logits, alone, *masses)
    right = columns[best.indices] == y[nodes]
    return World(tuple(hidden), own - moments.mean, y[nodes], facts, weight, best.values.exp(), right, moments)


def _sample(y: Tensor, blanked: Tensor, hidden: list[int], random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Nodes of a world, and how many each stands for."""
    parts = [(blanked, KNOWN_NODES), *((_shuffled((y == c).nonzero().flatten(), random), MEMBERS) for c in hidden)]
    weights = [torch.full((min(len(all_), most),), max(len(all_) / most, 1.0)) for all_, most in parts]
    return torch.cat([all_[:most] for all_, most in parts]), torch.cat(weights).to(y.device)


def _episodes(world: World, number: int, shots: int, random: torch.Generator) -> Iterator[Episode]:
    """Episodes of a world: its classes in turn, two at a time, every other time with a third one that nobody shows."""
    large = [c for c in world.hidden if int((world.y == c).sum()) >= shots + QUERIES]
    for _ in range(ROUNDS):
        left = [large[i] for i in torch.randperm(len(large), generator=random).tolist()]
        while left:
            unseen = len(left) >= 3 and float(torch.rand(1, generator=random)) < WITH_OTHER
            new, other, left = left[:2], left[2:3] if unseen else [], left[3:] if unseen else left[2:]
            if len(new) == 2 or len(large) == 1:
                yield _episode(world, number, new, other, shots, random)


def _episode(
    world: World, number: int, new: list[int], other: list[int], shots: int, random: torch.Generator
) -> Episode:
    truth = torch.where(torch.isin(world.y, torch.tensor(world.hidden, device=world.y.device)), -1, 0)
    facts, examples = [], []
    for i, c in enumerate(new):
        members = _shuffled((world.y == c).nonzero().flatten(), random)
        truth[members] = i + 1
        examples.append(members[:shots])
        direction = world.moments.direction(world.x[members[:shots]] + world.moments.mean)
        facts.append(class_facts(world.x @ direction.weights, world.facts, direction))
    for c in other:
        truth[world.y == c] = len(new) + 1
    truth[torch.cat(examples)] = -1
    kept = truth >= 0
    return Episode(
        world.facts[kept],
        torch.stack(facts, 1)[kept],
        truth[kept],
        world.weight[kept],
        world.confidence[kept],
        world.right[kept],
        number,
    )


def _gaps(episodes: Sequence[Episode]) -> dict[str, list[float]]:
    """What each episode's figures missed the truth by, its world being unknown to the weights, if there are others."""
    found: dict[str, list[float]] = {"right": [], "known": [], "precision": [], "recall": []}
    for number in sorted({one.world for one in episodes}):
        others = [one for one in episodes if one.world != number]
        membership = learn(others or episodes)
        for one in (one for one in episodes if one.world == number):
            for name, gaps in _missed(membership, one).items():
                found[name] += gaps
    return found


def _missed(membership: Membership, one: Episode) -> Figures:
    utilities, assumed = membership.utilities(one.facts, one.classes), membership.assumed(one.n_new)
    shares = priors.estimate(utilities, assumed, weight=one.weight)
    groups = priors.with_shares(utilities, assumed.to(utilities), shares)
    best = torch.cat([groups[:, :1] * one.confidence[:, None], groups[:, 1:]], 1)
    told = expected(best, groups, torch.ones_like(one.weight), one.weight)
    return missed(achieved(best, one.truth, one.right, one.weight), told)
