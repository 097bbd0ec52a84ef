"""The views of a graph on disk are those in memory."""

import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import fewnode
from fewnode import store as spaces
from fewnode.graph.arrays import leading_eigenvectors, structural_bytes, to_scipy
from fewnode.graph.operators import gram_product, mean_adjacency, normalized_adjacency
from fewnode.graph.stored import open_store, save_store
from fewnode.nn import views as module
from fewnode.nn.features import ReducedFeatures
from fewnode.nn.views import VIEWS, WORDS, Views
from fewnode.store import Space


def least(n: int, columns: int) -> int:
    """Memory for so many columns at a time."""
    return Space.least(n, module.COPIES * columns)


def cosines(view: torch.Tensor) -> torch.Tensor:
    return view.float() @ view.float().T


@pytest.mark.parametrize(("half", "off"), [(False, 1e-5), (True, 1e-3)])
@pytest.mark.parametrize("dense", [False, True])
def test_views_by_blocks_agree_with_those_in_memory(tmp_path, monkeypatch, half, off, dense):
    graph, _ = fewnode.planted(600, 6, seed=0)
    if dense:
        graph = graph.with_features(graph.x.to_dense()[:, :40].contiguous())
    if half:
        monkeypatch.setattr(module, "HALF_FROM", 0)
    save_store(graph, tmp_path / "g.store")
    stored = open_store(tmp_path / "g.store", least(600, 25))
    whole, blocks = (Views(graph.num_features, 64).fit(graph) for _ in range(2))
    for name, a, b in zip(VIEWS, whole(graph), blocks(stored), strict=True):
        assert b.dtype == (torch.half if half else torch.float32)
        assert (cosines(a) - cosines(b)).abs().max() < off, name
        if name in WORDS:  # the directions of links are found again, up to their signs
            assert (a.float() - b.float()).abs().max() < off, name
    one, other = whole.sources(graph), blocks.sources(stored)
    assert torch.allclose(one.columns(), other.columns(), atol=1e-6)


def test_links_by_blocks_are_those_of_double_precision(tmp_path):
    """On a graph without classes, where directions of nearly the same strength are cut apart."""
    random = torch.Generator().manual_seed(0)
    edges, x = torch.randint(1500, (2, 4000), generator=random), torch.randn(1500, 40, generator=random)
    graph = fewnode.Graph.from_edges(edges.numpy(), x.numpy())
    save_store(graph, tmp_path / "g.store")
    views = Views(40, 64).fit(graph)
    words = F.pad(views.features(graph), (0, 24))
    lists = to_scipy(module.neighbour_lists(graph).matrix).astype("float64")
    mean = to_scipy(mean_adjacency(graph).matrix).astype("float64")
    start = module.random_fourier(words, 80).double()
    directions = leading_eigenvectors(lambda v: torch.from_numpy(lists.T @ (lists @ v.numpy())), start, 64)[1]
    exact = module.centred(torch.from_numpy(mean @ (mean @ (lists @ directions.numpy()))))
    for one in (graph, open_store(tmp_path / "g.store", least(1500, 25))):
        found = views(one)[VIEWS.index("links_two_steps")]
        assert (exact @ exact.T - cosines(found)).abs().max() < 1e-5


def test_a_reduction_learned_by_rows_spans_the_same(tmp_path):
    graph, _ = fewnode.planted(600, 6, seed=0)
    save_store(graph, tmp_path / "g.store")
    stored = open_store(tmp_path / "g.store", least(600, 25))
    whole, by_rows = Views(graph.num_features, 64).fit(graph), Views(graph.num_features, 64)
    by_rows.features._learn(replace(stored, space=replace(stored.space, memory=0)))
    span = torch.linalg.svdvals(whole.features.basis.T @ by_rows.features.basis)
    assert span.min() > 0.999 and torch.allclose(whole.features.weakest, by_rows.features.weakest, rtol=1e-3)


def test_memory_for_structural_features_is_enough_for_their_directions_as_in_memory():
    """Rounding can flip the sign of a direction, and the search for links starts from them."""
    x, asked = torch.empty(1_000_000, 128, device="meta"), []
    space = Space(Path(), Space.memory_for(structural_bytes(len(x), 0), len(x)))
    for bound in (space, replace(space, memory=space.memory // 2)):
        gram_product(x, bound, lambda rows: asked.append(len(rows)) or rows)
    assert asked[0] == len(x) > max(asked[1:])


@pytest.mark.parametrize("dense", [False, True])
def test_directions_of_features_that_fit_have_the_very_bits_of_those_in_memory(tmp_path, dense):
    graph, _ = fewnode.planted(600, 6, seed=0)
    if dense:
        graph = graph.with_features(graph.x.to_dense())
    save_store(graph, tmp_path / "g.store")
    stored = open_store(tmp_path / "g.store", least(600, 25))
    bases = [Views(graph.num_features, 128).fit(one).features.basis for one in (graph, stored)]
    assert bases[0].shape[1] > 64 and torch.equal(*bases)


def test_what_was_learned_of_the_features_stays_with_the_store(tmp_path, monkeypatch):
    """Threads and memory round it differently, and views that were begun belong to one basis."""
    graph, _ = fewnode.planted(300, 6, seed=0)
    save_store(graph, tmp_path / "g.store")
    first = Views(graph.num_features, 64).fit(open_store(tmp_path / "g.store"))
    monkeypatch.setattr(ReducedFeatures, "_learn", lambda *_: pytest.fail("learned again"))
    again = Views(graph.num_features, 64).fit(open_store(tmp_path / "g.store", least(300, 25)))
    assert all(torch.equal(*pair) for pair in zip(first.buffers(), again.buffers(), strict=True))


KILLED = """
import os, signal, sys
import fewnode, torch
torch.set_num_threads(1)
from fewnode.graph.stored import open_store
from fewnode.nn.views import Views
from fewnode.store import Space
writing, written = Space.writing, []
def stopping(self, name, *how):
    written.append(name)
    if len(written) == 17:
        self.path(name).with_suffix(".part").write_bytes(b"half an array")
        os.kill(os.getpid(), signal.SIGKILL)
    return writing(self, name, *how)
Space.writing = stopping
graph, _ = fewnode.planted(300, 6, seed=0)
Views(graph.num_features, 64).fit(graph)(open_store(sys.argv[1], int(sys.argv[2])))
"""


def test_arrays_that_are_there_after_a_kill_are_not_made_again(tmp_path, monkeypatch):
    graph, _ = fewnode.planted(300, 6, seed=0)
    views = Views(graph.num_features, 64).fit(graph)
    written: list[str] = []
    writing = Space.writing

    def noting(self: Space, name: str, *how: object) -> object:
        written.append(name)
        return writing(self, name, *how)

    monkeypatch.setattr(Space, "writing", noting)
    save_store(graph, tmp_path / "h.store")
    whole = views(open_store(tmp_path / "h.store", least(300, 25)))
    n_arrays = len(written)
    save_store(graph, tmp_path / "g.store")
    command = [sys.executable, "-c", KILLED, str(tmp_path / "g.store"), str(least(300, 25))]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    written.clear()
    made = views(open_store(tmp_path / "g.store", least(300, 25)))
    assert len(written) == n_arrays - 16 and all(a.equal(b) for a, b in zip(made, whole, strict=True))


def test_pages_of_what_smoothing_starts_from_are_let_go_of(tmp_path, monkeypatch):
    graph, _ = fewnode.planted(300, 6, seed=0)
    save_store(graph, tmp_path / "g.store")
    released: set[str] = set()

    def noting(self: spaces.Space) -> None:
        released.update(str(array.filename) for one in self.maps if (array := one()) is not None)

    graph = open_store(tmp_path / "g.store", 1 << 30)
    work = module.Work(300, graph.space.within("views"), torch.float32)
    work.raw.write("start", torch.randn(300, 4))
    start = work.raw.open("start")
    monkeypatch.setattr(spaces.Space, "release", noting)
    work.moved("made", start, partial(normalized_adjacency(graph).smooth, steps=2, restart=0.1))
    assert str(work.raw.path("start")) in released and str(tmp_path / "g.store" / "indices.npy") in released


def test_too_little_memory_says_what_the_least_is(tmp_path):
    graph, _ = fewnode.planted(300, 6, seed=0)
    save_store(graph, tmp_path / "g.store")
    with pytest.raises(fewnode.InputError, match=r"Give memory= \S+MB or more"):
        Views(graph.num_features, 64).fit(graph)(open_store(tmp_path / "g.store", 100 << 20))
