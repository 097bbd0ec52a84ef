"""Which of the known classes a node is: logistic regression on its coordinates and label propagation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import torch
from torch import Tensor
from torch.nn import functional as F

from ..graph.operators import Operator, RowsOf, column_means, ppr_smooth
from ..nn.optimizers import LBFGS
from ..nn.views import VIEWS
from ..store import CHUNK, Columns, Space, by_rows, chunks, rows_at

# --- What the neighbours say of a node's class, on a graph larger than memory: a few classes at a time.
SPREADS = ((0.1, 10), (0.5, 4))  # restart and steps: far, near
FAINT = 1e-3  # mass of the class shares that stands beside what reaches a node, so that silence is no opinion
COPIES = 3  # matrices as wide as a block of classes that are in memory: two of the smoothing, and the sum
ALONE, LOGITS = "alone", "logits"
SPREADING = "what neighbours say, by blocks of classes"


def opinions_at(nodes: Tensor, x: Tensor, weights: Tensor, edges: Operator, y: Tensor) -> Tensor:
    """The five opinions ``[5, B, C]`` on the ``nodes [B]``: the regression's, and those of ``spread_opinions``."""
    out = torch.empty(1 + 2 * len(SPREADS), len(nodes), weights.shape[1])
    space = _scratch(edges)
    opinions = Opinions.of(x, weights, edges, y, space)
    blocks = space.columns(len(y), weights.shape[1], COPIES)
    pieces = [(block, number) for block in blocks for number in range(len(out))]
    for (block, number), part in zip(
        pieces, space.results(partial(opinions.at, nodes), pieces, SPREADING), strict=True
    ):
        out[number, :, block] = part
    space.clear()
    return out


def logits_on_disk(x: Tensor, weights: Tensor, mix: Tensor, edges: Operator, y: Tensor) -> tuple[Tensor, Tensor]:
    """Logits ``[N, C]`` of all nodes with the opinions mixed, and those of the regression alone; mapped from disk."""
    space = _scratch(edges)
    opinions = Opinions.of(x, weights, edges, y, space)
    parts = Columns(space, "mixed", len(y), space.columns(len(y), weights.shape[1], COPIES))
    space.each(partial(opinions.mix, mix, parts), range(len(parts.blocks)), SPREADING)
    rows_of = parts.opened()
    with space.writing(LOGITS, (len(y), weights.shape[1]), torch.float32) as out:
        for rows in space.rows(len(y), 8 * weights.shape[1]):
            out[rows] = rows_of(rows)
    parts.drop()
    return space.open(LOGITS), space.open(ALONE)


def _scratch(edges: Operator) -> Space:
    """A folder of its own for every call: other machines keep what they have read under its name."""
    assert edges.space is not None
    return edges.space.within("scratch").within(uuid4().hex[:8])


@dataclass(frozen=True)
class Opinions:
    """What the opinions are made from, whatever the class: the regression's logits ``alone [N, C]`` and the logarithm
    of the sum of their exponentials ``total [N]``, the ``shares [C]`` of the classes, and what ``reached`` each node in
    all. A block of classes needs nothing else."""

    alone: Tensor
    total: Tensor
    y: Tensor
    shares: Tensor
    reached: Sequence[Tensor]
    edges: Operator

    @classmethod
    def of(cls, x: Tensor, weights: Tensor, edges: Operator, y: Tensor, space: Space) -> "Opinions":
        labelled, n_classes = y >= 0, weights.shape[1]
        alone, total = _regression(x, weights, space)
        count = torch.bincount(y[labelled], minlength=n_classes).float()
        masses = torch.stack([labelled.float(), torch.ones(len(y))], 1)  # a row of labels or of answers sums to that
        reached = [edges.smooth(masses, steps, restart) for restart, steps in SPREADS]
        return cls(alone, total, y, (count + 1) / (count.sum() + n_classes), reached, edges)

    def at(self, nodes: Tensor, piece: tuple[slice, int]) -> Tensor:
        """One of them, of a block of classes, on some nodes: ``[B, classes]``."""
        return self._one(*piece)[nodes]

    def mix(self, mix: Tensor, parts: Columns, number: int) -> None:
        """Write the logits of a block of classes, mixed."""
        total = torch.empty(0)
        for opinion, weight in enumerate(mix):
            own = self._one(parts.blocks[number], opinion)
            total = weight * own if opinion == 0 else total.add_(own, alpha=float(weight))
            del own  # before the next one is made
        parts.write(number, total)

    def _one(self, block: slice, number: int) -> Tensor:
        """Of a block of classes the regression's logits ``[N, B]`` (0), or the logarithms of the shares that reach each
        node: labels far (1) and near (2), or the regression's answers far (3) and near (4)."""
        if number == 0:
            return self.alone[:, block].clone()
        kind, way = divmod(number - 1, len(SPREADS))
        (restart, steps), reached = SPREADS[way], self.reached[way][:, kind, None]
        given: RowsOf = partial(self._labels if kind == 0 else self._answers, block)
        return self.edges.smooth(given, steps, restart).add_(FAINT * self.shares[block]).div_(reached + FAINT).log_()

    def _labels(self, block: slice, rows: slice) -> Tensor:
        return (self.y[rows, None] == torch.arange(block.start, block.stop)).float()

    def _answers(self, block: slice, rows: slice) -> Tensor:
        found = (self.alone[rows, block] - self.total[rows, None]).exp_()
        return torch.where(self.y[rows, None] >= 0, self._labels(block, rows), found)


def _regression(x: Tensor, weights: Tensor, space: Space) -> tuple[Tensor, Tensor]:
    """The regression's logits, on disk, and the logarithm of the sum of their exponentials ``[N]``."""
    total = torch.empty(len(x))
    with space.writing(ALONE, (len(x), weights.shape[1]), torch.float32) as out:
        every = list(chunks(len(x), 8 * len(weights)))
        work = partial(_logits_of_rows, x, weights)
        for rows, made in zip(every, space.results(work, every, "regression, by chunks of rows"), strict=True):
            out[rows] = made
            total[rows] = made.logsumexp(1)
    return space.open(ALONE), total


def _logits_of_rows(x: Tensor, weights: Tensor, rows: slice) -> Tensor:
    return torch.addmm(weights[-1], x[rows].float(), weights[:-1])


# --- Which of the known classes a node is: logistic regression on its coordinates and what its neighbours say.
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


# --- The views of a graph as one matrix: side by side, turned to their principal directions, the small ones left out.
WIDTH = 512  # principal directions that are kept: beyond them no class of the development graphs was told apart better
FURTHER = 256  # ... of the views that directions and edge types add
SAMPLE = 20_000  # nodes the directions are learned from
LENGTH = 3.0  # of each view's rows: brings the coordinates to the scale at which the penalties of the head are set


@dataclass(frozen=True)
class Frame:
    """The ``directions [d, at most WIDTH]`` of the views side by side, and the ``centre [d]`` they start from.

    Further views, beyond the six, have directions of their own beside these: the six stay what they are."""

    centre: Tensor
    directions: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, views: Sequence[Tensor], space: Space | None = None, length: float = 1.0) -> "Frame":
        """The leading principal directions of the views of all nodes; further views count ``length`` times as much."""
        if len(views) > len(VIEWS):
            plain, more = cls._of(views[: len(VIEWS)], WIDTH, space), cls._of(views[len(VIEWS) :], FURTHER, space)
            return cls(
                torch.cat([plain.centre, more.centre]), torch.block_diag(plain.directions, length * more.directions)
            )
        return cls._of(views, WIDTH, space)

    @classmethod
    def _of(cls, views: Sequence[Tensor], width: int, space: Space | None) -> "Frame":
        chosen = torch.randperm(len(views[0]), generator=torch.Generator().manual_seed(0))[:SAMPLE].to(views[0].device)
        means = [view.mean(0, dtype=torch.float32) if space is None else column_means(view, space) for view in views]
        centre = LENGTH * torch.cat(means)
        sample = LENGTH * torch.cat([rows_at(view, chosen, space).float() for view in views], 1) - centre
        return cls(centre, torch.linalg.eigh((sample.T @ sample).double())[1][:, -width:].float())

    @torch.no_grad()
    def coordinates(self, views: Sequence[Tensor]) -> Tensor:
        """``[n, at most WIDTH]`` of the nodes with the given views."""
        total, at = -(self.centre @ self.directions).expand(len(views[0]), -1).contiguous(), 0
        for view in views:  # one at a time: all of them side by side would take three times the memory
            total.addmm_(view.float(), self.directions[at : at + view.shape[1]], alpha=LENGTH)
            at += view.shape[1]
        return total

    def all_coordinates(self, views: Sequence[Tensor], space: Space | None) -> Tensor:
        """Those of all nodes, rounded to the half precision in which they are saved, so that a loaded model answers as
        before; on disk in half precision where memory is bounded."""
        if space is None:
            return self.coordinates(views).half().float()
        shape = (len(views[0]), self.directions.shape[1])

        def made(rows: slice) -> Tensor:
            return self.coordinates([view[rows] for view in views]).half()

        return by_rows(space, "x", shape, torch.half, made, width=len(self.centre) + 2 * shape[1])
