"""One function for each on-disk format: original files in, arguments of ``Graph.from_edges`` out."""

import gzip
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse as sp

from ..errors import InputError
from ..files import check_bound, check_unpacked, checked_csr, read_npz, readable, reading
from ..graph.convert import graph_arguments
from ..tables import graph_tables
from .mat import load_mat

Arguments = dict[str, Any]
REMEDY = "fetch it again"


def read(reader: str, paths: Sequence[Path], **options: Any) -> Arguments:
    """Read files with the reader of that name; ``options`` are those of ``tables``."""
    return tables(paths, **options) if reader == "tables" else {"gpn": gpn, "npz": npz, "ogb": ogb}[reader](paths)


def tables(paths: Sequence[Path], class_names: Sequence[str] = (), **options: Any) -> Arguments:
    """A table of edges and one of nodes, read as a user's own are; ``class_names`` gives the classes an order."""
    found = graph_tables(*paths, strict=True, **options)
    if class_names:
        held = found["class_names"]
        if unknown := sorted(set(held) - set(class_names)):
            raise InputError(f"{paths[1]} has classes that the catalogue does not list: {', '.join(unknown)}")
        place = np.array([class_names.index(name) for name in held] + [-1])
        found |= {"y": place[np.asarray(found["y"])], "class_names": list(class_names)}
    return found


def npz(paths: Sequence[Path]) -> Arguments:
    """One archive, of the plain layout (see ``Graph.from_npz``) or of the gnn-benchmark repository."""
    path = readable(paths[0])
    with reading(path, REMEDY):
        return graph_arguments(read_npz(path)) if is_plain(path) else gnn_benchmark(path)


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
    with np.load(path, allow_pickle=False) as archive:
        adjacency, attributes = (checked_csr(archive, prefix) for prefix in ("adj", "attr"))
        labels, names = archive["labels"], None
        try:
            found = archive["class_names"]
            names = found.tolist() if found.ndim == 1 and found.dtype.kind == "U" else None
        except (KeyError, ValueError):  # absent, or pickled objects
            pass
    if labels.dtype.kind not in "iu":
        raise InputError(f"labels has dtype {labels.dtype}; expected integers")
    edges = adjacency.tocoo()
    return {
        "edge_index": np.stack([edges.row, edges.col]),
        "x": attributes,
        "y": labels.astype(np.int64),
        "class_names": names,
    }


def gpn(paths: Sequence[Path]) -> Arguments:
    """``*_network`` (tab-separated node pairs), ``*_train.mat`` and ``*_test.mat`` of Ding et al. (2020).

    Each .mat file holds ``Index`` (node numbers), ``Label`` and the sparse ``Attributes`` of the nodes of its
    classes. Labels keep the source's ids.
    """
    network, train, test = paths
    pairs = _table(network, readable(network).open("rb"), np.int64, "\t")
    if pairs.shape[1] != 2:
        raise InputError(f"{network}: expected two node numbers on each line, got {pairs.shape[1]}")
    parts = [_mat(path) for path in (train, test)]
    index, label = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
    where = f"{network.name}, {train.name} and {test.name}"
    widths = sorted({part[2].shape[1] for part in parts})
    if len(widths) > 1:
        raise InputError(f"{train.name} and {test.name} have {widths[0]:,} and {widths[1]:,} Attributes columns")
    if not len(index):
        raise InputError(f"{where} hold no nodes")
    if int(pairs.min()) < 0:
        raise InputError(f"{where}: node {int(pairs.min())}; node numbers start at 0")
    n, named = int(max(pairs.max(), index.max())) + 1, len(index) + pairs.size
    if n > 100 * named:  # every number up to the highest is a node: arrays of that length are made
        raise InputError(f"{where}: the highest node number is {n - 1:,}, though only {named:,} numbers are given")
    values, counts = np.unique(index, return_counts=True)
    if counts.max() > 1:
        raise InputError(f"node {values[counts.argmax()]} stands {counts.max()} times in {where}; once is right")
    words = sp.vstack([part[2] for part in parts]).tocoo()
    y = np.full(n, -1, np.int64)
    y[index] = label
    x = sp.csr_matrix((words.data.astype(np.float32), (index[words.row], words.col)), shape=(n, words.shape[1]))
    return {"edge_index": pairs.T, "x": x, "y": y}


def _mat(path: Path) -> tuple[np.ndarray, np.ndarray, sp.csr_matrix]:
    """Node numbers, labels and features of a .mat file."""
    content = load_mat(readable(path), ("Index", "Label", "Attributes"))
    with reading(path, REMEDY):
        if "Attributes_shape" in content:  # the parts are those of its columns
            content["Attributes_shape"] = content["Attributes_shape"][::-1]
            content["Attributes"] = checked_csr(content, "Attributes").T.tocsr()
        missing = [key for key in ("Index", "Label", "Attributes") if key not in content]
        if missing:
            raise InputError(f"{path} has no {' and no '.join(missing)}; it needs Index, Label and Attributes")
        index, label, attributes = content["Index"].ravel(), content["Label"].ravel(), content["Attributes"]
        if attributes.ndim != 2:
            raise InputError("Attributes is no matrix of numbers")
        if not len(index) == len(label) == attributes.shape[0]:
            sizes = f"Index {len(index):,}, Label {len(label):,}, Attributes {attributes.shape[0]:,}"
            raise InputError(f"{path}: lengths do not match: {sizes}")
        for key, values in (("Index", index), ("Label", label)):
            wrong = np.flatnonzero((values < 0) | (values != np.floor(values)) | ~(values < 2**53))
            if len(wrong):
                raise InputError(f"{path}: {key}[{wrong[0]}] is {values[wrong[0]]}; expected a whole number from 0")
        return index.astype(np.int64), label.astype(np.int64), sp.csr_matrix(attributes)


def ogb(paths: Sequence[Path]) -> Arguments:
    """An Open Graph Benchmark node data set: the zip, or the folder it unpacks to, with ``edge.csv.gz``,
    ``node-feat.csv.gz`` and ``node-label.csv.gz`` in ``raw/``; none has a header."""
    path = paths[0]
    tables = {"edge": np.int64, "node-feat": np.float32, "node-label": np.int64}
    edge, features, label = (_ogb_table(path, f"raw/{stem}.csv.gz", dtype) for stem, dtype in tables.items())
    if edge.shape[1] != 2 or label.shape[1] != 1:
        shapes = edge.shape, label.shape
        raise InputError(f"{path}: edge.csv.gz and node-label.csv.gz have shapes {shapes}; expected 2 and 1 columns")
    return {"edge_index": edge.T, "x": features, "y": label[:, 0]}


def _ogb_table(path: Path, member: str, dtype: Any) -> np.ndarray:
    if path.is_dir():
        alone = readable(path / member)
        return _table(alone, alone.open("rb"), dtype, ",", alone)
    check_unpacked(readable(path))
    with reading(path, REMEDY), zipfile.ZipFile(path) as archive:
        inside = next((name for name in archive.namelist() if f"/{name}".endswith(f"/{member}")), None)
        if inside is None:
            raise InputError(f"{path} has no {member}")
        return _table(path / inside, archive.open(inside), dtype, ",", path)


def _table(path: Path, file: IO[bytes], dtype: Any, separator: str, packed: Path | None = None) -> np.ndarray:
    """Numbers of a text file without a header, [rows, columns]; of a gzip file that is ``packed`` or in it."""
    with file:
        try:
            content = io.BytesIO()
            stream: Any = file if packed is None else gzip.GzipFile(fileobj=file)
            while part := stream.read(1 << 20):
                content.write(part)
                if packed is not None:
                    check_bound(packed, content.tell())
            content.seek(0)
            table = np.loadtxt(content, dtype=dtype, delimiter=separator, ndmin=2, encoding="utf-8")
        except Exception as error:  # NumPy, gzip and zlib each have their own words for "damaged"
            raise InputError(f"{path} is not a table of numbers separated by {separator!r} ({error})") from error
    if not table.size:
        raise InputError(f"{path} holds no numbers")
    return table
