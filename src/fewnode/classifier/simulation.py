"""Simulated novel classes: known classes are hidden and then shown by a few examples, like new classes.

The simulations give the weights of the novelty model. They also give intervals around the expected accuracy: the
difference between the accuracy that probabilities imply and the true one.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..store import Result, in_threads
from ..training.progress import Progress
from . import novelty
from .known_classes import KnownClassModel, NodeInputs, minimise, shuffled
from .novelty import DEFAULT, N_NODE, Clusters, Moments, NoveltyModel, Priors

# right, known and other (F1): one number each; precision and recall: one for each new class; band 0..9: share of right
# rows among those whose class has a probability in this tenth
Figures = dict[str, list[float]]


# The accuracy to expect


@dataclass(frozen=True)
class Estimate:
    """An expected value and its 90 % interval; None if it is not defined."""

    value: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        shares = [part for part in (self.value, self.low, self.high) if part is not None]
        value, *ends = (f"{100 * part:.0f}" for part in shares or [0.0])
        return f"{value} % ({' to '.join(ends)})" if shares else "not known"


@dataclass(frozen=True)
class ClassExpectation:
    """The expectation for a new class: the precision of the nodes ``called`` so, and the recall of its ``members``."""

    precision: Estimate
    recall: Estimate
    called: int
    members: float


@dataclass(frozen=True, repr=False)
class Expectation:
    """The expectation for ``rows`` predictions: the share of ``right`` ones among all, and among nodes of a ``known``
    class.

    ``simulations`` is the number of simulations with novel classes on which the intervals are based; 0 means that
    nothing was measured.
    """

    rows: int
    right: Estimate
    known: Estimate
    classes: dict[str, ClassExpectation]
    simulations: int
    assumed: tuple[str, ...] = (
        "labels of known classes are missing at random",
        "new classes are as hard to tell as known classes that were simulated as novel",
        "the examples are typical of their class",
    )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __repr__(self) -> str:
        lines = [f"Of {self.rows:,} rows {self.right} are expected to be right; of nodes of known classes {self.known}"]
        for name, one in self.classes.items():
            lines.append(f"  {name}: {one.called:,} nodes, precision {one.precision}, recall {one.recall}")
        return "\n".join([*lines, f"In brackets: 90 % of {self.simulations} simulations"])


@dataclass(frozen=True)
class Counts:
    """Sums over ``rows`` for each group ``[G]`` (known, each new class, other).

    They count the nodes that are correctly predicted as the group, the nodes that are predicted as the group, and its
    members. They can be expected values.
    """

    correct: Tensor
    called: Tensor
    members: Tensor
    rows: float

    @classmethod
    def expected(cls, best: Tensor, groups: Tensor, accepted: Tensor, weight: Tensor) -> "Counts":
        """The counts that probabilities imply.

        ``groups [n, G]`` are the probabilities of the groups; ``best [n, G]`` the same with that of the best known
        class in the first column. Rows that are not ``accepted [n]`` get no label and are not correct. ``weight [n]``
        is their weight.
        """
        confidence, choice = best.max(1)
        called = accepted * weight
        return cls._of(choice, confidence * called, called, (groups * weight[:, None]).sum(0), weight)

    @classmethod
    def achieved(cls, best: Tensor, truth: Tensor, right: Tensor, weight: Tensor) -> "Counts":
        """The true counts, by the group ``truth [n]`` and by whether the best known class is ``right [n]``."""
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
        """Accuracy over all rows and on known nodes; precision (nan if a class is never predicted) and recall."""
        precision, recall = self.correct / self.called, self.correct / self.members
        return {
            "right": [float(self.correct.sum()) / self.rows],
            "known": [float(recall[0])],
            "precision": precision[1:-1].tolist(),
            "recall": recall[1:-1].tolist(),
            "other": [float(2 * self.correct[-1] / (self.called + self.members)[-1]) if self.members[-1] else math.nan],
        }


def collapsed(joint: Tensor, n_known: int) -> tuple[Tensor, Tensor]:
    """Of probabilities ``[n, known classes, then the other groups]``: those with the best known class in the first
    column ``[n, G]``, and those with the sum of all of them there."""
    known, rest = joint[:, :n_known], joint[:, n_known:]
    best = known.max(1, keepdim=True).values if n_known else torch.zeros_like(rest[:, :1])
    return torch.cat([best, rest], 1), torch.cat([known.sum(1, keepdim=True), rest], 1)


def differences(true: Figures, implied: Figures) -> Figures:
    """The true figures minus the implied ones; undefined ones are left out."""
    found = {name: [a - b for a, b in zip(true[name], implied[name], strict=True)] for name in true}
    return {name: [gap for gap in part if not math.isnan(gap)] for name, part in found.items()}


def estimate(value: float, gaps: Sequence[float], counted: float) -> Estimate:
    """A figure with its 90 % interval.

    It is computed from the implied ``value``, the ``gaps`` between implied and true figures in simulations, and the
    sampling error of ``counted`` nodes. The figure is moved by the median gap, and the interval holds nine of ten gaps.
    With few gaps it is wider, as in conformal prediction.
    """
    if math.isnan(value):
        return Estimate(None, None, None)
    if len(gaps) < 5:  # too few to say anything
        return Estimate(value, 0.0, 1.0)
    margin = max(0.05 - 0.5 / (len(gaps) + 1), 0.0)
    low, middle, high = torch.tensor(gaps).quantile(torch.tensor([margin, 0.5, 1 - margin])).tolist()
    centre = min(max(value + middle, 0.0), 1.0)
    sampling = 1.645 * (max(centre * (1 - centre), 0.0) / max(counted, 1.0)) ** 0.5
    below, above = math.hypot(middle - low, sampling), math.hypot(high - middle, sampling)
    return Estimate(centre, max(centre - below, 0.0), min(centre + above, 1.0))


def expectation(names: Sequence[str], counts: Counts, gaps: Mapping[str, Sequence[float]]) -> Expectation:
    """The expected accuracy of rows with such ``counts``, given the ``gaps`` to the true figures in simulations."""
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
    rows, right = round(counts.rows), gaps.get("right", ())
    return Expectation(rows, figure("right", 0, rows), figure("known", 0, members[0]), classes, len(right))


# The simulations


@dataclass(frozen=True)
class Simulated:
    """The results of ``episodes`` in which classes are shown by ``shots`` examples: the ``truth`` of their figures, and
    the differences to the implied ones."""

    shots: int
    novelty: NoveltyModel
    gaps: Figures
    truth: Figures
    episodes: int
    described: bool = False  # also by their names, or by these alone if there are no examples


@dataclass(frozen=True)
class Simulation:
    """A sample of nodes ``[n]`` of the graph when the classes ``hidden`` have no labels.

    They have coordinates ``x``, classes ``y`` and the features ``nodes``. ``weight`` is the number of nodes that each
    stands for (none for known nodes that are held out). ``known [n, C]`` are the probabilities of the known classes, of
    which ``labelled [C]`` nodes have labels; ``position [n]`` is the true one.
    """

    hidden: tuple[int, ...]
    x: Tensor
    y: Tensor
    nodes: Tensor
    weight: Tensor
    known: Tensor
    position: Tensor
    labelled: Tensor
    moments: Moments


@dataclass(frozen=True)
class Episode:
    """Simulated novel classes in a ``simulation``, with the features ``classes [n, n_new, 4 D]`` of its nodes.

    ``truth`` of the nodes ``at`` is 0 for known, 1.. for the new classes, ``n_new + 1`` for other. ``examples`` of each
    new class are coordinates, node features, and class features, each left out in turn.
    """

    simulation: Simulation
    at: Tensor
    classes: Tensor
    truth: Tensor
    examples: list[tuple[Tensor, Tensor, Tensor]]
    clusters: Clusters | None = None

    @property
    def n_new(self) -> int:
        return self.classes.shape[1]

    @property
    def weight(self) -> Tensor:
        return self.simulation.weight[self.at]

    @property
    def has_other(self) -> bool:
        return bool((self.truth > self.n_new).any())

    def utilities(self, model: NoveltyModel, at: Tensor) -> Tensor:
        """Log odds ``[n, G]`` of some nodes, without clusters."""
        return model.utilities(self.simulation.nodes[at], self.classes[at])

    def decided(self, model: NoveltyModel) -> tuple[Tensor, Priors]:
        """Log odds of the groups and their priors, as in a task."""
        whole, utilities, weight = self.simulation, self.utilities(model, self.at), self.weight
        pool = utilities[weight.cpu().multinomial(len(weight), True, generator=torch.Generator().manual_seed(0))]
        held = self.utilities(model, whole.weight == 0)
        share = novelty.known_share(held[:, 1:].logsumexp(1), pool[:, 1:].logsumexp(1))
        utilities = model.with_clusters(utilities, self.clusters, whole.x[self.at], whole.nodes[self.at])
        left_out = [model.margins(*part, self.clusters) for part in self.examples]
        given = whole.known[self.at], whole.labelled, share
        return utilities, Priors.estimate(utilities, *given, weight=weight, left_out=left_out)

    def clustered(self, model: NoveltyModel) -> "Episode":
        """The episode with the clusters that nobody has named."""
        utilities, priors = self.decided(model)
        groups = (utilities + priors.offsets).softmax(1).float()
        x, moments = self.simulation.x[self.at], self.simulation.moments
        return replace(self, clusters=Clusters.find(x, utilities, groups, moments))


def simulate(
    inputs: NodeInputs,
    y: Tensor,
    model: KnownClassModel,
    unlabelled: float,
    progress: Progress,
    seed: int = 0,
    shots: Sequence[int] = (1, 3, 5, 10, 20),
    names: Tensor | None = None,
) -> list[Simulated]:
    """Learn from simulated novel classes, for several numbers of examples; ``DEFAULT`` with fewer than three classes.

    ``unlabelled`` is the part of the nodes that has no label. ``names [C, d]`` are the coordinates of the classes'
    names: the classes are also simulated with these for a description, beside examples or without.
    """
    random = torch.Generator().manual_seed(seed)
    part = min(max(unlabelled, 0.1), 0.4)
    plans = [_plan(inputs, y, hidden, part, random) for hidden in _hidden_classes(y, inputs.ranks, random)]
    ways = [(shot, None) for shot in shots] + [(shot, names) for shot in (0, *shots[:-2]) if names is not None]
    done, total = count(), len(plans) + len(ways)

    def told(results: Iterator[Result]) -> Iterator[Result]:
        for number, result in zip(done, results, strict=False):
            progress("simulating novel classes", number / total)
            yield result

    simulations = list(told(in_threads(partial(_simulation, inputs, y, model), plans, inputs.edges.space)))
    episodes = [[one for it in simulations for one in _episodes(it, shot, random, name)] for shot, name in ways]
    found = told(in_threads(_learned, zip(ways, episodes, strict=True), inputs.edges.space))
    simulated = [one for one in found if one.episodes]
    return [_with_gaps_enough(one, simulated) for one in simulated] or [Simulated(3, DEFAULT, {}, {}, 0)]


def _learned(way: tuple[tuple[int, Tensor | None], list[Episode]]) -> Simulated:
    """What the episodes of a number of examples teach."""
    ((shots, names), episodes), model, gaps = way, DEFAULT, (Figures(), Figures())
    if episodes:
        model = learn(episodes)
        if names is None:
            episodes = [one.clustered(model) for one in episodes]
        model, gaps = learn_clusters(model, episodes), _gaps(episodes)
    return Simulated(shots, model, *gaps, len(episodes), names is not None)


def _with_gaps_enough(one: Simulated, simulated: Sequence[Simulated]) -> Simulated:
    """With gaps for an interval that holds nine of ten: where classes are few, those of all numbers of examples."""
    if one.episodes >= 19:  # fewer cannot tell both ends
        return one
    alike = [other for other in simulated if other.described == one.described]
    return replace(one, gaps={name: [gap for other in alike for gap in other.gaps.get(name, ())] for name in one.gaps})


def _hidden_classes(y: Tensor, ranks: Tensor, random: torch.Generator) -> list[list[int]]:
    """The classes hidden in each of at most three simulations: six, or half of all classes, of five nodes or more; one
    of the largest in each, as the decision is hardest for a large class."""
    sizes = torch.bincount(y[y >= 0])
    first = torch.full_like(sizes, len(y)).scatter_reduce_(0, y[y >= 0], ranks[y >= 0], "amin")
    usable = shuffled((sizes > 4).nonzero().flatten(), random, first).tolist()
    largest = sorted(usable, key=lambda c: -int(sizes[c]))[: len(usable) // 3]
    usable = largest[:3] + [c for c in usable if c not in largest[:3]]
    n = min(3, max(1, len(usable) // 3))
    most = min(6, len(sizes) // 2)
    return [usable[i::n][:most] for i in range(n)] if len(sizes) >= 3 and most and usable else []


class Plan(NamedTuple):
    """What is drawn for a simulation: the labels that are ``left [N]``, some of the ``nodes`` without one, how many
    nodes each stands for, and known nodes that are ``held`` out."""

    hidden: list[int]
    left: Tensor
    nodes: Tensor
    weight: Tensor
    held: Tensor


def _plan(inputs: NodeInputs, y: Tensor, hidden: list[int], part: float, random: torch.Generator) -> Plan:
    """Hide some classes, blank the given ``part`` of the other labels and hold out a tenth of these; at most 3,000
    nodes of known classes and 600 of each hidden one are looked at."""
    left = torch.where(torch.isin(y, torch.tensor(hidden, device=y.device)), -1, y)
    known = inputs.shuffled((left >= 0).nonzero().flatten(), random)
    n_blanked = max(1, round(part * len(known)))
    blanked, held = known[:n_blanked], known[n_blanked:][: min(max(1, len(known) // 10), 1_500)]
    pools = [(blanked, 3_000), *((inputs.shuffled((y == c).nonzero().flatten(), random), 600) for c in hidden)]
    weights = [torch.full((min(len(nodes), most),), max(len(nodes) / most, 1.0)) for nodes, most in pools]
    nodes = torch.cat([nodes[:most] for nodes, most in pools])
    left = left.index_fill(0, torch.cat([blanked, held]), -1)
    return Plan(hidden, left, nodes, torch.cat(weights).to(y.device), held)


@torch.no_grad()
def _simulation(inputs: NodeInputs, y: Tensor, model: KnownClassModel, plan: Plan) -> Simulation:
    """The known-class model and the features of nodes without the labels that the ``plan`` takes away."""
    hidden, left, nodes, weight, held = plan
    columns = left[left >= 0].unique()
    position = torch.full((int(y.max()) + 2,), -1, device=y.device)  # the last entry is looked up by the unknown -1
    position[columns] = torch.arange(len(columns), device=y.device)
    left = position[left]
    nodes, weight = torch.cat([nodes, held]), torch.cat([weight, torch.zeros(len(held)).to(weight)])
    x, features, logits, moments = novelty.seen_without(inputs, left, model.refit(inputs, left), nodes)
    sample = x, y[nodes], features, weight, logits.softmax(1), position[y[nodes]]
    labelled = torch.bincount(left[left >= 0], minlength=len(columns)).float()
    return Simulation(tuple(hidden), *sample, labelled, moments)


def _episodes(
    simulation: Simulation, shots: int, random: torch.Generator, names: Tensor | None = None
) -> Iterator[Episode]:
    """Three rounds over the hidden classes, two new ones at a time, every other time with the largest one that is left
    as "other"; in one round the examples of a class are alike, from one corner of it."""
    sizes = torch.bincount(simulation.y.clamp(min=0), simulation.weight)
    large = [c for c in simulation.hidden if int((simulation.y == c).sum()) >= shots + 4]
    for number in range(3):
        left = [large[i] for i in torch.randperm(len(large), generator=random).tolist()]
        while left:
            other = list[int]()
            if len(left) >= 3 and float(torch.rand(1, generator=random)) < 0.5:
                other = [max(left, key=lambda c: float(sizes[c]))]
                left.remove(other[0])
            new, left = left[:2], left[2:]
            if len(new) == 2 or len(large) == 1:
                yield _episode(simulation, new, other, shots, number == 2, random, names)


def _episode(
    simulation: Simulation,
    new: list[int],
    other: list[int],
    shots: int,
    corner: bool,
    random: torch.Generator,
    names: Tensor | None,
) -> Episode:
    x, y, nodes, moments = simulation.x, simulation.y, simulation.nodes, simulation.moments
    truth = torch.where(torch.isin(y, torch.tensor(simulation.hidden, device=y.device)), -1, 0)
    classes, examples = list[Tensor](), list[tuple[Tensor, Tensor, Tensor]]()
    for i, c in enumerate(new):
        members = shuffled((y == c).nonzero().flatten(), random)
        truth[members] = i + 1
        if corner:
            near = (x[members] - x[members[0]]).norm(dim=1).argsort()
            members = shuffled(members[near[: max(shots, len(members) // 6)]], random)
        shown, description = members[:shots], None if names is None else names[c]
        truth[shown] = -1
        directions = moments.directions(x[shown], description)
        weights = torch.cat([direction.weights for direction in directions], 1)
        classes.append(novelty.class_features((x - moments.mean) @ weights, nodes, directions))
        left_out = novelty.left_out_features(x[shown], nodes[shown], moments, description)
        examples.append((x[shown], nodes[shown], left_out))
    for c in other:
        truth[y == c] = len(new) + 1
    at = ((truth >= 0) & (simulation.weight > 0)).nonzero().flatten()
    return Episode(simulation, at, torch.stack(classes, 1), truth[at], examples)


def learn(episodes: Sequence[Episode], penalty: float = 10.0) -> NoveltyModel:
    """The weights of largest likelihood over all episodes, each of which counts the same.

    ``penalty`` is that of the squared weights of standardised features; an episode counts as 300 nodes beside it. Where
    no class was left to be simulated as other, its weights are those of ``DEFAULT``.
    """
    n_new, truth, weight = _targets(episodes)
    nodes = torch.cat([one.simulation.nodes[one.at, :N_NODE] for one in episodes])
    classes = torch.cat([F.pad(one.classes[one.at], (0, 0, 0, n_new - one.n_new)) for one in episodes])
    n_own = torch.cat([torch.full_like(one.truth, one.n_new) for one in episodes])
    absent = torch.arange(n_new, device=n_own.device) >= n_own[:, None]
    out_of_choice = F.pad(absent, (1, 1))
    (node_std, node_mean), (class_std, class_mean) = (torch.std_mean(part, dim=0) for part in (nodes, classes[~absent]))
    node_std, class_std = node_std.clamp(min=1e-4), class_std.clamp(min=1e-4)
    nodes, classes = (nodes - node_mean) / node_std, (classes - class_mean) / class_std
    width = N_NODE + classes.shape[2]
    start = nodes.new_zeros(width + N_NODE + 2)
    bias = torch.zeros_like(start, dtype=torch.bool)
    bias[[width, -1]] = True
    start[bias] = -2.0

    def backward(p: Tensor) -> float:
        logits = novelty.utilities(nodes, classes, *p.split([width + 1, N_NODE + 1]))
        loss = (F.cross_entropy(logits.masked_fill(out_of_choice, -1e4), truth, reduction="none") * weight).sum()
        loss = loss + penalty / (600 * len(episodes)) * p[~bias].square().sum()
        loss.backward()
        return float(loss.detach())

    new, other = (part.clone() for part in minimise(start, backward, steps=50).split([width + 1, N_NODE + 1]))
    new[:-1] /= torch.cat([node_std, class_std])
    new[-1] -= new[:-1] @ torch.cat([node_mean, class_mean])
    other[:-1] /= node_std
    other[-1] -= other[:-1] @ node_mean
    seen = any(one.has_other for one in episodes)
    return NoveltyModel(tuple(new.tolist()), tuple(other.tolist()) if seen else DEFAULT.other)


def learn_clusters(model: NoveltyModel, episodes: Sequence[Episode], penalty: float = 10.0) -> NoveltyModel:
    """The model with the weights of clusters of largest likelihood, while its others stay."""
    episodes = [one for one in episodes if one.clusters is not None]
    if not any(one.has_other for one in episodes):
        return model
    n_new, truth, weight = _targets(episodes)
    rows, scores = list[Tensor](), list[Tensor]()
    for one in episodes:
        assert one.clusters is not None
        u, whole = one.utilities(model, one.at), one.simulation
        rows.append(torch.cat([F.pad(u[:, :-1], (0, n_new - one.n_new), value=-1e4), u[:, -1:]], 1))
        scores.append(torch.stack(one.clusters.scores(model, whole.x[one.at], whole.nodes[one.at]), 1))
    utilities, both = torch.cat(rows), torch.cat(scores)
    start = both.new_tensor([1.0, 0.0, 0.0])

    def backward(p: Tensor) -> float:
        other = torch.logaddexp(utilities[:, -1], both @ p[:2] + p[2])
        loss = F.cross_entropy(torch.cat([utilities[:, :-1], other[:, None]], 1), truth, reduction="none") @ weight
        loss = loss + penalty / (600 * len(episodes)) * (p - start).square().sum()
        loss.backward()
        return float(loss.detach())

    return replace(model, unnamed=tuple(minimise(start, backward, steps=20).tolist()))


def _targets(episodes: Sequence[Episode]) -> tuple[int, Tensor, Tensor]:
    """The most new classes of an episode, the true column and the weight of each node; weights sum to one."""
    n_new = max(one.n_new for one in episodes)
    truth = torch.cat([torch.where(one.truth > one.n_new, n_new + 1, one.truth) for one in episodes])
    return n_new, truth, torch.cat([one.weight / one.weight.sum() for one in episodes]) / len(episodes)


def _gaps(episodes: Sequence[Episode]) -> tuple[Figures, Figures]:
    """By how much the figures of each episode missed the truth, with weights learned on the other simulations; and the
    truth."""
    found, truth = Figures(), Figures()
    for simulation in {id(one.simulation): one.simulation for one in episodes}.values():
        others = [one for one in episodes if one.simulation is not simulation] or episodes
        model = learn_clusters(learn(others), others)
        for one in (one for one in episodes if one.simulation is simulation):
            true, implied = _figures(model, one)
            for name, gaps in differences(true, implied).items():
                found.setdefault(name, []).extend(gaps)
                truth.setdefault(name, []).extend(value for value in true[name] if not math.isnan(value))
    return found, truth


def _figures(model: NoveltyModel, one: Episode) -> tuple[Figures, Figures]:
    """The true figures of an episode, and those that probabilities imply."""
    (utilities, priors), known, weight = one.decided(model), one.simulation.known[one.at], one.weight
    joint = priors.probabilities(utilities, known)
    best, groups = collapsed(joint, known.shape[1])
    implied = Counts.expected(best, groups, torch.ones_like(weight), weight)
    right = joint[:, : known.shape[1]].argmax(1) == one.simulation.position[one.at]
    true, (sure, choice) = Counts.achieved(best, one.truth, right, weight).figures(), best.max(1)
    hit = (choice == one.truth) & (right | (choice > 0))
    by_band = (band_means(part.double(), sure, weight) for part in (hit, sure))
    bands, told = ({f"band {i}": [mean] for i, mean in enumerate(means.tolist())} for means in by_band)
    return true | bands, implied.figures() | told


def band_means(values: Tensor, probability: Tensor, weight: Tensor, least: int = 20) -> Tensor:
    """Means of ``values [n]`` over rows with a ``probability`` in each tenth, ``[10]``; nan where fewer than ``least``
    rows are."""
    band = (probability * 10).long().clamp(0, 9)
    rows, total = (torch.bincount(band, part.double(), minlength=10) for part in (weight, values * weight))
    return torch.where(torch.bincount(band, minlength=10) >= least, total / rows, torch.nan)
