"""The inner loop of meta-learning: gradient steps on each task's own loss, all tasks at once, by ``torch.func``."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from ..graph.arrays import gather_rows
from .graph_layers import xavier

Weights = dict[str, Tensor]


def adapt(loss: Callable[..., Tensor], start: Weights, data: tuple[Tensor, ...], *, steps: int, rate: float) -> Weights:
    """The weights of every task after ``steps`` gradient steps from the same start, each ``[T, ...]``.

    They remain functions of the start: the gradient of a query loss reaches it as if the gradient of every step were a
    constant (first order). Nothing is changed in place, and it also works under ``torch.no_grad``.

    Finn, Abbeel, Levine: Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks. ICML 2017.

    Args:
        loss: ``loss(weights, *data)`` of one task, a scalar.
        start: the weights before the first step, by name.
        data: the data of the loss for all tasks: tensors ``[T, ...]``.
        steps, rate: number and size of the gradient steps.
    """
    gradient = vmap(grad(loss), randomness="different")
    weights = {name: value.expand(len(data[0]), *value.shape) for name, value in start.items()}
    for _ in range(steps):
        gradients = gradient({name: value.detach() for name, value in weights.items()}, *data)
        weights = {name: value - rate * gradients[name] for name, value in weights.items()}
    return weights


def unit(z: Tensor) -> Tensor:
    """``z`` at length one; a zero vector stays zero, and its second derivatives finite."""
    return z * (z.square().sum(-1, keepdim=True) + 1e-12).rsqrt()


@dataclass(frozen=True)
class Neighbourhoods:
    """What the first layer of a network reads: node u the entries ``start[u]:start[u + 1]``, each with its ``weight
    [E]`` and its row of ``width`` numbers, ``inputs(entries)``."""

    start: Tensor
    weight: Tensor
    inputs: Callable[[Tensor], Tensor]
    width: int

    def sizes(self, nodes: Tensor) -> Tensor:
        """What the nodes ``[T, S]`` of each task take, in rows of 128 numbers."""
        return self.start.diff()[nodes].sum(1) * -(-self.width // 128)

    def rows(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The first layer's inputs ``[T, R, width]`` of tasks with the nodes ``[T, S]``, filled up with zeros, and the
        weights ``[T, S, R]`` which gather them at the nodes."""
        tasks, each = nodes.shape
        owner, entry = gather_rows(self.start, nodes.flatten())
        task, found = owner // each, self.inputs(entry)
        count = torch.bincount(task, minlength=tasks)
        place = torch.arange(len(owner), device=owner.device) - (count.cumsum(0) - count)[task]
        inputs = found.new_zeros(tasks, int(count.max()), self.width)
        pool = found.new_zeros(tasks, each, inputs.shape[1])
        inputs[task, place] = found
        pool[task, owner % each, place] = self.weight[entry].to(found.dtype)
        return inputs, pool


class GCNRows(nn.Module):
    """A two-layer GCN on the rows of a task: ReLU between the layers, none at the end."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = xavier(nn.Linear(in_channels, hidden_channels))
        self.second = xavier(nn.Linear(hidden_channels, out_channels))

    def forward(self, inputs: Tensor, pool: Tensor) -> Tensor:
        """Outputs [S, out] at the nodes of a task, from ``inputs [R, in]`` and ``pool [S, R]``."""
        out: Tensor = self.second(pool @ torch.relu(self.first(inputs)))
        return out
