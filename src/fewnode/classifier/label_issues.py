"""Labels that are probably wrong, found by confident learning (Northcutt, Jiang and Chuang 2021).

Every labelled node is predicted by a model that was fitted without its label: ``p_j`` is the probability of class j.
``N_ji`` is how often nodes of class j are labelled i, counted where the predictions are surest. How
doubtful the label i of a node is follows from both::

    odds = sum_{j != i} N_ji p_j^2 / p_i,    doubt = odds / (odds + 1/2)

With mistakes spread over all classes this is nearly the order of ``p_i``, cleanlab's self-confidence. Where two classes
are mistaken for each other, the model learns the mistake and ``p_i`` is not small: ``N`` makes up for it. How far the
counts are drawn towards an even spread follows from the counts themselves (empirical Bayes). The power of ``p_j`` keeps
nodes that the model is not sure of behind those that it is sure of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..graph import Graph
from ..training.progress import Progress
from .inputs import names_and_titles
from .known_classes import KnownClassModel, NodeInputs
from .predictions import Rows, rounded


@torch.no_grad()
def held_out_probabilities(
    inputs: NodeInputs,
    y: Tensor,
    known: KnownClassModel,
    *,
    folds: int = 5,
    progress: Progress = lambda what, part: None,
) -> tuple[Tensor, Tensor]:
    """The labelled nodes ``[L]`` and their probabilities ``[L, C]`` by models that were fitted without their labels.

    Folds are stratified; the only node of a class is never held out and not returned.
    """
    order = inputs.shuffled((y >= 0).nonzero().flatten())
    order = order[y[order].argsort(stable=True)]
    order = order[torch.bincount(y[order])[y[order]] > 1]
    fold = torch.arange(len(order), device=y.device) % folds
    probabilities = torch.zeros(len(order), int(y.max()) + 1, device=y.device)
    for i in range(folds):
        progress("comparing labels with held-out predictions", i / folds)
        held = order[fold == i]
        left = y.index_fill(0, held, -1)
        logits, _ = known.refit(inputs, left).logits(inputs, left, held)
        probabilities[fold == i] = logits.softmax(1)
    return order, probabilities


def label_doubt(probabilities: Tensor, y: Tensor, sure: float = 0.25) -> Tensor:
    """The doubt about each label ``y [L]``, from 0 to 1, given held-out ``probabilities [L, C]``.

    ``N`` is counted on the most certain predictions of each class, a share ``sure`` of them.
    """
    n_classes = probabilities.shape[1]
    best, predicted = probabilities.max(1)
    order = best.argsort(descending=True)
    order = order[predicted[order].argsort(stable=True)]  # by class, the surest first
    sizes = torch.bincount(predicted, minlength=n_classes)
    rank = torch.arange(len(y), device=y.device) - (sizes.cumsum(0) - sizes)[predicted[order]]
    surest = order[rank < (sure * sizes[predicted[order]]).clamp(min=1)]
    pairs = predicted[surest] * n_classes + y[surest]
    mistakes = torch.bincount(pairs, minlength=n_classes**2).view(n_classes, n_classes).double().fill_diagonal_(0)
    rate = (mistakes.sum() + 1) / (len(surest) + 1)
    spread = _concentration(mistakes) ** 1.5  # some mistakes are the model's, which makes labels look less spread
    noise = (mistakes + spread / max(1, n_classes - 1)) / (mistakes.sum(1, keepdim=True) + spread)
    mistaken = probabilities.double() ** 2 @ (rate * noise).fill_diagonal_(0)
    odds = (mistaken / probabilities.clamp(min=1e-12)).gather(1, y[:, None])[:, 0]
    return (odds / (odds + 0.5)).float()


def _concentration(mistakes: Tensor) -> Tensor:
    """How evenly mistakes ``[C, C]`` of a class are spread over the others: the concentration of the symmetric
    Dirichlet distribution under which the counts are likeliest, small where few pairs of classes have most of them."""
    tried = torch.logspace(-1, 4, 51, dtype=torch.float64, device=mistakes.device)[:, None, None]
    each, total = tried / max(1, len(mistakes) - 1), mistakes.sum(1)
    per_class = torch.lgamma(tried[:, 0]) - torch.lgamma(total + tried[:, 0])  # [51, C]
    per_pair = torch.stack([(torch.lgamma(mistakes + one) - torch.lgamma(one)).sum() for one in each])
    return tried[(per_class.sum(1) + per_pair).argmax(), 0, 0]


@dataclass(frozen=True, eq=False, repr=False)
class LabelIssues(Rows):
    """Labelled ``nodes [B]`` whose label may be wrong, the most doubtful first.

    Args:
        nodes, names: their numbers and names.
        labels, suggested: the label of each, and the most probable other class.
        doubt: ``[B]``, from 0 to 1, approximately the probability that the label is wrong.
        probabilities: ``[B, 2]``, of the label and of the suggested class, by a model that has not seen the label.
        neighbours: ``[B, 3]``, the numbers of neighbours with the label, with the suggested class, and with any label.
        labelled: the number of labels that were examined.
        titles: the titles of the nodes, if the graph has any.
    """

    nodes: Tensor
    names: list[str]
    labels: list[str]
    suggested: list[str]
    doubt: Tensor
    probabilities: Tensor
    neighbours: Tensor
    labelled: int
    titles: list[str] | None = None

    @classmethod
    def of(
        cls, graph: Graph, y: Tensor, classes: Sequence[str], nodes: Tensor, probabilities: Tensor, top: int | None
    ) -> "LabelIssues":
        """The ``top`` most doubtful labels ``y [N]``; by default those that are more likely wrong than right.

        ``probabilities [L, C]`` are held-out probabilities of the labelled ``nodes [L]``.
        """
        doubt, own = label_doubt(probabilities, y[nodes]), y[nodes][:, None]
        order = doubt.argsort(descending=True, stable=True)[: int((doubt > 0.5).sum()) if top is None else top]
        given, judged = probabilities.gather(1, own), len(nodes)
        best, other = probabilities.scatter(1, own, -1).max(1)
        nodes, other = nodes[order], other[order]
        neighbours = []
        for node, label, instead in zip(nodes.tolist(), y[nodes].tolist(), other.tolist(), strict=True):
            around = y[graph.indices[graph.indptr[node] : graph.indptr[node + 1]].long()]
            neighbours.append([int((around == label).sum()), int((around == instead).sum()), int((around >= 0).sum())])
        names, titles = names_and_titles(graph, nodes)
        return cls(
            nodes.cpu(),
            names,
            [classes[c] for c in y[nodes].tolist()],
            [classes[c] for c in other.tolist()],
            doubt[order].cpu(),
            torch.cat([given, best[:, None]], 1)[order].cpu(),
            torch.tensor(neighbours).view(-1, 3),
            judged,
            titles,
        )

    def table(self) -> dict[str, Any]:
        """Columns ``id, label, suggested, doubt, p_label, p_suggested, why``; ``title`` follows the id if there are
        titles."""
        pairs = zip(self.labels, self.suggested, self.neighbours.tolist(), strict=True)
        return {
            **self.ids(),
            "label": self.labels,
            "suggested": self.suggested,
            "doubt": rounded(self.doubt),
            "p_label": rounded(self.probabilities[:, 0]),
            "p_suggested": rounded(self.probabilities[:, 1]),
            "why": [
                f"{instead} of {some} labelled neighbours are {other!r}, {same} are {label!r}"
                if some
                else "its features; no neighbour has a label"
                for label, other, (same, instead, some) in pairs
            ],
        }
