"""Stores in object storage: the views are those of a store on disk, whoever made which part of them."""

import fsspec
import pytest

import fewnode
from fewnode.classifier.inputs import TableSource
from fewnode.errors import InputError
from fewnode.graph.stored import open_store, save_store
from fewnode.nn.views import COPIES, Views
from fewnode.store import Space

NODES = 300
MEMORY = Space.least(NODES, COPIES * 25)


@pytest.fixture
def url(tmp_path, monkeypatch):
    monkeypatch.setenv("FEWNODE_CACHE", str(tmp_path / "cache"))
    storage = fsspec.filesystem("memory")
    yield "memory://bucket/g.store"
    storage.rm("/bucket", recursive=True)


def put(graph: fewnode.Graph, folder, url: str) -> None:
    save_store(graph, folder)
    fsspec.filesystem("memory").put(f"{folder}/", url.removeprefix("memory://") + "/", recursive=True)


def test_views_of_a_store_elsewhere_are_those_of_one_on_disk(tmp_path, url):
    graph, _ = fewnode.planted(NODES, 6, seed=0)
    views = Views(graph.num_features, 64).fit(graph)
    put(graph, tmp_path / "g.store", url)
    expected = views(open_store(tmp_path / "g.store", MEMORY))
    elsewhere = open_store(url, MEMORY)
    assert all(a.equal(b) for a, b in zip(views(elsewhere), expected, strict=True))
    assert (tmp_path / "cache") in elsewhere.space.folder.parents
    fsspec.filesystem("memory").rm("/bucket/g.store/indices.npy")  # what was copied is not copied again
    again = open_store(url, MEMORY)
    assert all(a.equal(b) for a, b in zip(views(again), expected, strict=True))


def test_what_is_wrong_with_a_store_elsewhere_is_named(tmp_path, url):
    with pytest.raises(InputError, match=r"memory://bucket/none\.store holds no manifest\.json"):
        open_store("memory://bucket/none.store")
    graph, _ = fewnode.planted(NODES, 6, seed=0)
    put(graph, tmp_path / "g.store", url)
    with fsspec.open(f"{url}/indices.npy", "ab") as file:
        file.write(b"more")
    with pytest.raises(InputError, match=r"indices\.npy is damaged: it has .* bytes"):
        open_store(url)
    with pytest.raises(InputError, match=r"nonsense://bucket/g.store cannot be read .*not known"):
        open_store("nonsense://bucket/g.store")


def test_a_source_keeps_urls_and_takes_files_for_paths(tmp_path):
    assert TableSource.of("s3://bucket/g.store").edges == "s3://bucket/g.store"
    assert TableSource.of("s3://bucket/g.store").stored
    assert TableSource.of(f"file://{tmp_path}/g.store").edges == str(tmp_path / "g.store")
