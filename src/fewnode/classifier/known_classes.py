"""The known class of a node: logistic regressions on its coordinates and on its features, combined with label
propagation.

The logit of class c at node v is a weighted sum of four terms::

    l_vc = a_0 f_vc + a_1 g_vc + a_2 log q1_vc + a_3 log q2_vc

``f`` is the logit of a regression on the coordinates, which cover a large neighbourhood. ``g`` is that of a regression
on the features themselves, at the node and around it, which keeps rare words. ``q1`` and ``q2`` are labels propagated
far and near over the edges. The weights ``a`` are learned on held-out nodes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any
from uuid import uuid4

import torch
from torch import Tensor
from torch.nn import functional as F

from ..graph import Graph
from ..graph.operators import Operator, column_means, columns_of, feature_rows, mean_adjacency, row_bytes
from ..nn.features import column_mass, feature_columns, tfidf, weighted_features
from ..nn.optimizers import LBFGS
from ..nn.views import VIEWS, ViewSources
from ..store import CHUNK, MEMORY, Space, rows_at

WIDTH = 512  # principal components that are kept
PROPAGATION = ((0.1, 10), (0.5, 4))  # restart probability and steps of label propagation: far, near
SMOOTHING = 1e-3  # mass of the class prior beside what is propagated to a node
COPIES = 4  # matrices as wide as a block of classes that label propagation holds in memory
SELECTION = 20_000  # labelled nodes that suffice to choose the penalty
PENALTIES = (10.0, 3.0, 1.0)  # of the squared weights, from strong to weak; the best on held-out nodes is taken


@dataclass(frozen=True)
class ViewPCA:
    """PCA of the views side by side: ``x = 3 [view_1 | view_2 | ...] - mean``, times ``components [d, k]``."""

    mean: Tensor
    components: Tensor

    @classmethod
    @torch.no_grad()
    def fit(cls, views: Sequence[Tensor], ranks: Tensor, space: Space = MEMORY, sample: int = 20_000) -> "ViewPCA":
        """Learn the leading components from a random sample of the nodes.

        Views of single directions or edge types, which follow the six common ones, are left out.
        """
        views, everyone = views[: len(VIEWS)], torch.arange(len(ranks), device=ranks.device)
        chosen = shuffled(everyone, torch.Generator().manual_seed(0), ranks)[:sample]
        means = [column_means(view, space) for view in views]
        mean = 3 * torch.cat(means)
        rows = 3 * torch.cat([rows_at(view, chosen, space).float() for view in views], 1) - mean
        return cls(mean, torch.linalg.eigh((rows.T @ rows).double())[1][:, -WIDTH:].float())

    @torch.no_grad()
    def transform(self, views: Sequence[Tensor]) -> Tensor:
        """Coordinates ``[n, k]`` of the nodes with the given views."""
        total, at = -(self.mean @ self.components).expand(len(views[0]), -1).contiguous(), 0
        for view in views[: len(VIEWS)]:  # one at a time: all of them side by side would take three times the memory
            total.addmm_(view.float(), self.components[at : at + view.shape[1]], alpha=3)
            at += view.shape[1]
        return total

    def coordinates(self, views: Sequence[Tensor], space: Space) -> Tensor:
        """Coordinates ``[N, k]`` of all nodes, rounded to half precision, in which they are saved.

        A loaded model therefore gives the same predictions. If memory is limited, they are on disk in half precision.
        """
        shape = (len(views[0]), self.components.shape[1])

        def rows_of(rows: slice) -> Tensor:
            return self.transform([view[rows] for view in views]).half()

        x = space.by_rows("x", shape, torch.half, rows_of, width=len(self.mean) + 2 * shape[1])
        return x if space.on_disk else x.float()


@dataclass(frozen=True)
class HopFeatures:
    """Weighted features of the nodes (``T [N, F]``), their means over neighbours (``M T``) and over two steps (``M M
    T``).

    The three matrices are used side by side but never computed: classes are projected before they are aggregated.
    Narrow blocks after the first ``wide`` columns, such as the vectors of texts, have no weight, because the
    coordinates contain all of them.
    """

    graph: Graph
    idf: Tensor
    centre: Tensor
    scale: float
    wide: int

    @classmethod
    def of(cls, graph: Graph, sources: ViewSources) -> "HopFeatures":
        """Features weighted as in the views; dense ones are scaled to a mean length of one."""
        widths = list(graph.blocks.values())
        while not graph.space.on_disk and len(widths) > 1 and widths[-1] <= WIDTH:
            widths.pop()
        wide = sum(widths) or graph.num_features
        if graph.x.layout == torch.sparse_csr:
            return cls(graph, sources.idf, sources.centre, 1.0, wide)
        squares = column_means(graph.x.square(), graph.space) - sources.centre.square()
        return cls(
            graph, sources.idf, sources.centre, float(squares.sum().clamp(min=1e-12).rsqrt()), graph.num_features
        )

    def own(self, x: Tensor, weights: Tensor) -> Tensor:
        """``T W`` for features ``x [n, F]`` of some nodes."""
        if x.layout == torch.sparse_csr:
            return tfidf(x, self.idf) @ weights
        return (x @ weights - self.centre @ weights) * self.scale

    def times(self, weights: Tensor) -> Tensor:
        """``T W`` of all nodes, ``[N, C]``."""
        x, space = self.graph.x, self.graph.space
        if not space.on_disk and x.layout == torch.sparse_csr:
            return self._weighted() @ weights[: self.wide]
        parts = space.rows(len(x), 2 * row_bytes(x))
        return torch.cat([self.own(feature_rows(x, rows), weights) for rows in parts])

    def _weighted(self) -> Tensor:
        whole = weighted_features(self.graph, self.idf)
        return self.graph.cache.get("wide blocks", lambda: feature_columns(whole, slice(0, self.wide)), source=self.idf)

    def logits(self, weights: Tensor) -> Tensor:
        """``T W_0 + M T W_1 + M M T W_2 + b`` of all nodes, ``[N, C]``, for ``weights [3 F + 1, C]``."""
        mean, (own, near, far) = mean_adjacency(self.graph), self.hops(weights)
        return self.times(own) + mean @ (self.times(near) + mean @ self.times(far)) + weights[-1]

    @staticmethod
    def hops(weights: Tensor) -> Tensor:
        """The weights ``[3, F, C]`` of the features of the node, of its neighbours and over two steps."""
        parts: Tensor = weights[:-1].unflatten(0, (3, -1))
        return parts

    def gradient(self, residual: Tensor) -> Tensor:
        """The transpose: ``[3 F + 1, C]`` for ``residual [N, C]``."""
        graph, found, bias = self.graph, list[Tensor](), residual.sum(0, keepdim=True)
        for hop in range(3):
            residual = mean_adjacency(graph).T @ residual if hop else residual
            if self.wide < graph.num_features:
                mass = F.pad(columns_of(self._weighted(), residual), (0, 0, 0, graph.num_features - self.wide))
            else:
                mass = self.scale * column_mass(graph, residual, self.idf, self.centre)
            found.append(mass)
        return torch.cat([*found, bias])

    def fit(self, y: Tensor, nodes: Tensor, n_classes: int, steps: int = 25, start: Tensor | None = None) -> Tensor:
        """Weights ``[3 F + 1, C]`` of logistic regressions, each class against the others, on the ``nodes``.

        A rare word needs larger weights than a common one, so weights are measured in units in which the loss is about
        equally curved in all directions. The sums of squares are estimated by random projections.
        """
        n, target = len(nodes), one_hot(y[nodes], n_classes)
        if start is None:
            start = torch.zeros(3 * len(self.idf) + 1, n_classes, device=y.device)
            start[-1] = -3  # a class is rare
        signs = torch.zeros(len(y), 32, device=y.device)
        signs[nodes] = torch.randint(2, (n, 32), generator=torch.Generator().manual_seed(0)).to(y.device) * 2.0 - 1
        decay = torch.full_like(start[:, :1], 0.1 / n)
        decay[-1] = 0
        curvature = self.gradient(signs).square().mean(1, keepdim=True) / n
        curvature[-1] = 1
        unit = (0.1 / n_classes * curvature + decay).rsqrt()

        def backward(scaled: Tensor) -> float:
            weights = scaled.detach() * unit
            logits = self.logits(weights)[nodes]
            loss = F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / n
            residual = torch.zeros(len(y), n_classes, device=y.device)
            residual[nodes] = (logits.sigmoid_() - target) / n
            scaled.grad = (self.gradient(residual) + decay * weights) * unit
            return float(loss + (decay * weights.square()).sum() / 2)

        return minimise(start / unit, backward, steps, history=5) * unit


@dataclass(frozen=True)
class NodeInputs:
    """The inputs for learning the classes of nodes, which do not depend on labels.

    These are coordinates ``x [N, d]``, ``edges``, and the features ``hops``, None if the coordinates contain all of
    them. Nodes are drawn at random by their ``ranks [N]``, which do not depend on the numbering of nodes.
    """

    x: Tensor
    edges: Operator
    ranks: Tensor
    hops: HopFeatures | None = None

    def rows(self, nodes: Tensor) -> Tensor:
        """The coordinates of some nodes."""
        return rows_at(self.x, nodes, self.edges.space).float()

    def shuffled(self, nodes: Tensor, random: torch.Generator | None = None) -> Tensor:
        """The nodes in a random order, by default the first one of the seed 0."""
        return shuffled(nodes, random or torch.Generator().manual_seed(0), self.ranks)


@dataclass(frozen=True)
class KnownClassModel:
    """The weights of the regressions and of their combination.

    ``on_coordinates [d + 1, C]`` (the last row is the bias) are fitted with the ``penalty``; ``on_features [3 F + 1,
    C]`` are empty if the coordinates contain all features. ``mix [4]`` are the weights of the two regressions and of
    labels propagated far and near.
    """

    on_coordinates: Tensor
    on_features: Tensor
    mix: Tensor
    penalty: Tensor

    @cached_property
    def weights(self) -> Tensor:
        """The weights on coordinates, times their part in the mix."""
        return self.on_coordinates * self.mix[0]

    @cached_property
    def hops(self) -> Tensor:
        """The weights on features, times their part in the mix."""
        return self.on_features * self.mix[1]

    @classmethod
    def fit(
        cls, inputs: NodeInputs, y: Tensor, seed: int = 0
    ) -> tuple["KnownClassModel", list[tuple[Tensor, "KnownClassModel"]]]:
        """Learn from the labels ``y [N]`` (0..C-1, -1 where unknown).

        The nodes that were held out to learn the mix are also returned, with the models that were fitted without them.
        """
        x, space = inputs.x, inputs.edges.space
        labelled = inputs.shuffled((y >= 0).nonzero().flatten(), torch.Generator().manual_seed(seed))
        folds = _folds(labelled)
        # Every penalty starts from zero: from the previous weights, the result would depend on the order of the rows.
        start = torch.zeros(x.shape[1] + 1, int(y.max()) + 1, device=x.device)
        best, penalty, fitted = float("inf"), PENALTIES[0], list[Tensor]()
        for tried in PENALTIES:
            weights = [logistic_regression(x, y, train, start, tried, space) for _, train in folds]
            loss = sum(
                float(F.cross_entropy(linear(inputs.rows(held), w), y[held], reduction="sum"))
                for (held, _), w in zip(folds, weights, strict=True)
            )
            if loss > best:
                break
            best, penalty, fitted = loss, tried, weights

        def on_features(nodes: Tensor) -> Tensor:
            return start[:0] if inputs.hops is None else inputs.hops.fit(y, nodes, start.shape[1])

        rest = torch.ones(4, device=x.device), torch.tensor(penalty, device=x.device)
        held_out = [(held, cls(w, on_features(train), *rest)) for (held, train), w in zip(folds, fitted, strict=True)]
        mix = _learned_mix(held_out, inputs, y)
        whole = logistic_regression(x, y, labelled, start, penalty, space)
        return cls(whole, on_features(labelled), mix, rest[1]), [(held, replace(m, mix=mix)) for held, m in held_out]

    def grown(
        self, fold: "KnownClassModel", held: Tensor, columns: Tensor, inputs: NodeInputs, y: Tensor
    ) -> tuple["KnownClassModel", list[tuple[Tensor, "KnownClassModel"]]]:
        """This model, and the one fitted without the nodes ``held``, for labels that came later.

        The regressions continue from their weights, which takes a few steps; no weight has seen the labels it is tested
        on. The mix is learned again, for which the regression on features without the held nodes may stay unchanged;
        the penalty stays. ``columns [C]`` gives the former positions of classes, -1 for new ones.
        """
        labelled = (y >= 0).nonzero().flatten()

        def continued(model: KnownClassModel, nodes: Tensor, steps: int) -> KnownClassModel:
            old, hop = (F.pad(part, (0, 1))[:, columns] for part in (model.on_coordinates, model.on_features))
            weights = logistic_regression(inputs.x, y, nodes, old, float(model.penalty), inputs.edges.space, steps=6)
            if inputs.hops is not None:
                hop[-1, columns < 0] = -3
                hop = inputs.hops.fit(y, nodes, len(columns), steps, hop) if steps else hop
            return replace(model, on_coordinates=weights, on_features=hop, mix=torch.ones_like(model.mix))

        whole, fold = continued(self, labelled, 5), continued(fold, labelled[~torch.isin(labelled, held)], 0)
        mix = _learned_mix([(held, fold)], inputs, y)
        return replace(whole, mix=mix), [(held, replace(fold, mix=mix))]

    def refit(self, inputs: NodeInputs, y: Tensor) -> "KnownClassModel":
        """The model for other labels, learned from the start. Penalty, scales and mix stay.

        Weights that have seen labels which are now missing would be too certain.
        """
        nodes = inputs.shuffled((y >= 0).nonzero().flatten())[:SELECTION]
        x, features, n_classes = inputs.x, inputs.hops, int(y.max()) + 1
        start = torch.zeros(x.shape[1] + 1, n_classes, device=x.device)
        weights = logistic_regression(x, y, nodes, start, float(self.penalty), inputs.edges.space)
        hops = self.on_features[:, :n_classes] if features is None else features.fit(y, nodes, n_classes, steps=20)
        return replace(self, on_coordinates=weights, on_features=hops)

    @torch.no_grad()
    def logits(self, inputs: NodeInputs, y: Tensor, nodes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits ``[N, C]`` of all nodes or of some ``nodes [B]``, and those of the regressions alone."""
        if nodes is not None:
            terms = self.terms(nodes, inputs, y)
            alone = terms[:2].sum(0)
            return alone + torch.einsum("t,tnc->nc", self.mix[2:], terms[2:]), alone
        # several models may be fitted at the same time
        space, shape = inputs.edges.space.within("scratch").within(uuid4().hex[:8]), (len(y), self.weights.shape[1])
        hops = None if inputs.hops is None else inputs.hops.logits(self.hops)

        def regressions(rows: slice) -> Tensor:
            found = linear(inputs.x[rows], self.weights)
            return found if hops is None else found + hops[rows]

        alone = space.by_rows("alone", shape, torch.float32, regressions, 2 * len(self.weights))
        labels = LabelPropagation.of(inputs.edges, y, shape[1])

        def mixed(block: slice) -> Tensor:
            total = alone[:, block].clone()
            for weight, term in zip(self.mix[2:].tolist(), labels.terms(block), strict=True):
                total.add_(term, alpha=weight)
            return total

        return space.by_columns("logits", shape, torch.float32, mixed, COPIES), alone

    @torch.no_grad()
    def terms(self, nodes: Tensor, inputs: NodeInputs, y: Tensor) -> Tensor:
        """``[4, B, C]`` of some nodes ``[B]``: logits of the two regressions, and labels propagated far and near."""
        space, n_classes, hops = inputs.edges.space, self.weights.shape[1], inputs.hops
        on_coordinates = linear(inputs.rows(nodes), self.weights)
        on_features = torch.zeros_like(on_coordinates) if hops is None else hops.logits(self.hops)[nodes]
        labels, blocks = LabelPropagation.of(inputs.edges, y, n_classes), space.columns(len(y), n_classes, COPIES)
        found = torch.cat(list(space.results(partial(labels.at, nodes), blocks)), 2)
        return torch.cat([torch.stack([on_coordinates, on_features]), found])


@dataclass(frozen=True)
class LabelPropagation:
    """Class shares that reach each node over the edges, by personalised PageRank ``S``::

        q_vc = ((S Y)_vc + e prior_c) / (sum_c (S Y)_vc + e)

    ``Y [N, C]`` are one-hot labels. ``e`` is small: a node that few labels reach has approximately the prior. Classes
    are independent given the mass of labels that ``reached`` each node, far and near ``[N]``, so they can be computed
    in blocks.
    """

    edges: Operator
    y: Tensor
    prior: Tensor
    reached: Sequence[Tensor]

    @classmethod
    def of(cls, edges: Operator, y: Tensor, n_classes: int) -> "LabelPropagation":
        labelled = (y >= 0).float()[:, None]
        reached = [edges.smooth(labelled, steps, restart) for restart, steps in PROPAGATION]
        return cls(edges, y, class_prior(y, n_classes), reached)

    def terms(self, block: slice) -> Iterator[Tensor]:
        """The terms log q of a block of classes, far and near, ``[N, block]`` each."""
        given = (self.y[:, None] == torch.arange(block.start, block.stop, device=self.y.device)).float()
        for (restart, steps), reached in zip(PROPAGATION, self.reached, strict=True):
            yield log_shares(self.edges.smooth(given, steps, restart), reached, self.prior[block])

    def at(self, nodes: Tensor, block: slice) -> Tensor:
        """The terms of some nodes, ``[2, B, block]``."""
        return torch.stack([term[nodes] for term in self.terms(block)])


def log_shares(arrived: Tensor, mass: Tensor, prior: Tensor) -> Tensor:
    """``mass / (mass + e) log((arrived + e prior) / (mass + e))``, in place: of the shares of the classes in what
    reached each node. The factor makes it zero where nothing did: a node without neighbours says nothing about what
    propagated labels are worth."""
    return arrived.add_(SMOOTHING * prior).div_(mass + SMOOTHING).log_().mul_(mass / (mass + SMOOTHING))


def class_prior(y: Tensor, n_classes: int) -> Tensor:
    """Shares of the classes among the labelled nodes, ``[C]``, with one additional node of each class."""
    count = torch.bincount(y[y >= 0], minlength=n_classes).float()
    return (count + 1) / (count.sum() + n_classes)


def one_hot(y: Tensor, n_classes: int) -> Tensor:
    """``[N, C]``: one at the class of each labelled node."""
    return F.one_hot(y.clamp(min=0), n_classes).float() * (y >= 0)[:, None]


def linear(x: Tensor, weights: Tensor) -> Tensor:
    """``x W + b``; the bias is the last row of ``weights``."""
    return torch.addmm(weights[-1], x.float(), weights[:-1])


def logistic_regression(
    x: Tensor, y: Tensor, nodes: Tensor, start: Tensor, penalty: float, space: Space = MEMORY, steps: int = 40
) -> Tensor:
    """Weights ``[d + 1, C]`` of multinomial logistic regression on some ``nodes`` of ``x [N, d]``, from ``start``.

    Minimises ``mean cross-entropy + penalty / (2 n) |W|^2``; the bias is not penalised. Where ``x`` is on disk, rows
    are read a chunk at a time. The coordinates are principal components, whose lengths differ by orders of magnitude:
    weights are measured in units in which the loss is about equally curved along all of them.
    """
    n, n_classes = len(nodes), start.shape[1]
    if not space.on_disk:
        x, y = x[nodes], y[nodes]
        chunks: Sequence[tuple[Any, Tensor]] = [(slice(None), y)]
        sample = x[:SELECTION]
    else:
        chunks = [(part, y[part]) for part in nodes.sort().values.split(CHUNK // (8 * x.shape[1]))]
        sample = rows_at(x, nodes[:SELECTION], space)
    curvature = 0.1 / n_classes * torch.cat([sample.float().square().mean(0), start.new_ones(1)])
    curvature[:-1] += penalty / n
    unit = curvature.rsqrt()[:, None]

    def backward(scaled: Tensor) -> float:
        weights = scaled.detach() * unit
        gradient, total = torch.zeros_like(weights), penalty / (2 * n) * float(weights[:-1].square().sum())
        for loss, part in space.results(partial(_loss_and_gradient, x, weights), chunks):
            total, gradient = total + loss / n, gradient.add_(part, alpha=1 / n)
        gradient[:-1] += penalty / n * weights[:-1]
        scaled.grad = gradient * unit
        return total

    return minimise(start / unit, backward, steps) * unit


def _loss_and_gradient(x: Tensor, weights: Tensor, chunk: tuple[Any, Tensor]) -> tuple[float, Tensor]:
    """Cross-entropy summed over a chunk of rows with their classes, and its gradient."""
    rows, y = chunk
    own = x[rows].float()
    log_p = linear(own, weights).log_softmax(1)
    loss = -float(log_p.gather(1, y[:, None]).double().sum())
    residual = log_p.exp_()
    residual[torch.arange(len(y), device=y.device), y] -= 1
    return loss, torch.cat([own.T @ residual, residual.sum(0, keepdim=True)])


def minimise(start: Tensor, backward: Callable[[Tensor], float], steps: int = 60, history: int = 40) -> Tensor:
    """The minimum found by L-BFGS. ``backward`` returns the loss at ``w`` and stores the gradient in ``w.grad``."""
    w = start.clone().requires_grad_()
    optimizer = LBFGS([w], max_iter=steps, history_size=history, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        return backward(w)

    with torch.enable_grad():
        optimizer.step(closure)
    return w.detach()


def _learned_mix(held_out: Sequence[tuple[Tensor, KnownClassModel]], inputs: NodeInputs, y: Tensor) -> Tensor:
    """Weights of the terms that fit held-out nodes; with few of them they stay near the regression on coordinates."""
    parts = [model.terms(held, inputs, y.index_fill(0, held, -1)) for held, model in held_out]
    terms, target = torch.cat(parts, 1), torch.cat([y[held] for held, _ in held_out])
    alone = torch.eye(len(terms), device=y.device)[0]

    def backward(mix: Tensor) -> float:
        loss = F.cross_entropy(torch.einsum("t,tnc->nc", mix, terms), target)
        loss = loss + (mix - alone).square().sum() / (2 * len(target))
        loss.backward()
        return float(loss.detach())

    return minimise(alone, backward)


def shuffled(nodes: Tensor, random: torch.Generator, ranks: Tensor | None = None) -> Tensor:
    """The nodes in a random order that depends on their ``ranks [N]``, if given, and not on their numbering."""
    nodes = nodes if ranks is None else nodes[ranks[nodes].argsort()]
    return nodes[torch.randperm(len(nodes), generator=random).to(nodes.device)]


def _folds(labelled: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Held-out and training nodes: up to 1,000 labelled nodes every one is held out once, in ten parts; of more, a
    fifth (at most 4,000) is held out."""
    n = len(labelled)
    size, parts = (-(-n // 10), 10) if n <= 1_000 else (min(round(0.2 * n), 4_000), 1)
    starts = [at for at in range(0, parts * size, size) if at < n and n > size]
    folds = [(labelled[a : a + size], torch.cat([labelled[:a], labelled[a + size :]])[:SELECTION]) for a in starts]
    return folds or [(labelled, labelled)]
