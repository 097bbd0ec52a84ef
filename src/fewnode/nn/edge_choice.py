"""Which directions and types of edges help to tell classes apart: tried on known classes as simulated novel ones.

Every class is hidden once, with others, and shown by a few examples, which are compared under the covariance within the
classes that are known. Weights of edge types, and then directions and types as views, are used only if the accuracy of
the hidden classes rises by more than noise: the lower end of the 95 % interval (of Student's t, over classes) must be
above zero. So with few classes it takes a large gain, and with very few nothing is used.
"""

from dataclasses import replace

import torch
from torch import Tensor

from ..graph import Graph
from ..graph.edge_types import EdgeUse, commonest_types, type_weights, weights_tell
from .class_shape import class_scatter, sample_per_class, without_each
from .heads import class_means
from .views import VIEWS, Views


@torch.no_grad()
def choose_edges(graph: Graph, rank: int = 256) -> tuple[EdgeUse, list[str]]:
    """What to make of the weights, directions and types of edges, by the labels of a graph; and notes about it."""
    plain, notes, what = EdgeUse(weighted=weights_tell(graph)), list[str](), "directions and types of edges:"
    if not plain.weighted:
        notes.append("edges within base classes weigh no more than edges between them, so the weights are not used")
    if not graph.directed and graph.edge_types is None:
        return plain, notes
    from scipy.stats import t as student  # takes as long to import as half of torch

    asked = (torch.bincount(graph.y[graph.y >= 0], minlength=1) >= 8).nonzero().ravel()
    if len(asked) < 4:
        return plain, [*notes, f"{what} not used, there are fewer than 4 known classes to ask"]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        nodes, order = sample_per_class(graph.y, asked, 100), torch.randperm(len(asked), device=graph.device)
    y = order[torch.searchsorted(asked, graph.y[nodes])]
    ways = ("in", "out") if graph.directed else ()
    use, before = plain, novel_accuracies(_rows(graph, plain, rank, nodes), y)
    views = {"relations": ways, "types": commonest_types(graph)}
    for label, more in (("weights", {"weights": type_weights(graph)}), ("views", views)):
        tried = replace(use, **more)
        after = novel_accuracies(_rows(graph, tried, rank, nodes), y)
        gains = after - before
        if float(gains.mean()) > float(student.ppf(0.975, len(gains) - 1) * gains.std()) / len(gains) ** 0.5:
            use, before = tried, after
            notes.append(f"{what} {label} used, {100 * float(gains.mean()):+.1f} points on known classes")
    return use, notes if use != plain else [*notes, f"{what} not used, they did not help on known classes"]


def _rows(graph: Graph, use: EdgeUse, rank: int, nodes: Tensor) -> Tensor:
    """The plain views of ``nodes [n]`` in their 256 principal directions, and those that ``use`` adds."""
    views = [view[nodes].float() for view in Views.of(graph, rank, use).to(graph.device).fit(graph)(graph)]
    z = torch.cat(views[: len(VIEWS)], 1)
    z = z - z.mean(0)
    return torch.cat([z @ torch.linalg.eigh(z.T @ z)[1][:, -256:], *views[len(VIEWS) :]], 1)


def novel_accuracies(z: Tensor, y: Tensor, shots: int = 3, draws: int = 5) -> Tensor:
    """How often members of each class, hidden with a third of the others, are told from these by a few examples, [C].

    Rows ``z [n, d]`` of classes ``y [n]``, 0..C-1, are whitened by the covariance within the other classes, with a
    ridge; the rows of a class are in random order.
    """
    size = torch.bincount(y)
    folds = min(3, len(size) // 2)
    classes = torch.arange(len(size), device=y.device)
    others = without_each(*class_scatter(z, y, classes, classes % folds)[1:])
    number = torch.empty_like(y)  # of a row in its class
    number[y.argsort(stable=True)] = torch.cat([torch.arange(n, device=y.device) for n in size.tolist()])
    found = z.new_zeros(len(size))
    for fold in range(folds):
        covariance = others[fold].double()
        covariance.diagonal().add_(z.var(0, correction=0).mean())
        away = y % folds == fold
        root, place = torch.linalg.cholesky(covariance), y[away] // folds
        rows = torch.linalg.solve_triangular(root, z[away].T.double(), upper=False).T.float()
        n_hidden = len(size[fold::folds])
        for draw in range(draws):
            shown = ((number - draw * shots) % size[y] < shots)[away]
            means = class_means(rows[None, shown], place[None, shown], n_hidden)[0]
            right = (torch.cdist(rows, means).argmin(1) == place).float()
            found[fold::folds] += class_means(right[None, ~shown, None], place[None, ~shown], n_hidden)[0, :, 0] / draws
    return found
