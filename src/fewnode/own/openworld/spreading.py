"""What the neighbours say of a node's class, on a graph larger than memory: a few classes at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import torch
from torch import Tensor

from ...graph.bounded import BoundedOperator, RowsOf
from ...graph.operators import Operator
from ...store.columns import Columns
from ...store.space import Space, chunks

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
    edges: BoundedOperator

    @classmethod
    def of(cls, x: Tensor, weights: Tensor, edges: Operator, y: Tensor, space: Space) -> "Opinions":
        assert isinstance(edges, BoundedOperator)
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
