"""One function for each on-disk format: original files in, arguments of ``Graph.from_edges`` out."""

import gzip
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import io
from scipy import sparse as sp

from ..errors import InputError
from ..graph.npz import graph_arguments
from ..storage import read_npz, readable

Arguments = dict[str, Any]


def read(reader: str, paths: Sequence[Path]) -> Arguments:
    """Read files with the reader of that name."""
    readers: dict[str, Callable[[Sequence[Path]], Arguments]] = {"gpn": gpn, "npz": npz, "ogb": ogb}
    return readers[reader](paths)


def npz(paths: Sequence[Path]) -> Arguments:
    """One archive, of the plain layout (see ``Graph.from_npz``) or of the gnn-benchmark repository."""
    path = readable(paths[0])
    if not is_plain(path):
        return gnn_benchmark(path)
    arrays = read_npz(path)
    if "edge_index" not in arrays:
        raise InputError(f"{path} has neither edge_index (plain layout) nor adj_indptr (gnn-benchmark layout)")
    try:
        return graph_arguments(arrays)
    except KeyError as error:
        raise InputError(f"{path} has no array {error}, which its other arrays call for") from error


def is_plain(path: Path) -> bool:
    """Whether an archive is of another layout than gnn-benchmark's (the plain reader names a damaged one)."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "adj_indptr.npy" not in archive.namelist()
    except zipfile.BadZipFile:
        return True


def gnn_benchmark(path: Path) -> Arguments:
    """CSR parts ``adj_*`` and ``attr_*`` with ``labels``, as Shchur et al. (2018) publish them.

    Only these members are opened: others in such files may be pickled objects, which are never loaded.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            adjacency, attributes = (_csr_parts(archive, prefix) for prefix in ("adj", "attr"))
            labels = archive["labels"]
            names = _plain_text(archive, "class_names")
    except KeyError as error:
        raise InputError(f"{path} lacks an array of the gnn-benchmark layout: {error}") from error
    except Exception as error:  # zipfile, zlib and NumPy each have their own words for "damaged"
        raise InputError(f"{path} is not a readable npz archive ({error})") from error
    pairs = adjacency.tocoo()
    return {
        "edge_index": np.stack([pairs.row, pairs.col]).astype(np.int64),
        "x": attributes,
        "y": labels.astype(np.int64),
        "class_names": names,
    }


def _csr_parts(archive: Any, prefix: str) -> sp.csr_matrix:
    data, indices, indptr, shape = (archive[f"{prefix}_{part}"] for part in ("data", "indices", "indptr", "shape"))
    return sp.csr_matrix((data.astype(np.float32), indices, indptr), shape=tuple(int(size) for size in shape))


def _plain_text(archive: Any, key: str) -> list[str] | None:
    try:
        array = archive[key]
    except (KeyError, ValueError):  # absent, or pickled objects
        return None
    return array.tolist() if array.ndim == 1 and array.dtype.kind == "U" else None


def gpn(paths: Sequence[Path]) -> Arguments:
    """``*_network`` (tab-separated node pairs), ``*_train.mat`` and ``*_test.mat`` of Ding et al. (2020).

    Each .mat file holds ``Index`` (node numbers), ``Label`` and the sparse ``Attributes`` of the nodes of its
    classes. Labels keep the source's ids.
    """
    network, train, test = (_ending(paths, end) for end in ("_network", "_train.mat", "_test.mat"))
    pairs = _table(network, readable(network).open("rb"), np.int64, "\t")
    if pairs.shape[1] != 2:
        raise InputError(f"{network}: expected two node numbers on each line, got {pairs.shape[1]}")
    parts = [_mat(path) for path in (train, test)]
    index, label = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
    _check_index(index, f"{train.name} and {test.name}")
    words = sp.vstack([part[2] for part in parts]).tocoo()
    n = int(max(pairs.max(), index.max())) + 1
    y = np.full(n, -1, np.int64)
    y[index] = label
    x = sp.csr_matrix((words.data.astype(np.float32), (index[words.row], words.col)), shape=(n, words.shape[1]))
    return {"edge_index": pairs.T, "x": x, "y": y}


def _ending(paths: Sequence[Path], end: str) -> Path:
    for path in paths:
        if path.name.endswith(end):
            return path
    raise InputError(f"no file ending in {end} among {', '.join(path.name for path in paths)}")


def _mat(path: Path) -> tuple[np.ndarray, np.ndarray, sp.csr_matrix]:
    keys = ("Index", "Label", "Attributes")
    try:
        content = io.loadmat(str(readable(path)), appendmat=False, variable_names=keys)
    except InputError:
        raise
    except Exception as error:  # SciPy has a dozen words for "not a MATLAB 5 file"
        raise InputError(f"{path} is not a readable MATLAB 5 file ({error})") from error
    missing = [key for key in keys if key not in content]
    if missing:
        raise InputError(f"{path} has no {' and no '.join(missing)}; it needs Index, Label and Attributes")
    index, label = (content[key].ravel() for key in ("Index", "Label"))
    attributes = sp.csr_matrix(content["Attributes"])
    if not len(index) == len(label) == attributes.shape[0]:
        sizes = f"Index {len(index):,}, Label {len(label):,}, Attributes {attributes.shape[0]:,}"
        raise InputError(f"{path}: lengths do not match: {sizes}")
    for key, values in (("Index", index), ("Label", label)):
        wrong = np.flatnonzero((values < 0) | (values != np.floor(values)) | ~np.isfinite(values))
        if len(wrong):
            raise InputError(f"{path}: {key}[{wrong[0]}] is {values[wrong[0]]}; expected a whole number from 0")
    return index.astype(np.int64), label.astype(np.int64), attributes


def _check_index(index: np.ndarray, where: str) -> None:
    if not len(index):
        raise InputError(f"{where} hold no nodes")
    values, counts = np.unique(index, return_counts=True)
    if counts.max() > 1:
        raise InputError(f"node {values[counts.argmax()]} stands {counts.max()} times in {where}; once is right")


def ogb(paths: Sequence[Path]) -> Arguments:
    """An Open Graph Benchmark node data set: the zip, or the folder it unpacks to, with ``edge.csv.gz``,
    ``node-feat.csv.gz`` and ``node-label.csv.gz`` in ``raw/``; none has a header."""
    path = paths[0]
    tables = {"edge": np.int64, "node-feat": np.float32, "node-label": np.int64}
    content = {stem: _ogb_table(path, f"raw/{stem}.csv.gz", dtype) for stem, dtype in tables.items()}
    if content["edge"].shape[1] != 2 or content["node-label"].shape[1] != 1:
        shapes = content["edge"].shape, content["node-label"].shape
        raise InputError(f"{path}: edge.csv.gz and node-label.csv.gz have shapes {shapes}; expected 2 and 1 columns")
    return {"edge_index": content["edge"].T, "x": content["node-feat"], "y": content["node-label"][:, 0]}


def _ogb_table(path: Path, member: str, dtype: Any) -> np.ndarray:
    if path.is_dir():
        return _table(path / member, gzip.open(readable(path / member)), dtype, ",")
    try:
        with zipfile.ZipFile(readable(path)) as archive:
            inside = [name for name in archive.namelist() if name.endswith(f"/{member}") or name == member]
            if not inside:
                raise InputError(f"{path} has no {member}")
            with archive.open(inside[0]) as file:
                return _table(Path(f"{path}/{inside[0]}"), gzip.open(file), dtype, ",")
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} is not a whole zip archive ({error}); fetch it again") from error


def _table(path: Path, file: IO[bytes] | gzip.GzipFile, dtype: Any, separator: str) -> np.ndarray:
    """Numbers of a text file without a header, [rows, columns]."""
    with file:
        try:
            table = np.loadtxt(file, dtype=dtype, delimiter=separator, ndmin=2, encoding="utf-8")
        except (ValueError, OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path} is not a table of numbers separated by {separator!r} ({error})") from error
    if not table.size:
        raise InputError(f"{path} holds no numbers")
    return table
