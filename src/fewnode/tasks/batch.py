"""A batch of few-shot tasks."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..storage import PathLike, read_npz, reading, write_npz


@dataclass(frozen=True, eq=False)
class Tasks:
    """A batch of few-shot tasks; the classes of a task are numbered 0..n_way-1, and shots may be unequal.

    Args:
        support: node ids [T, S].
        support_y: their classes [T, S].
        query: node ids [T, M].
        query_y: their classes [T, M]; None where they are unknown.
        n_way: classes of a task; by default as many as ``support_y`` names.

    Example:
        >>> import fewnode
        >>> tasks = fewnode.Tasks(support=[[3, 8, 5]], support_y=[[0, 0, 1]], query=[[1, 2]])
        >>> tasks.n_way, tasks.shots().tolist()
        (2, [[2, 1]])
    """

    support: Tensor
    support_y: Tensor
    query: Tensor
    query_y: Tensor | None
    n_way: int

    def __init__(self, support: Any, support_y: Any, query: Any, query_y: Any = None, n_way: int = 0) -> None:
        given = {"support": support, "support_y": support_y, "query": query, "query_y": query_y}
        for name, value in given.items():
            object.__setattr__(self, name, None if value is None else _integers(name, value))
        self._check_shapes()
        self._check_classes(n_way)

    def _check_classes(self, n_way: int) -> None:
        lowest, highest = int(self.support_y.min()), int(self.support_y.max())
        n_way = n_way or highest + 1
        object.__setattr__(self, "n_way", n_way)
        if n_way > self.support.shape[1]:
            raise InputError(f"{n_way}-way tasks need {n_way} supports or more; these have {self.support.shape[1]}")
        if lowest < 0 or highest >= n_way:
            raise InputError(
                f"support_y holds {lowest}..{highest}; the classes of a {n_way}-way task are 0..{n_way - 1}"
            )
        missing = (self.shots() == 0).nonzero()
        if len(missing):
            task, position = missing[0].tolist()
            raise InputError(f"task {task} has no support of class {position}; each of its {n_way} classes needs one")
        if self.query_y is not None and (int(self.query_y.min()) < 0 or int(self.query_y.max()) >= n_way):
            raise InputError(f"query_y holds values outside 0..{n_way - 1}")

    def _check_shapes(self) -> None:
        pairs = [("support", "support_y")] + ([("query", "query_y")] if self.query_y is not None else [])
        for nodes, labels in pairs:
            if getattr(self, nodes).shape != getattr(self, labels).shape:
                shapes = tuple(getattr(self, nodes).shape), tuple(getattr(self, labels).shape)
                raise InputError(f"{nodes} has shape {shapes[0]} but {labels} has {shapes[1]}; they must agree")
        if len(self.support) != len(self.query) or not self.support.numel() or not self.query.numel():
            shapes = tuple(self.support.shape), tuple(self.query.shape)
            raise InputError(f"support {shapes[0]} and query {shapes[1]} must be non-empty and of the same tasks")
        for name in ("support", "query"):
            if int(getattr(self, name).min()) < 0:
                raise InputError(f"{name} holds a negative node id")

    @property
    def n_tasks(self) -> int:
        return len(self.support)

    def __len__(self) -> int:
        return self.n_tasks

    def __getitem__(self, which: slice) -> "Tasks":
        some = self._each(lambda part: part[which])
        if some.support.ndim != 2 or not len(some):
            raise InputError(f"{which} of {self.n_tasks} tasks: give a slice that holds one or more, such as [3:4]")
        return some

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Tasks":
        """The same with every tensor changed, which leaves whole tasks whole: they were checked when they were made."""
        made = object.__new__(Tasks)
        object.__setattr__(made, "n_way", self.n_way)
        for name in ("support", "support_y", "query", "query_y"):
            part = getattr(self, name)
            object.__setattr__(made, name, None if part is None else change(part))
        return made

    def shots(self) -> Tensor:
        """How many supports each class of each task has, [T, N]."""
        counts = self.support_y.new_zeros(self.n_tasks, self.n_way)
        return counts.scatter_add_(1, self.support_y, torch.ones_like(self.support_y))

    def to(self, device: torch.device | str) -> "Tasks":
        return self._each(lambda part: part.to(device))

    def save(self, path: PathLike) -> None:
        """Write the pool as an npz archive."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        write_npz(path, {name: np.asarray(value) for name, value in arrays.items() if value is not None})

    @classmethod
    def load(cls, path: PathLike) -> "Tasks":
        """Read a pool that ``save`` wrote."""
        with reading(path, "save the pool again"):
            arrays = read_npz(path)
            missing = {"support", "support_y", "query"} - arrays.keys()
            if missing:
                raise InputError(f"{path} is not a pool of tasks: it has no {', '.join(sorted(missing))}")
            n_way = arrays.pop("n_way", np.array(0))
            if n_way.size != 1 or n_way.dtype.kind not in "iu":
                raise InputError(f"n_way is {str(n_way)[:40]}; expected a whole number")
            parts = {key: arrays.get(key) for key in ("support", "support_y", "query", "query_y")}
            return cls(**parts, n_way=int(n_way.item()))


def _integers(name: str, value: Any) -> Tensor:
    if isinstance(value, np.ndarray) and value.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {value.dtype}; expected integers [tasks, nodes]")
    tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
    if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.ndim != 2:
        raise InputError(
            f"{name} has dtype {tensor.dtype} and shape {tuple(tensor.shape)}; expected integers [tasks, nodes]"
        )
    return tensor.long()
