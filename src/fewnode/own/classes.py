"""Which of a user's classes a model learns from: chosen by size, remembered by name."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..graph import Graph
from ..tasks import ClassSplit


def choose_split(graph: Graph, min_size: int) -> ClassSplit:
    """Base and validation classes among those with at least ``min_size`` labelled nodes.

    In order of size, every third class is kept for validation (every second, if there are only four or five), so
    that large and small ones are in both parts; fewer than four classes all become base.
    """
    if min_size < 2:
        raise InputError(f"min_size is {min_size}; a class needs at least 2 nodes: an example and one to test on")
    sizes = class_sizes(graph)
    large = [int(c) for c in np.argsort(-sizes, kind="stable") if sizes[c] >= min_size]
    held = max(2, len(large) // 3) if len(large) >= 4 else 0
    ranks = {round((i + 1) * len(large) / held) - 1 for i in range(held)}
    base = sorted(c for rank, c in enumerate(large) if rank not in ranks)
    return ClassSplit(base, sorted(large[rank] for rank in ranks))


def class_sizes(graph: Graph) -> np.ndarray:
    """Labelled nodes of each class, [classes]."""
    return torch.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes).cpu().numpy()


def class_name(graph: Graph, class_id: int) -> str:
    return graph.class_names[class_id] if graph.class_names else str(class_id)


@dataclass(frozen=True)
class KnownClasses:
    """Names of the classes a model was trained on (base) and selected on (validation).

    Names, not numbers: a table that gains a class numbers all of them anew.
    """

    base: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()

    @classmethod
    def of(cls, graph: Graph, split: ClassSplit) -> "KnownClasses":
        base, validation = (tuple(class_name(graph, c) for c in part) for part in (split.base, split.validation))
        return cls(base, validation)

    def names(self) -> set[str]:
        return {*self.base, *self.validation}

    def split(self, graph: Graph) -> ClassSplit:
        """The same classes as ids of ``graph``; those it has no labelled node of are left out."""
        sizes = class_sizes(graph)
        ids = {class_name(graph, c): c for c in np.flatnonzero(sizes).tolist()}
        base, validation = ([ids[name] for name in part if name in ids] for part in (self.base, self.validation))
        return ClassSplit(sorted(base), sorted(validation))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
