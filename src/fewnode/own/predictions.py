"""What a prediction is: the probabilities of some nodes, and the table that is made of them."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ..errors import InputError

UNKNOWN = "unknown"  # the label of a node whose best class is below the confidence asked for


@dataclass(frozen=True, eq=False)
class Predictions:
    """``probabilities [B, N]`` of the ``classes`` for ``nodes [B]``, with their ``names`` (ids, if they have none)."""

    nodes: Tensor
    names: list[str]
    classes: tuple[str, ...]
    probabilities: Tensor

    def __len__(self) -> int:
        return len(self.nodes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.probabilities.numpy().astype(dtype or np.float32)

    def labels(self, threshold: float = 0.0) -> list[str]:
        """The likeliest class of each node, or "unknown" where its probability is below ``threshold``."""
        if not 0 <= threshold <= 1:
            raise InputError(f"threshold is {threshold}; it is a probability, from 0 to 1")
        best, choice = self.probabilities.max(1)
        sure = (best >= threshold).tolist()
        return [self.classes[c] if ok else UNKNOWN for c, ok in zip(choice.tolist(), sure, strict=True)]

    def table(self, threshold: float = 0.0) -> dict[str, Any]:
        """Columns ``id, label, probability, runner_up, margin``; the margin is that over the runner-up."""
        top, order = self.probabilities.topk(2, dim=1)
        return {
            "id": self.names,
            "label": self.labels(threshold),
            "probability": top[:, 0].double().numpy().round(6),
            "runner_up": [self.classes[c] for c in order[:, 1].tolist()],
            "margin": (top[:, 0] - top[:, 1]).double().numpy().round(6),
        }

    def counts(self, threshold: float = 0.0) -> dict[str, int]:
        """How many nodes each class gets, and how many are unknown."""
        counted = Counter(self.labels(threshold))
        return {name: counted[name] for name in (*self.classes, UNKNOWN)}
