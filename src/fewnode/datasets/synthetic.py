"""Generated graphs with planted classes, for tests and benchmarks of any size."""

import numpy as np
from scipy import sparse as sp

from ..errors import InputError
from ..graph import Graph
from ..tasks import ClassSplit, random_split


def planted(
    n: int,
    classes: int,
    *,
    avg_degree: float = 8.0,
    homophily: float = 0.7,
    features: int = 500,
    words_per_node: int = 12,
    difficulty: float = 0.5,
    tail: float = 1.0,
    seed: int = 0,
) -> tuple[Graph, ClassSplit]:
    """A degree-corrected block model whose nodes use words from the topic of their class.

    Expected degrees are Pareto-tailed. A seed gives the same graph on every platform: the random bits are Philox's, and
    the rest is integer arithmetic on them.

    Args:
        n: number of nodes.
        classes: number of planted classes, at least three.
        avg_degree: mean degree; slightly lower in the result, because repeated pairs are merged.
        homophily: share of edges within classes. The others lead to the two neighbouring classes on a random ring or,
            with probability ``difficulty``, to any other class.
        features: size of the vocabulary; 0 for a graph without features.
        words_per_node: mean number of words of a node.
        difficulty: 0 to 1; the share of words from the topic of the class falls from a half at 0 to none at 1.
        tail: the size of the k-th largest class is proportional to ``k ** -tail``.
        seed: random seed.

    Returns:
        The graph, and its classes split 40/20/40.

    Example:
        >>> import fewnode
        >>> fewnode.planted(100, 5, seed=0)[1]
        ClassSplit(base=(0, 2), validation=(1,), novel=(3, 4))
    """
    ranges = {
        "classes": (classes, 3, n),
        "avg_degree": (avg_degree, 0, n - 1),
        "homophily": (homophily, 0, 1),
        "features": (features, 0, 2**31 - 1),
        "words_per_node": (words_per_node, 1, 2**15),
        "difficulty": (difficulty, 0, 1),
        "tail": (tail, 0, 10),
        "seed": (seed, 0, 2**128 - 1),
    }
    for name, (value, low, high) in ranges.items():
        if not low <= value <= high:
            raise InputError(f"{name} is {value}; it must be from {low:,} to {high:,} (n is {n:,})")
    bits = np.random.Philox(key=seed)
    labels = _labels(bits, n, classes, tail)
    edges = _edges(bits, labels, round(n * avg_degree / 2), classes, homophily, difficulty)
    words = _words(bits, labels, classes, features, words_per_node, difficulty) if features else None
    shuffle = np.argsort(bits.random_raw(n), kind="stable")  # until here, nodes are sorted by class
    place = np.empty(n, np.int64)
    place[shuffle] = np.arange(n)
    y = labels[shuffle]
    graph = Graph.from_edges(place[edges], None if words is None else words[shuffle], y)
    return graph, random_split(y, seed=seed)


def _uniform(bits: np.random.Philox, size: int) -> np.ndarray:
    """Numbers in [0, 1) with 53 random bits each."""
    raw = bits.random_raw(size)
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _pick(bits: np.random.Philox, size: int, ends: np.ndarray) -> np.ndarray:
    """Positions in proportion to integer weights, given as their running sum."""
    return np.searchsorted(ends, _below(bits, size, ends[-1]), "right")


def _below(bits: np.random.Philox, size: int, limit: int | np.ndarray) -> np.ndarray:
    """Whole numbers from 0 to just below ``limit``."""
    return (_uniform(bits, size) * limit).astype(np.int64)


def _zipf(count: int) -> np.ndarray:
    return np.cumsum((1 << 20) // np.arange(1, count + 1))


def _labels(bits: np.random.Philox, n: int, classes: int, tail: float) -> np.ndarray:
    """Sorted labels; no class is smaller than 20 nodes or, where those do not fit, than the even share."""
    least = min(20, n // classes)
    weights = np.arange(1, classes + 1, dtype=np.float64) ** -tail
    ends = np.rint(np.cumsum(weights) / weights.sum() * (n - least * classes)).astype(np.int64)
    sizes = np.diff(ends, prepend=0) + least
    order = np.argsort(bits.random_raw(classes), kind="stable")  # a class's id does not tell its size
    return np.repeat(np.arange(classes), sizes[order])


def _edges(
    bits: np.random.Philox, labels: np.ndarray, count: int, classes: int, homophily: float, difficulty: float
) -> np.ndarray:
    """Pairs [2, count]: one end in proportion to its weight, then a class, then a node of it by weight."""
    n = len(labels)
    root = np.sqrt(np.maximum(_uniform(bits, n), 1.0 / n))  # the cap keeps one hub from taking all edges
    ends = np.cumsum((1024.0 / root).astype(np.int64))  # Pareto with index 2: no mean square, a long tail
    source = np.searchsorted(ends, np.sort(_below(bits, count, ends[-1])), "right")  # in order: kind to caches
    other = _other_class(bits, labels[source], classes, difficulty)
    goal = np.where(_uniform(bits, count) < homophily, labels[source], other)
    last = ends[np.cumsum(np.bincount(labels, minlength=classes)) - 1]
    first = np.concatenate([[0], last[:-1]])
    at = first[goal] + _below(bits, count, (last - first)[goal])
    return np.stack([source, np.searchsorted(ends, at, "right")])


def _other_class(bits: np.random.Philox, mine: np.ndarray, classes: int, difficulty: float) -> np.ndarray:
    """A neighbour on the ring of classes or, with probability ``difficulty``, any other class."""
    ring = np.argsort(bits.random_raw(classes), kind="stable")
    position = np.argsort(ring)[mine]
    anywhere = 1 + _below(bits, len(mine), classes - 1)
    beside = np.where(bits.random_raw(len(mine)) >> np.uint64(63), 1, classes - 1)
    step = np.where(_uniform(bits, len(mine)) < difficulty, anywhere, beside)
    other: np.ndarray = ring[(position + step) % classes]
    return other


def _words(
    bits: np.random.Philox, labels: np.ndarray, classes: int, features: int, each: int, difficulty: float
) -> sp.csr_matrix:
    """Word counts: words of the class's topic among words, Zipf-distributed, that any node may use."""
    n = len(labels)
    lengths = each - each // 2 + _below(bits, n, 2 * (each // 2) + 1)
    owner = np.repeat(labels, lengths)
    topics = _below(bits, classes * 20, features).reshape(classes, 20)
    of_topic = topics[owner, _pick(bits, len(owner), _zipf(20))]
    of_all = _pick(bits, len(owner), _zipf(features))
    word = np.where(_uniform(bits, len(owner)) < (1 - difficulty) / 2, of_topic, of_all)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    counts = sp.csr_matrix((np.ones(len(word), np.float32), word, indptr), shape=(n, features))
    counts.sum_duplicates()
    return counts
