"""Which nodes to label next: those whose labels improve the model most, uncertain, certain or typical ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError, one_of
from ..graph import Graph
from .inputs import find_nodes, names_and_titles
from .known_classes import shuffled
from .predictions import OTHER, Predictions, Rows

SURE = 0.9  # probability from which a prediction counts as sure


@dataclass(frozen=True, eq=False, repr=False)
class Suggestions(Rows):
    """Nodes ``[n]`` to label next, in this order.

    ``labels`` and ``probabilities`` are their predictions, or empty if nothing can be predicted yet. ``by`` and
    ``label`` are the arguments of the call.
    """

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


def suggest(
    graph: Graph,
    x: Tensor,
    nodes: Tensor,
    found: Predictions | None = None,
    shots: Mapping[str, int] | None = None,
    *,
    n: int = 10,
    by: str = "teach",
    label: str | None = None,
    told: Iterable[Any] = (),
    seed: int = 0,
) -> Suggestions:
    """The ``n`` of ``nodes [B]`` to label next.

    Args:
        graph: the graph, whose nodes have the coordinates ``x [N, d]``.
        x: these coordinates.
        nodes: the nodes to choose from.
        found: their predictions, None if nothing can be predicted yet.
        shots: the number of examples of each class.
        n, by, label, told: as in ``FewShotClassifier.suggest``.
        seed: of the order for "random".
    """
    one_of("way to suggest", by, ("teach", "margin", "doubtful", "sure", "other", "typical", "random"))
    if n < 1:
        raise InputError(f"{n} suggestions; ask for 1 or more")
    if (label is not None) != (by in ("doubtful", "sure")):
        raise InputError(f"{by!r} {'needs a class: say which with' if label is None else 'takes no'} label")
    done = find_nodes(graph, told, "nodes told")
    random, free = torch.Generator().manual_seed(seed), (~torch.isin(nodes, done)).nonzero().flatten()
    nodes, p = nodes[free], None if found is None else found.probabilities[free.cpu()].to(free.device)
    if not len(free):
        best = free
    elif by == "random":
        best = shuffled(torch.arange(len(free), device=free.device), random)
    elif found is None or p is None or by == "typical":
        best = _typical(x, nodes, n, torch.ones(len(free)))
    elif by == "margin":
        best = _margin(p).argsort(stable=True)
    elif by == "other":
        best = p[:, _column(found, OTHER)].argsort(descending=True, stable=True)
    elif label is not None:
        best = _of_class(p, _column(found, label), by, random)
    else:
        # The groups are known (all together), each new class, and other. Known classes have no examples to add.
        kinds = found.kinds or ("new",) * len(found.classes)
        known = torch.tensor([kind == "known" for kind in kinds], device=p.device)
        groups = torch.cat([p[:, known].sum(1, keepdim=True), p[:, ~known]], 1)
        if groups.shape[1] <= 2 and found.kinds is not None:  # no new class yet: what looks like no known one
            best = _typical(x, nodes, n, groups[:, -1].cpu() + 1e-9)
        else:
            names = [name for name, kind in zip(found.classes, kinds, strict=True) if kind != "known"]
            weights = p.new_tensor([max((shots or {}).get(name, 0), 1) for name in names])
            best = _teaching(x, nodes, groups, weights, n, done)
    best, labels, probabilities = best[:n], list[str](), list[float]()
    if found is not None and p is not None:
        sure, choice = p[best].max(1)
        labels, probabilities = [found.classes[c] for c in choice.tolist()], sure.tolist()
    nodes = nodes[best].cpu()
    return Suggestions(by, label, nodes, *names_and_titles(graph, nodes), labels, probabilities)


def _column(found: Predictions, label: str) -> int:
    if label == OTHER and found.kinds is not None:
        return found.kinds.index("other")
    return found.classes.index(one_of("class", label, found.classes))


def _centre(x: Tensor) -> Tensor:
    return x[:: max(len(x) // 20_000, 1)].float().mean(0)


def _teaching(x: Tensor, nodes: Tensor, groups: Tensor, shots: Tensor, n: int, done: Tensor) -> Tensor:
    """Doubtful nodes that many other doubtful nodes are like, one after the other; what is like a node that was chosen
    or answered counts less. Every class has the same weight, so rare ones come up too; one with many examples has
    less."""
    doubt, centre = (groups * (1 - groups))[:, 1:], _centre(x)

    def alike(a: Tensor, b: Tensor) -> Tensor:
        """How alike nodes are, from 0 to 1: a power of the cosine that only near ones have much of."""
        left, right = (F.normalize(x[some].float() - centre, dim=1) for some in (a, b))
        return (left @ right.T).clamp(min=0, max=1) ** 4

    worth = (doubt / doubt.sum(0).clamp(min=1e-9) / shots).sum(1)
    worth, top = worth.topk(min(1000, len(worth)))
    if len(done):
        worth = worth * (1 - alike(nodes[top], done).max(1).values)
    like, chosen, left = alike(nodes[top], nodes[top]), [], torch.zeros_like(worth)
    for _ in range(min(n, len(top))):
        best = int((worth * (like @ worth) + left).argmax())
        chosen.append(best)
        worth = worth * (1 - like[best]).clamp(min=0)
        left[best] = -1.0  # worths are never negative
    return top[torch.tensor(chosen, device=top.device)]


def _typical(x: Tensor, nodes: Tensor, n: int, weight: Tensor) -> Tensor:
    """The node in the middle of each of ``n`` regions, the one with the largest ``weight [B]`` first."""
    from sklearn.cluster import MiniBatchKMeans  # takes a second to import

    sample = shuffled(torch.arange(len(nodes)), torch.Generator().manual_seed(0))[:20_000]
    rows = (x[nodes[sample.to(nodes.device)]].float() - _centre(x))[:, -64:].cpu()  # leading coordinates
    n = min(n, len(sample))
    means = MiniBatchKMeans(n, random_state=0, n_init=3, batch_size=2048)
    region = torch.from_numpy(means.fit_predict(rows.numpy(), sample_weight=weight[sample].numpy())).long()
    away = (rows - torch.from_numpy(means.cluster_centers_)[region]).norm(dim=1)
    size = torch.zeros(n).index_add_(0, region, weight[sample])
    by_region = [(region == i).nonzero().flatten() for i in size.argsort(descending=True).tolist()]
    middle = [int(part[away[part].argmin()]) for part in by_region if len(part)]
    return sample[torch.tensor(middle)].to(nodes.device)


def _margin(p: Tensor) -> Tensor:
    top = p.topk(min(2, p.shape[1]), 1).values
    return top[:, 0] - top[:, -1]


def _of_class(p: Tensor, column: int, by: str, random: torch.Generator) -> Tensor:
    """Positions of nodes that get the class: the least sure first, or the sure ones in random order."""
    own, called = p[:, column], p.argmax(1) == column
    if by == "doubtful":
        return torch.where(called, _margin(p), 2 - own).argsort(stable=True)
    sure = (called & (own >= SURE)).nonzero().flatten()
    return shuffled(sure, random) if len(sure) else own.argsort(descending=True, stable=True)
