"""From a stream of edges to sorted CSR arcs, with bounded memory: arcs are dealt to buckets by target, then each is
sorted by itself."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .growing import Growing


@dataclass
class Buckets:
    """Files of arcs ``(target, source, turned)`` as single numbers, each for a range of targets. ``turned`` marks the
    way back of an undirected edge, so that repeated edges can be told from those given both ways."""

    folder: Path
    n: int
    size: int  # targets of a bucket

    @property
    def count(self) -> int:
        return -(-self.n // self.size)

    def path(self, bucket: int) -> Path:
        return self.folder / f"bucket-{bucket}"

    def weights(self, bucket: int) -> Path:
        return self.folder / f"weights-{bucket}"

    def sizes(self) -> list[int]:
        paths = [self.path(b) for b in range(self.count)]
        return [path.stat().st_size if path.exists() else 0 for path in paths]

    def cut(self, sizes: list[int]) -> None:
        """Back to the lengths there were when the work was last known to be whole."""
        for bucket, size in enumerate(sizes):
            for path in (self.path(bucket), self.weights(bucket)):
                if path.exists():
                    with path.open("r+b") as file:
                        file.truncate(size)

    def add(self, target: np.ndarray, source: np.ndarray, turned: int, weight: np.ndarray | None = None) -> None:
        code = (target.astype(np.uint64) * np.uint64(self.n) + source.astype(np.uint64)) * np.uint64(2)
        code += np.uint64(turned)
        bucket = target // self.size
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(self.count + 1))
        files = [(self.path, code[order])]
        files += [] if weight is None else [(self.weights, weight[order].astype(np.float64))]
        for number in np.flatnonzero(np.diff(ends)):
            for path, values in files:
                with path(int(number)).open("ab") as file:
                    values[ends[number] : ends[number + 1]].tofile(file)

    def arcs(self, indptr: Path, indices: Path, weights: Path | None = None) -> int:
        """Write the arrays of the CSR rows; the edges that were there more than once are counted. Weights of repeated
        edges are added, and those of both ways, unless every edge is there both ways with the same weight."""
        repeated, total, most = 0, 0, sum(self.sizes()) // 8
        kinds = [np.int32 if size < 2**31 else np.int64 for size in (max(most, self.n), self.n)]
        ends, columns = Growing(indptr, kinds[0]), Growing(indices, kinds[1])
        each = None if weights is None else Growing(weights, np.float32)
        added = each is not None and not all(self._both_ways(bucket) for bucket in range(self.count))
        ends.append(np.zeros(1))
        for bucket in range(self.count):
            codes, weight = self._read(bucket, weighted=each is not None)
            straight, own = _merged(codes, weight, 0)
            repeated += int((codes & np.uint64(1) == 0).sum()) - len(straight)
            turned, its = _merged(codes, weight, 1)
            if added:
                pairs, own = _added(straight, own, turned, its)
            else:
                pairs = straight if each is not None else _distinct(codes >> np.uint64(1))
            if each is not None:
                each.append(own)
            target, low = pairs // np.uint64(self.n), bucket * self.size
            counts = np.bincount(target.astype(np.int64) - low, minlength=min(self.size, self.n - low))
            ends.append(total + np.cumsum(counts))
            total += len(pairs)
            columns.append(pairs % np.uint64(self.n))
        for file in (ends, columns, *([] if each is None else [each])):
            file.close()
        return repeated

    def _read(self, bucket: int, weighted: bool) -> tuple[np.ndarray, np.ndarray]:
        """Codes in order, and their weights."""
        path = self.path(bucket)
        codes = np.fromfile(path, np.uint64) if path.exists() else np.zeros(0, np.uint64)
        if not weighted:
            codes.sort()
            return codes, np.zeros(0)
        order = np.argsort(codes, kind="stable")
        weight = np.fromfile(self.weights(bucket), np.float64) if path.exists() else np.zeros(0)
        return codes[order], weight[order]

    def _both_ways(self, bucket: int) -> bool:
        """Whether every edge of a bucket is there both ways, with the same weight."""
        parts = self._read(bucket, weighted=True)
        (straight, own), (turned, its) = _merged(*parts, 0), _merged(*parts, 1)
        return np.array_equal(straight, turned) and np.array_equal(own, its)

    def drop(self) -> None:
        for bucket in range(self.count):
            self.path(bucket).unlink(missing_ok=True)
            self.weights(bucket).unlink(missing_ok=True)


def _starts(ordered: np.ndarray) -> np.ndarray:
    """Where a value is another than the one before."""
    return np.flatnonzero(np.diff(ordered, prepend=ordered[:1] + np.uint64(1)))


def _distinct(ordered: np.ndarray) -> np.ndarray:
    found: np.ndarray = ordered[_starts(ordered)]
    return found


def _merged(codes: np.ndarray, weight: np.ndarray, turned: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs among sorted codes that are turned, or that are not, each once; and their weights, added."""
    chosen = (codes & np.uint64(1)) == turned
    pairs = codes[chosen] >> np.uint64(1)
    first = _starts(pairs)
    if not len(weight) or not len(first):
        return pairs[first], np.zeros(0)
    return pairs[first], np.add.reduceat(weight[chosen], first)


def _added(a: np.ndarray, x: np.ndarray, b: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of both lists, and the sums of their weights."""
    pairs = np.union1d(a, b)
    total = np.zeros(len(pairs))
    total[np.searchsorted(pairs, a)] += x
    total[np.searchsorted(pairs, b)] += y
    return pairs, total
