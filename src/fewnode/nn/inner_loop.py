"""The inner loop of meta-learning: gradient steps on each task's own loss, all tasks at once, by ``torch.func``."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.func import grad, vmap

Weights = dict[str, Tensor]


def weights_of(module: nn.Module) -> Weights:
    """The trainable weights of a module by name, as ``torch.func.functional_call`` takes them."""
    return {name: weight for name, weight in module.named_parameters() if weight.requires_grad}


def adapt(
    loss: Callable[..., Tensor],
    start: Weights,
    data: tuple[Tensor, ...],
    *,
    steps: int,
    rate: float,
    first_order: bool,
) -> Weights:
    """The weights of every task after ``steps`` gradient steps from the same start, each ``[T, ...]``.

    They remain functions of the start: the gradient of a query loss flows back through all steps or, if
    ``first_order``, as if every step's gradient were a constant. Nothing is changed in place, and it works under
    ``torch.no_grad`` too.

    Finn, Abbeel, Levine: Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks. ICML 2017.

    Args:
        loss: ``loss(weights, *data)`` of one task, a scalar.
        start: the weights before the first step, by name.
        data: what the loss takes, for all tasks: tensors ``[T, ...]``.
        steps, rate: number and size of the gradient steps.
        first_order: leave the second derivatives out.
    """
    slope = vmap(grad(loss), randomness="different")
    weights = {name: value.expand(len(data[0]), *value.shape) for name, value in start.items()}
    for _ in range(steps):
        here = {name: value.detach() for name, value in weights.items()} if first_order else weights
        slopes = slope(here, *data)
        weights = {name: value - rate * slopes[name] for name, value in weights.items()}
    return weights


def for_each_task(function: Callable[..., Tensor], weights: Weights, *data: Tensor) -> Tensor:
    """``function(weights, *data)`` of every task with that task's own weights ``[T, ...]``, in one batch."""
    result: Tensor = vmap(function, randomness="different")(weights, *data)
    return result
