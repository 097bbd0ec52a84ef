"""One reader for each file format; each returns arguments of ``Graph.from_edges``."""

import gzip
import io
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse as sp
from scipy.io import loadmat

from ..errors import InputError
from ..files import check_bound, check_unpacked, checked_csr, readable, reading
from ..graph.convert import graph_arguments
from ..tables import graph_tables

Arguments = dict[str, Any]
REMEDY = "fetch it again"


def read(reader: str, paths: Sequence[Path], **options: Any) -> Arguments:
    """Read files with the reader of this name; ``options`` are those of ``tables``."""
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
    check_unpacked(path := readable(paths[0]))
    with reading(path, REMEDY), np.load(path, allow_pickle=False) as held:
        return gnn_benchmark(held) if "adj_indptr" in held else graph_arguments(dict(held))


def is_plain(path: Path) -> bool:
    """Whether an archive is of another layout than gnn-benchmark's."""
    with reading(path, REMEDY), np.load(readable(path), allow_pickle=False) as held:
        return "adj_indptr" not in held


def gnn_benchmark(held: Mapping[str, np.ndarray]) -> Arguments:
    """CSR parts ``adj_*`` and ``attr_*`` with ``labels``, as Shchur et al. (2018) publish them.

    Other members of such files may be pickled objects, which are never loaded.
    """
    adjacency, attributes = (checked_csr(held, prefix) for prefix in ("adj", "attr"))
    names = None
    with suppress(KeyError, ValueError):  # absent, or pickled objects
        names = held["class_names"].tolist()
    edges = np.stack(sp.coo_array(adjacency).coords)
    return {"edge_index": edges, "x": attributes, "y": held["labels"], "class_names": names}


def gpn(paths: Sequence[Path]) -> Arguments:
    """``*_network`` (tab-separated node pairs), ``*_train.mat`` and ``*_test.mat`` of Ding et al. (2020).

    Each .mat file holds ``Index`` (node numbers), ``Label`` and the sparse ``Attributes`` of the nodes of its
    classes. Labels keep the source's ids. The catalogue has a hash of each file, which is compared first: SciPy may
    crash on a damaged .mat file.
    """
    network, *tables = paths
    pairs = _table(network, readable(network).open("rb"), np.int64, "\t")
    parts = []
    for path in tables:
        with reading(path, REMEDY):
            parts.append(loadmat(readable(path), variable_names=["Index", "Label", "Attributes"]))
    index, y = (np.concatenate([part[key].ravel() for part in parts]).astype(np.int64) for key in ("Index", "Label"))
    words = sp.vstack([part["Attributes"] for part in parts]).tocoo()
    n = int(max(pairs.max(), index.max())) + 1
    labels = np.full(n, -1, np.int64)
    labels[index] = y
    x = sp.csr_matrix((words.data.astype(np.float32), (index[words.row], words.col)), shape=(n, words.shape[1]))
    return {"edge_index": pairs.T, "x": x, "y": labels}


def ogb(paths: Sequence[Path]) -> Arguments:
    """An Open Graph Benchmark node data set: the zip, or the folder it unpacks to, with ``edge.csv.gz``,
    ``node-feat.csv.gz`` and ``node-label.csv.gz`` in ``raw/``; none has a header."""
    path = paths[0]
    tables = {"edge": np.int64, "node-feat": np.float32, "node-label": np.int64}
    edge, features, label = (_ogb_table(path, f"raw/{stem}.csv.gz", dtype) for stem, dtype in tables.items())
    return {"edge_index": edge.T, "x": features, "y": label.ravel()}


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
    """Numbers of a text file without a header, [rows, columns]; ``packed`` is the gzip file or the archive with it."""
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
        except Exception as error:  # NumPy, gzip and zlib raise different errors
            raise InputError(f"{path} is not a table of numbers separated by {separator!r} ({error})") from error
    if not table.size:
        raise InputError(f"{path} holds no numbers")
    return table
