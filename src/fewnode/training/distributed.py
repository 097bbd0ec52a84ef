"""Training on several processes started by ``torchrun``: each takes its share of a step's tasks, all take one step."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn

from ..errors import InputError
from ..tasks import Tasks


@contextmanager
def ranks(backend: str = "gloo") -> Iterator[int]:
    """Join the processes that torchrun started, and yield this one's number; alone, it is 0 and nothing happens."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield 0
        return
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:  # one machine: nobody else need reach them
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())
    dist.init_process_group(backend)
    try:
        yield dist.get_rank()
    finally:
        dist.destroy_process_group()


def _loopback() -> str:
    """The name of the network interface that leads nowhere else."""
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")


def world() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return world() == 1 or dist.get_rank() == 0


def share(tasks: Tasks) -> Tasks:
    """This process's part of a step's tasks: all of them if it is alone."""
    n = world()
    if n == 1:
        return tasks
    if len(tasks) % n:
        raise InputError(
            f"tasks_per_step is {len(tasks)}: {n} processes cannot share that evenly; make it {n} or {2 * n}"
        )
    return tasks[dist.get_rank() :: n]


def average_gradients(model: nn.Module) -> None:
    """Make every process's gradients the mean of all: equal shares of tasks give the gradient of them together."""
    n = world()
    if n == 1:
        return
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in weights:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
    joined = torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])
    dist.all_reduce(joined)
    parts = (joined / n).split([weight.numel() for weight in weights])
    for weight, part in zip(weights, parts, strict=True):
        weight.grad = part.view_as(weight)


def agreed(accuracy: float | None) -> float | None:
    """The first process's number, so that all stop at the same step even where their arithmetic differs a little."""
    if world() == 1:
        return accuracy
    held = torch.tensor([float("nan") if accuracy is None else accuracy], dtype=torch.float64)
    dist.broadcast(held, src=0)
    value = float(held)
    return None if value != value else value
