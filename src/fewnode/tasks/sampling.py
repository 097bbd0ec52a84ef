"""Few-shot tasks drawn in one batch, reproducibly, supports and queries disjoint."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from .batch import Tasks
from .bits import random_bits
from .split import as_array


class TaskSampler:
    """Draws tasks of some classes of a labelling; the nodes of each class are looked up once."""

    def __init__(self, y: Any, classes: Iterable[int]) -> None:
        labels = as_array(y)
        self.classes = np.array(sorted(int(c) for c in classes), dtype=np.int64)
        self.order = np.argsort(labels, kind="stable")
        sorted_labels = labels[self.order]
        self.start = np.searchsorted(sorted_labels, self.classes)
        self.size = np.searchsorted(sorted_labels, self.classes, "right") - self.start

    def usable(self, least: int) -> np.ndarray:
        """Positions of the classes with at least ``least`` nodes."""
        return np.flatnonzero(self.size >= least)

    def too_small(self, least: int) -> dict[int, int]:
        """The classes that cannot be drawn, and how many nodes each has."""
        small = self.size < least
        return dict(zip(self.classes[small].tolist(), self.size[small].tolist(), strict=True))

    def draw(self, n_way: int, k_shot: int, n_query: int, n_tasks: int, seed: int) -> Tasks:
        """``n_tasks`` tasks: classes without replacement, then nodes of each class without replacement."""
        each = k_shot + n_query
        usable = self._checked(n_way, k_shot, n_query, n_tasks)
        raw = random_bits(seed, n_tasks * (len(usable) + 2 * n_way * each))
        keys, raw = np.split(raw, [n_tasks * len(usable)])
        chosen = usable[np.argsort(keys.reshape(n_tasks, -1), axis=1, kind="stable")[:, :n_way]].reshape(-1)
        picks, shuffle = raw.reshape(2, n_tasks * n_way, each)
        nodes = self.order[self.start[chosen, None] + _sample_rows(self.size[chosen], picks, shuffle)]
        nodes = nodes.reshape(n_tasks, n_way, each)
        label = np.broadcast_to(np.arange(n_way)[:, None], nodes.shape)
        support, support_y, query, query_y = (
            np.ascontiguousarray(part).reshape(n_tasks, -1)
            for cut in (slice(None, k_shot), slice(k_shot, None))
            for part in (nodes[..., cut], label[..., cut])
        )
        return Tasks(support, support_y, query, query_y, n_way)

    def _checked(self, n_way: int, k_shot: int, n_query: int, n_tasks: int) -> np.ndarray:
        for name, value in {"n_way": n_way, "k_shot": k_shot, "n_query": n_query, "n_tasks": n_tasks}.items():
            if value < 1:
                raise InputError(f"{name} is {value}; it must be at least 1")
        each = k_shot + n_query
        usable = self.usable(each)
        if len(usable) < n_way:
            small = self.too_small(each)
            left_out = f" (too small: {', '.join(f'{c} with {s}' for c, s in small.items())})" if small else ""
            raise InputError(
                f"{n_way}-way needs {n_way} classes with at least {each} labelled nodes ({k_shot} supports + "
                f"{n_query} queries); of the {len(self.classes)} classes given, {len(usable)} have that many{left_out}"
            )
        return usable


def draw_tasks(
    y: Any,
    classes: Iterable[int],
    n_way: int,
    k_shot: int,
    n_query: int,
    n_tasks: int,
    seed: int | torch.Generator = 0,
) -> Tasks:
    """Draw few-shot tasks; supports and queries are disjoint, classes too small are left out.

    With an integer seed the same tasks come out on every platform and version: the bits are Philox-4x64 with the
    seed as its key (a published algorithm, not a library's choice of the day), and everything else is integer
    sorting and exact float64 arithmetic. A ``torch.Generator`` only supplies that seed.

    Args:
        y: labels [N], -1 where unknown.
        classes: the classes to draw from.
        n_way: classes of a task.
        k_shot: supports of each class.
        n_query: queries of each class.
        n_tasks: how many tasks.
        seed: a whole number, or a generator that supplies one.

    Returns:
        The tasks, as one batch.

    Example:
        >>> import fewnode
        >>> tasks = fewnode.draw_tasks([0, 0, 0, 1, 1, 1], classes=[0, 1], n_way=2, k_shot=1, n_query=2, n_tasks=4)
        >>> tuple(tasks.support.shape), tuple(tasks.query.shape)
        ((4, 2), (4, 4))
    """
    if isinstance(seed, torch.Generator):
        seed = int(torch.randint(2**62, (1,), generator=seed, device=seed.device))
    return TaskSampler(y, classes).draw(n_way, k_shot, n_query, n_tasks, seed)


def _sample_rows(sizes: np.ndarray, picks: np.ndarray, shuffle: np.ndarray) -> np.ndarray:
    """For each row r, distinct numbers below ``sizes[r]`` in random order, [R, m], from random bits [R, m] each.

    Floyd's algorithm over all rows at once: m steps, whatever the sizes. It picks a uniform set but not a uniform
    order, hence the shuffle: the first k are the supports.
    """
    unit = (picks >> np.uint64(11)).astype(np.float64) * 2.0**-53
    chosen = np.empty(picks.shape, np.int64)
    m = picks.shape[1]
    for step in range(m):
        last = sizes - m + step
        candidate = (unit[:, step] * (last + 1)).astype(np.int64)
        taken = (chosen[:, :step] == candidate[:, None]).any(axis=1)
        chosen[:, step] = np.where(taken, last, candidate)
    return np.take_along_axis(chosen, np.argsort(shuffle, axis=1, kind="stable"), axis=1)
