"""Known classes play new: hidden among all other nodes at their true frequency, shown by a few examples.

In a *world* a few known classes lose all their labels, and some nodes of the others lose theirs; the head is fitted
again on what is left. In an *episode* two classes of a world are shown by examples, and perhaps a third one is there
without anybody saying so. What tells new from known is learned from such episodes, and so is how far the figures
printed with a prediction may be off.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...graph.operators import Operator
from . import expectation, priors
from .known_head import KnownHead
from .membership import USUAL, Episode, Membership, class_facts, learn, masses_given, node_facts, spread_mass
from .moments import Moments

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


def _missed(membership: Membership, one: Episode) -> expectation.Figures:
    utilities, assumed = membership.utilities(one.facts, one.classes), membership.assumed(one.n_new)
    shares = priors.estimate(utilities, assumed, weight=one.weight)
    groups = priors.with_shares(utilities, assumed.to(utilities), shares)
    best = torch.cat([groups[:, :1] * one.confidence[:, None], groups[:, 1:]], 1)
    told = expectation.expected(best, groups, torch.ones_like(one.weight), one.weight)
    return expectation.missed(expectation.achieved(best, one.truth, one.right, one.weight), told)
