"""The nearest nodes of nodes, by features or by diffusion: in pieces, so that memory stays bounded on any graph."""

from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor
from torch.nn import functional as F

from ..graph import Graph
from ..graph.arrays import to_scipy

CELLS = 8_000_000  # numbers of one piece: 32 MB


def nearest_by_features(graph: Graph, nodes: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` nodes of the largest cosine with each of ``nodes [B]``, not itself: ids and cosines, [B, count]."""
    x = graph.x
    if x.layout == torch.strided:
        unit = F.normalize(x, dim=-1)
        return _largest(lambda part: unit[part] @ unit.t(), nodes, graph.num_nodes, count)
    rows = _unit_rows(to_scipy(x))
    columns = rows.T.tocsr()

    def similarity(part: Tensor) -> Tensor:
        return torch.from_numpy((rows[part.cpu().numpy()] @ columns).toarray()).to(graph.device)

    return _largest(similarity, nodes, graph.num_nodes, count)


def nearest_by_diffusion(
    graph: Graph, nodes: Tensor, count: int, *, restart: float = 0.1, steps: int = 12, least: float = 1e-4
) -> tuple[Tensor, Tensor]:
    """The ``count`` nodes where a random walk that restarts at each of ``nodes [B]`` is most often: ids and shares.

    Shares below ``least`` are dropped on the way: a walk is then at no more than ``1 / least`` nodes, however large the
    graph. Where it reaches fewer nodes than ``count``, the rest have share zero.
    """
    walk = graph.to_scipy()
    total = np.asarray(walk.sum(1)).ravel() if graph.weights is not None else np.maximum(np.diff(walk.indptr), 1)
    walk.data /= np.repeat(total, np.diff(walk.indptr))

    def shares(part: Tensor) -> Tensor:
        start = sp.identity(graph.num_nodes, np.float32, "csr")[part.cpu().numpy()]
        spread = start
        for _ in range(steps):
            spread = (1 - restart) * (spread @ walk) + restart * start
            spread.data[spread.data < least] = 0
            spread.eliminate_zeros()
        return torch.from_numpy(spread.toarray()).to(graph.device)

    return _largest(shares, nodes, graph.num_nodes, count)


def _largest(similarity: Callable[[Tensor], Tensor], nodes: Tensor, n: int, count: int) -> tuple[Tensor, Tensor]:
    ids, values = [], []
    for part in nodes.split(max(1, CELLS // n)):
        table = similarity(part)
        table[torch.arange(len(part), device=part.device), part] = float("-inf")
        top = table.topk(min(count, n - 1), dim=1)
        ids.append(top.indices)
        values.append(top.values)
    return torch.cat(ids), torch.cat(values)


def _unit_rows(x: sp.csr_matrix) -> sp.csr_matrix:
    norm = np.sqrt(np.asarray(x.multiply(x).sum(1)).ravel())
    scale = np.where(norm > 0, 1 / np.maximum(norm, 1e-30), 0).astype(np.float32)
    return sp.csr_matrix(sp.diags(scale) @ x)
