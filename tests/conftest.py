"""Small graphs that several tests share, and a model of one."""

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import Tensor

import own_graph
from fewnode import ClassSplit, Graph, planted
from fewnode.classifier.classifier import FewShotClassifier
from fewnode.classifier.open_set import OpenSetModel
from fewnode.nn.views import Views

settings.register_profile("default", deadline=None, print_blob=True)
settings.load_profile("default")
torch.set_num_threads(1)  # as in `make unit`; and a copy of this process (``forked``) has none of its threads


@pytest.fixture(scope="session", autouse=True)
def drawing_is_not_measured() -> Iterator[None]:
    """Coverage stops at every line, and matplotlib runs through many of its own and none of ours to write a figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        yield
        return
    savefig = Figure.savefig

    @functools.wraps(savefig)
    def unmeasured(*args: object, **options: object) -> None:
        measure = sys.gettrace()
        sys.settrace(None)
        try:
            savefig(*args, **options)
        finally:
            sys.settrace(measure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", unmeasured)
        yield


@pytest.fixture(scope="session")
def tiny() -> tuple[Graph, ClassSplit]:
    """An easy planted graph on which a method that works is well above chance within seconds."""
    return planted(600, 12, avg_degree=8, homophily=0.8, features=120, difficulty=0.2, tail=0.3, seed=1)


@pytest.fixture(scope="session")
def home(tmp_path_factory) -> Path:
    """The tables of ``own_graph`` in a folder, and in ``m`` a model fitted on them; nobody changes either."""
    folder = tmp_path_factory.mktemp("own graph")
    own_graph.write_tables(folder)
    tables = {"edges": folder / "edges.csv", "nodes": folder / "nodes.csv"}
    FewShotClassifier("probe", k_shot=3).fit(**tables).save(folder / "m")
    return folder


_WORLDS: dict[tuple[object, ...], OpenSetModel] = {}


@pytest.fixture
def worlds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a graph is learned once for all tests that ask for this: half a second each time."""
    learn = OpenSetModel.fit

    def once(graph: Graph, views: Views, y: Tensor, classes: tuple[str, ...], **options: Any) -> Any:
        if options.get("space") is not None:
            return learn(graph, views, y, classes, **options)
        given = (part.detach().numpy().tobytes() for part in (y, *views(graph)))
        key = (graph.fingerprint, classes, repr(views.use), *given)
        if key not in _WORLDS:
            _WORLDS[key] = learn(graph, views, y, classes, **options)
        return _WORLDS[key]

    monkeypatch.setattr(OpenSetModel, "fit", once)


@pytest.fixture
def small() -> Graph:
    """Eight nodes: a triangle, a path, an isolated node (7); three classes and one unknown."""
    edges = np.array([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 6]])
    x = np.arange(32, dtype=np.float32).reshape(8, 4) % 5
    return Graph.from_edges(edges, x, np.array([0, 0, 1, 1, 2, 2, 0, -1]))
