"""Tables of any length as a store."""

import errno
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse as sp

import forked
from fewnode import Graph, InputError
from fewnode.graph.stored import open_store
from fewnode.store import Store
from fewnode.tables import importing
from fewnode.tables.importing import import_tables

pytest.importorskip("pyarrow")

NODES = "id,label,a,b\nann,x,1,2\nbob,,0.5,-1\ncy,y,3,4\ndi,x,0,0\n"
EDGES = "source,target\nann,bob\nbob,cy\nbob,ann\nann,bob\ncy,cy\nann,di\n"


def tables(folder: Path, nodes: str = NODES, edges: str = EDGES, **more: object) -> dict[str, object]:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return {"edges": folder / "edges.csv", "nodes": folder / "nodes.csv", **more}


def test_an_imported_graph_is_the_one_read_into_memory(tmp_path):
    import_tables(**tables(tmp_path), out=tmp_path / "g.store")
    stored = open_store(tmp_path / "g.store")
    ids = ["ann", "bob", "cy", "di"]
    edges = [[0, 1, 1, 0, 2, 0], [1, 2, 0, 1, 2, 3]]
    x = [[1, 2], [0.5, -1], [3, 4], [0, 0]]
    whole = Graph.from_edges(edges, x, [0, -1, 1, 0], node_names=ids, class_names=["x", "y"])
    assert stored.indptr.tolist() == whole.indptr.tolist() and stored.indices.tolist() == whole.indices.tolist()
    assert stored.features.tolist() == whole.features.tolist() and stored.y.tolist() == whole.y.tolist()
    assert list(stored.node_names) == ids and stored.class_names == whole.class_names
    assert stored.feature_names == ("a", "b")
    assert (stored.self_loops, stored.duplicates) == (whole.self_loops, whole.duplicates) == (1, 1)


def test_columns_under_other_names_are_found_as_in_memory(tmp_path):
    nodes = "port,category,maintainer,about\n" + "".join(
        f"p{i},{'ab'[i % 2]},{'xyz'[i % 3]},{'word ' * (i % 5)}tool number {i} for all\n" for i in range(60)
    )
    edges = "port,needs,kind\n" + "".join(f"p{i},p{(7 * i + 1) % 60},lib\n" for i in range(60))
    given = tables(tmp_path, nodes, edges, category_column=("maintainer",))
    import_tables(**given, out=tmp_path / "g.store")
    stored = open_store(tmp_path / "g.store")
    assert list(stored.node_names)[:2] == ["p0", "p1"] and stored.class_names == ("a", "b") and stored.num_edges > 50
    roles = [tuple(role.values())[:4] for role in Store(tmp_path / "g.store").facts.roles]
    assert ("nodes.csv", "port", "id", "the edges' ids") in roles
    assert ("edges.csv", "needs", "target", "holds node ids") in roles
    assert ("edges.csv", "kind", "", "not asked for") in roles
    assert (
        list(stored.node_titles) == list(Graph.from_files(**given).node_titles)
        and "tool number 3 for" in (stored.node_titles[3])
    )
    with pytest.raises(InputError, match=r"no column 'lable' for the labels. Did you mean 'label'"):
        import_tables(**tables(tmp_path, label_column="lable"), out=tmp_path / "h.store")
    with pytest.raises(InputError, match=r"no column 'source' and 'target'.*source_column="):
        import_tables(**tables(tmp_path, edges="x1,x2,x3\n1,2,3\n4,5,6\n"), out=tmp_path / "h.store")
    assert not [path for path in tmp_path.iterdir() if "h.store" in path.name]


def test_many_buckets_and_batches_give_the_same(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 500, (2, 4000))
    nodes = "id,label,a\n" + "".join(f"n{i},{i % 3},{i}\n" for i in range(500))
    edges = "source,target\n" + "".join(f"n{a},n{b}\n" for a, b in pairs.T)
    import_tables(**tables(tmp_path, nodes, edges), out=tmp_path / "g.store")
    stored, whole = open_store(tmp_path / "g.store"), Graph.from_edges(pairs, num_nodes=500)
    assert stored.indices.tolist() == whole.indices.tolist() and stored.indptr.tolist() == whole.indptr.tolist()
    assert stored.duplicates == whole.duplicates and stored.class_names == ("0", "1", "2")


@pytest.mark.parametrize("back", [None, 1.0, 3.0])  # the weights of the same edges the other way, if they are there
def test_weights_are_added_as_in_memory(tmp_path, monkeypatch, back):
    rng = np.random.default_rng(0)
    pairs, weight = rng.integers(0, 50, (2, 400)), rng.integers(1, 9, 400) / 4
    if back is not None:
        pairs, weight = np.concatenate([pairs, pairs[::-1]], 1), np.concatenate([weight, back * weight])
    rows = (f"n{a},n{b},{w}\n" for (a, b), w in zip(pairs.T, weight, strict=True))
    given = tables(tmp_path, "id\n" + "".join(f"n{i}\n" for i in range(50)), "source,target,w\n" + "".join(rows))
    import_tables(**given, out=tmp_path / "g.store", weight_column="w")
    stored = open_store(tmp_path / "g.store")
    whole = Graph.from_edges(pairs, num_nodes=50, edge_weight=weight)
    assert stored.indices.tolist() == whole.indices.tolist() and stored.indptr.tolist() == whole.indptr.tolist()
    assert np.allclose(stored.weights, whole.weights) and stored.duplicates == whole.duplicates
    bad = tables(tmp_path, edges="source,target,w\nann,bob,1\nann,cy,0\n", weight_column="w")
    with pytest.raises(InputError, match=r"row 2 .line 3., column 'w': the weight is 0; a weight is a number"):
        import_tables(**bad, out=tmp_path / "h.store")


WORDS = ["the", "red", "car", "stops", "near", "green", "tree", "while", "birds", "sing", "over", "water", "stones"]


def described(n: int, gaps: bool) -> str:
    """A table with texts, categories and numbers, some of them missing."""
    rng = np.random.default_rng(1)
    rows = ["id,label,about,colour,size,weight"]
    for i in range(n):
        text = " ".join(rng.choice(WORDS, 5))
        size = "" if gaps and i % 7 == 0 else f"{rng.normal():.3f}"
        rows.append(f"n{i},{'ab'[i % 2]},{text},{['red', 'blue', 'NA'][i % 3]},{size},{rng.integers(50)}")
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("uses", ["text", "category", "number", "all"])
def test_texts_categories_and_gaps_become_the_features_they_are_in_memory(tmp_path, monkeypatch, uses):
    given = tables(
        tmp_path, described(300, gaps=True), "source,target\n" + "".join(f"n{i},n{i + 1}\n" for i in range(299))
    )
    columns = {"text": ["about"], "category": ["colour"], "number": ["size", "weight"]}
    ignored = () if uses == "all" else tuple(name for use in columns if use != uses for name in columns[use])
    import_tables(**given, out=tmp_path / "g.store", ignore_column=ignored, batch=41)
    stored = open_store(tmp_path / "g.store")
    whole = Graph.from_files(given["edges"], given["nodes"], ignore_column=list(ignored))
    assert stored.feature_names == whole.feature_names and stored.features.layout == whole.features.layout
    assert np.allclose(stored.features.to_dense(), whole.features.to_dense(), atol=1e-6)
    assert stored.y.tolist() == whole.y.tolist() and list(stored.node_names) == list(whole.node_names)


def test_the_words_of_a_store_come_from_some_of_the_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "SAMPLE", 2)
    nodes = "id,label,about\na,x,red wolf hunts\nb,y,blue whale swims\nc,x,red fox runs\nd,y,big bear sleeps\n"
    import_tables(**tables(tmp_path, nodes, "source,target\na,b\nc,d\n"), out=tmp_path / "g.store")
    assert open_store(tmp_path / "g.store").feature_names == ("fox", "hunts", "red", "runs", "wolf")


def test_several_labels_in_a_cell_need_a_word_of_the_user(tmp_path):
    given = tables(tmp_path, "id,label\nann,x\nbob,x|y\ncy,y\ndi,\n")
    with pytest.raises(
        InputError, match=r"row 2 .line 3., column 'label': 'x\|y' seems to name .* multi_label='first'"
    ):
        import_tables(**given, out=tmp_path / "g.store")
    for answer, classes, y in [
        ("first", ("x", "y"), [0, 0, 1, -1]),
        ("none", ("x", "y"), [0, -1, 1, -1]),
        ("one", ("x", "x|y", "y"), [0, 1, 2, -1]),
    ]:
        stored = open_store(import_tables(**given, out=tmp_path / f"{answer}.store", multi_label=answer))
        assert stored.class_names == classes and stored.y.tolist() == y


def test_queries_are_imported_as_well(tmp_path):
    given = tables(tmp_path)
    queries = {name: f"select * from '{path}'" for name, path in given.items()}
    stored = open_store(import_tables(**queries, out=tmp_path / "g.store"))
    whole = Graph.from_files(**given)
    assert stored.indices.tolist() == whole.indices.tolist() and stored.y.tolist() == whole.y.tolist()
    with pytest.raises(InputError, match=r"the query \"select nothing .*not found.*; correct the query"):
        import_tables(queries["edges"], f"select nothing from '{given['nodes']}'", tmp_path / "h.store")
    assert not list(tmp_path.glob("*h.store*"))


def test_columns_that_are_not_used_are_told(tmp_path):
    nodes = "id,label,a,link\n" + "".join(f"n{i},{i % 2},{i * 0.5},http-{i}\n" for i in range(100))
    given = tables(tmp_path, nodes, "source,target\nn1,n2\n", typed=True)
    import_tables(**given, out=tmp_path / "g.store")
    facts = Store(tmp_path / "g.store").facts
    told = {"table": "nodes.csv", "column": "link", "use": "", "why": "many different values"}
    assert told | {"change": "text_column='link'"} in facts.roles
    assert facts.notes[0].startswith("directions and edge types are not kept")
    assert open_store(tmp_path / "g.store").feature_names == ("a",)


def test_features_in_a_file_of_their_own_are_copied_row_by_row(tmp_path, monkeypatch):
    given, vectors = tables(tmp_path, "id,label\nann,x\nbob,\ncy,y\ndi,x\n"), tmp_path / "v.npy"
    given, x = given | {"features": vectors}, np.random.default_rng(0).normal(size=(4, 3))
    np.save(vectors, np.asfortranarray(x))
    stored = open_store(import_tables(**given, out=tmp_path / "g.store"))
    whole = Graph.from_files(given["edges"], given["nodes"], features=vectors)
    assert stored.features.tolist() == whole.features.tolist() and stored.feature_names is None
    for wrong, message in [
        (x[:3], "v.npy has 3 feature rows, but .*nodes.csv has 4 nodes"),
        (np.concatenate([x, x[:1]]), "v.npy has 5 feature rows, but .*nodes.csv has 4 nodes"),
        (np.where(np.arange(12).reshape(4, 3) == 10, np.inf, x), "v.npy, row 4: a feature is missing, NaN or infinite"),
        (x[0], r"v.npy holds float64 of shape \(3,\); features are numbers \[nodes, columns\]"),
    ]:
        np.save(vectors, wrong)
        with pytest.raises(InputError, match=message):
            import_tables(**given, out=tmp_path / "h.store")
    with pytest.raises(InputError, match=r"v.npz: .* save it as .npy"):
        (tmp_path / "v.npz").write_bytes(b"")
        import_tables(**given | {"features": tmp_path / "v.npz"}, out=tmp_path / "h.store")
    np.save(vectors, x)
    with pytest.raises(InputError, match=r"column 'a': a store has either an array .* ignore_column='a'"):
        import_tables(**tables(tmp_path), out=tmp_path / "h.store", features=vectors, number_column="a")
    assert not list(tmp_path.glob("*h.store*"))


@pytest.mark.parametrize("few", [True, False])
def test_features_in_a_file_are_sparse_or_dense_as_those_of_arrays(tmp_path, few):
    given, x = tables(tmp_path, "id,label\nann,x\nbob,\ncy,y\ndi,x\n"), np.eye(4) * 2 + (0 if few else 0.5)
    graphs = [Graph.from_edges([[0, 1], [1, 2]], form(x), num_nodes=4) for form in (np.asarray, sp.csr_matrix)]
    np.save(tmp_path / "v.npy", x)
    np.savez(tmp_path / "v.npz", x=x)
    sp.save_npz(tmp_path / "s.npz", sp.csr_matrix(x))
    for name in ("v.npy", "v.npz", "s.npz"):
        graphs.append(Graph.from_files(given["edges"], given["nodes"], features=tmp_path / name))
    graphs.append(open_store(import_tables(**given, features=tmp_path / "v.npy", out=tmp_path / "g.store")))
    for graph in graphs:
        assert (graph.x.layout == torch.sparse_csr) == few
        assert graph.x.to_dense().tolist() == x.tolist()


def test_parquet_is_read_as_well(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [10, 20], "label": ["x", None], "a": [1.5, 2.5]}), tmp_path / "n.parquet")
    pq.write_table(pa.table({"source": [10], "target": [20]}), tmp_path / "e.parquet")
    import_tables(tmp_path / "e.parquet", tmp_path / "n.parquet", tmp_path / "g.store")
    stored = open_store(tmp_path / "g.store")
    assert stored.num_edges == 1 and list(stored.node_names) == ["10", "20"] and stored.y.tolist() == [0, -1]
    pq.write_table(pa.table({"id": [10, 20], "v": [[1.5], [2.5]], "a": [1, 2]}), tmp_path / "n.parquet")
    given = {"edges": tmp_path / "e.parquet", "nodes": tmp_path / "n.parquet"}
    with pytest.raises(InputError, match=r"column 'v': a store has either .*features=.* ignore_column='v'"):
        import_tables(**given, out=tmp_path / "h.store")
    import_tables(**given, out=tmp_path / "h.store", ignore_column=("v",))
    assert open_store(tmp_path / "h.store").feature_names == ("a",)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (
            NODES,
            "source,target\nann,bob\nann,zoe\n",
            r"row 2 .line 3., column 'target': target 'zoe' is not in",
        ),
        (
            NODES,
            "source,target\nann,bob\nann,\n",
            r"row 2 .line 3., column 'target': the node id is missing",
        ),
        (
            NODES,
            "source,target\nann,bob\nan",
            r"row 2 .line 3.: 1 values, but the first row names 2 columns",
        ),
        (NODES, "x1,x2,x3\n7,8,u\n", r"has no column 'source' and 'target' .* source_column="),
        (
            NODES + "ann,x,1,1\n",
            EDGES,
            r"nodes.csv, row 5 .line 6., column 'id': node id 'ann' is already used",
        ),
        (NODES + "eve,x,1,inf\n", EDGES, r"nodes.csv, row 5 .line 6., column 'b': inf is not a finite number"),
        (NODES + "eve,x,1,many\n", EDGES, r"nodes.csv, row 5 .line 6., column 'b': 'many' is not a number"),
        (NODES.replace("a,b", "a,a"), EDGES, r"nodes.csv has two columns called 'a'"),
        (NODES + ",x,1,2\n", EDGES, r"nodes.csv, row 5 .line 6., column 'id': the node id is missing"),
    ],
)
def test_what_cannot_be_read_is_named_by_row_and_no_store_is_left(tmp_path, nodes, edges, message):
    with pytest.raises(InputError, match=message):
        import_tables(**tables(tmp_path, nodes, edges), out=tmp_path / "g.store")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]
    with pytest.raises(InputError, match="is not a store: it does not exist"):
        open_store(tmp_path / "g.store")


def test_a_table_cut_off_after_many_blocks_is_refused_with_its_row(tmp_path, monkeypatch):
    edges = "source,target\n" + "ann,bob\n" * 5000 + "ann"
    with pytest.raises(InputError, match=r"edges.csv, row 5001 \(line 5002\): 1 values, .* the file may be truncated"):
        import_tables(**tables(tmp_path, edges=edges), out=tmp_path / "g.store")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_a_disk_without_room_is_told_before_and_when_it_fills_up(tmp_path, monkeypatch):
    given = tables(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=100))
    with pytest.raises(InputError, match=r"has 100B free, \d+B are needed: \d+B are missing"):
        import_tables(**given, out=tmp_path / "g.store")
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)

    def full(*args: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(importing.GrowingArrays, "append", full)
    with pytest.raises(OSError, match=r"No space left on the disk: [\d,]+ bytes were written"):
        import_tables(**given, out=tmp_path / "g.store")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_too_little_memory_says_what_is_needed(tmp_path):
    with pytest.raises(InputError, match=r"memory= 100MB is too little for 4 nodes: give .* or more"):
        import_tables(**tables(tmp_path), out=tmp_path / "g.store", memory=100 << 20)


def killed_while_importing(given: dict[str, object], store: Path) -> None:
    def progress(what: str, part: object) -> None:
        if what == "sorting edges":
            os.kill(os.getpid(), signal.SIGKILL)

    import_tables(**given, out=store, progress=progress)


def test_what_a_killed_import_left_is_removed_by_the_next(tmp_path):
    given = tables(tmp_path)
    assert forked.ended(killed_while_importing, given, tmp_path / "g.store") == -signal.SIGKILL
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(".g.store")]
    assert len(left) == 1 and not (tmp_path / "g.store").exists()
    import_tables(**given, out=tmp_path / "g.store")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "g.store", "nodes.csv"]
    assert not [path for path in (tmp_path / "g.store").iterdir() if path.suffix not in (".npy", ".json")]


def test_parts_and_labels_apart_are_imported_as_they_are_read_into_memory(tmp_path):
    given = tables(tmp_path, "id,a\nann,1\nbob,2\ncy,3\n", "source,target\nann,bob\n")
    (tmp_path / "edges-2.csv").write_text("target,source\ncy,bob\n")
    (tmp_path / "labels.csv").write_text("id,label\ncy,x\nann,y\n")
    given |= {"edges": tmp_path / "edges*.csv", "labels": tmp_path / "labels.csv"}
    stored, whole = open_store(import_tables(**given, out=tmp_path / "g.store")), Graph.from_files(**given)
    assert stored.indices.tolist() == whole.indices.tolist() == [1, 0, 2, 1]
    assert stored.y.tolist() == whole.y.tolist() == [1, -1, 0]
    assert stored.features.tolist() == whole.features.tolist()


def test_a_last_line_without_a_break_is_read_as_in_memory(tmp_path):
    given = tables(tmp_path, "id,label\na,x\nb,y", "source,target\na,b\nb,a")
    assert open_store(import_tables(**given, out=tmp_path / "g.store")).num_edges == 1
    assert Graph.from_files(**given).num_edges == 1
