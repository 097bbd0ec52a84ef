"""The builder of data sets from public files: on made-up files, and on the real ones where they are."""

import importlib.util
import json
import os
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from fewnode.datasets import catalog
from fewnode.datasets.download import check
from fewnode.errors import InputError
from fewnode.files import read_npz, write_npz
from fewnode.graph import Graph

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("build_datasets", ROOT / "scripts/build_datasets.py")
assert spec is not None and spec.loader is not None
builder = importlib.util.module_from_spec(spec)
spec.loader.exec_module(builder)


def written(folder: Path, **texts: str) -> list[Path]:
    paths = [folder / name for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    return paths


def test_files_with_and_without_a_header_and_labels_in_any_order(tmp_path):
    built = builder.plain(*written(tmp_path, edges="node_1,node_2\n0,2\n2,1\n", target="id,target\n2,7\n0,5\n1,7\n"))
    assert built["edge_index"].tolist() == [[0, 2], [2, 1]] and built["y"].tolist() == [5, 7, 7]
    write_npz(tmp_path / "g.npz", builder.arrays(built))
    graph = Graph.from_npz(tmp_path / "g.npz")
    assert (graph.num_nodes, graph.num_edges, graph.has_features) == (3, 2, False)


def test_nearest_nodes_are_made_symmetric_and_edges_are_kept_once(tmp_path):
    built = builder.cora(*written(tmp_path, edge="0\t1\n1\t0\n0\t1\n", label="0\n1\n1\n", nearest="0 2\n1 2\n"))
    assert built["edge_index"].tolist() == [[0, 1], [1, 0]]
    assert built["x"].toarray().tolist() == [[0, 0, 1], [0, 0, 1], [1, 1, 0]]


def test_dumps_of_classes_are_read_as_literals(tmp_path):
    dumps = {"a": "defaultdict(<class 'list'>, {1.0: [0, 2]})", "b": "defaultdict(<class 'list'>, {4.0: [1]})"}
    built = builder.electronics(*written(tmp_path, network="0\t1\n", **dumps))
    assert built["y"].tolist() == [1, 4, 1]


def test_a_paper_has_the_deepest_of_its_topics_and_the_words_of_its_title(tmp_path):
    parts = {
        "terms": {"10": {"T1": 0.5, "T2": 0.1}, "9": {"T2": 1.0}, "11": {"T1": 2.0}},
        "dictionary": {"T1": "proofs", "T2": "TCP/IP"},
        "references": [[10, 9], [9, 10], [9, 9], [11, 10], [11, 7]],
        "classes": {"AI": [9, 10], "AI/Learning/Theory": [10], "AI/Learning": [10, 9]},
    }
    built = builder.titles(*written(tmp_path, **{name: json.dumps(part) for name, part in parts.items()}))
    assert built["nodes"][1:] == [
        ("9", "AI/Learning", "TCP/IP"),
        ("10", "AI/Learning/Theory", "proofs TCP/IP"),
        ("11", "", "proofs"),
    ]
    assert sorted(built["edges"][1:]) == [("11", "10"), ("9", "10")]


def test_tables_are_written_so_that_they_are_found_by_name(tmp_path, monkeypatch):
    rows = {
        "nodes": [("id", "class", "text"), ("a", "x", "graph tree"), ("b", "y", "tree")],
        "edges": [("source", "target"), ("a", "b")],
    }
    entry = replace(catalog.entry("cora70_titles"), counts=catalog.Counts(nodes=2, edges=1, features=0, classes=2))
    monkeypatch.setattr(catalog, "entries", lambda: {"cora70_titles": entry})
    monkeypatch.setitem(builder.BUILDERS, "cora70_titles", lambda *paths: rows)
    monkeypatch.setattr(builder, "fetch", lambda file, folder: folder / file.name)
    monkeypatch.setenv("FEWNODE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError, match="0 features expected, 2 found"):  # it is counted
        builder.build("cora70_titles", tmp_path / "out", tmp_path)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {file.name for file in entry.files}


@pytest.mark.parametrize("name", ["cora_full_knnfeat", "amazon_clothing_test20", "lastfm_asia_nofeat"])
def test_the_real_files_give_the_graph_of_the_catalog_to_the_last_number(tmp_path, name):
    folder = Path(os.environ.get("FEWNODE_DATA", tmp_path))
    where = {path.name: path for path in folder.glob("raw/**/*")}
    if any(file.name not in where for file in builder.FILES[name]):
        pytest.skip("the original files are not in FEWNODE_DATA/raw")
    paths = [where[file.name] for file in builder.FILES[name]]
    for file, path in zip(builder.FILES[name], paths, strict=True):
        check(file, path)
    made = builder.arrays(builder.BUILDERS[name](*paths))
    stored = read_npz(folder / f"{name}.npz")
    assert set(made) == set(stored) and all(np.array_equal(made[key], stored[key]) for key in made)


def test_every_set_that_is_built_is_in_the_catalog():
    assert set(builder.FILES) == set(builder.BUILDERS) <= set(catalog.entries())
