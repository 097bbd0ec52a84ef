"""Class splits: which classes are learned from, checked on and asked about."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..graph import Graph
from .bits import random_bits


@dataclass(frozen=True)
class ClassSplit:
    """Class ids to learn from (base), to select on (validation) and to test on (novel); no class is in two.

    Args:
        base: the classes a method is trained on.
        validation: the classes its best weights are chosen on.
        novel: the classes it is tested on.

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
            values = tuple(int(i) for i in ids)
            for value in values:
                if value < 0:
                    raise InputError(f"class {value} in {part}: class ids start at 0")
                if value in seen:
                    raise InputError(f"class {value} is in {seen[value]} and again in {part}; parts must not overlap")
                seen[value] = part
            object.__setattr__(self, part, values)


def random_split(
    labels: Any, fractions: tuple[float, float, float] = (0.4, 0.2, 0.4), min_size: int = 0, seed: int = 0
) -> ClassSplit:
    """Split classes at random.

    Args:
        labels: a class id for each node, -1 where unknown.
        fractions: the shares of the classes that become base, validation and novel.
        min_size: labelled nodes that a class needs to take part.
        seed: the same seed gives the same split everywhere.

    Returns:
        The split, the classes of each part in rising order.

    Example:
        >>> import fewnode
        >>> fewnode.random_split([0, 1, 2, 3, 4], seed=0)
        ClassSplit(base=(0, 2), validation=(1,), novel=(3, 4))
    """
    if min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise InputError(f"fractions {fractions} must be three numbers >= 0 that add up to 1")
    known = as_array(labels)
    sizes = np.bincount(known[known >= 0])
    classes = np.flatnonzero(sizes >= max(min_size, 1))
    shuffled = classes[np.argsort(random_bits(seed, len(classes)), kind="stable")].tolist()
    base, validation = (round(len(classes) * share) for share in (fractions[0], fractions[0] + fractions[1]))
    parts = shuffled[:base], shuffled[base:validation], shuffled[validation:]
    return ClassSplit(*(sorted(part) for part in parts))


def training_view(graph: Graph, split: ClassSplit) -> Graph:
    """The graph as training may see it: every label outside the base classes is unknown.

    Args:
        graph: the graph with all its labels.
        split: which classes are base classes.

    Returns:
        The same structure and features with the other labels set to -1.

    Example:
        >>> import fewnode
        >>> graph = fewnode.Graph.from_edges([[0, 1], [1, 2]], y=[0, 1, 2])
        >>> fewnode.training_view(graph, fewnode.ClassSplit(base=[0, 1], novel=[2])).y.tolist()
        [0, 1, -1]
    """
    base = torch.tensor(split.base, dtype=torch.long, device=graph.device)
    return graph.with_labels(torch.where(torch.isin(graph.y, base), graph.y, -1))


def as_array(y: Any) -> np.ndarray:
    """Labels of any kind as NumPy has them."""
    return y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
