"""What MAML, G-Meta and RALE share: weights that take gradient steps on a task's supports before queries are scored."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError, one_of
from ..graph import Graph
from ..nn.features import ReducedFeatures
from ..nn.heads import one_hot
from ..nn.inner_loop import Weights, adapt, for_each_task
from ..nn.neighbourhoods import Neighbourhoods
from ..tasks import Tasks
from .method import Method

ROWS = 1 << 15  # rows of tasks worked on at a time, and ...
QUERIES = 256  # ... queries of a task: both bound the memory, whatever is asked
TINY = 1e-12
HEAD = ("head.weight", "head.bias")  # the names of the head's weights among those of a task


class Adapting(Method):
    """A method whose ``start`` weights are adapted to every task by the inner loop, all tasks in one batch.

    ``embed`` leaves the rows of every node; a task's loss and scores are functions of weights and rows, in which
    ``target [S, N]`` holds the supports' classes, one-hot. See ``nn.neighbourhoods`` for what rows are.
    """

    sampled: ClassVar[bool] = False
    inner_steps: int
    inner_rate: float
    first_order: bool

    def start(self, n_way: int) -> Weights:
        """The weights before the first step, by name."""
        raise NotImplementedError

    def task_loss(self, weights: Weights, inputs: Tensor, pool: Tensor, target: Tensor) -> Tensor:
        """The loss of one task's supports, which the inner loop lowers."""
        raise NotImplementedError

    def task_scores(self, weights: Weights, *data: Tensor) -> Tensor:
        """Scores [M, N] of one task, given ``inputs, pool, target`` of the supports and ``inputs, pool`` of queries."""
        raise NotImplementedError

    def score(self, graph: Graph, state: Neighbourhoods, tasks: Tasks) -> Tensor:
        start = self.start(tasks.n_way)
        sizes = state.counts[tasks.support].sum(1) + state.counts[tasks.query[:, :QUERIES]].sum(1)
        order = torch.argsort(sizes, stable=True)
        batch = sizes[order].cumsum(0) // ROWS
        parts = order.split(torch.unique_consecutive(batch, return_counts=True)[1].tolist())
        return torch.cat([self._score(state, start, tasks, part) for part in parts])[torch.argsort(order)]

    def _score(self, state: Neighbourhoods, start: Weights, tasks: Tasks, part: Tensor) -> Tensor:
        """Scores of the tasks whose numbers are in ``part``."""
        inputs, pool = state.rows(tasks.support[part])
        known = (inputs, pool, one_hot(tasks.support_y[part], tasks.n_way, inputs.dtype))
        how = {"steps": self.inner_steps, "rate": self.inner_rate, "first_order": self.first_order}
        weights = adapt(self.task_loss, start, known, **how)  # type: ignore[arg-type]  # the values' types differ
        groups = tasks.query[part].split(QUERIES, dim=1)
        return torch.cat([for_each_task(self.task_scores, weights, *known, *state.rows(q)) for q in groups], 1)


class TaskHead(nn.Module):
    """The linear head of an inner loop: "zero" starts at zero in every task, so that it takes any number of classes
    in any order; "wide" learns a start for each of ``n_way`` classes, and takes no other number.

    Kao, Chiu, Chen: MAML is a Noisy Contrastive Learner in Classification. ICLR 2022 (the start at zero).
    """

    def __init__(self, channels: int, n_way: int, kind: str) -> None:
        super().__init__()
        self.channels, self.n_way = channels, n_way
        self.linear = nn.Linear(channels, n_way) if one_of("head", kind, ("zero", "wide")) == "wide" else None

    def start(self, n_way: int, like: Tensor) -> Weights:
        """The weights before the first step, of the type and on the device of ``like``."""
        if self.linear is None:
            return dict(zip(HEAD, (like.new_zeros(n_way, self.channels), like.new_zeros(n_way)), strict=True))
        if n_way != self.n_way:
            raise InputError(
                f"this head has a column for each of {self.n_way} classes and the tasks have {n_way}: call "
                f"rehead({n_way}) for one that starts at zero, train with n_way={n_way}, or with head='zero'"
            )
        return dict(zip(HEAD, (self.linear.weight, self.linear.bias), strict=True))

    def rehead(self, n_way: int | None, model: Method) -> None:
        """Become a head for another number of classes, or for any number, starting at zero; the card takes note."""
        if self.linear is None or n_way == self.n_way:
            return
        if n_way is None:
            self.linear = None
            if hasattr(model, "card"):
                model.card["options"] = {**model.card["options"], "head": "zero"}
            return
        self.n_way = n_way
        self.linear = nn.Linear(self.channels, n_way).to(self.linear.weight)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        if hasattr(model, "card"):
            model.card["context"] = {**model.card["context"], "n_way": n_way}


def cross_entropy(scores: Tensor, target: Tensor) -> Tensor:
    """Mean over the supports of one task; ``target [S, N]`` is one-hot."""
    return -(target * F.log_softmax(scores, -1)).sum() / len(target)


def unit(z: Tensor) -> Tensor:
    """``z`` at length one; a zero vector stays zero, and its second derivatives finite."""
    return z * (z.square().sum(-1, keepdim=True) + TINY).rsqrt()


def unit_features(features: ReducedFeatures, graph: Graph, like: nn.Module) -> Tensor:
    """Reduced features [N, rank], each row scaled so that its entries are about one (empty rows stay empty), in the
    precision of the weights of ``like``: step sizes then mean the same on every graph."""
    x, dtype = features(graph), next(like.parameters()).dtype
    return graph.memo(("scaled", dtype), lambda: F.normalize(x.to(dtype), dim=-1) * x.shape[1] ** 0.5, owner=x)
