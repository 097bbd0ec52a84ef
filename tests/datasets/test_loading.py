"""From a name to a checked graph: where files are looked for, what is checked, what is remembered."""

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from scipy import io
from scipy import sparse as sp

import text_graph
from fewnode.datasets import catalog, download, loading
from fewnode.datasets.catalog import Counts, Entry, File
from fewnode.datasets.loading import load_dataset
from fewnode.errors import InputError
from fewnode.graph import Graph

PAIRS = np.array([[0, 1], [1, 0], [1, 2], [2, 1], [2, 3], [3, 2]])


def write_gpn(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.savetxt(folder / "toy_network", PAIRS, fmt="%d", delimiter="\t")
    for end, index in (("train", [0, 1]), ("test", [2, 3])):
        words = sp.csc_matrix(np.eye(4)[index])
        content = {"Index": np.array([index]), "Label": np.array(index, float)[:, None], "Attributes": words}
        io.savemat(folder / f"toy_{end}.mat", content)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """The only entry of the catalog; its files lie in ``data/raw/gpn_format`` and their addresses lead nowhere."""
    folder = tmp_path / "data" / "raw" / "gpn_format"
    write_gpn(folder)
    files = []
    for name in ("toy_network", "toy_train.mat", "toy_test.mat"):
        content = (folder / name).read_bytes()
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        files.append(File(name, f"http://127.0.0.1:9/{name}", blob))
    counts = Counts(nodes=4, edges=3, features=4, classes=4)
    entry = Entry("toy", "a toy", tuple(files), "gpn", counts, ((0, 1), (2,), (3,)), "none", "nobody")
    monkeypatch.setattr(catalog, "entries", lambda: {"toy": entry})
    monkeypatch.setenv("FEWNODE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEWNODE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return entry


def change(monkeypatch: pytest.MonkeyPatch, entry: Entry, **values: object) -> None:
    changed = replace(entry, **values)  # type: ignore[arg-type]
    monkeypatch.setattr(catalog, "entries", lambda: {"toy": changed})


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which readers have been called."""
    calls: list[str] = []

    def noting(name: str, read: Callable[..., loading.Arguments]) -> Callable[..., loading.Arguments]:
        return lambda paths, **options: calls.append(name) or read(paths, **options)  # type: ignore[func-returns-value]

    monkeypatch.setattr(loading, "READERS", {name: noting(name, read) for name, read in loading.READERS.items()})
    return calls


def test_originals_are_found_below_the_data_folder_and_parsed_once(toy: Entry, parses: list[str]) -> None:
    first, split = load_dataset("toy")
    second, _ = load_dataset("toy")
    assert parses == ["gpn"]
    assert first.fingerprint == second.fingerprint and torch.equal(first.y, second.y)
    assert (first.duplicates, first.self_loops) == (second.duplicates, second.self_loops)
    assert (split.base, split.validation, split.novel) == ((0, 1), (2,), (3,))


def test_tables_of_texts_are_read_with_the_classes_in_the_order_of_the_catalog(
    toy: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = (
        "id,class,text,all_categories\na,cs.LO,proof theory,cs.LO\nb,cs.DB,query theory,cs.DB\nc,,query proof,cs.DB\n"
    )
    for name, text in (("toy.edges.csv.gz", "source,target\na,b\nb,a\nb,c\n"), ("toy.nodes.csv.gz", nodes)):
        (tmp_path / "data" / name).write_bytes(gzip.compress(text.encode()))
    options = {"label_column": "class", "text_column": "text", "ignore_column": ["all_categories"]}
    files = (File("toy.edges.csv.gz"), File("toy.nodes.csv.gz"))
    counts = Counts(nodes=3, edges=2, features=3, classes=2)
    whole = {"files": files, "reader": "tables", "counts": counts}
    change(monkeypatch, toy, **whole, tables={**options, "class_names": ["cs.LO", "cs.AI", "cs.DB"]})
    for _ in range(2):  # parsed, then from the cache
        graph, _ = load_dataset("toy")
        assert graph.y.tolist() == [0, 2, -1] and graph.class_names == ("cs.LO", "cs.AI", "cs.DB")
        assert graph.feature_names == ("proof", "query", "theory") and graph.node_names == ("a", "b", "c")
    change(monkeypatch, toy, **whole, name="other", tables={**options, "class_names": ["cs.LO"]})
    with pytest.raises(InputError, match=r"toy.nodes.csv.gz has classes .* not list: cs.DB"):
        load_dataset("toy")


def test_a_text_encoder_adds_its_vectors_to_the_words(
    toy: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="toy has no texts that the text encoder"):
        load_dataset("toy", text_encoder="potion-base-8M")
    text_graph.write_tables(tmp_path)
    for part in ("edges", "nodes"):
        (tmp_path / f"{part}.csv").rename(tmp_path / "data" / f"toy.{part}.csv")
    encoder = str(text_graph.write_encoder(tmp_path / "tiny"))
    plain = Graph.from_files(tmp_path / "data/toy.edges.csv", tmp_path / "data/toy.nodes.csv")
    words = plain.num_features
    counts = Counts(nodes=plain.num_nodes, edges=plain.num_edges, features=words, classes=plain.num_classes)
    files = (File("toy.edges.csv"), File("toy.nodes.csv"))
    options = {"label_column": "label", "text_column": "text"}
    change(monkeypatch, toy, files=files, reader="tables", counts=counts, tables=options)
    for _ in range(2):  # parsed, then from the cache: one of each
        assert load_dataset("toy")[0].num_features == words
        graph, _ = load_dataset("toy", text_encoder=encoder)
        assert list(graph.blocks.values()) == [words, text_graph.DIM] and graph.num_features == words + text_graph.DIM


def test_a_changed_file_is_not_served_from_the_cache(
    toy: Entry, parses: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch, toy, files=tuple(replace(file, blob=None) for file in toy.files))
    load_dataset("toy")
    network = tmp_path / "data/raw/gpn_format/toy_network"
    os.utime(network, ns=(1, 1))
    load_dataset("toy")
    assert parses == ["gpn", "gpn"]


@pytest.mark.parametrize("damage", [b"", b"PK nothing", None])
def test_a_damaged_cache_is_parsed_again(toy: Entry, parses: list[str], tmp_path: Path, damage: bytes | None) -> None:
    load_dataset("toy")
    (kept,) = (tmp_path / "cache/parsed").iterdir()
    kept.write_bytes(kept.read_bytes()[:200] if damage is None else damage)
    assert load_dataset("toy")[0].num_edges == 3
    assert parses == ["gpn", "gpn"]


def test_a_cache_that_cannot_be_written_does_not_matter(
    toy: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("FEWNODE_CACHE", str(tmp_path / "file" / "cache"))
    assert load_dataset("toy")[0].num_nodes == 4


def test_an_account_without_a_home_can_load(toy: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("FEWNODE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert load_dataset("toy")[0].num_nodes == 4


def test_the_folder_may_be_given_instead(toy: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEWNODE_DATA")
    assert load_dataset("toy", data_dir=tmp_path / "data/raw")[0].num_nodes == 4
    with pytest.raises(InputError, match=r"data_dir is .*nowhere.*not a folder"):
        load_dataset("toy", data_dir=tmp_path / "nowhere")
    monkeypatch.setenv("FEWNODE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="FEWNODE_DATA is"):
        load_dataset("toy")


def test_a_plain_copy_of_ones_own_is_taken_first(toy: Entry, tmp_path: Path, parses: list[str]) -> None:
    load_dataset("toy")[0].save_npz(tmp_path / "data/toy.npz")
    (tmp_path / "data/raw/gpn_format/toy_network").unlink()
    graph, _ = load_dataset("toy")
    assert graph.num_edges == 3 and parses == ["gpn", "npz"]


def test_changed_content_is_refused_with_both_ids(toy: Entry, tmp_path: Path) -> None:
    network = tmp_path / "data/raw/gpn_format/toy_network"
    network.write_bytes(network.read_bytes().replace(b"0\t1", b"0\t2", 1))
    with pytest.raises(InputError, match=f"git blob id expected {toy.files[0].blob}, got"):
        load_dataset("toy")
    assert network.exists()


@pytest.mark.parametrize("what", ["nodes", "edges", "features", "classes"])
def test_other_counts_are_refused_with_both_numbers(toy: Entry, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    right = getattr(toy.counts, what)
    change(monkeypatch, toy, counts=replace(toy.counts, **{what: 1234}))
    with pytest.raises(InputError, match=f"1,234 {what} expected, {right} found"):
        load_dataset("toy")


def test_the_number_of_stored_pairs_may_vouch_for_the_edges(toy: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, toy, counts=replace(toy.counts, edges=1234, stored=len(PAIRS)))
    assert load_dataset("toy")[0].num_edges == 3


def test_only_what_is_missing_is_fetched(toy: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test_file = tmp_path / "data/raw/gpn_format/toy_test.mat"
    content = test_file.read_bytes()
    test_file.unlink()
    with pytest.raises(InputError, match=r"cannot reach http://127.0.0.1:9/toy_test.mat.*downloads/toy"):
        load_dataset("toy")
    fetched: list[str] = []

    def bring(file: File, folder: Path, *, progress: download.DownloadProgress | None = None) -> Path:
        assert progress is tell
        fetched.append(file.name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_bytes(content)
        return folder / file.name

    def tell(name: str, done: int, total: int | None) -> None: ...

    monkeypatch.setattr(download, "fetch", bring)
    assert load_dataset("toy", progress=tell)[0].num_nodes == 4
    assert fetched == ["toy_test.mat"]


def test_a_file_put_into_the_named_folder_by_hand_is_found(toy: Entry, tmp_path: Path) -> None:
    target = tmp_path / "cache/downloads/toy"
    target.mkdir(parents=True)
    (tmp_path / "data/raw/gpn_format/toy_test.mat").rename(target / "toy_test.mat")
    assert load_dataset("toy")[0].num_nodes == load_dataset("toy", fetch=False)[0].num_nodes == 4


def test_no_connection_is_opened_where_nothing_may_be_fetched(
    toy: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data/raw/gpn_format/toy_test.mat").unlink()
    monkeypatch.setattr(download, "fetch", lambda *_, **__: pytest.fail("tried to fetch"))
    with pytest.raises(InputError, match=r"^toy_test\.mat must be downloaded first"):
        load_dataset("toy", fetch=False)


def test_a_file_without_an_address_says_where_to_put_it(toy: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, toy, files=(File("toy.npz", sha256="0" * 64),), reader="npz")
    with pytest.raises(InputError, match=r"toy\.npz .* has no address.*downloads/toy.*FEWNODE_DATA"):
        load_dataset("toy")


def test_the_content_of_a_stand_in_is_checked(toy: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_dataset("toy")[0].save_npz(tmp_path / "data/toy.npz")
    right = hashlib.sha256((tmp_path / "data/toy.npz").read_bytes()).hexdigest()
    change(monkeypatch, toy, files=(File("toy.npz", sha256=right),), reader="npz")
    assert load_dataset("toy")[0].num_edges == 3
    change(monkeypatch, toy, files=(File("toy.npz", sha256="0" * 64),), reader="npz")
    with pytest.raises(InputError, match=right):
        load_dataset("toy")


def test_an_unpacked_folder_is_recognised_by_its_name(
    toy: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("other", "ogbn_toy"):
        raw = tmp_path / "data" / name / "raw"
        raw.mkdir(parents=True)
        for stem, text in {"edge": "0,1\n1,2\n", "node-feat": "1\n2\n3\n", "node-label": "0\n1\n2\n"}.items():
            np.savetxt(raw / f"{stem}.csv.gz", np.array([row.split(",") for row in text.split()]), "%s", ",")
    zip_file = File("toy.zip", "http://127.0.0.1:9/toy.zip")
    counts = Counts(nodes=3, edges=2, features=1, classes=3)
    change(monkeypatch, toy, files=(zip_file,), reader="ogb", counts=counts, folders=("ogbn_toy",))
    assert load_dataset("toy")[0].num_nodes == 3


def test_an_unknown_name_is_answered_with_the_closest() -> None:
    with pytest.raises(InputError, match="Did you mean 'wordnet'"):
        load_dataset("wordnets")


def test_the_bundled_graph_needs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWNODE_DATA", str(tmp_path / "nowhere"))
    graph, split = load_dataset("wordnet")
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (117_659, 183_789, 6_000)
    assert graph.node_names is not None and graph.class_names is not None and graph.feature_names is not None
    dog = graph.node_names.index("dog.noun.01")
    assert graph.class_names[graph.y[dog]] == "noun.animal"
    words = graph.features_scipy()[dog].indices  # type: ignore[index]
    assert "domesticated" in {graph.feature_names[word] for word in words}
    sizes = torch.bincount(graph.y)
    assert sum(int(sizes[c]) >= 20 for c in split.novel) >= 10
    for part in (split.base, split.validation, split.novel):
        assert {"noun", "verb", "adj"} <= {graph.class_names[c].split(".")[0] for c in part}


REAL = [entry.name for entry in catalog.entries().values() if not entry.bundled]


@pytest.mark.parametrize("name", REAL)
def test_real_files_where_they_are_at_hand(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.environ.get("FEWNODE_DATA")
    if not folder:
        pytest.skip("FEWNODE_DATA is not set")
    monkeypatch.setenv("FEWNODE_CACHE", str(tmp_path))

    def not_fetched(file: File, *_: object, **__: object) -> Path:
        pytest.skip(f"{folder} has no {file.name}")

    monkeypatch.setattr(download, "fetch", not_fetched)
    graph, split = load_dataset(name)  # checks content and counts
    sizes = torch.bincount(graph.y[graph.y >= 0])
    assert all(int(sizes[c]) >= 15 for part in (split.base, split.validation, split.novel) for c in part)


def test_real_gpn_files_where_they_are_at_hand() -> None:
    found = [
        Path(os.environ.get("FEWNODE_DATA", "/nonexistent")) / "raw/gpn_format" / name
        for name in ("Amazon_clothing_network", "Amazon_clothing_test.mat")
    ]
    if not all(path.exists() for path in found):
        pytest.skip("FEWNODE_DATA has no raw/gpn_format")
    for file in catalog.entry("amazon_clothing").files:
        for path in found:
            if path.name == file.name:
                download.check(file, path)
    table = loading._table(found[0], found[0].open("rb"), np.int64, "\t", found[0])
    assert Graph.from_edges(table.T).num_edges == catalog.entry("amazon_clothing").counts.edges
    graph = Graph.from_edges(**loading.gpn(found))
    assert int((graph.y >= 0).sum()) == 9_360 and graph.num_features == 9_034
    assert tuple(graph.y[graph.y >= 0].unique().tolist()) == catalog.entry("amazon_clothing").split[2]
