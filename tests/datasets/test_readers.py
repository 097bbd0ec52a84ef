"""Each on-disk format, on small files in the same layout; and what is wrong with broken ones."""

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import io
from scipy import sparse as sp

from fewnode.datasets import loading
from fewnode.errors import InputError
from fewnode.files import write_npz
from fewnode.graph import Graph

# Six nodes; 5 is in neither .mat file, 4 has no edge. Labels of the test file are other ones.
PAIRS = np.array([[0, 1], [1, 0], [1, 2], [2, 1], [3, 5], [5, 3]])
WORDS = sp.csc_matrix(np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0], [4, 0, 0], [0, 0, 5]], dtype=float))


def write_gpn(folder: Path) -> list[Path]:
    paths = [folder / f"toy{end}" for end in ("_network", "_train.mat", "_test.mat")]
    np.savetxt(paths[0], PAIRS, fmt="%d", delimiter="\t")
    train = {"Index": np.array([[2, 0, 1]]), "Label": np.array([[7.0], [3.0], [3.0]]), "Attributes": WORDS[[2, 0, 1]]}
    test = {"Index": np.array([[3, 4]]), "Label": np.array([[1.0], [1.0]]), "Attributes": WORDS[[3, 4]]}
    io.savemat(paths[1], train)
    io.savemat(paths[2], test)
    return paths


def test_gpn_puts_labels_and_words_on_their_nodes(tmp_path: Path) -> None:
    graph = Graph.from_edges(**loading.gpn(write_gpn(tmp_path)))
    assert graph.y.tolist() == [3, 3, 7, 1, 1, -1]
    assert np.array_equal(graph.features_scipy().toarray()[:5], WORDS.toarray())  # type: ignore[union-attr]
    assert graph.num_edges == 3 and graph.num_nodes == 6


def benchmark_arrays() -> dict[str, np.ndarray]:
    adjacency = sp.csr_matrix((np.ones(3), ([0, 1, 2], [1, 0, 1])), shape=(3, 3))
    words = sp.csr_matrix(np.array([[1, 0], [0, 2], [3, 3]]))
    parts = ("data", "indices", "indptr", "shape")
    arrays = {f"adj_{part}": np.asarray(getattr(adjacency, part)) for part in parts}
    arrays |= {f"attr_{part}": np.asarray(getattr(words, part)) for part in parts}
    return arrays | {"labels": np.array([0, 1, 1]), "class_names": np.array(["first", "second"])}


def test_gnn_benchmark_parts(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", benchmark_arrays())
    arguments = loading.npz([tmp_path / "a.npz"])
    assert arguments["edge_index"].shape == (2, 3)
    graph = Graph.from_edges(**arguments)
    assert graph.num_edges == 2 and graph.y.tolist() == [0, 1, 1] and graph.class_names == ("first", "second")
    assert graph.x.to_dense().tolist() == [[1, 0], [0, 2], [3, 3]]


def test_gnn_benchmark_never_opens_pickled_members(tmp_path: Path) -> None:
    arrays = benchmark_arrays() | {"node_names": np.array(["a", None, {}], dtype=object)}
    np.savez(tmp_path / "a.npz", **(arrays | {"class_names": np.array(["x", {}], dtype=object)}))
    assert loading.npz([tmp_path / "a.npz"])["class_names"] is None


def test_gnn_benchmark_names_the_missing_array(tmp_path: Path) -> None:
    arrays = benchmark_arrays()
    del arrays["attr_indices"]
    write_npz(tmp_path / "a.npz", arrays)
    with pytest.raises(InputError, match="attr_indices"):
        loading.npz([tmp_path / "a.npz"])


def test_gnn_benchmark_truncated(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", benchmark_arrays())
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"a\.npz"):
        loading.npz([tmp_path / "a.npz"])


def test_plain_layout_is_recognised(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", {"edge_index": np.array([[0], [1]]), "y": np.array([0, 1])})
    assert Graph.from_edges(**loading.npz([tmp_path / "a.npz"])).num_edges == 1
    write_npz(tmp_path / "b.npz", {"y": np.array([0, 1])})
    with pytest.raises(InputError, match="there is no array 'edge_index'"):
        loading.npz([tmp_path / "b.npz"])
    write_npz(tmp_path / "c.npz", {"edge_index": np.array([[0], [1]]), "x_shape": np.array([2, 2])})
    with pytest.raises(InputError, match="x_data"):
        loading.npz([tmp_path / "c.npz"])


def write_ogb(folder: Path, edges: str = "0,1\n1,2\n", labels: str = "0\n1\n1\n") -> Path:
    raw = folder / "arxiv" / "raw"
    raw.mkdir(parents=True)
    for stem, text in {"edge": edges, "node-feat": "0.5,-1\n0,2e-3\n1,1\n", "node-label": labels}.items():
        with gzip.open(raw / f"{stem}.csv.gz", "wt") as file:
            file.write(text)
    return folder / "arxiv"


def test_ogb_reads_a_folder_and_its_zip_alike(tmp_path: Path) -> None:
    folder = write_ogb(tmp_path)
    with zipfile.ZipFile(tmp_path / "arxiv.zip", "w") as archive:
        for file in sorted(folder.rglob("*.gz")):
            archive.write(file, file.relative_to(tmp_path))
    for path in (folder, tmp_path / "arxiv.zip"):
        arguments = loading.ogb([path])
        assert arguments["edge_index"].tolist() == [[0, 1], [1, 2]]
        assert arguments["y"].tolist() == [0, 1, 1]
        assert np.allclose(arguments["x"], [[0.5, -1], [0, 2e-3], [1, 1]]) and arguments["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"edges": "a,b\n"}, r"edge\.csv\.gz"), ({"labels": ""}, "no numbers")],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_ogb_names_what_is_wrong(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        loading.ogb([write_ogb(tmp_path, **changes)])


@pytest.mark.parametrize("at", [2, 6, 10, 15, 20])  # from the end: length, checksum, content
def test_ogb_refuses_a_flipped_byte(tmp_path: Path, at: int) -> None:
    folder = write_ogb(tmp_path, edges="".join(f"{row % 3},{row * 7 % 3}\n" for row in range(200)))
    edge = folder / "raw/edge.csv.gz"
    content = bytearray(edge.read_bytes())
    content[-at] ^= 255
    edge.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"edge\.csv\.gz"):
        loading.ogb([folder])


def test_ogb_refuses_damaged_files(tmp_path: Path) -> None:
    folder = write_ogb(tmp_path)
    edge = folder / "raw/edge.csv.gz"
    edge.write_bytes(edge.read_bytes()[:-6])
    with pytest.raises(InputError, match=r"edge\.csv\.gz"):
        loading.ogb([folder])
    edge.unlink()
    with pytest.raises(InputError, match=r"no file .*edge\.csv\.gz"):
        loading.ogb([folder])
    (tmp_path / "arxiv.zip").write_bytes(b"PK but not really")
    with pytest.raises(InputError, match=r"damaged \(BadZipFile"):
        loading.ogb([tmp_path / "arxiv.zip"])
