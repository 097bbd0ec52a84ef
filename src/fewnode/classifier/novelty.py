"""The novelty model: does a node belong to a known class, to a new class, or to none of these ("other")?

A multinomial logit over a few features, whose weights are learned on simulated novel classes::

    u_known = 0
    u_k     = w . (node features, class features of k, 1)      for each new class k
    u_other = log(exp(w' . (node features, 1)) + exp(a u_c + b named_c + d))
    p       = softmax(u + offsets)

The features are chosen such that weights learned on one class transfer to another. ``c`` is the most similar of the
clusters that nobody has named. ``u_c`` is the utility of a new class whose examples are the core of the cluster, and
``named_c`` is the similarity of this core to a named class. ``offsets`` express how common the groups are, compared
with the simulations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from ..graph.operators import Operator
from ..store import one_thread
from .known_classes import PROPAGATION, KnownClassModel, NodeInputs, shuffled

SAMPLE = 50_000  # labelled nodes from which the moments are computed
NODE_FEATURES = ("best", "energy", "labelled", "distance", "known", "length")
N_NODE, N_CLASS = 4, 4  # node features that have weights (the last two are parts of class features); class features


# Moments and directions


@dataclass(frozen=True)
class Direction:
    """The ridge directions of a new class, from the mean of its examples.

    ``weights [d, 2]`` belong to the total covariance and to that within classes. ``std`` is the standard deviation of
    labelled nodes along the first, ``examples`` the mean score of the examples in this unit, and ``length`` the squared
    length of their mean in the second metric.
    """

    weights: Tensor
    std: float
    examples: float
    length: float


@dataclass(frozen=True)
class Moments:
    """Statistics of the labelled nodes.

    These are their mean and covariances, the inverses (with a ridge), and the linear discriminant functions of the
    known classes, ``discriminants [d + 1, C]`` with the bias last.
    """

    mean: Tensor
    total: Tensor
    inverse_total: Tensor
    inverse_within: Tensor
    discriminants: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, x: Tensor, y: Tensor, ranks: Tensor, ridge_total: float = 3.0, ridge_within: float = 1.0) -> "Moments":
        """Statistics of the nodes with ``y [N] >= 0``. The ridges are in units of the mean variance.

        If fewer than 50 nodes have a label, all nodes are used, because very few of them belong to a new class.
        """
        random = torch.Generator().manual_seed(0)
        labelled = shuffled((y >= 0).nonzero().flatten(), random, ranks)[:SAMPLE]
        enough = len(labelled) >= 50
        nodes = labelled if enough else shuffled(torch.arange(len(x), device=x.device), random, ranks)[:SAMPLE]
        rows, own = x[nodes].float(), y[labelled]
        mean = rows.mean(0)
        z = rows.sub_(mean)
        total = z.T @ z / len(z)
        count = torch.bincount(own, minlength=int(y.max()) + 1).float()
        means = z.new_zeros(len(count), z.shape[1]).index_add_(0, own, z if enough else x[labelled].float() - mean)
        means = means / count[:, None].clamp(min=1)
        within = total - (means.T * (count / len(own))) @ means if enough else total
        ridge = (total.diagonal().mean() + 1e-9) * torch.eye(len(total), device=x.device)
        inverse_total, inverse_within = (
            torch.linalg.inv((covariance + strength * ridge).double()).float()
            for covariance, strength in ((total, ridge_total), (within, ridge_within))
        )
        weights = means @ inverse_within
        bias = -(weights * means).sum(1, keepdim=True) / 2
        return cls(mean, total, inverse_total, inverse_within, torch.cat([weights, bias], 1).T.contiguous())

    @cached_property
    def whitening(self) -> Tensor:
        """``[d, d]``, a square root of the metric within classes."""
        root: Tensor = torch.linalg.cholesky(self.inverse_within.double()).float()
        return root

    def directions(self, examples: Tensor, description: Tensor | None) -> tuple[Direction, ...]:
        """The directions of the examples ``[K, d]`` and of the coordinates ``[d]`` of a description, if there are
        any."""
        parts = [examples] * bool(len(examples)) + ([] if description is None else [description[None]])
        return tuple(self.direction(part) for part in parts)

    def direction(self, examples: Tensor) -> Direction:
        """The directions that separate the mean of the examples ``[K, d]`` from the labelled nodes."""
        mean = examples.mean(0) - self.mean
        far, near = self.inverse_total @ mean, self.inverse_within @ mean
        std = float((far @ self.total @ far).clamp(min=1e-9).sqrt())
        return Direction(
            torch.stack([far, near], 1), std, float(mean @ far) / std, float((mean @ near).clamp(min=1e-9))
        )


# Features


@torch.no_grad()
def node_features(x: Tensor, moments: Moments, logits: Tensor, alone: Tensor, masses: Tensor) -> Tensor:
    """Features ``[n, 6]`` that indicate that a node belongs to no known class, in the order of ``NODE_FEATURES``.

    They are the log probability of the best known class, the energy (log-sum-exp) of the regression, the log share of
    labelled nodes around the node, the distance to the nearest known class mean, and two parts of the class features:
    the log-sum-exp of the known classes' discriminants, and the node's length in the metric within classes.

    Args:
        x: coordinates ``[n, d]``.
        logits, alone: ``[n, C]`` of the known-class model, and of its regression alone.
        masses: ``[n, 2]``, see ``propagated_masses``.
    """
    z = x - moments.mean
    length = ((z @ moments.inverse_within) * z).sum(1).clamp(min=1e-9)
    discriminants = torch.addmm(moments.discriminants[-1], z, moments.discriminants[:-1])
    distance = (length - 2 * discriminants.max(1).values).clamp(min=0).sqrt()
    best, energy = logits.log_softmax(1).max(1).values, alone.logsumexp(1)
    share = (masses[:, 0] / masses[:, 1].clamp(min=1e-9)).clamp(1e-3, 1).log()
    return torch.stack([best, energy, share, distance, discriminants.logsumexp(1), length.sqrt()], 1)


def propagated_masses(edges: Operator, y: Tensor) -> Tensor:
    """The mass of labelled nodes and of all nodes that reaches each node in near label propagation, ``[N, 2]``."""
    (restart, steps), labelled = PROPAGATION[1], (y >= 0).float()
    return edges.smooth(torch.stack([labelled, torch.ones_like(labelled)], 1), steps=steps, restart=restart)


@torch.no_grad()
def seen_without(
    inputs: NodeInputs, y: Tensor, model: KnownClassModel, nodes: Tensor
) -> tuple[Tensor, Tensor, Tensor, Moments]:
    """Some nodes as seen when only the labels ``y [N]`` are known, on which the ``model`` was fitted.

    The result holds coordinates, features and logits of the known classes, and the moments.
    """
    moments, masses = Moments.of(inputs.x, y, inputs.ranks), propagated_masses(inputs.edges, y)
    rows, (logits, alone) = inputs.rows(nodes), model.logits(inputs, y, nodes)
    return rows, node_features(rows, moments, logits, alone, masses[nodes]), logits, moments


def class_features(projections: Tensor, nodes: Tensor, directions: Sequence[Direction]) -> Tensor:
    """Features ``[n, 4 D]`` that indicate that a node belongs to a new class.

    They are computed from ``projections [n, 2 D]`` on its directions and the node features ``nodes [n, 6]``. There are
    four for each direction: the ridge score in standard deviations of labelled nodes, the same in units of the
    examples' score, the margin of its linear discriminant over those of the known classes, and the cosine in the metric
    within classes.
    """
    found = []
    for (far, within), direction in zip(projections.T.unflatten(0, (-1, 2)), directions, strict=True):
        ridge = far / direction.std
        margin = within - direction.length / 2 - nodes[:, NODE_FEATURES.index("known")]
        cosine = within / nodes[:, NODE_FEATURES.index("length")] / direction.length**0.5
        found += [ridge, ridge / max(direction.examples, 1e-9), margin, cosine]
    return torch.stack(found, 1)


def left_out_features(x: Tensor, nodes: Tensor, moments: Moments, description: Tensor | None = None) -> Tensor:
    """Class features ``[K, 4 D]`` of the examples ``x [K, d]`` of a class with the node features ``nodes``.

    Each example is projected on the directions of the others (and of the description). A single example has none.
    """
    rows = [nodes.new_zeros(0, N_CLASS if description is None else 2 * N_CLASS)]
    for i in range(len(x) if len(x) > 1 else 0):
        directions = moments.directions(torch.cat([x[:i], x[i + 1 :]]), description)
        weights = torch.cat([direction.weights for direction in directions], 1)
        rows.append(class_features((x[i : i + 1] - moments.mean) @ weights, nodes[i : i + 1], directions))
    return torch.cat(rows)


# The model


def utilities(nodes: Tensor, classes: Tensor, new: Tensor, other: Tensor) -> Tensor:
    """``[n, n_new + 2]``: 0 for known, then each new class, then other (see the top of this file)."""
    nodes = nodes[:, :N_NODE]
    each = classes @ new[N_NODE:-1] + (nodes @ new[:N_NODE] + new[-1])[:, None]
    none = (nodes @ other[:-1] + other[-1])[:, None]
    return torch.cat([torch.zeros_like(none), each, none], 1)


@dataclass(frozen=True)
class NoveltyModel:
    """Weights of the novelty features.

    There are weights for a ``new`` class (node, class, bias), for ``other`` (node, bias), and the weights ``(a, b, d)``
    of ``unnamed`` clusters, which are empty if nothing was learned about clusters.
    """

    new: tuple[float, ...]
    other: tuple[float, ...]
    unnamed: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """The number of class features: four from the examples, four from the description, or both."""
        return len(self.new) - N_NODE - 1

    def utilities(self, nodes: Tensor, classes: Tensor) -> Tensor:
        """``[n, n_new + 2]``: log odds of each new class and of other against known, which is 0."""
        return utilities(nodes, classes, nodes.new_tensor(self.new), nodes.new_tensor(self.other))

    def with_clusters(self, u: Tensor, clusters: "Clusters | None", x: Tensor, nodes: Tensor) -> Tensor:
        """The utilities ``u [n, G]``, with clusters as part of other.

        The nodes have coordinates ``x [n, d]`` and features ``nodes [n, 6]``.
        """
        if clusters is None or not self.unnamed:
            return u
        a, b, bias = self.unnamed
        best, named = clusters.scores(self, x, nodes)
        return torch.cat([u[:, :-1], torch.logaddexp(u[:, -1], a * best + b * named + bias)[:, None]], 1)

    def margins(self, x: Tensor, nodes: Tensor, classes: Tensor, clusters: "Clusters | None") -> Tensor:
        """Log odds ``[n]`` of one new class, with features ``classes [n, 4 D]``, against other; empty without
        features."""
        x, nodes = x[: len(classes)], nodes[: len(classes)]
        u = self.with_clusters(self.utilities(nodes, classes[:, None, : self.width]), clusters, x, nodes)
        return u[:, 1] - u[:, 2]


# Mean of what was learned on four development graphs with three examples for each class: for graphs with fewer than
# three labelled classes, on which no novel class can be simulated.
DEFAULT = NoveltyModel(
    (-1.412, 0.0, -0.332, 0.244, 0.199, 4.404, 0.012, 2.861, -7.189), (-1.08, -0.493, -0.303, 0.339, -5.938)
)


@dataclass(frozen=True)
class Clusters:
    """Clusters of nodes that probably belong to no class with labels or examples: each may be a class that nobody
    named.

    ``directions`` are those of their cores, from the ``mean [d]`` of labelled nodes. ``named [K]`` is the similarity of
    a core to the likeliest named class: its mean log odds against other.
    """

    directions: tuple[Direction, ...]
    named: Tensor
    mean: Tensor

    @classmethod
    @torch.no_grad()
    def find(
        cls, x: Tensor, utilities: Tensor, groups: Tensor, moments: Moments, most: int = 8, core: int = 10
    ) -> "Clusters | None":
        """Find ``most`` clusters or fewer by k-means in the metric within classes.

        The nodes have coordinates ``x [n, d]``, ``utilities`` and probabilities ``groups [n, G]``. The ``core`` is the
        nodes nearest to the centre.
        """
        from sklearn.cluster import KMeans  # takes a second to import

        weight = (1 - groups[:, 0]) * (1 - groups[:, 1:-1].sum(1))
        at = weight.argsort(descending=True, stable=True)[: min(2_000, int((weight > 0.3).sum()))]
        if len(at) < 2 * core:
            return None
        z = ((x[at] - moments.mean) @ moments.whitening).cpu().numpy()
        found = KMeans(min(most, len(at) // core), n_init=1, max_iter=20, random_state=0)
        with one_thread:  # sums of several threads are rounded differently
            distance = found.fit_transform(z, sample_weight=weight[at].cpu().numpy())
        inside = [np.flatnonzero(found.labels_ == c) for c in range(found.n_clusters)]
        cores = [part[distance[part, c].argsort()[:core]] for c, part in enumerate(inside) if len(part) >= core]
        nodes = [at[torch.as_tensor(part, device=at.device)] for part in cores]
        if not nodes:
            return None
        odds = F.pad(utilities[:, 1:-1] - utilities[:, -1:], (0, int(utilities.shape[1] == 2)))
        named = torch.stack([odds[part].mean(0).max() for part in nodes])
        return cls(tuple(moments.direction(x[part]) for part in nodes), named, moments.mean)

    def scores(self, model: NoveltyModel, x: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """``[n]``: the utility of the cluster most similar to a node, and the similarity of this cluster to a named
        class."""
        weights = torch.cat([one.weights for one in self.directions], 1)
        features = class_features(x @ weights - self.mean @ weights, nodes, self.directions)
        best, at = model.utilities(nodes, features.unflatten(1, (-1, N_CLASS)))[:, 1:-1].max(1)
        return best, self.named[at]


# Shares of the groups


def checked_priors(priors: Mapping[str, float] | None, new: Sequence[str], other: str) -> dict[str, float]:
    """Shares that a user gave for new classes and for ``other``; impossible shares are refused by name."""
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
def known_share(held: Tensor, pool: Tensor, least: float = 0.3) -> float:
    """The share of known nodes in a pool.

    It is estimated from the novelty scores of the ``pool [P]`` and those ``held [H]`` of labelled nodes that the model
    has not seen. If labels are missing at random, the known nodes of the pool have the scores of the held-out nodes,
    and the nodes of new classes have higher scores. The share of the pool below a threshold, divided by the share of
    the held-out nodes below it, is therefore the known share or more. The result is the smallest of these ratios (plus
    one standard error), over thresholds below which ``least`` or more of the held-out nodes lie (Blanchard, Lee, Scott
    2010).
    """
    thresholds = held.double().quantile(torch.linspace(least, 1, 36, dtype=torch.float64, device=held.device))
    below = (
        torch.searchsorted(part.double().sort().values, thresholds, right=True) / len(part) for part in (held, pool)
    )
    of_held, of_pool = below
    ratio = of_pool / of_held
    error = ((1 - of_held) / of_held / len(held) + (1 - of_pool) / of_pool.clamp(min=1e-9) / len(pool)).sqrt()
    return float((ratio * (1 + error)).min().clamp(0.01, 0.995))


@torch.no_grad()
def other_part(utilities: Tensor, groups: Tensor, each: Tensor, left_out: Sequence[Tensor]) -> float:
    """The part of other among nodes of no known class.

    It is estimated from the log odds ``left_out`` of the examples of each new class against other, each example left
    out in turn. Half of the members of a class have larger log odds than half of its examples, so twice the number of
    nodes there is the number of members, and the rest is other. ``groups [n, G]`` are probabilities under the
    proportions of the simulations; with few examples, the result stays near these proportions.
    """
    novel, best = each * (1 - groups[:, 0]), utilities[:, 1:-1].argmax(1)
    total, members = float(novel.sum().clamp(min=1e-9)), 0.0
    for k, scores in enumerate(left_out):
        rank = (len(scores) + 1) // 2
        if rank == 0:  # a single example
            members += float(each @ groups[:, k + 1])
            continue
        there = (best == k) & (utilities[:, k + 1] - utilities[:, -1] >= scores.sort(descending=True).values[rank - 1])
        members += float(novel[there].sum()) * (len(scores) + 1) / rank
    supposed, found = float(each @ groups[:, -1]) / total, max(1 - members / total, 0.0)
    shots = sum(map(len, left_out)) / max(len(left_out), 1)
    trust = shots / (shots + 5)
    return min(max(trust * found + (1 - trust) * supposed, 0.02), 0.98)


@dataclass(frozen=True)
class Priors:
    """How common classes are among the unlabelled nodes, relative to the simulations.

    ``offsets [G]`` apply to the utilities of the groups (known, each direction, other), and ``weights [C]`` to the
    known classes within their group. ``received [C]`` is the number of nodes that each known class gets without these
    weights, and ``due [C]`` the expected number if labels are missing at random.
    """

    offsets: Tensor
    weights: Tensor
    received: Tensor
    due: Tensor

    @classmethod
    @torch.no_grad()
    def estimate(
        cls,
        utilities: Tensor,
        known: Tensor,
        labelled: Tensor,
        share: float | None = None,
        fixed: Mapping[int, float] | None = None,
        weight: Tensor | None = None,
        left_out: Sequence[Tensor] = (),
        at_random: Sequence[bool] | None = None,
    ) -> "Priors":
        """Estimate priors from the pool's ``utilities [n, G]`` and probabilities ``known [n, C]`` of the known classes.

        ``share`` of the nodes are estimated to be known. Groups in ``fixed`` get exactly the share given there. The
        others keep their proportions in the simulations, except for the part of other, which is estimated from the
        examples ``left_out`` (see ``other_part``; expectation maximisation moves members of large new classes to
        other). A known class that receives clearly more nodes than its part of the ``labelled [C]`` nodes allows is
        reduced to that part: the surplus belongs to a class without labels. Classes whose labels are not missing
        ``at_random`` stay unchanged. ``weight [n]`` is the number of nodes that each node stands for.
        """
        stated, n = dict(fixed or {}), len(utilities)
        each = torch.full_like(utilities[:, 0], 1 / n) if weight is None else (weight / weight.sum()).to(utilities)
        left, offsets = max(1 - sum(stated.values()), 0.0), torch.zeros_like(utilities[0], dtype=torch.float64)
        if share is not None and len(stated) < len(offsets) - 1:
            shares = {0: min(share, left)}
            offsets = _matched(utilities, offsets, shares, each, tolerance=1e-3)
            if left_out and not stated:
                groups = (utilities + offsets).softmax(1).float()
                shares[len(offsets) - 1] = (1 - share) * other_part(utilities, groups, each, left_out)
                offsets = _matched(utilities, offsets, shares, each, tolerance=1e-3)
        offsets = _matched(utilities, offsets, stated, each)
        groups = (utilities + offsets).softmax(1).float()
        due = float(each @ groups[:, 0]) * labelled / labelled.sum().clamp(min=1)
        received, weights = (each * groups[:, 0]) @ known, torch.ones_like(due)
        most = due * 1.1 + 2 * (due / n).sqrt()  # the due is known with an error
        if at_random is not None:
            most = torch.where(torch.tensor(at_random, device=due.device), most, torch.inf)
        for _ in range(20):
            reduced = known * weights
            rest = 1 - groups[:, 0] + groups[:, 0] * reduced.sum(1)
            got = (each * groups[:, 0] / rest.clamp(min=1e-12)) @ reduced
            if not bool((got > most).any()):
                break
            weights = torch.where(got > most, weights * most / got.clamp(min=1e-12), weights)
        if stated:  # what was stated holds for the probabilities with these weights
            less = (known * weights).sum(1, keepdim=True).clamp(min=1e-12).log()
            offsets = _matched(torch.cat([utilities[:, :1] + less, utilities[:, 1:]], 1), offsets, stated, each)
        return cls(offsets, weights, received * n, due * n)

    def probabilities(self, utilities: Tensor, known: Tensor) -> Tensor:
        """Probabilities of the known classes, each direction and other, ``[n, C + G - 1]``."""
        groups = (utilities + self.offsets).softmax(1).float()
        joint = torch.cat([groups[:, :1] * known * self.weights, groups[:, 1:]], 1)
        return joint / joint.sum(1, keepdim=True).clamp(min=1e-12)


def _matched(
    utilities: Tensor, offsets: Tensor, shares: Mapping[int, float], each: Tensor, tolerance: float = 1e-6
) -> Tensor:
    """The offsets, changed until the mean probabilities of some groups are their ``shares``.

    The log odds of a mean probability rise by less than its offset does; how much less, the last step tells.
    """
    offsets, groups = offsets.clone(), [group for group, share in shares.items() if share > 0]
    offsets[[group for group in shares if group not in groups]] = -100
    wanted = offsets.new_tensor([shares[group] for group in groups]).clamp(max=1 - 1e-9)
    step, before = torch.zeros_like(wanted), torch.zeros_like(wanted)
    for _ in range(100 if groups else 0):
        got = (each.double() @ (utilities + offsets).softmax(1))[groups].clamp(1e-9, 1 - 1e-9)
        if float((wanted - got).abs().max()) < tolerance:
            break
        rate = (step / (got.logit() - before)).nan_to_num(1.0).clamp(1, 4)
        step, before = rate * (wanted.logit() - got.logit()), got.logit()
        offsets[groups] += step
    return offsets
