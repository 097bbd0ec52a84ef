"""Load a data set by name: find its files, read them, check counts, cache the result."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace

from .. import files
from ..errors import InputError
from ..files import PathLike
from ..graph import Graph
from ..graph.convert import graph_arguments, graph_arrays
from ..tasks import ClassSplit, random_split
from . import catalog, download, readers
from .catalog import Entry, File
from .synthetic import planted


def load_dataset(
    name: str,
    data_dir: PathLike | None = None,
    progress: download.DownloadProgress | None = None,
    fetch: bool = True,
    text_encoder: str = "",
) -> tuple[Graph, ClassSplit]:
    """The graph and the class split of a data set of the catalog.

    Args:
        name: a name of ``fewnode ls datasets``.
        data_dir: where files are looked for first (by default $FEWNODE_DATA); then the cache, then a download.
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
    with files.reading(paths[0], "fetch its files again"):
        graph = Graph.from_edges(**arguments)
    _check_counts(entry, graph, stored=arguments["edge_index"].shape[1], where=paths[0].parent)
    return graph, ClassSplit(*entry.split)


def open_dataset(name: str, data_dir: PathLike | None = None, **options: Any) -> tuple[Graph, ClassSplit]:
    """A data set of the catalog (``options`` as in ``load_dataset``), or a graph in an ``.npz`` file with its classes
    split 40/20/40 at random."""
    if name.endswith(".npz"):
        graph = Graph.from_npz(name)
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
    if converted is not None and entry.files[0].url is not None and readers.is_plain(converted):
        return [converted], ()  # converted by the user: only its counts are checked
    for path in paths:
        if path.name == "edge.csv.gz" and path.parents[1].name in entry.folders:
            return [path.parents[1]], ()
    own = files.cache_dir() / "downloads" / entry.name
    missing = [file.name for file in entry.files if file.name not in found and not (own / file.name).exists()]
    if missing and not fetch and entry.files[0].url is not None:
        raise InputError(f"{', '.join(missing)} must be downloaded first")
    return [found.get(file.name) or download.fetch(file, own, progress=progress) for file in entry.files], entry.files


def _arguments(entry: Entry, paths: Sequence[Path], checked: Sequence[File]) -> readers.Arguments:
    """The content of the files: from the cache if the same files were parsed before, otherwise parsed and cached."""
    kept = files.cache_dir() / "parsed" / f"{entry.name}-{_identity(paths, entry.tables)}.npz"
    packed = paths[0].suffix == ".npz"  # as fast as the cache
    if not packed:
        with suppress(InputError, OSError):  # missing or damaged: zip archives carry checksums
            return graph_arguments(files.read_npz(kept))
    for file, path in zip(checked, paths, strict=False):
        download.check(file, path)
    arguments = readers.read("npz" if packed else entry.reader, paths, **entry.tables)
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
