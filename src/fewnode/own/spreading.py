"""What the neighbours say of a node's class, on a graph larger than memory: a few classes at a time."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..graph.bounded import BoundedOperator, RowsOf
from ..graph.operators import Operator
from ..store.space import Space

SPREADS = ((0.1, 10), (0.5, 4))  # restart and steps: far, near
FAINT = 1e-3  # mass of the class shares that stands beside what reaches a node, so that silence is no opinion
COPIES = 3  # matrices as wide as a block of classes that are in memory: two of the smoothing, and the sum
ALONE, LOGITS = "alone", "logits"


def opinions_at(nodes: Tensor, x: Tensor, weights: Tensor, edges: Operator, y: Tensor) -> Tensor:
    """The five opinions ``[5, B, C]`` on the ``nodes [B]``: the regression's, and those of ``spread_opinions``."""
    out = torch.empty(1 + 2 * len(SPREADS), len(nodes), weights.shape[1])
    for block, number, opinion in _opinions(x, weights, edges, y):
        out[number, :, block] = opinion[nodes]
        del opinion  # before the next one is made
    return out


def logits_on_disk(x: Tensor, weights: Tensor, mix: Tensor, edges: Operator, y: Tensor) -> tuple[Tensor, Tensor]:
    """Logits ``[N, C]`` of all nodes with the opinions mixed, and those of the regression alone; mapped from disk."""
    space = _scratch(edges)
    total = torch.empty(0)
    with space.writing(LOGITS, (len(y), weights.shape[1]), torch.float32) as out:
        for block, number, opinion in _opinions(x, weights, edges, y):
            total = mix[0] * opinion if number == 0 else total.add_(opinion, alpha=float(mix[number]))
            del opinion  # before the next one is made
            if number == 2 * len(SPREADS):
                for rows in space.rows(len(y), 4 * weights.shape[1]):
                    out[rows, block] = total[rows]
    return space.open(LOGITS), space.open(ALONE)


def _scratch(edges: Operator) -> Space:
    assert edges.space is not None
    return edges.space.within("scratch")


def _opinions(x: Tensor, weights: Tensor, edges: Operator, y: Tensor) -> Iterator[tuple[slice, int, Tensor]]:
    """Blocks of classes; for each in turn the regression's logits ``[N, B]``, then the logarithms of the shares that
    reach each node: labels far and near, then the regression's answers far and near."""
    assert isinstance(edges, BoundedOperator)
    space, labelled, n_classes = _scratch(edges), y >= 0, weights.shape[1]
    alone, total = _regression(x, weights, space)
    count = torch.bincount(y[labelled], minlength=n_classes).float()
    shares = (count + 1) / (count.sum() + n_classes)
    masses = torch.stack([labelled.float(), torch.ones(len(y))], 1)  # a row of labels or of answers sums to that
    sums = [edges.smooth(masses, steps, restart) for restart, steps in SPREADS]
    for block in space.columns(len(y), n_classes, COPIES):
        own = alone[:, block].clone()
        space.release()
        yield block, 0, own
        del own
        classes, number = torch.arange(block.start, block.stop), 0

        def labels(rows: slice, classes: Tensor = classes) -> Tensor:
            return (y[rows, None] == classes).float()

        def answers(rows: slice, block: slice = block, labels: RowsOf = labels) -> Tensor:
            found = (alone[rows, block] - total[rows, None]).exp_()
            return torch.where(labelled[rows, None], labels(rows), found)

        starts: tuple[RowsOf, RowsOf] = (labels, answers)
        for kind, given in enumerate(starts):
            for (restart, steps), reached in zip(SPREADS, sums, strict=True):
                number += 1
                found = edges.smooth(given, steps, restart).add_(FAINT * shares[block])
                yield block, number, found.div_(reached[:, kind, None] + FAINT).log_()
                del found


def _regression(x: Tensor, weights: Tensor, space: Space) -> tuple[Tensor, Tensor]:
    """The regression's logits, on disk, and the logarithm of the sum of their exponentials ``[N]``."""
    total = torch.empty(len(x))
    with space.writing(ALONE, (len(x), weights.shape[1]), torch.float32) as out:
        for rows in space.rows(len(x), 8 * len(weights)):
            out[rows] = torch.addmm(weights[-1], x[rows].float(), weights[:-1])
            total[rows] = out[rows].logsumexp(1)
    return space.open(ALONE), total
