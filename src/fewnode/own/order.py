"""A graph from tables in an order that does not depend on that of its rows, columns and classes, nor on names.

Training tasks are drawn by node number and singular vectors start from random numbers by row, so the order of a file
would otherwise decide a few labels. Nodes are ordered by a hash of what they are: their features, their neighbours'
and so on (the colour refinement of Weisfeiler and Leman); nodes that are alike in all this by the class they have, and
only then by name. Classes are ordered by size, then by a hash of their members; feature columns by name.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse as sp

ROUNDS = 3  # of looking at neighbours
CELLS = 1 << 22  # values hashed at a time


def canonical(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges``, in an order that equal graphs share."""
    names: Sequence[str] | None = arguments.get("node_names")
    if names is None:
        return arguments
    n, edges = len(names), np.asarray(arguments["edge_index"])
    if edges.ndim != 2 or len(edges) != 2 or (edges.size and not 0 <= edges.min() <= edges.max() < n):
        return arguments  # it will be refused
    found = _columns_by_name(arguments)
    colour = _refined(_feature_hash(found.get("x"), found.get("feature_names"), n), edges)
    found = _classes_by_size(found, colour)
    order = _node_order(colour, found.get("y"), names)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    x, y = found.get("x"), found.get("y")
    return found | {
        "edge_index": place[edges],
        "node_names": [names[i] for i in order],
        "x": None if x is None else x[order],
        "y": None if y is None else np.asarray(y)[order],
    }


def natural_order(names: Iterable[str]) -> list[int]:
    """Positions of the names in the order a reader expects: n2 before n10."""
    keys = [[(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in _split(name)] for name in names]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _split(name: str) -> list[str]:
    return [part for part in re.split(r"([0-9]{1,18})", name) if part]


def _columns_by_name(arguments: dict[str, Any]) -> dict[str, Any]:
    names = arguments.get("feature_names")
    if names is None or arguments.get("x") is None or list(names) == sorted(names):
        return dict(arguments)
    order = sorted(range(len(names)), key=names.__getitem__)
    x = arguments["x"]
    moved = x[:, order] if isinstance(x, np.ndarray) else sp.csr_matrix(sp.csc_matrix(x)[:, order])
    return arguments | {"x": moved, "feature_names": tuple(names[i] for i in order)}


def _classes_by_size(arguments: dict[str, Any], colour: np.ndarray) -> dict[str, Any]:
    y, names = arguments.get("y"), arguments.get("class_names")
    if y is None or not names:
        return arguments
    y = np.asarray(y)
    sizes = np.bincount(y[y >= 0], minlength=len(names))
    hashes = _sums(colour, y, len(names))
    order = sorted(range(len(names)), key=lambda c: (-sizes[c], int(hashes[c]), names[c]))
    place = np.empty(len(names) + 1, np.int64)
    place[order], place[-1] = np.arange(len(names)), -1  # the last is looked up by the unknown class -1
    return arguments | {"y": place[y], "class_names": tuple(names[c] for c in order)}


def _node_order(colour: np.ndarray, y: Any, names: Sequence[str]) -> np.ndarray:
    """By colour; alike nodes by class (those without one last), then by name."""
    label = np.full(len(colour), -1) if y is None else np.asarray(y)
    label = np.where(label < 0, len(colour), label)
    order = np.lexsort((label, colour))
    same = (np.diff(colour[order]) == 0) & (np.diff(label[order]) == 0)
    if not same.any():
        return order
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return np.lexsort((rank, label, colour))


def _feature_hash(x: Any, names: Sequence[str] | None, n: int) -> np.ndarray:
    """A hash [n] of each row's values that are not zero, whatever the order of the columns."""
    total = np.zeros(n, np.uint64)
    if x is None:
        return total
    columns = np.array([_text_hash(str(i) if names is None else names[i]) for i in range(x.shape[1])], np.uint64)
    if sp.issparse(x):
        x = sp.csr_matrix(x)
        values = _mixed(_bits(x.data) ^ columns[x.indices])
        values[x.data == 0] = 0
        ends = np.concatenate([np.zeros(1, np.uint64), values.cumsum(dtype=np.uint64)])
        total += ends[x.indptr[1:]] - ends[x.indptr[:-1]]
        return total
    step = max(1, CELLS // max(1, x.shape[1]))
    for at in range(0, n, step):
        part = np.asarray(x[at : at + step], np.float32)
        total[at : at + step] = np.where(part == 0, np.uint64(0), _mixed(_bits(part) ^ columns)).sum(1, dtype=np.uint64)
    return total


def _refined(colour: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Colours after every node has seen its neighbours' a few times; direction and repetition of edges do not count."""
    n = len(colour)
    arcs = sp.csr_matrix((np.ones(edges.shape[1], bool), (edges[0], edges[1])), shape=(n, n))
    arcs = (arcs + arcs.T).tocsr()
    for _ in range(ROUNDS):
        ends = np.concatenate([np.zeros(1, np.uint64), _mixed(colour + 1)[arcs.indices].cumsum(dtype=np.uint64)])
        colour = _mixed(_mixed(colour) + ends[arcs.indptr[1:]] - ends[arcs.indptr[:-1]])
    return colour


def _sums(colour: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    total = np.zeros(classes + 1, np.uint64)
    np.add.at(total, y, _mixed(colour))  # -1, the unknown class, adds to the last
    return total


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)


def _text_hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: neighbouring numbers far apart."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
