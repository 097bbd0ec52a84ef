"""The views of a graph as one matrix: side by side, turned to their principal directions, the small ones left out."""

from collections.abc import Sequence

import torch
from torch import Tensor

WIDTH = 512  # principal directions that are kept: beyond them no class of the development graphs was told apart better
SAMPLE = 20_000  # nodes the directions are learned from
LENGTH = 3.0  # of each view's rows: brings the coordinates to the scale at which the penalties of the head are set


@torch.no_grad()
def joined(views: Sequence[Tensor]) -> Tensor:
    """Coordinates ``[N, at most WIDTH]`` of all nodes, centred on their mean.

    They are rounded to half precision, in which they are saved, so that a loaded model answers as it did.
    """
    n, device = len(views[0]), views[0].device
    chosen = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:SAMPLE].to(device)
    centre = LENGTH * torch.cat([view.mean(0, dtype=torch.float32) for view in views])
    sample = LENGTH * torch.cat([view[chosen].float() for view in views], 1) - centre
    directions: Tensor = torch.linalg.eigh((sample.T @ sample).double())[1][:, -WIDTH:].float()
    total: Tensor = -(centre @ directions).expand(n, -1).contiguous()
    at = 0
    for view in views:  # one at a time: all of them side by side would take three times the memory
        total.addmm_(view.float(), directions[at : at + view.shape[1]], alpha=LENGTH)
        at += view.shape[1]
    rounded: Tensor = total.half().float()
    return rounded
