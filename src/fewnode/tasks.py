"""Class splits and few-shot tasks: drawn in one batch, reproducibly, supports and queries disjoint."""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .errors import InputError, refused
from .files import PathLike, parse_json, read_npz, reading, write_npz
from .graph import Graph
from .graph.arrays import checked, to_numpy


# --- A batch of few-shot tasks.
@dataclass(frozen=True, eq=False)
class Tasks:
    """A batch of few-shot tasks. The classes of a task are numbered 0..n_way-1; classes may have different shots.

    Args:
        support: node ids [T, S].
        support_y: their classes [T, S].
        query: node ids [T, M].
        query_y: their classes [T, M]; None if they are unknown.
        n_way: classes of a task; by default the number of classes in ``support_y``.

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
        labels = to_numpy(support_y)
        n_way = n_way or (int(labels.max(initial=0)) + 1 if labels.dtype.kind in "iu" else 1)
        nodes = 1 << 62, "node ids from 0, for each task as many"
        classes = n_way - 1, f"the classes of a {n_way}-way task are 0..{n_way - 1}, one for each node"
        support = _integers("support", support, ("tasks", "nodes"), *nodes)
        query = _integers("query", query, (len(support), "nodes"), *nodes)
        support_y = _integers("support_y", support_y, support.shape, *classes)
        query_y = None if query_y is None else _integers("query_y", query_y, query.shape, *classes)
        vars(self).update(support=support, support_y=support_y, query=query, query_y=query_y, n_way=n_way)
        if n_way > (n_supports := self.support.shape[1]):
            raise InputError(f"{n_way}-way tasks need {n_way} supports or more; these have {n_supports}")
        missing = (self.shots() == 0).nonzero()
        if len(missing):
            task, position = missing[0].tolist()
            raise InputError(f"task {task} has no support of class {position}; each of its {n_way} classes needs one")

    def __len__(self) -> int:
        return len(self.support)

    def __getitem__(self, which: slice) -> "Tasks":
        some = self._each(lambda part: part[which])
        if some.support.ndim != 2 or not len(some):
            raise InputError(f"{which} of {len(self)} tasks: give a slice that holds one or more, such as [3:4]")
        return some

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Tasks":
        """The same with every tensor changed, without repeating the checks."""
        made = copy(self)
        tensors = {name: part for name, part in vars(self).items() if isinstance(part, Tensor)}
        vars(made).update({name: change(part) for name, part in tensors.items()})
        return made

    def shots(self) -> Tensor:
        """The number of supports of each class in each task, [T, N]."""
        counts = self.support_y.new_zeros(len(self), self.n_way)
        return counts.scatter_add_(1, self.support_y, torch.ones_like(self.support_y))

    def to(self, device: torch.device | str) -> "Tasks":
        return self._each(lambda part: part.to(device))

    def save(self, path: PathLike) -> None:
        """Write the tasks as an npz archive."""
        write_npz(path, {name: np.asarray(value) for name, value in vars(self).items() if value is not None})

    @classmethod
    def load(cls, path: PathLike) -> "Tasks":
        """Read an archive that ``save`` wrote, or a ``.json`` file with the same arrays as lists of lists."""
        with reading(path, "save the pool again"):
            if str(path).endswith(".json"):
                found = parse_json(Path(path).read_bytes(), dict[str, list[list[int]] | int], str(path))
                arrays = {name: np.array(value) for name, value in found.items()}
            else:
                arrays = read_npz(path)
            if missing := {"support", "support_y", "query"} - arrays.keys():
                raise InputError(f"{path} is not a pool of tasks: it has no {', '.join(sorted(missing))}")
            parts = {key: arrays.get(key) for key in ("support", "support_y", "query", "query_y")}
            return cls(**parts, n_way=index(arrays.get("n_way", np.array(0)).item()))


def _integers(name: str, value: Any, shape: tuple[int | str, ...], most: int, rule: str) -> Tensor:
    array = checked(name, to_numpy(value), shape, "iu", (0, most), rule)
    if not array.size:
        raise InputError(f"{name} is empty: {rule}")
    return value.long() if isinstance(value, Tensor) else torch.tensor(array, dtype=torch.long)  # a copy


# --- Random bits, the same on every platform and version.
def random_bits(seed: int, count: int) -> np.ndarray:
    """``count`` random 64-bit words that depend only on the seed: Philox-4x64 with the seed as its key."""
    if not 0 <= seed < 2**128:
        raise InputError(f"seed {seed} must be an integer from 0 to 2^128 - 1")
    return np.random.Philox(key=seed).random_raw(count)


# --- Class splits: base, validation and novel classes.
def _class_ids(ids: Iterable[Any]) -> tuple[int, ...]:
    with refused("classes are given by their ids, whole numbers from 0", TypeError, ValueError):
        return tuple(int(i) for i in ids)


@dataclass(frozen=True)
class ClassSplit:
    """Disjoint class ids for training (base), model selection (validation) and testing (novel).

    Args:
        base: classes on which a method is trained.
        validation: classes on which the best weights are selected.
        novel: classes on which the method is tested.

    Example:
        >>> import fewnode
        >>> fewnode.ClassSplit(base=[0, 1], novel=[2])
        ClassSplit(base=(0, 1), validation=(), novel=(2,))
    """

    base: tuple[int, ...]
    validation: tuple[int, ...] = ()
    novel: tuple[int, ...] = ()

    def __init__(self, base: Iterable[int], validation: Iterable[int] = (), novel: Iterable[int] = ()) -> None:
        seen: dict[int, str] = {}
        for part, ids in (("base", base), ("validation", validation), ("novel", novel)):
            values = _class_ids(ids)
            for value in values:
                if value < 0:
                    raise InputError(f"class {value} in {part}: class ids start at 0")
                if value in seen:
                    raise InputError(f"class {value} is in {seen[value]} and again in {part}; parts must not overlap")
                seen[value] = part
            object.__setattr__(self, part, values)

    @classmethod
    def load(cls, path: PathLike) -> "ClassSplit":
        """Read a split from a JSON file.

        The file holds ``{"base": [...], "validation": [...], "novel": [...]}``, or the three lists in this order, as
        the authors of TENT publish them.
        """
        with reading(path, "correct it"):
            parts = Literal["base", "validation", "novel"]
            kind: Any = dict[parts, list[int]] | tuple[list[int], list[int], list[int]]
            found: Any = parse_json(Path(path).read_bytes(), kind, str(path), strict=False)  # 2.0 is an id, too
            return cls(**{"base": (), **found}) if isinstance(found, dict) else cls(*found)


def random_split(
    labels: Any, fractions: tuple[float, float, float] = (0.4, 0.2, 0.4), min_size: int = 0, seed: int = 0
) -> ClassSplit:
    """Split classes at random.

    Args:
        labels: a class id for each node, -1 where unknown.
        fractions: the shares of the classes that become base, validation and novel.
        min_size: the least number of labelled nodes of a class that is included.
        seed: the same seed gives the same split on every platform.

    Returns:
        The split, with the classes of each part in ascending order.

    Example:
        >>> import fewnode
        >>> fewnode.random_split([0, 1, 2, 3, 4], seed=0)
        ClassSplit(base=(0, 2), validation=(1,), novel=(3, 4))
    """
    if min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise InputError(f"fractions {fractions} must be three numbers >= 0 that add up to 1")
    known = checked("labels", to_numpy(labels), ("nodes",), "iu", (-1, 1 << 62), "a class id from 0, or -1 for unknown")
    sizes = np.bincount(known[known >= 0])
    classes = np.flatnonzero(sizes >= max(min_size, 1))
    shuffled = classes[np.argsort(random_bits(seed, len(classes)), kind="stable")].tolist()
    base, validation = (round(len(classes) * share) for share in (fractions[0], fractions[0] + fractions[1]))
    parts = shuffled[:base], shuffled[base:validation], shuffled[validation:]
    return ClassSplit(*(sorted(part) for part in parts))


def training_view(graph: Graph, split: ClassSplit) -> Graph:
    """The graph for training, in which only base classes have labels.

    Args:
        graph: the graph with all its labels.
        split: the split that defines the base classes.

    Returns:
        A graph with the same structure and features; the labels of other classes are -1.

    Example:
        >>> import fewnode
        >>> graph = fewnode.Graph.from_edges([[0, 1], [1, 2]], y=[0, 1, 2])
        >>> fewnode.training_view(graph, fewnode.ClassSplit(base=[0, 1], novel=[2])).y.tolist()
        [0, 1, -1]
    """
    base = torch.tensor(split.base, dtype=torch.long, device=graph.device)
    return graph.with_labels(torch.where(torch.isin(graph.y, base), graph.y, -1))


# --- Few-shot tasks drawn in one batch, reproducibly, supports and queries disjoint.
class TaskSampler:
    """Draws tasks from some classes; the nodes of each class are looked up once."""

    def __init__(self, y: Any, classes: Iterable[int]) -> None:
        labels = to_numpy(y)
        self.classes = np.array(sorted(_class_ids(classes)), dtype=np.int64)
        self.order = np.argsort(labels, kind="stable")
        sorted_labels = labels[self.order]
        self.start = np.searchsorted(sorted_labels, self.classes)
        self.size = np.searchsorted(sorted_labels, self.classes, "right") - self.start

    def draw(self, n_way: int, k_shot: int, n_query: int, n_tasks: int, seed: int, *, balanced: bool = True) -> Tasks:
        """``n_tasks`` tasks: classes without replacement, then nodes of each class without replacement."""
        each = k_shot + n_query
        usable = self._usable(n_way, k_shot, n_query, n_tasks)
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
        if not balanced:
            query, query_y = self._draw_by_size(chosen.reshape(n_tasks, n_way), support, query.shape[1], seed)
        return Tasks(support, support_y, query, query_y, n_way)

    def _draw_by_size(
        self, chosen: np.ndarray, support: np.ndarray, n_query: int, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """``n_query`` queries of each task, uniform over the nodes of its classes ``chosen [T, N]`` without ``support
        [T, S]``: nodes and classes, [T, M] each."""
        ends = self.size[chosen].cumsum(1)
        each = n_query + support.shape[1]  # enough to drop every support
        picks, shuffle = random_bits(seed + 1, 2 * len(chosen) * each).reshape(2, len(chosen), each)
        at = _sample_rows(ends[:, -1], picks, shuffle)
        y = (at[:, :, None] >= ends[:, None, :]).sum(2)
        first = np.take_along_axis(self.start[chosen] - ends + self.size[chosen], y, axis=1)
        nodes = self.order[first + at]
        taken = (nodes[:, :, None] == support[:, None, :]).any(2)
        kept = np.argsort(taken, axis=1, kind="stable")[:, :n_query]
        return np.take_along_axis(nodes, kept, axis=1), np.take_along_axis(y, kept, axis=1)

    def _usable(self, n_way: int, k_shot: int, n_query: int, n_tasks: int) -> np.ndarray:
        """Positions of the classes that are large enough for such tasks; an error if these are too few."""
        for name, value in {"n_way": n_way, "k_shot": k_shot, "n_query": n_query, "n_tasks": n_tasks}.items():
            if value < 1:
                raise InputError(f"{name} is {value}; it must be at least 1")
        each = k_shot + n_query
        usable = np.flatnonzero(self.size >= each)
        if len(usable) < n_way:
            small = [f"{c} with {s}" for c, s in zip(self.classes, self.size, strict=True) if s < each]
            left_out = f" (too small: {', '.join(small)})" if small else ""
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
    *,
    balanced: bool = True,
) -> Tasks:
    """Draw few-shot tasks. Supports and queries are disjoint, and classes that are too small are not drawn.

    An integer seed gives the same tasks on every platform and version: the random bits come from the published
    algorithm Philox-4x64 with the seed as its key, and all other steps are integer sorting and exact float64
    arithmetic.

    Args:
        y: labels [N], -1 where unknown.
        classes: the classes to draw from.
        n_way: classes of a task.
        k_shot: supports of each class.
        n_query: queries of each class.
        n_tasks: number of tasks.
        seed: an integer, or a ``torch.Generator`` that supplies one.
        balanced: whether every class has ``n_query`` queries. Otherwise a task has the same total, drawn from all nodes
            of its classes, so that large classes have more.

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
    return TaskSampler(y, classes).draw(n_way, k_shot, n_query, n_tasks, seed, balanced=balanced)


def _sample_rows(sizes: np.ndarray, picks: np.ndarray, shuffle: np.ndarray) -> np.ndarray:
    """For each row r, distinct numbers below ``sizes[r]`` in random order, [R, m], from random bits [R, m] each.

    Floyd's algorithm on all rows at once: m steps for any sizes. It picks a uniform set but not a uniform order, so
    the result is shuffled: the first k are the supports.
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
