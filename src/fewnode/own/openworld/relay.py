"""What the nodes of a fitted graph hand on to a neighbour that arrives later: their rows in every smoothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ...graph import Graph
from ...graph.operators import Operator, mean_adjacency, normalized_adjacency, ppr_smooth
from ...nn.views import VIEWS, ViewSources, neighbour_lists
from .known_head import label_matrix
from .spreading import SPREADS


@dataclass(frozen=True)
class Relay:
    """Rows of all nodes before the views are centred, in half precision: ``words`` and ``links`` as they are, their
    means over the neighbours, and smoothed near and far; and the opinions ``said [N, 2 C + 1]`` far and near: labels,
    answers, and the mass of all nodes."""

    words: Tensor
    words_mean: Tensor
    words_near: Tensor
    words_far: Tensor
    links: Tensor
    links_mean: Tensor
    links_near: Tensor
    said_far: Tensor
    said_near: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, graph: Graph, views: Sequence[Tensor], sources: ViewSources, y: Tensor, answers: Tensor) -> "Relay":
        """Of the graph with these ``views``, the labels ``y [N]`` and what its nodes answer ``[N, C]``."""
        edges, mean = normalized_adjacency(graph), mean_adjacency(graph)
        six = slice(len(VIEWS))  # further views are made from the words and links of neighbours alone
        words, _, near, far, _, links_near = (
            _uncentred(*parts) for parts in zip(views[six], sources.means[six], sources.lengths[six], strict=True)
        )
        links = neighbour_lists(edges) @ sources.links
        words_mean, links_mean = ((mean @ part.float()).half() for part in (words, links))
        said = torch.cat([label_matrix(y, answers.shape[1]), answers, torch.ones_like(answers[:, :1])], 1)
        far_said, near_said = (_spread(edges, said, *spread) for spread in SPREADS)
        return cls(words, words_mean, near, far, links.half(), links_mean, links_near, far_said, near_said)

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, for a file."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @classmethod
    def from_tensors(cls, parts: Mapping[str, Tensor]) -> "Relay":
        """What ``tensors`` gave."""
        return cls(**{part.name: parts[part.name] for part in fields(cls)})

    def of_nodes(self, nodes: Tensor) -> "Relay":
        """The rows of some nodes, in single precision."""
        return Relay(**{name: part[nodes].float() for name, part in self.tensors().items()})


def _uncentred(view: Tensor, mean: Tensor, lengths: Tensor) -> Tensor:
    """The rows that ``centred`` was given: empty ones stay empty."""
    return torch.where(lengths[:, None] > 0, view.float() * lengths[:, None] + mean, 0).half()


def _spread(edges: Operator, said: Tensor, restart: float, steps: int) -> Tensor:
    return ppr_smooth(edges, said, steps=steps, restart=restart).half()
