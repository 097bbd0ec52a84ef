"""Load a data set by name: find its files, read them, check counts and cache the result."""

import gzip
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from msgspec.structs import replace
from scipy import sparse as sp
from scipy.io import loadmat

from .. import files
from ..errors import InputError
from ..files import PathLike, check_bound, check_unpacked, readable, reading
from ..graph import Graph
from ..graph.convert import graph_arguments, graph_arrays
from ..tables import read_graph
from ..tasks import ClassSplit, random_split
from . import catalog, download
from .catalog import Entry, File
from .synthetic import planted

Arguments = dict[str, Any]  # of Graph.from_edges
REMEDY = "fetch its files again"


def load_dataset(
    name: str,
    data_dir: PathLike | None = None,
    progress: download.DownloadProgress | None = None,
    fetch: bool = True,
    text_encoder: str = "",
) -> tuple[Graph, ClassSplit]:
    """Load a data set of the catalog.

    Args:
        name: a name of ``fewnode ls datasets``.
        data_dir: the first folder to look for files in (by default $FEWNODE_DATA); the cache and a download follow.
        progress: called with the progress of a download.
        fetch: whether missing files are downloaded; otherwise they are an error.
        text_encoder: a pretrained encoder (a folder or name) that reads the texts of the nodes beside their words.

    Returns:
        The graph with all its labels, and its base, validation and novel classes.

    Example:
        >>> import fewnode
        >>> graph, split = fewnode.load_dataset("wordnet")
        >>> graph.num_nodes, len(split.novel)
        (117659, 15)
    """
    entry = catalog.entry(name)
    if text_encoder:
        if not entry.tables:
            raise InputError(f"{name} has no texts that the text encoder {text_encoder} could read; leave it out")
        entry = replace(entry, tables={**entry.tables, "text_encoder": text_encoder})
    if entry.planted:
        return planted(**entry.planted)[0], ClassSplit(*entry.split)
    paths, checked = _locate(entry, data_dir, progress, fetch)
    arguments = _arguments(entry, paths, checked)
    with reading(paths[0], REMEDY):
        graph = Graph.from_edges(**arguments)
    _check_counts(entry, graph, stored=arguments["edge_index"].shape[1], where=paths[0].parent)
    return graph, ClassSplit(*entry.split)


def open_dataset(name: str, data_dir: PathLike | None = None, **options: Any) -> tuple[Graph, ClassSplit]:
    """A data set of the catalog, or a graph in an ``.npz`` file with its classes split 40/20/40 at random.

    A file that is not at its path is looked for in ``data_dir``. The ``options`` are those of ``load_dataset``.
    """
    if name.endswith(".npz"):
        graph = Graph.from_npz(name if data_dir is None or Path(name).exists() else Path(data_dir, Path(name).name))
        return graph, random_split(graph.y, min_size=2)
    return load_dataset(name, data_dir, **options)


def _locate(
    entry: Entry, data_dir: PathLike | None, progress: download.DownloadProgress | None, fetch: bool
) -> tuple[list[Path], tuple[File, ...]]:
    """Where the files are, and the content checks that apply to them."""
    if entry.bundled:
        return [Path(__file__).parent / "bundled" / file.name for file in entry.files], ()
    folder = data_dir if data_dir is not None else os.environ.get("FEWNODE_DATA")
    if folder and not Path(folder).is_dir():
        source = "data_dir" if data_dir is not None else "FEWNODE_DATA"
        raise InputError(f"{source} is {folder}, which is not a folder; name the one that holds the data files")
    levels = [sorted(Path(folder).glob("*/" * depth + "*")) for depth in range(4)] if folder else []
    paths = [path for level in levels for path in level if path.is_file()]  # top level first
    found = {path.name: path for path in reversed(paths)}
    converted = found.get(f"{entry.name}.npz")
    if converted is not None and entry.files[0].url is not None and is_plain(converted):
        return [converted], ()  # converted by the user: only its counts are checked
    for path in paths:
        if path.name == "edge.csv.gz" and path.parents[1].name in entry.folders:
            return [path.parents[1]], ()
    own = files.cache_dir() / "downloads" / entry.name
    missing = [file.name for file in entry.files if file.name not in found and not (own / file.name).exists()]
    if missing and not fetch and entry.files[0].url is not None:
        raise InputError(f"{', '.join(missing)} must be downloaded first")
    return [found.get(file.name) or download.fetch(file, own, progress=progress) for file in entry.files], entry.files


def _arguments(entry: Entry, paths: Sequence[Path], checked: Sequence[File]) -> Arguments:
    """The content of the files: from the cache if the same files were parsed before, otherwise parsed and cached."""
    packed = paths[0].suffix == ".npz"  # as fast as the cache
    if not packed:
        kept = files.cache_dir() / "parsed" / f"{entry.name}-{_identity(paths, entry.tables)}.npz"
        with suppress(InputError, OSError):  # missing or damaged: zip archives carry checksums
            return graph_arguments(files.read_npz(kept))
    for file, path in zip(checked, paths, strict=False):
        download.check(file, path)
    arguments = READERS["npz" if packed else entry.reader](paths, **entry.tables)
    if not packed:
        with suppress(OSError):  # a read-only home only costs time
            files.write_npz(kept, graph_arrays(arguments), compress=False)
    return arguments


def _identity(paths: Sequence[Path], options: Mapping[str, Any]) -> str:
    """A hash of the files' paths, sizes and times, and of the options they are read with."""
    found = [file for path in paths for file in (sorted(path.rglob("*.csv.gz")) if path.is_dir() else [path])]
    stats = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in found]
    return hashlib.sha256(json.dumps([stats, options] if options else stats).encode()).hexdigest()[:16]


def _check_counts(entry: Entry, graph: Graph, stored: int, where: Path) -> None:
    expected = entry.counts
    edges = expected.edges if stored == expected.stored else graph.num_edges
    features = 0 if graph.features is None else next(iter(graph.blocks.values()), graph.features.shape[1])  # words
    found = (graph.num_nodes, edges, features, len(torch.unique(graph.y[graph.y >= 0])))
    pairs = [(what, getattr(expected, what), n) for what, n in zip(expected.__struct_fields__, found, strict=False)]
    if wrong := [f"{right:,} {what} expected, {n:,} found" for what, right, n in pairs if right != n]:
        raise InputError(f"{entry.name} in {where} is incomplete: {'; '.join(wrong)}. Fetch its files again.")


# --- One reader for each file format; each returns arguments of ``Graph.from_edges``.


def tables(paths: Sequence[Path], class_names: Sequence[str] = (), **options: Any) -> Arguments:
    """A table of edges and one of nodes, read as a user's own are; ``class_names`` gives the classes an order."""
    found = read_graph(*paths, strict=True, **options).arguments
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
    adjacency, attributes = (files.checked_csr(held, prefix) for prefix in ("adj", "attr"))
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
    pairs = _table(network, readable(network).open("rb"), np.int64, "\t", network)
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


def _table(path: Path, file: IO[bytes], dtype: Any, separator: str, whole: Path) -> np.ndarray:
    """Numbers of a text file without a header, [rows, columns]; ``whole`` is that file or the archive with it."""
    with file, reading(path, REMEDY):
        content = io.BytesIO()
        stream: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        while part := stream.read(1 << 20):
            content.write(part)
            check_bound(whole, content.tell())
        content.seek(0)
        table = np.loadtxt(content, dtype=dtype, delimiter=separator, ndmin=2, encoding="utf-8")
    if not table.size:
        raise InputError(f"{path} holds no numbers")
    return table


READERS = {"gpn": gpn, "npz": npz, "ogb": ogb, "tables": tables}
