"""What a model expects of a graph's features, so that another graph is fitted to it or refused by name."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from ..card import ModelCard
from ..errors import InputError
from ..graph import Graph
from ..graph.arrays import to_tensor
from ..graph.graph import FINGERPRINT
from ..graph.operators import column_spread, standardised

SHOWN = 8  # names in an error message


@dataclass(frozen=True)
class FeatureSchema:
    """The feature columns of the graph a model was fitted on.

    Dense columns are measured in standard deviations from their mean (``centre``, ``scale``), because a user's columns
    come in any unit; sparse ones are taken as they are. ``fingerprint`` is that of the graph as the user gave it.
    """

    width: int
    names: tuple[str, ...] | None = None
    sparse: bool = False
    structural: bool = False
    centre: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    fingerprint: str | None = None

    @classmethod
    def of(cls, graph: Graph) -> "FeatureSchema":
        """Learn the columns of a graph; constant columns keep their unit."""
        x = graph.features
        common: dict[str, Any] = {"width": graph.num_features, "fingerprint": graph.fingerprint}
        if x is None:
            return cls(**common, structural=True)
        if x.layout == torch.sparse_csr:
            return cls(**common, names=graph.feature_names, sparse=True)
        spread, centre = column_spread(x, graph.space)
        scale = torch.where(spread > 1e-6 * (1 + centre.abs()), spread, 1.0)
        return cls(**common, names=graph.feature_names, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()))

    @classmethod
    def of_card(cls, card: ModelCard) -> "FeatureSchema":
        """What the card of a model trained on a data set tells: its columns are taken as they are."""
        return cls(card.context["in_channels"], card.feature_names or None, fingerprint=card.graph)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def fit(self, graph: Graph) -> Graph:
        """The graph with the columns the model knows, in its order and units; refused if it has others."""
        if self.structural or not graph.has_features:
            return self._same_structure(graph)
        graph = self._ordered(graph)
        if self.centre is None or graph.features is None:
            return graph
        if graph.features.layout == torch.sparse_csr:
            raise InputError("this graph's features are sparse, but the model was fitted on dense columns")
        centre, scale = (
            torch.tensor(part, dtype=torch.float32, device=graph.device) for part in (self.centre, self.scale)
        )
        if graph.space is not None:
            own = graph.with_features(standardised(graph.features, centre, scale, graph.space), graph.feature_names)
            own.cache.get(FINGERPRINT, lambda: f"{graph.fingerprint}, standardised")  # not all of it is read again
            return own
        return graph.with_features((graph.features - centre).div_(scale), graph.feature_names)

    def _same_structure(self, graph: Graph) -> Graph:
        if graph.fingerprint == self.fingerprint:
            return graph
        if graph.has_features:
            raise InputError(
                f"this graph has {graph.num_features} feature columns, but the model was fitted on a graph without; "
                "leave them out or fit a model on this graph"
            )
        what = "without features" if self.structural else f"with {self._columns()}"
        raise InputError(
            f"this graph has no features and is not the one the model was fitted on ({what}); positions in one graph "
            "mean nothing in another. Fit a model on this graph"
        )

    def _columns(self) -> str:
        return f"{self.width} feature columns" + (f" ({_some(self.names)})" if self.names else "")

    def _ordered(self, graph: Graph) -> Graph:
        names = graph.feature_names
        if self.names is None or names is None:
            if graph.num_features != self.width:
                raise InputError(
                    f"this graph has {graph.num_features} feature columns, the model knows {self._columns()}"
                )
            return graph
        if names == self.names:
            return graph
        have, want = set(names), set(self.names)
        wrong = []
        if (missing := [name for name in self.names if name not in have]) and not self.sparse:
            wrong.append(f"lacks {len(missing)} of them ({_some(missing)})")
        if extra := [name for name in names if name not in want]:
            wrong.append(f"has {len(extra)} others ({_some(extra)})")
        if wrong:
            raise InputError(
                f"the model was fitted on {self._columns()}; this graph {' and '.join(wrong)}. "
                "Give the same columns or fit a model on this graph"
            )
        return graph.with_features(self._reordered(graph), self.names)

    def _reordered(self, graph: Graph) -> torch.Tensor:
        """Columns in the model's order; in sparse features one that never occurs is zero everywhere."""
        assert graph.feature_names is not None and self.names is not None
        place = {name: i for i, name in enumerate(graph.feature_names)}
        x: Any = graph.features_scipy()
        if isinstance(x, np.ndarray):
            return to_tensor(np.ascontiguousarray(x[:, [place[name] for name in self.names]]), graph.device)
        target = {name: i for i, name in enumerate(self.names)}
        columns = np.array([target[name] for name in graph.feature_names], dtype=x.indices.dtype)
        moved = type(x)((x.data, columns[x.indices], x.indptr), shape=(x.shape[0], self.width))
        moved.sort_indices()
        return to_tensor(moved, graph.device)


def _some(names: Sequence[str]) -> str:
    more = f", ... {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more
