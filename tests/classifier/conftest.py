"""What is fitted once: a graph with nine known classes, two new ones and one that nobody names; and ``own_graph``."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import own_graph
from fewnode.classifier.classifier import FewShotClassifier
from fewnode.classifier.open_set import OpenSetModel
from fewnode.graph import Graph
from fewnode.nn.views import Views

KNOWN, EACH = 9, 40


@dataclass
class Planted:
    graph: Graph
    truth: torch.Tensor
    y: torch.Tensor  # labels that are left: known classes 0..8, a third of them blanked
    views: Views
    model: OpenSetModel

    def examples(self, number: int, shots: int = 3) -> torch.Tensor:
        return (self.truth == KNOWN + number).nonzero().flatten()[:shots]

    def unlabelled(self) -> torch.Tensor:
        return (self.y < 0).nonzero().flatten()


def planted_arrays(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    kinds = KNOWN + 3
    y = np.tile(np.arange(kinds), EACH)
    x = 2.5 * rng.normal(size=(kinds, 12))[y] + rng.normal(size=(len(y), 12))
    source = np.repeat(np.arange(len(y)), 3)
    alike = (source + kinds * rng.integers(1, EACH, len(source))) % len(y)
    target = np.where(rng.random(len(source)) < 0.7, alike, rng.integers(0, len(y), len(source)))
    return np.stack([source, target]), x.astype(np.float32), y


@pytest.fixture(scope="session")
def learned() -> FewShotClassifier:
    return FewShotClassifier("probe", k_shot=3).fit(own_graph.graph())


@pytest.fixture
def classifier(learned) -> FewShotClassifier:
    """Fitted on ``own_graph`` with its known classes learned, to be changed at will."""
    return copy.copy(learned)


@pytest.fixture(scope="session")
def planted() -> Planted:
    edges, x, y = planted_arrays()
    graph = Graph.from_edges(edges, x, y)
    truth = graph.y
    blanked = torch.rand(len(truth), generator=torch.Generator().manual_seed(0)) < 0.33
    left = torch.where((truth >= KNOWN) | blanked, -1, truth)
    views = Views(graph.num_features).fit(graph)
    model = OpenSetModel.fit(graph, views, left, tuple("abcdefghi"))
    return Planted(graph, truth, left, views, model)
