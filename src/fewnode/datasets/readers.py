"""One function for each on-disk format: original files in, arguments of ``Graph.from_edges`` out."""

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse as sp

from ..errors import InputError
from ..files import check_unpacked, read_npz, readable, reading, unpacked_bound
from ..graph.convert import MOST_COLUMNS, checked_csr, checked_shape, graph_arguments
from .mat import load_mat

# --- One function for each on-disk format: original files in, arguments of ``Graph.from_edges`` out.
Arguments = dict[str, Any]
REMEDY = "fetch it again"
LONGEST_LINE = 1 << 20  # bytes of a table
MOST_GAPS = 100  # the highest node number, in how many numbers are given


def read(reader: str, paths: Sequence[Path]) -> Arguments:
    """Read files with the reader of that name."""
    readers: dict[str, Callable[[Sequence[Path]], Arguments]] = {"gpn": gpn, "npz": npz, "ogb": ogb}
    return readers[reader](paths)


def npz(paths: Sequence[Path]) -> Arguments:
    """One archive, of the plain layout (see ``Graph.from_npz``) or of the gnn-benchmark repository."""
    path = readable(paths[0])
    with reading(path, REMEDY):
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
        with zipfile.ZipFile(readable(path)) as archive:
            return "adj_indptr.npy" not in archive.namelist()
    except (InputError, zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return True


def gnn_benchmark(path: Path) -> Arguments:
    """CSR parts ``adj_*`` and ``attr_*`` with ``labels``, as Shchur et al. (2018) publish them.

    Only these members are opened: others in such files may be pickled objects, which are never loaded.
    """
    check_unpacked(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            adjacency, attributes = (_csr_parts(archive, prefix) for prefix in ("adj", "attr"))
            labels = archive["labels"]
            names = _plain_text(archive, "class_names")
    except KeyError as error:
        raise InputError(f"{path} lacks an array of the gnn-benchmark layout: {error}") from error
    except InputError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy each have their own words for "damaged"
        raise InputError(f"{path} is not a readable npz archive ({error})") from error
    if labels.dtype.kind not in "iu":
        raise InputError(f"{path}: labels has dtype {labels.dtype}; expected integers")
    pairs = adjacency.tocoo()
    return {
        "edge_index": np.stack([pairs.row, pairs.col]).astype(np.int64),
        "x": attributes,
        "y": labels.astype(np.int64),
        "class_names": names,
    }


def _csr_parts(archive: Any, prefix: str) -> sp.csr_matrix:
    data, indices, indptr, shape = (archive[f"{prefix}_{part}"] for part in ("data", "indices", "indptr", "shape"))
    return checked_csr(data.astype(np.float32), indices, indptr, checked_shape(shape, f"{prefix}_shape"), prefix)


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
    widths = sorted({part[2].shape[1] for part in parts})
    if len(widths) > 1:
        raise InputError(f"{train.name} and {test.name} have {widths[0]:,} and {widths[1]:,} Attributes columns")
    n = int(max(pairs.max(), index.max(initial=0))) + 1
    _check_index(index, pairs, n, f"{network.name}, {train.name} and {test.name}")
    words = sp.vstack([part[2] for part in parts]).tocoo()
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
    content = load_mat(readable(path), keys)
    missing = [key for key in keys if key not in content]
    if missing:
        raise InputError(f"{path} has no {' and no '.join(missing)}; it needs Index, Label and Attributes")
    for key in keys[:2]:
        if isinstance(content[key], dict):
            raise InputError(f"{path}: {key} is no array of numbers")
    index, label = (content[key].ravel() for key in ("Index", "Label"))
    attributes = _attributes(path, content["Attributes"])
    if not len(index) == len(label) == attributes.shape[0]:
        sizes = f"Index {len(index):,}, Label {len(label):,}, Attributes {attributes.shape[0]:,}"
        raise InputError(f"{path}: lengths do not match: {sizes}")
    for key, values in (("Index", index), ("Label", label)):
        wrong = np.flatnonzero((values < 0) | (values != np.floor(values)) | ~(values < 2**53))
        if len(wrong):
            raise InputError(f"{path}: {key}[{wrong[0]}] is {values[wrong[0]]}; expected a whole number from 0")
    return index.astype(np.int64), label.astype(np.int64), attributes


def _attributes(path: Path, matrix: Any) -> sp.csr_matrix:
    """The features of a .mat file. The parts of a sparse matrix are as they stand there."""
    with reading(path, REMEDY):
        if isinstance(matrix, dict):
            rows, columns = checked_shape(matrix["shape"], "Attributes")
            if rows > 2**31 or columns > MOST_COLUMNS:
                raise InputError(f"Attributes has shape ({rows}, {columns}); at most {MOST_COLUMNS:,} columns are read")
            parts = matrix["data"], matrix["indices"], matrix["indptr"]
            return checked_csr(*parts, (columns, rows), "Attributes").T.tocsr()
        if matrix.ndim != 2:
            raise InputError("Attributes is no matrix of numbers")
        return sp.csr_matrix(matrix)


def _check_index(index: np.ndarray, pairs: np.ndarray, n: int, where: str) -> None:
    if not len(index):
        raise InputError(f"{where} hold no nodes")
    if int(pairs.min()) < 0:
        raise InputError(f"{where}: node {int(pairs.min())}; node numbers start at 0")
    named = len(index) + pairs.size
    if n > MOST_GAPS * named:  # every number up to the highest is a node: arrays of that length are made
        raise InputError(f"{where}: the highest node number is {n - 1:,}, though only {named:,} numbers are given")
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
        alone = readable(path / member)
        return _table(alone, _Bounded(gzip.open(alone), unpacked_bound(alone)), dtype, ",")
    check_unpacked(readable(path))
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [name for name in archive.namelist() if name.endswith(f"/{member}") or name == member]
            if not inside:
                raise InputError(f"{path} has no {member}")
            with archive.open(inside[0]) as file:
                where = Path(f"{path}/{inside[0]}")
                return _table(where, _Bounded(gzip.open(file), unpacked_bound(path)), dtype, ",")
    except (zipfile.BadZipFile, NotImplementedError, OSError, zlib.error) as error:
        raise InputError(f"{path} is not a whole zip archive ({error}); fetch it again") from error


class _Bounded(io.BufferedReader):
    """An unpacked file that ends with an error where it goes on for too long; so does a line of it."""

    def __init__(self, file: Any, bound: int) -> None:
        super().__init__(file)
        self.left, self.bound = bound, bound

    def readline(self, size: int | None = -1) -> bytes:
        line = super().readline(LONGEST_LINE + 1)
        self.left -= len(line)
        if self.left < 0:
            raise ValueError(f"it unpacks to more than {self.bound:,} bytes")
        if len(line) > LONGEST_LINE:
            raise ValueError(f"a line of it has more than {LONGEST_LINE:,} bytes")
        return line

    def __next__(self) -> bytes:
        if line := self.readline():
            return line
        raise StopIteration


def _table(path: Path, file: IO[bytes] | io.BufferedReader, dtype: Any, separator: str) -> np.ndarray:
    """Numbers of a text file without a header, [rows, columns]."""
    with file:
        try:
            table = np.loadtxt(file, dtype=dtype, delimiter=separator, ndmin=2, encoding="utf-8")
        except InputError:
            raise
        except Exception as error:  # NumPy, gzip and zlib each have their own words for "damaged"
            raise InputError(f"{path} is not a table of numbers separated by {separator!r} ({error})") from error
    if not table.size:
        raise InputError(f"{path} holds no numbers")
    return table
