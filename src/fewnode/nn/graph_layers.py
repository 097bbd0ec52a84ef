"""The encoder of the baselines: reduced features, then two graph convolutions, of all nodes or of some."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph, operators
from ..graph.arrays import csr_parts, to_scipy, to_tensor
from ..tasks import Tasks
from .features import ReducedFeatures


def xavier(linear: nn.Linear) -> nn.Linear:
    """The layer with Glorot's uniform weights and a zero bias, if it has one."""
    nn.init.xavier_uniform_(linear.weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    return linear


class Inputs(nn.Module):
    """The features, reduced without labels by a truncated SVD. It has no parameters.

    With a weight for each raw column, words that occur only in novel classes would not be learned; singular vectors are
    shared by all words.

    Args:
        in_channels: number of feature columns.
        rank: number of singular vectors.
        centred: whether the mean is subtracted from rows of length one.
        scaled: whether rows have the root of their width as length, so that entries are about one and step sizes have
            the same meaning on every graph; otherwise they have length one.
    """

    centre: Tensor | None

    def __init__(self, in_channels: int, rank: int = 256, centred: bool = False, scaled: bool = False) -> None:
        super().__init__()
        self.reduced = ReducedFeatures(in_channels, rank)
        self.width = self.reduced.basis.shape[1]
        self.length = self.width**0.5 if scaled else 1.0
        self.register_buffer("centre", torch.zeros(self.width) if centred else None)

    def fit(self, graph: Graph) -> None:
        """Learn the singular vectors of the features, and their mean."""
        self.reduced.fit(graph)
        if self.centre is not None:
            self.centre.copy_(F.normalize(self.reduced(graph), dim=-1).mean(0))

    def smoothed(self, graph: Graph) -> Tensor:
        """The inputs of all nodes after one propagation, [N, width], computed once."""
        x = self.unit(graph)
        return graph.cache.get("smoothed inputs", lambda: operators.normalized_adjacency(graph) @ x, source=x)

    def unit(self, graph: Graph) -> Tensor:
        """The inputs of all nodes, rows of equal length, [N, width], computed once."""
        # What the reduction loses differs from row to row: unless lengths are made equal, distances show that first.
        x: Tensor = self.reduced(graph)
        x = graph.cache.get(("inputs", self.length), lambda: F.normalize(x, dim=-1).mul_(self.length), source=x)
        centre = self.centre
        if centre is None:
            return x
        return graph.cache.get("centred inputs", lambda: F.normalize(x - centre, dim=-1), source=centre)


class GraphEncoder(nn.Module):
    """Two graph convolutions over ``D^-1/2 (A + I) D^-1/2``, with ReLU and dropout between them and nothing at the end.

    Kipf, Welling: Semi-Supervised Classification with Graph Convolutional Networks. ICLR 2017.

    Args:
        width, hidden_channels, out_channels: widths of the inputs, of the first and of the second layer.
        dropout: share of the first layer's output that is dropped during training.
        radius: of the sphere onto which embeddings are projected; None for no projection.
    """

    def __init__(
        self,
        width: int,
        hidden_channels: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        radius: float | None = None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, hidden_channels)))
        self.bias = nn.Parameter(torch.zeros(hidden_channels))
        self.outer = xavier(nn.Linear(hidden_channels, out_channels))
        self.middle: nn.Module = nn.ReLU()
        self.end: nn.Module = nn.Identity()
        self.dropout, self.radius = dropout, radius

    def forward(self, inputs: Inputs, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        """Embed ``nodes [P]``, by default all of the graph: [P, out_channels]."""
        near, rows = rows_of(operators.normalized_adjacency(graph), nodes)
        return self.around(inputs.smoothed(graph)[near], rows)

    def around(self, x: Tensor, rows: operators.Operator) -> Tensor:
        """Embeddings of the P nodes of ``rows``, from smoothed inputs ``x`` of their neighbours: [P, out_channels]."""
        h = F.dropout(self.middle(x.to(self.weight.dtype) @ self.weight + self.bias), self.dropout, self.training)
        return self.collected(h @ self.outer.weight.t(), rows)

    def collected(self, h: Tensor, rows: operators.Operator) -> Tensor:
        """The end of the second layer, from ``h`` to which its weights have been applied."""
        out: Tensor = self.end(rows @ h + self.outer.bias)
        if self.radius is None:
            return out
        # The 1e-4 keeps the gradient finite at a node without features and edges.
        return out * (self.radius * (out.square().sum(-1, keepdim=True) + 1e-4).rsqrt())


def drop(h: Tensor, rate: float) -> Tensor:
    """Dropout of all nodes at once, in place, with 16 random bits for each number: a third of torch's time."""
    if rate == 0.0:
        return h
    words = torch.empty((h.numel() + 3) // 4, dtype=torch.int64, device=h.device).random_(-(2**63), None)
    bits = words.view(torch.int16)[: h.numel()].view(h.shape)
    # Compared straight into numbers: truth values would take four times as long to make and to multiply.
    kept = torch.ge(bits, round(rate * 2**16) - 2**15, out=torch.empty(h.shape, dtype=h.dtype, device=h.device))
    return h.mul_(kept.mul_(1 / (1 - rate)))


def renumbered(tasks: Tasks) -> tuple[Tensor, Tasks]:
    """The distinct nodes of a batch of tasks, [P], and the tasks with positions in that list in place of nodes.

    A step then embeds only these: a few hundred neighbourhoods instead of the whole graph.
    """
    sizes = tasks.support.numel(), tasks.query.numel()
    nodes, position = torch.unique(torch.cat([tasks.support.flatten(), tasks.query.flatten()]), return_inverse=True)
    support, query = position.split(sizes)
    shapes = tasks.support.shape, tasks.query.shape
    return nodes, Tasks(support.view(shapes[0]), tasks.support_y, query.view(shapes[1]), tasks.query_y, tasks.n_way)


def rows_at(h: Tensor, nodes: Tensor) -> Tensor:
    """``h[nodes]``, rows of ``h [N, ...]`` at nodes of any shape.

    The backward pass of plain indexing adds in an order that depends on the threads. This function gives the same
    gradient with any number of threads.
    """
    rows: Tensor = h.index_select(0, nodes.flatten()).unflatten(0, nodes.shape)
    return rows


def take_rows(matrix: Tensor, nodes: Tensor) -> Tensor:
    """The rows ``nodes [P]`` of a CSR tensor, as a CSR tensor."""
    return to_tensor(to_scipy(matrix)[nodes.cpu().numpy()], matrix.device)


def rows_of(operator: operators.Operator, nodes: Tensor | None) -> tuple[Tensor | slice, operators.Operator]:
    """The nodes that the rows ``nodes [P]`` (by default all) of an operator read, in ascending order, and the rows as
    an operator on these nodes."""
    if nodes is None:
        return slice(None), operator
    ends, columns, values = csr_parts(take_rows(operator.matrix, nodes))
    near, position = torch.unique(columns, return_inverse=True)
    return near, operators.Operator(ends, position, values, width=len(near), symmetric=False)
