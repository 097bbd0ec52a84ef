"""Known, one of the new classes, or none of these: a softmax over a few features of a node and each new class."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from ..graph.operators import Operator, ppr_smooth
from ..nn.optimizers import LBFGS
from ..store import Space, by_rows
from .known_classes import SPREADS

# --- Second moments of the labelled nodes, inverted once, so that a new class is one matrix-vector product.
SAMPLE = 50_000  # labelled nodes the moments are taken from
LEAST = 50  # with fewer labelled nodes, all nodes stand in for them: hardly any is of a class that is new
RIDGE_TOTAL, RIDGE_WITHIN = 3.0, 1.0  # in mean variances; of 0.1, 0.3, 1 and 3 the best on the development draws
TINY = 1e-9


@dataclass(frozen=True)
class Direction:
    """A new class as its examples show it: where they lie, and the directions that tell them from labelled nodes.

    ``weights [d, 2]`` are the ridge directions under the total covariance and under that within classes;
    ``spread`` is the standard deviation of labelled nodes along the first, ``reach`` how far out the examples lie
    in these units; ``length`` is the squared length of their mean under the second metric.
    """

    weights: Tensor
    spread: float
    reach: float
    length: float


@dataclass(frozen=True)
class Moments:
    """Mean and covariances of labelled nodes, with the inverses (plus a ridge) and the known classes' discriminants."""

    mean: Tensor
    total: Tensor
    inverse_total: Tensor
    inverse_within: Tensor
    discriminants: Tensor  # [d + 1, C]: the linear discriminant functions of the known classes, the bias last

    @classmethod
    @torch.no_grad()
    def of(cls, x: Tensor, y: Tensor, seed: int = 0) -> "Moments":
        """Of the nodes with ``y [N] >= 0``; of all nodes where few have a label."""
        random = torch.Generator().manual_seed(seed)
        labelled = (y >= 0).nonzero().flatten()
        labelled = labelled[torch.randperm(len(labelled), generator=random)[:SAMPLE].to(x.device)]
        enough = len(labelled) >= LEAST
        nodes = labelled if enough else torch.randperm(len(x), generator=random)[:SAMPLE].to(x.device)
        rows = x[nodes].float()
        mean = rows.mean(0)
        z, own = rows.sub_(mean), y[labelled]
        total = z.T @ z / len(z)
        count = torch.bincount(own, minlength=int(y.max()) + 1).float()
        means = z.new_zeros(len(count), z.shape[1]).index_add_(0, own, z if enough else x[labelled].float() - mean)
        means = means / count[:, None].clamp(min=1)
        within = total - (means.T * (count / len(own))) @ means if enough else total
        ridge = (total.diagonal().mean() + TINY) * torch.eye(len(total), device=x.device)
        inverse_total, inverse_within = (
            torch.linalg.inv((cov + strength * ridge).double()).float()
            for cov, strength in ((total, RIDGE_TOTAL), (within, RIDGE_WITHIN))
        )
        rows = means @ inverse_within
        bias = -(rows * means).sum(1, keepdim=True) / 2
        return cls(mean, total, inverse_total, inverse_within, torch.cat([rows, bias], 1).T.contiguous())

    def direction(self, examples: Tensor) -> Direction:
        """The directions of a class with the examples ``[K, d]``: its mean against all labelled nodes as negatives."""
        mean = examples.mean(0) - self.mean
        far, near = self.inverse_total @ mean, self.inverse_within @ mean
        spread = float((far @ self.total @ far).clamp(min=TINY).sqrt())
        return Direction(
            torch.stack([far, near], 1), spread, float(mean @ far) / spread, float((mean @ near).clamp(min=TINY))
        )


# --- Known, one of the new classes, or none of these: a softmax over a few facts about a node and each new class.
PULL = 10.0  # towards weights of zero, in three hundredths of an episode
LEAST_MASS, MEMBERSHIP_TINY = 1e-3, 1e-9
NODE_FACTS = ("best", "energy", "labelled", "distance", "known", "length")
FOR_NEW, FOR_OTHER = (0, 2, 3), (0, 1, 2, 3)  # the node facts that speak for or against "new" and "other"


@torch.no_grad()
def node_facts(
    x: Tensor, moments: Moments, logits: Tensor, alone: Tensor, labelled: Tensor, everyone: Tensor
) -> Tensor:
    """What speaks for a node being of no known class, ``[n, 6]`` in the order of ``NODE_FACTS``.

    The probability of its best known class (log), the energy of the regression, the share of labels around it (log),
    the distance to the nearest known class mean; and two parts of the class facts: the evidence for all known classes
    together, and the node's own length. ``labelled`` and ``everyone [n]`` are the masses that labelled nodes and all
    nodes spread to it (``spread_mass``).
    """
    z = x - moments.mean
    length = ((z @ moments.inverse_within) * z).sum(1).clamp(min=MEMBERSHIP_TINY)
    discriminants = torch.addmm(moments.discriminants[-1], z, moments.discriminants[:-1])
    best, energy = logits.log_softmax(1).max(1).values, alone.logsumexp(1)
    nearest, known = length - 2 * discriminants.max(1).values, discriminants.logsumexp(1)
    mass = (labelled / everyone.clamp(min=MEMBERSHIP_TINY)).clamp(LEAST_MASS, 1).log()
    return torch.stack([best, energy, mass, nearest.clamp(min=0).sqrt(), known, length.sqrt()], 1)


def all_facts(
    x: Tensor, moments: Moments, logits: Tensor, alone: Tensor, masses: Sequence[Tensor], space: Space | None
) -> Tensor:
    """``node_facts`` of all nodes, by chunks of rows where they go into a ``space``."""

    def facts_of(rows: slice) -> Tensor:
        around = (mass[rows] for mass in masses)
        return node_facts(x[rows].float(), moments, logits[rows], alone[rows], *around)

    return by_rows(space, "facts", (len(x), len(NODE_FACTS)), torch.float32, facts_of, width=4 * x.shape[1])


def masses_given(y: Tensor) -> tuple[Tensor, Tensor]:
    """What labelled nodes and all nodes give: one each, ``[N]``."""
    return (y >= 0).float(), torch.ones(len(y), device=y.device)


def spread_mass(edges: Operator, given: Tensor) -> Tensor:
    """What reaches each node of the masses ``given [N]`` over the edges, near."""
    restart, steps = SPREADS[1]
    return ppr_smooth(edges, given[:, None], steps=steps, restart=restart)[:, 0]


def class_facts(projections: Tensor, facts: Tensor, direction: Direction) -> Tensor:
    """How much like a new class each node is, ``[n, 4]``, from ``projections [n, 2]`` on its directions.

    The ridge score in standard deviations of labelled nodes; the same in units of the examples' own score; the margin
    of its linear discriminant over those of the known classes; the cosine in the metric within classes.
    """
    ridge, within = projections[:, 0] / direction.spread, projections[:, 1]
    margin = within - direction.length / 2 - facts[:, NODE_FACTS.index("known")]
    cosine = within / facts[:, NODE_FACTS.index("length")] / direction.length**0.5
    return torch.stack([ridge, ridge / max(direction.reach, MEMBERSHIP_TINY), margin, cosine], 1)


@dataclass(frozen=True)
class Episode:
    """A rehearsal: facts of ``n`` nodes and of two (or one) new classes, and what each node really is.

    ``truth [n]`` is 0 for known, 1.. for the new classes, ``n_new + 1`` for other; ``weight [n]`` says how many nodes
    each stands for; ``confidence`` and ``right [n]``: the head's best probability, and whether that class is it.
    """

    facts: Tensor
    classes: Tensor  # [n, n_new, 4]
    truth: Tensor
    weight: Tensor
    confidence: Tensor
    right: Tensor
    world: int

    @property
    def n_new(self) -> int:
        return self.classes.shape[1]

    def shares(self) -> Tensor:
        """Of known nodes, of one new class, and of other."""
        total = torch.bincount(self.truth, self.weight, minlength=self.n_new + 2) / self.weight.sum()
        return torch.stack([total[0], total[1 : 1 + self.n_new].mean(), total[-1]])


@dataclass(frozen=True)
class Membership:
    """Weights of the facts for a new class (``new``, the bias last) and for other; shares of the groups they assume."""

    new: tuple[float, ...]
    other: tuple[float, ...]
    shares: tuple[float, float, float]  # known, one new class, other

    def utilities(self, facts: Tensor, classes: Tensor) -> Tensor:
        """``[n, n_new + 2]``: log odds of each new class and of other against known, which is 0."""
        new, other = (facts.new_tensor(part) for part in (self.new, self.other))
        base = facts[:, list(FOR_NEW)] @ new[: len(FOR_NEW)] + new[-1]
        likes = classes @ new[len(FOR_NEW) : -1] + base[:, None]
        none = facts[:, list(FOR_OTHER)] @ other[:-1] + other[-1]
        return torch.cat([torch.zeros_like(none)[:, None], likes, none[:, None]], 1)

    def assumed(self, n_new: int) -> Tensor:
        """The shares of known, each new class and other, ``[n_new + 2]``."""
        _, new, other = self.shares
        new = min(new, 0.5 / max(n_new, 1))
        return torch.tensor([max(1 - n_new * new - other, 0.05), *[new] * n_new, other])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


# What known classes taught when they played new, three examples each, on four of the development graphs (mean): for
# graphs with fewer than three labelled classes, on which nothing can be rehearsed.
USUAL = Membership(
    (-1.412, -0.332, 0.244, 0.199, 4.404, 0.012, 2.861, -7.189),
    (-1.08, -0.493, -0.303, 0.339, -5.938),
    (0.85, 0.1, 0.05),
)


def learn(episodes: Sequence[Episode]) -> Membership:
    """The weights under which the truth of all episodes together is likeliest; each episode has the same say."""
    n_new = max(one.n_new for one in episodes)
    new = torch.cat([one.facts[:, list(FOR_NEW)] for one in episodes])
    other = torch.cat([one.facts[:, list(FOR_OTHER)] for one in episodes])
    classes = torch.cat([F.pad(one.classes, (0, 0, 0, n_new - one.n_new)) for one in episodes])
    each = torch.arange(n_new, device=classes.device)
    there = torch.cat([each.lt(one.n_new).expand(len(one.truth), -1) for one in episodes])
    truth = torch.cat([torch.where(one.truth > one.n_new, n_new + 1, one.truth) for one in episodes])
    weight = torch.cat([one.weight / one.weight.sum() for one in episodes]) / len(episodes)
    units = [_units(part) for part in (new, classes[there], other)]
    new, classes, other = ((part - m) / s for part, (m, s) in zip((new, classes, other), units, strict=True))
    w, v = _maximise(new, classes, other, there, truth, weight, 300 * len(episodes))
    (m1, s1), (m2, s2), (m3, s3) = units
    w, v = w / torch.cat([s1, s2, s1.new_ones(1)]), v / torch.cat([s3, s3.new_ones(1)])
    w[-1] -= w[:-1] @ torch.cat([m1, m2])
    v[-1] -= v[:-1] @ m3
    known, one, none = torch.stack([episode.shares() for episode in episodes]).mean(0).tolist()
    return Membership(tuple(w.tolist()), tuple(v.tolist()), (known, one, max(none, 0.005)))


def _units(part: Tensor) -> tuple[Tensor, Tensor]:
    spread, mean = torch.std_mean(part, dim=0)
    return mean, spread.clamp(min=1e-4)


def _maximise(
    new: Tensor, classes: Tensor, other: Tensor, there: Tensor, truth: Tensor, weight: Tensor, worth: int
) -> tuple[Tensor, Tensor]:
    w = new.new_zeros(new.shape[1] + classes.shape[2] + 1)
    v = new.new_zeros(other.shape[1] + 1)
    w[-1] = v[-1] = -2.0
    w.requires_grad_()
    v.requires_grad_()
    optimizer = LBFGS([w, v], max_iter=50, line_search_fn="strong_wolfe")
    width = new.shape[1]

    def closure() -> float:
        optimizer.zero_grad()
        likes = classes @ w[width:-1] + (new @ w[:width] + w[-1])[:, None]
        none = other @ v[:-1] + v[-1]
        logits = torch.cat([torch.zeros_like(none)[:, None], likes.masked_fill(~there, -1e4), none[:, None]], 1)
        loss = (F.cross_entropy(logits, truth, reduction="none") * weight).sum()
        loss = loss + PULL / (2 * worth) * (w[:-1].square().sum() + v[:-1].square().sum())
        loss.backward()
        return float(loss.detach())

    with torch.enable_grad():
        optimizer.step(closure)
    return w.detach(), v.detach()


# --- How common each class is among the nodes without a label: estimated from their scores, or said by the user.
STEPS = 60
FAINT = 0.02  # weight of the assumed shares inside the estimate, so that none reaches zero
TRUST = 0.3  # of the estimate beside the assumed shares, on the scale of logarithms: scores of few examples mislead it


def checked_priors(priors: Mapping[str, float] | None, new: Sequence[str], other: str) -> dict[str, float]:
    """Shares that a user gave for new classes and for ``other``, refused by name where they cannot be."""
    given = dict(priors or {})
    for name, share in given.items():
        if name not in (*new, other):
            raise InputError(f"a prior for {name!r}; priors can be given for {', '.join(map(repr, (*new, other)))}")
        if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
            raise InputError(f"the prior of {name!r} is {share!r}; it is a share of the nodes, from 0 to 1")
    if (total := sum(given.values())) > 1:
        raise InputError(f"the priors sum to {total:g}; together they are at most 1")
    return given


@torch.no_grad()
def estimate(
    utilities: Tensor, assumed: Tensor, fixed: Mapping[int, float] | None = None, weight: Tensor | None = None
) -> Tensor:
    """How common the groups are, ``[G]``, by ``utilities [n, G]`` that were made for the shares ``assumed``.

    The answer is between the likeliest shares and the assumed ones (``TRUST``). Groups in ``fixed`` have the share
    given there. ``weight [n]`` says how many nodes each stands for.
    """
    likely = utilities.double().softmax(1)
    each = torch.ones_like(likely[:, 0]) if weight is None else weight.double()
    each = each / each.sum().clamp(min=1e-12)
    shares = assumed = assumed.to(likely)
    for _ in range(STEPS):
        ratio = shares / assumed
        found = ratio * ((each / (likely @ ratio).clamp(min=1e-12)) @ likely)  # the mean posterior, in two products
        shares = _with_fixed((found + FAINT * assumed) / (1 + FAINT), fixed or {})
    between = assumed ** (1 - TRUST) * shares**TRUST
    return _with_fixed(between / between.sum(), fixed or {}).float()


def _with_fixed(shares: Tensor, fixed: Mapping[int, float]) -> Tensor:
    """The shares with some of them given; the others keep their proportions."""
    if not fixed:
        return shares
    free = torch.ones_like(shares, dtype=torch.bool)
    free[list(fixed)] = False
    left = max(1 - sum(fixed.values()), 0.0)
    shares = torch.where(free, shares / shares[free].sum().clamp(min=1e-12) * left, shares)
    shares[list(fixed)] = shares.new_tensor(list(fixed.values()))
    return shares


def with_shares(utilities: Tensor, assumed: Tensor, shares: Tensor) -> Tensor:
    """Probabilities ``[n, G]`` of the groups once they are as common as ``shares`` instead of ``assumed``."""
    shift = (shares.clamp(min=1e-12) / assumed).log()
    return (utilities + shift).softmax(1)
