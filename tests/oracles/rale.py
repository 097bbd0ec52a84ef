"""RALE one path, one head, one position at a time."""

import math

import torch
from torch import Tensor

from fewnode.methods.rale import RALE, Choice, PathAttention


def unit(z: Tensor) -> Tensor:
    return z / z.norm()


def position(p: int, channels: int) -> Tensor:
    """The sinusoids of a position."""
    values = []
    for c in range(channels):
        angle = p / 10000 ** (2 * (c // 2) / channels)
        values.append(math.sin(angle) if c % 2 == 0 else math.cos(angle))
    return torch.tensor(values, dtype=torch.float64)


def path_embedding(model: PathAttention, nodes: list[Tensor]) -> Tensor:
    """A path of exactly these nodes."""
    d = len(nodes[0])
    z = [g * math.sqrt(d) + position(p, d) for p, g in enumerate(nodes)]
    out = []
    for i in range(len(z)):
        heard = torch.zeros(d, dtype=torch.float64)
        for head in range(model.heads):
            mine = list(range(head, d, model.heads))
            q = model.query.weight[mine] @ z[i]
            logits = [q @ (model.key.weight[mine] @ other) / math.sqrt(len(mine)) for other in z]
            weights = torch.softmax(torch.stack(logits), 0)
            heard[mine] = sum(w * (model.value.weight[mine] @ other) for w, other in zip(weights, z, strict=True))
        h = unit(z[i] + heard)
        out.append(unit(h + model.outer(torch.relu(model.inner(h)))))
    return torch.stack(out).max(0).values


def choice(model: Choice, vectors: list[Tensor], channels: int) -> Tensor:
    """The weighted mean of the vectors there are; zero without any."""
    if not vectors:
        return torch.zeros(channels, dtype=torch.float64)
    hidden = [model.inner(r) for r in vectors]
    logits = [(torch.where(h > 0, h, 0.01 * h) * model.eta[:, 0]).sum() for h in hidden]
    weights = torch.softmax(torch.stack(logits), 0)
    return sum(w * r for w, r in zip(weights, vectors, strict=True))


def location(
    model: RALE,
    x: Tensor,
    node: int,
    to_supports: dict[int, list[list[int]]],
    y: list[int],
    to_hubs: list[list[int]],
) -> Tensor:
    """The embedding of one node: ``to_supports[s]`` are the paths to support number s, each a list of nodes."""

    def embedded(v: int) -> Tensor:
        h = model.content(x[v])
        return unit(torch.where(h > 0, h, torch.exp(h) - 1))

    def path(nodes: list[int]) -> Tensor:
        return path_embedding(model.path, [embedded(v) for v in nodes])

    classes = []
    for c in sorted(set(y)):
        pairs = [
            torch.stack([path(p) for p in paths]).mean(0) for s, paths in to_supports.items() if y[s] == c and paths
        ]
        if pairs:
            classes.append(torch.stack(pairs).mean(0))
    own = embedded(node)
    hubs = [path(p) for p in to_hubs]
    return torch.cat([choice(model.relative, classes, len(own)), choice(model.absolute, hubs, len(own)), own])
