"""What the neighbours say of a node's class, on a graph larger than memory: a few classes at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..graph.bounded import BoundedOperator, RowsOf
from ..graph.operators import Operator
from ..store.columns import Columns
from ..store.space import Space, chunks

SPREADS = ((0.1, 10), (0.5, 4))  # restart and steps: far, near
FAINT = 1e-3  # mass of the class shares that stands beside what reaches a node, so that silence is no opinion
COPIES = 3  # matrices as wide as a block of classes that are in memory: two of the smoothing, and the sum
ALONE, LOGITS = "alone", "logits"
SPREADING = "what neighbours say, by blocks of classes"


def opinions_at(nodes: Tensor, x: Tensor, weights: Tensor, edges: Operator, y: Tensor) -> Tensor:
    """The five opinions ``[5, B, C]`` on the ``nodes [B]``: the regression's, and those of ``spread_opinions``."""
    out = torch.empty(1 + 2 * len(SPREADS), len(nodes), weights.shape[1])
    opinions, space = Opinions.of(x, weights, edges, y), _scratch(edges)
    blocks = space.columns(len(y), weights.shape[1], COPIES)
    for block, part in zip(blocks, space.results(partial(opinions.at, nodes), blocks, SPREADING), strict=True):
        out[:, :, block] = part
    return out


def logits_on_disk(x: Tensor, weights: Tensor, mix: Tensor, edges: Operator, y: Tensor) -> tuple[Tensor, Tensor]:
    """Logits ``[N, C]`` of all nodes with the opinions mixed, and those of the regression alone; mapped from disk."""
    opinions, space = Opinions.of(x, weights, edges, y), _scratch(edges)
    parts = Columns(space, "mixed", len(y), space.columns(len(y), weights.shape[1], COPIES))
    parts.drop()  # of other labels
    space.each(partial(opinions.mix, mix, parts), range(len(parts.blocks)), SPREADING)
    rows_of = parts.opened()
    with space.writing(LOGITS, (len(y), weights.shape[1]), torch.float32) as out:
        for rows in space.rows(len(y), 8 * weights.shape[1]):
            out[rows] = rows_of(rows)
    parts.drop()
    return space.open(LOGITS), space.open(ALONE)


def _scratch(edges: Operator) -> Space:
    assert edges.space is not None
    return edges.space.within("scratch")


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
    def of(cls, x: Tensor, weights: Tensor, edges: Operator, y: Tensor) -> "Opinions":
        assert isinstance(edges, BoundedOperator)
        labelled, n_classes = y >= 0, weights.shape[1]
        alone, total = _regression(x, weights, _scratch(edges))
        count = torch.bincount(y[labelled], minlength=n_classes).float()
        masses = torch.stack([labelled.float(), torch.ones(len(y))], 1)  # a row of labels or of answers sums to that
        reached = [edges.smooth(masses, steps, restart) for restart, steps in SPREADS]
        return cls(alone, total, y, (count + 1) / (count.sum() + n_classes), reached, edges)

    def at(self, nodes: Tensor, block: slice) -> Tensor:
        """Those of a block of classes on some nodes, ``[5, B, classes]``."""
        return torch.stack([opinion[nodes] for opinion in self._each(block)])

    def mix(self, mix: Tensor, parts: Columns, number: int) -> None:
        """Write the logits of a block of classes, mixed."""
        total = torch.empty(0)
        for weight, opinion in zip(mix, self._each(parts.blocks[number]), strict=True):
            total = weight * opinion if len(total) == 0 else total.add_(opinion, alpha=float(weight))
            del opinion  # before the next one is made
        parts.write(number, total)

    def _each(self, block: slice) -> Iterator[Tensor]:
        """Of a block of classes the regression's logits ``[N, B]``, then the logarithms of the shares that reach each
        node: labels far and near, then the regression's answers far and near."""
        yield self.alone[:, block].clone()
        classes, labelled = torch.arange(block.start, block.stop), self.y >= 0

        def labels(rows: slice) -> Tensor:
            return (self.y[rows, None] == classes).float()

        def answers(rows: slice) -> Tensor:
            found = (self.alone[rows, block] - self.total[rows, None]).exp_()
            return torch.where(labelled[rows, None], labels(rows), found)

        starts: tuple[RowsOf, RowsOf] = (labels, answers)
        for kind, given in enumerate(starts):
            for (restart, steps), reached in zip(SPREADS, self.reached, strict=True):
                found = self.edges.smooth(given, steps, restart).add_(FAINT * self.shares[block])
                yield found.div_(reached[:, kind, None] + FAINT).log_()
                del found


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
