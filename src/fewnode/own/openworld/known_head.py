"""Which of the known classes a node is: logistic regression on its coordinates and what its neighbours say.

The regression learns from all labels. Four further opinions come over the edges: the labels spread near and far, and
the regression's own answers spread in the same way (where a label is known, the label). How much each of the five
counts is learned on labelled nodes that were held out, so no node ever hears its own label.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ...graph.operators import Operator, ppr_smooth
from ...nn.optimizers import LBFGS
from ...store.rows import rows_at
from ...store.space import CHUNK, Space
from .spreading import FAINT, SPREADS, logits_on_disk, opinions_at

PENALTIES = (10.0, 3.0, 1.0)  # of the squared weights, from strong to weak; the best on held-out nodes is taken
HELD_OUT, MOST_HELD_OUT = 0.2, 4_000
FEW, FOLDS = 1_000, 10  # up to so many labelled nodes every one is held out once, in so many parts
SELECTION = 20_000  # labelled nodes that suffice to choose the penalty
STEPS = 40  # of the regression, all of which it remembers
SURE = 0.1  # how much flatter the loss is where most answers are sure than where all classes are as likely
OPINIONS = 1 + 2 * len(SPREADS)


@dataclass(frozen=True)
class KnownHead:
    """``weights [d + 1, C]`` (the last row is the bias), ``mix [5]`` of the opinions, and the ``penalty`` chosen."""

    weights: Tensor
    mix: Tensor
    penalty: float

    @classmethod
    def fit(cls, x: Tensor, edges: Operator, y: Tensor, seed: int = 0) -> "KnownHead":
        """Learn from the labels ``y [N]`` (0..C-1, -1 where unknown) of nodes with the coordinates ``x [N, d]``."""
        labelled = (y >= 0).nonzero().flatten()
        order = torch.randperm(len(labelled), generator=torch.Generator().manual_seed(seed))
        labelled, n_classes = labelled[order.to(x.device)], int(y.max()) + 1
        folds = _folds(labelled)
        # Every penalty starts here: from the weights of the last one, the order of the rows shows in the answers.
        start = torch.zeros(x.shape[1] + 1, n_classes, device=x.device)
        tried, losses = [], list[float]()
        for penalty in PENALTIES:
            tried.append(
                [logistic(rows_at(x, train, edges.space).float(), y[train], start, penalty) for _, train in folds]
            )
            parts = [
                F.cross_entropy(scores(rows_at(x, held, edges.space).float(), w), y[held], reduction="sum")
                for (held, _), w in zip(folds, tried[-1], strict=True)
            ]
            losses.append(float(torch.stack(parts).sum()))
            if losses[-1] > min(losses):
                break
        best = losses.index(min(losses))
        mix = _learn_mix(x, edges, y, folds, tried[best])
        weights = _final(x, y, labelled, start, PENALTIES[best], edges.space)
        return cls(weights, mix, PENALTIES[best])

    def refit(self, x: Tensor, y: Tensor, columns: Tensor, most: int = SELECTION) -> "KnownHead":
        """The head for other labels, started from the weights of its classes ``columns``; mix and penalty stay."""
        labelled = (y >= 0).nonzero().flatten()
        picked = labelled[torch.randperm(len(labelled), generator=torch.Generator().manual_seed(0)).to(x.device)][:most]
        weights = logistic(x[picked].float(), y[picked], self.weights[:, columns], self.penalty, steps=20)
        return KnownHead(weights, self.mix, self.penalty)

    @torch.no_grad()
    def logits(self, x: Tensor, edges: Operator, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mixed logits ``[N, C]`` of all nodes, and those of the regression alone."""
        if edges.space is not None:
            return logits_on_disk(x, self.weights, self.mix, edges, y)
        alone = scores(x, self.weights)
        total = self.mix[0] * alone
        for weight, opinion in zip(self.mix[1:], spread_opinions(edges, y, alone), strict=True):
            total = total + weight * opinion
        return total, alone

    @torch.no_grad()
    def logits_of(self, nodes: Tensor, x: Tensor, edges: Operator, y: Tensor) -> tuple[Tensor, Tensor]:
        """Both for some nodes ``[B]``."""
        if edges.space is None:
            total, alone = self.logits(x, edges, y)
            return total[nodes], alone[nodes]
        opinions = opinions_at(nodes, x, self.weights, edges, y)
        return torch.einsum("o,onc->nc", self.mix, opinions), opinions[0]


def scores(x: Tensor, weights: Tensor) -> Tensor:
    return torch.addmm(weights[-1], x, weights[:-1])


def logistic(x: Tensor, y: Tensor, start: Tensor, penalty: float, steps: int = STEPS) -> Tensor:
    """Weights ``[d + 1, C]`` of multinomial logistic regression from ``start``; the bias is not penalised."""
    scale = _scale(x[:SELECTION], start, penalty, len(y))
    return _descended(
        start, scale, steps, lambda weights: loss_and_gradient(x, weights, penalty, len(y), (slice(None), y, True))
    )


def logistic_by_rows(x: Tensor, y: Tensor, start: Tensor, penalty: float, rows: Tensor, space: Space) -> Tensor:
    """The same for the given rows of coordinates on disk, some at a time, in the order of the disk."""
    parts = rows.sort().values.split(CHUNK // (8 * x.shape[1]))
    pieces = [(part, y[part], number == len(parts) - 1) for number, part in enumerate(parts)]

    def evaluated(weights: Tensor) -> tuple[float, Tensor]:
        total, gradient = 0.0, torch.empty(0)
        work = partial(loss_and_gradient, x, weights, penalty, len(rows))
        for loss, own in space.results(work, pieces, "learning the known classes, by chunks of rows"):
            total, gradient = total + loss, own if len(gradient) == 0 else gradient.add_(own)
        return total, gradient

    scale = _scale(rows_at(x, rows[:SELECTION], space).float(), start, penalty, len(rows))
    return _descended(start, scale, STEPS, evaluated)


def loss_and_gradient(
    x: Tensor, weights: Tensor, penalty: float, n: int, piece: tuple[Any, Tensor, bool]
) -> tuple[float, Tensor]:
    """What some of ``n`` rows (which, their classes, whether they are the last) add to the loss and its gradient; the
    last ones add the penalty."""
    rows, own, last = piece
    weights = weights.detach().requires_grad_()
    with torch.enable_grad():
        loss = F.cross_entropy(scores(x[rows].float(), weights), own) * (len(own) / n)
        if last:
            loss = loss + penalty / (2 * n) * weights[:-1].square().sum()
        (gradient,) = torch.autograd.grad(loss, weights)
    return float(loss.detach()), gradient


def _scale(x: Tensor, weights: Tensor, penalty: float, n: int) -> Tensor:
    """What a weight of each coordinate ``[d + 1, 1]`` is measured in, so that the loss is about as curved along all of
    them: the coordinates are principal directions, whose lengths differ by orders of magnitude."""
    curved = SURE / weights.shape[1] * x.square().mean(0) + penalty / n
    return torch.cat([curved, curved.new_tensor([SURE / weights.shape[1]])]).rsqrt()[:, None]


def _descended(start: Tensor, scale: Tensor, steps: int, evaluated: Callable[[Tensor], tuple[float, Tensor]]) -> Tensor:
    scaled = (start / scale).requires_grad_()
    optimizer = LBFGS([scaled], max_iter=steps, history_size=STEPS, line_search_fn="strong_wolfe")

    def closure() -> float:
        loss, gradient = evaluated(scaled.detach() * scale)
        scaled.grad = gradient * scale
        return loss

    optimizer.step(closure)
    return scaled.detach() * scale


def _final(x: Tensor, y: Tensor, labelled: Tensor, start: Tensor, penalty: float, space: Space | None) -> Tensor:
    """The weights that all labelled nodes teach."""
    if space is None:
        return logistic(x[labelled], y[labelled], start, penalty)
    return logistic_by_rows(x, y, start, penalty, labelled, space)


def label_matrix(y: Tensor, n_classes: int) -> Tensor:
    """``[N, C]``: one at the class of each labelled node."""
    return F.one_hot(y.clamp(min=0), n_classes).float() * (y >= 0)[:, None]


def spread_opinions(edges: Operator, y: Tensor, alone: Tensor) -> Iterator[Tensor]:
    """Logarithms of the class shares that reach each node: labels far and near, then the regression's answers.

    One at a time: each is as large as nodes times classes.
    """
    labels = label_matrix(y, alone.shape[1])
    shares = (labels.sum(0) + 1) / (labels.sum() + alone.shape[1])
    answers = torch.where((y >= 0)[:, None], labels, alone.softmax(1))
    for given in (labels, answers):
        for restart, steps in SPREADS:
            reached = ppr_smooth(edges, given, steps=steps, restart=restart)
            yield ((reached + FAINT * shares) / (reached.sum(1, keepdim=True) + FAINT)).log()


def _folds(labelled: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Held-out and training nodes: pairs that hold out every node once, or a single one where there are many."""
    n = len(labelled)
    size = -(-n // FOLDS) if n <= FEW else min(round(HELD_OUT * n), MOST_HELD_OUT)
    starts = range(0, n, size) if n <= FEW else (0,)
    return [
        (labelled[a : a + size], torch.cat([labelled[:a], labelled[a + size :]])[:SELECTION])
        for a in starts
        if n > size
    ] or [(labelled, labelled)]


def _learn_mix(
    x: Tensor, edges: Operator, y: Tensor, folds: Sequence[tuple[Tensor, Tensor]], fitted: Sequence[Tensor]
) -> Tensor:
    """What each opinion is worth on held-out nodes; with few of them it stays near the regression alone."""
    parts, targets = [], []
    for (held, _), weights in zip(folds, fitted, strict=True):
        hidden = y.clone()
        hidden[held] = -1
        if edges.space is None:
            alone = scores(x, weights)
            parts.append(torch.stack([alone[held], *(o[held] for o in spread_opinions(edges, hidden, alone))]))
        else:
            parts.append(opinions_at(held, x, weights, edges, hidden))
        targets.append(y[held])
    opinions, target = torch.cat(parts, 1), torch.cat(targets)
    first = torch.zeros(OPINIONS, device=x.device)
    first[0] = 1
    mix = first.clone().requires_grad_()
    optimizer = LBFGS([mix], max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(torch.einsum("o,onc->nc", mix, opinions), target)
        loss = loss + (mix - first).square().sum() / (2 * len(target))
        loss.backward()
        return float(loss.detach())

    with torch.enable_grad():
        optimizer.step(closure)
    return mix.detach()
