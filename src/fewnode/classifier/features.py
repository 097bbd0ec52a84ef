"""What a model expects of a graph's features: another graph is brought to the same columns, or refused by name."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp

from ..errors import InputError
from ..graph import Graph
from ..graph.arrays import to_tensor
from ..graph.graph import FINGERPRINT
from ..graph.operators import column_spread, standardised
from ..methods.base import ModelCard


@dataclass(frozen=True)
class FeatureSchema:
    """The feature columns of the graph a model was fitted on.

    Dense columns are standardised by the mean and the standard deviation of that graph (``centre``, ``scale``), because
    a user's columns come in any unit; sparse ones are taken as they are. ``fingerprint`` is that of the graph as the
    user gave it.
    """

    width: int
    names: tuple[str, ...] | None = None
    sparse: bool = False
    structural: bool = False
    centre: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    fingerprint: str | None = None
    blocks: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> "FeatureSchema":
        """Learn the columns of a graph; constant columns keep their unit."""
        x = graph.features
        common: dict[str, Any] = {"width": graph.num_features, "fingerprint": graph.fingerprint, "blocks": graph.blocks}
        if x is None:
            return cls(**common, structural=True)
        if x.layout == torch.sparse_csr:
            return cls(**common, names=graph.feature_names, sparse=True)
        spread, centre = column_spread(x, graph.space)
        scale = torch.where(spread > 1e-6 * (1 + centre.abs()), spread, 1.0)
        return cls(**common, names=graph.feature_names, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()))

    @classmethod
    def of_card(cls, card: ModelCard) -> "FeatureSchema":
        """Of a model that was trained on a data set: its columns are taken as they are."""
        return cls(card.context["in_channels"], card.feature_names or None, fingerprint=card.graph)

    def fit(self, graph: Graph) -> Graph:
        """The graph with the columns the model knows, in its order and units; refused if it has others."""
        if self.structural or not graph.has_features:
            if graph.fingerprint == self.fingerprint:
                return graph
            has = f"{graph.num_features} feature columns" if graph.has_features else "no features"
            raise InputError(
                f"this graph has {has}, but the model was fitted on {self._columns()}; positions in one graph mean "
                "nothing in another. Give the same columns or fit a model on this graph"
            )
        graph = self._ordered(graph)
        x = graph.features
        if x is not None and self.sparse and x.layout != torch.sparse_csr:
            return graph.with_features(x.to_sparse_csr(), graph.feature_names, graph.blocks)
        if self.centre is None or x is None:
            return graph
        centre, scale = (torch.tensor(part, device=graph.device) for part in (self.centre, self.scale))
        x = standardised(x.to_dense(), centre, scale, graph.space)
        own = graph.with_features(x, graph.feature_names, graph.blocks)
        if graph.space.on_disk:
            own.cache.get(FINGERPRINT, lambda: f"{graph.fingerprint}, standardised")  # not all of it is read again
        return own

    def _columns(self) -> str:
        if self.structural:
            return "a graph without features"
        return f"{self.width} feature columns" + (f" ({_some(self.names)})" if self.names else "")

    def _ordered(self, graph: Graph) -> Graph:
        """Columns in the model's order; of sparse features some may be missing, which are zero everywhere."""
        names = graph.feature_names
        if self.names is None or names is None:
            if graph.num_features != self.width:
                raise InputError(
                    f"this graph has {graph.num_features} feature columns, the model knows {self._columns()}"
                )
            return graph
        if names == self.names:
            return graph
        have, known = set(names), set(self.names)
        wrong = []
        if (missing := [name for name in self.names if name not in have]) and not self.sparse:
            wrong.append(f"lacks {len(missing)} of them ({_some(missing)})")
        if extra := [name for name in names if name not in known]:
            wrong.append(f"has {len(extra)} others ({_some(extra)})")
        if wrong:
            raise InputError(
                f"the model was fitted on {self._columns()}; this graph {' and '.join(wrong)}. "
                "Give the same columns or fit a model on this graph"
            )
        place = {name: i for i, name in enumerate(self.names)}
        at = np.array([place[name] for name in names])
        x: Any = graph.features_scipy()
        if sp.issparse(x):
            moved = sp.csr_matrix((x.data, at[x.indices], x.indptr), (x.shape[0], self.width)).sorted_indices()
        else:
            moved = np.zeros((x.shape[0], self.width), x.dtype)
            moved[:, at] = x
        return graph.with_features(to_tensor(moved, graph.device), self.names, self.blocks)


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f", ... {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
