"""A graph in a store, and products with it."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse as sp

import fewnode
from fewnode import Graph, InputError
from fewnode import store as spaces
from fewnode.files import Manifest
from fewnode.graph import operators as passes
from fewnode.graph.operators import mean_adjacency, normalized_adjacency
from fewnode.graph.stored import open_store, read_graph, save_store, write_graph


def made(weighted: bool = False) -> Graph:
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 400, (2, 1500))
    edges = edges[:, (edges < 390).all(0)]  # the last nodes have no edges
    weight = rng.random(edges.shape[1]).astype(np.float32) + 0.1 if weighted else None
    x = rng.normal(size=(400, 7)).astype(np.float32)
    return Graph.from_edges(edges, x, rng.integers(-1, 3, 400), edge_weight=weight)


@pytest.mark.parametrize("weighted", [False, True])
def test_products_with_edges_on_disk_are_those_in_memory(tmp_path, monkeypatch, weighted):
    monkeypatch.setattr(spaces, "CHUNK", 1)  # chunks of 256 rows
    graph = made(weighted)
    save_store(graph, tmp_path / "g.store")
    stored = open_store(tmp_path / "g.store")
    h = torch.randn(400, 5)
    for bounded, whole in (
        (normalized_adjacency(stored), normalized_adjacency(graph)),
        (mean_adjacency(stored), mean_adjacency(graph)),
    ):
        assert torch.allclose(bounded @ h, whole @ h, atol=1e-5)
        assert torch.allclose(bounded.T @ h, whole.T @ h, atol=1e-5)
        assert torch.allclose(bounded.smooth(h, 5, 0.2), whole.smooth(h, 5, 0.2), atol=1e-5)


def test_a_store_is_the_graph(tmp_path):
    graph, _ = fewnode.planted(300, 6, seed=0)
    save_store(graph, tmp_path / "g.store")
    stored = open_store(tmp_path / "g.store")
    assert stored.y.equal(graph.y) and stored.indices.equal(graph.indices) and stored.num_edges == graph.num_edges
    assert (stored.features_scipy() != graph.features_scipy()).nnz == 0
    assert stored.fingerprint == open_store(tmp_path / "g.store").fingerprint
    relabelled = graph.with_labels(torch.full_like(graph.y, -1))
    save_store(relabelled, tmp_path / "h.store")
    assert open_store(tmp_path / "h.store").fingerprint == stored.fingerprint
    with pytest.raises(InputError, match="exists already"):
        save_store(graph, tmp_path / "g.store")
    with pytest.raises(InputError, match="no edge directions and types"):
        save_store(Graph.from_edges([[0], [1]], directed=True), tmp_path / "d.store")


def test_what_is_no_store_or_a_damaged_one_is_refused_by_name(tmp_path):
    save_store(made(), tmp_path / "g.store")
    file = tmp_path / "g.store" / "features.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"features.npy is damaged: its SHA-256 .* import the graph again"):
        open_store(tmp_path / "g.store")
    file.write_bytes(content[:-8])
    with pytest.raises(InputError, match=r"features.npy"):
        open_store(tmp_path / "g.store")
    file.unlink()
    with pytest.raises(InputError, match=r"features.npy is gone"):
        open_store(tmp_path / "g.store")
    (tmp_path / "empty.store").mkdir()
    with pytest.raises(InputError, match=r"empty.store is not a store: it has no store.json"):
        open_store(tmp_path / "empty.store")


def test_a_store_of_another_format_is_refused(tmp_path):
    save_store(made(), tmp_path / "g.store")
    path = tmp_path / "g.store" / "store.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 7}))
    from fewnode.files import Manifest

    Manifest.write(path.parent)
    with pytest.raises(InputError, match=f"is a store of format 7, this version reads {spaces.FORMAT}"):
        open_store(tmp_path / "g.store")


def test_passes_over_features_are_those_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(spaces, "CHUNK", 1)
    graph = made()
    save_store(graph, tmp_path / "g.store")
    stored = open_store(tmp_path / "g.store")
    x, space = stored.features, stored.space
    assert torch.allclose(passes.column_means(x, space), graph.x.mean(0), atol=1e-6)
    for mine, whole in zip(passes.column_spread(x, space), passes.column_spread(graph.x, graph.space), strict=True):
        assert torch.allclose(mine, whole, atol=1e-12)
    v = torch.randn(7, 3)
    expected = graph.x.double().T @ graph.x.double() @ v.double()
    for given in (x, stored.features.to_sparse_csr()):
        for bound in (space, replace(space, memory=0)):
            product = passes.gram_product(given, bound, lambda rows: rows)
            # a small entry is the sum of large ones, which were rounded
            assert torch.allclose(product(v).double(), expected, rtol=0, atol=1e-6 * float(expected.abs().max()))


def _rewritten(folder, name, array):
    """Put another array into a store, with hashes that fit."""
    np.save(folder / f"{name}.npy", array)
    Manifest.write(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("indptr", lambda a: np.where(np.arange(len(a)) == 3, -2147483648, a).astype(a.dtype)),
        ("indptr", lambda a: a[:-1]),
        ("indptr", lambda a: a[::-1]),
        ("indices", lambda a: np.where(np.arange(len(a)) == 3, 1 << 30, a).astype(a.dtype)),
        ("indices", lambda a: a - 1),
        ("indices", lambda a: a.astype(np.float32)),
        ("y", lambda a: a[:-1]),
        ("features", lambda a: a[:-1]),
    ],
)
def test_arrays_that_lead_outside_are_refused_before_a_kernel_sees_them(tmp_path, name, change):
    graph, _ = fewnode.planted(60, 4, seed=0)
    save_store(graph.with_features(torch.ones(60, 3)), tmp_path / "g.store")
    _rewritten(tmp_path / "g.store", name, change(np.load(tmp_path / "g.store" / f"{name}.npy")))
    with pytest.raises(InputError, match=r"g\.store: .*; import the graph again"):
        open_store(tmp_path / "g.store", 1 << 30)


@pytest.mark.parametrize("name", ["indptr.npy", "store.json", "manifest.json"])
def test_a_pipe_in_a_store_is_refused_not_waited_for(tmp_path, name):
    save_store(fewnode.planted(60, 4, seed=0)[0], tmp_path / "g.store")
    (tmp_path / "g.store" / name).unlink()
    os.mkfifo(tmp_path / "g.store" / name)
    with pytest.raises(InputError, match="is a pipe or a device"):
        open_store(tmp_path / "g.store", 1 << 30)


PAIRS = np.array([[0, 1, 2, 3, 3], [1, 2, 3, 0, 3]])
KINDS = {
    "plain": {"x": np.eye(5, 3, dtype=np.float32), "feature_names": ["a", "b", "c"]},
    "types": {"x": np.eye(5, 3, dtype=np.float32), "edge_type": ["u", "v", "u", "v", "v"], "directed": True},
    "weights": {"x": np.eye(5, 3, dtype=np.float32), "edge_weight": [1.0, 2, 3, 4, 5], "edge_type": [0, 0, 1, 1, 0]},
    "words": {"x": sp.csr_matrix(np.eye(5, 9, dtype=np.float32))},
    "no features": {},
}


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_read_again(kind, tmp_path):
    names = {"node_names": [*"vwxyz"], "class_names": ["first", "second"]}
    graph = Graph.from_edges(PAIRS, y=[0, 1, -1, 1, -1], **names, **KINDS[kind])
    write_graph(graph, tmp_path)
    Manifest.write(tmp_path)
    found = read_graph(tmp_path)
    assert found.fingerprint == graph.fingerprint and torch.equal(found.y, graph.y)
    assert tuple(found.node_names) == graph.node_names and torch.equal(found.ranks, graph.ranks)
    for name in ("class_names", "feature_names", "directed", "self_loops", "duplicates", "space"):
        assert getattr(found, name) == getattr(graph, name)
    assert (found.edge_types is None) == (kind not in ("types", "weights"))
    assert found.edge_types is None or found.edge_types.names == graph.edge_types.names


def test_a_graph_without_edges(tmp_path):
    write_graph(Graph.from_edges(np.zeros((2, 0), int), x=np.ones((3, 1))), tmp_path)
    Manifest.write(tmp_path)
    assert read_graph(tmp_path).num_edges == 0
