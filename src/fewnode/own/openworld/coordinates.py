"""The views of a graph as one matrix: side by side, turned to their principal directions, the small ones left out."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...graph.passes import column_means
from ...nn.views import VIEWS
from ...store.rows import by_rows, rows_at
from ...store.space import Space

WIDTH = 512  # principal directions that are kept: beyond them no class of the development graphs was told apart better
FURTHER = 256  # ... of the views that directions and kinds of edges add
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
