"""Which nodes to label next: those that a label would teach most, the doubtful, the sure, the typical."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError, one_of
from ..graph import Graph
from .inputs import find_nodes, names_and_titles
from .predictions import OTHER, Predictions, Rows

SURE = 0.9  # probability from which a prediction counts as sure


@dataclass(frozen=True, eq=False, repr=False)
class Suggestions(Rows):
    """Nodes ``[n]`` to look at, the first one first. ``labels`` and ``probabilities`` are what is predicted of them, or
    empty before there is anything to predict. ``by`` and ``label`` are what was asked for."""

    by: str
    label: str | None
    nodes: Tensor
    names: list[str]
    titles: list[str] | None
    labels: list[str]
    probabilities: list[float]

    def table(self) -> dict[str, Any]:
        """Columns ``id``, ``title`` if there are titles, and ``label`` and ``probability`` if anything is predicted."""
        predicted = {"label": self.labels, "probability": np.round(self.probabilities, 6)} if self.labels else {}
        return self.ids() | predicted


@dataclass(frozen=True, eq=False)
class Suggester:
    """Chooses among ``nodes [B]`` of a graph whose nodes have the coordinates ``x [N, d]``.

    ``found`` is what is predicted of them, None before there is anything to predict; ``shots`` says how many examples
    each class has.
    """

    graph: Graph
    x: Tensor
    nodes: Tensor
    found: Predictions | None = None
    shots: Mapping[str, int] = field(default_factory=dict)

    def suggest(
        self, n: int = 10, by: str = "teach", label: str | None = None, told: Iterable[Any] = (), seed: int = 0
    ) -> Suggestions:
        """The arguments are those of ``FewShotClassifier.suggest``; ``seed`` is that of "random"."""
        one_of("way to suggest", by, ("teach", "margin", "doubtful", "sure", "other", "typical", "random"))
        if n < 1:
            raise InputError(f"{n} suggestions; ask for 1 or more")
        if (label is not None) != (by in ("doubtful", "sure")):
            raise InputError(f"{by!r} {'needs a class: say which with' if label is None else 'takes no'} label")
        done = find_nodes(self.graph, told, "nodes told")
        free = (~torch.isin(self.nodes, done)).nonzero().flatten()
        best = free[self._chosen(free, by, label, done, seed, n)[:n]] if len(free) else free
        labels: list[str] = []
        probabilities: list[float] = []
        if self.found is not None:
            p, choice = self.found.probabilities[best.cpu()].max(1)
            labels, probabilities = [self.found.classes[c] for c in choice.tolist()], p.tolist()
        nodes = self.nodes[best].cpu()
        return Suggestions(by, label, nodes, *names_and_titles(self.graph, nodes), labels, probabilities)

    def _chosen(self, free: Tensor, by: str, label: str | None, done: Tensor, seed: int, n: int) -> Tensor:
        """Positions in ``free``, which holds positions in ``nodes``; the ``n`` best come first."""
        nodes = self.nodes[free]
        if by == "random":
            return _shuffled(torch.arange(len(free), device=free.device), seed)
        if by == "typical" or self.found is None:
            return self._typical(nodes, n, torch.ones(len(free)))
        p = self.found.probabilities[free.cpu()].to(free.device)
        if by == "margin":
            return _margin(p).argsort(stable=True)
        if by == "other":
            return p[:, self._column(OTHER)].argsort(descending=True, stable=True)
        if label is not None:
            return _of_class(p, self._column(label), by, seed)
        # The groups are known (all together), each new class, and other. Known classes have no examples to add.
        kinds = self.found.kinds or ("new",) * len(self.found.classes)
        known = torch.tensor([kind == "known" for kind in kinds], device=p.device)
        groups = torch.cat([p[:, known].sum(1, keepdim=True), p[:, ~known]], 1)
        if groups.shape[1] <= 2 and self.found.kinds is not None:  # no new class yet: what looks like no known one
            return self._typical(nodes, n, groups[:, -1].cpu() + 1e-9)
        names = [name for name, kind in zip(self.found.classes, kinds, strict=True) if kind != "known"]
        shots = p.new_tensor([max(self.shots.get(name, 0), 1) for name in names])
        return self._teaching(nodes, groups, shots, n, done)

    def _column(self, label: str) -> int:
        assert self.found is not None
        if label == OTHER and self.found.kinds is not None:
            return self.found.kinds.index("other")
        return self.found.classes.index(one_of("class", label, self.found.classes))

    @cached_property
    def _centre(self) -> Tensor:
        return self.x[:: max(len(self.x) // 20_000, 1)].float().mean(0)

    def _alike(self, a: Tensor, b: Tensor) -> Tensor:
        """How alike nodes are, from 0 to 1: a power of the cosine that only near ones have much of."""
        left, right = (F.normalize(self.x[nodes].float() - self._centre, dim=1) for nodes in (a, b))
        return (left @ right.T).clamp(min=0, max=1) ** 4

    def _teaching(self, nodes: Tensor, groups: Tensor, shots: Tensor, n: int, done: Tensor) -> Tensor:
        """Doubtful nodes that many other doubtful nodes are like, one after the other; what is like a node that was
        chosen or answered counts less. Every class has the same weight, so rare ones come up too; one with many
        examples has less."""
        doubt = (groups * (1 - groups))[:, 1:]
        worth = (doubt / doubt.sum(0).clamp(min=1e-9) / shots).sum(1)
        worth, top = worth.topk(min(1000, len(worth)))
        if len(done):
            worth = worth * (1 - self._alike(nodes[top], done).max(1).values)
        alike, chosen, left = self._alike(nodes[top], nodes[top]), [], torch.zeros_like(worth)
        for _ in range(min(n, len(top))):
            best = int((worth * (alike @ worth) + left).argmax())
            chosen.append(best)
            worth = worth * (1 - alike[best]).clamp(min=0)
            left[best] = -1.0  # worths are never negative
        return top[torch.tensor(chosen, device=top.device)]

    def _typical(self, nodes: Tensor, n: int, weight: Tensor) -> Tensor:
        """The node in the middle of each of ``n`` regions, the one with the largest ``weight [B]`` first."""
        from sklearn.cluster import MiniBatchKMeans  # takes a second to import

        sample = _shuffled(torch.arange(len(nodes)), seed=0)[:20_000]
        x = (self.x[nodes[sample.to(nodes.device)]].float() - self._centre)[:, -64:].cpu()  # leading coordinates
        n = min(n, len(sample))
        means = MiniBatchKMeans(n, random_state=0, n_init=3, batch_size=2048)
        region = torch.from_numpy(means.fit_predict(x.numpy(), sample_weight=weight[sample].numpy())).long()
        away = (x - torch.from_numpy(means.cluster_centers_)[region]).norm(dim=1)
        size = torch.zeros(n).index_add_(0, region, weight[sample])
        by_region = [(region == i).nonzero().flatten() for i in size.argsort(descending=True).tolist()]
        middle = [int(part[away[part].argmin()]) for part in by_region if len(part)]
        return sample[torch.tensor(middle)].to(nodes.device)


def _shuffled(items: Tensor, seed: int) -> Tensor:
    return items[torch.randperm(len(items), generator=torch.Generator().manual_seed(seed)).to(items.device)]


def _margin(p: Tensor) -> Tensor:
    top = p.topk(min(2, p.shape[1]), 1).values
    return top[:, 0] - top[:, -1]


def _of_class(p: Tensor, column: int, by: str, seed: int) -> Tensor:
    """Positions of nodes that get the class: the least sure first, or the sure ones in random order."""
    own, called = p[:, column], p.argmax(1) == column
    if by == "doubtful":
        return torch.where(called, _margin(p), 2 - own).argsort(stable=True)
    sure = (called & (own >= SURE)).nonzero().flatten()
    return _shuffled(sure, seed) if len(sure) else own.argsort(descending=True, stable=True)
