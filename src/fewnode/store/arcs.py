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

    def sizes(self) -> list[int]:
        paths = [self.path(b) for b in range(self.count)]
        return [path.stat().st_size if path.exists() else 0 for path in paths]

    def cut(self, sizes: list[int]) -> None:
        """Back to the lengths there were when the work was last known to be whole."""
        for bucket, size in enumerate(sizes):
            if self.path(bucket).exists():
                with self.path(bucket).open("r+b") as file:
                    file.truncate(size)

    def add(self, target: np.ndarray, source: np.ndarray, turned: int) -> None:
        code = (target.astype(np.uint64) * np.uint64(self.n) + source.astype(np.uint64)) * np.uint64(2)
        code += np.uint64(turned)
        bucket = target // self.size
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(self.count + 1))
        code = code[order]
        for number in np.flatnonzero(np.diff(ends)):
            with self.path(int(number)).open("ab") as file:
                code[ends[number] : ends[number + 1]].tofile(file)

    def arcs(self, indptr: Path, indices: Path) -> int:
        """Write both arrays of the CSR rows; the edges that were there more than once are counted."""
        repeated, total, most = 0, 0, sum(self.sizes()) // 8
        kinds = [np.int32 if size < 2**31 else np.int64 for size in (max(most, self.n), self.n)]
        ends, columns = Growing(indptr, kinds[0]), Growing(indices, kinds[1])
        ends.append(np.zeros(1))
        for bucket in range(self.count):
            codes = np.fromfile(self.path(bucket), np.uint64) if self.path(bucket).exists() else np.zeros(0, np.uint64)
            codes.sort()
            straight = codes[(codes & np.uint64(1)) == 0]
            repeated += int((straight[1:] == straight[:-1]).sum())
            pairs = codes >> np.uint64(1)
            pairs = pairs[np.diff(pairs, prepend=pairs[:1] + np.uint64(1)) != 0]
            target, low = pairs // np.uint64(self.n), bucket * self.size
            counts = np.bincount(target.astype(np.int64) - low, minlength=min(self.size, self.n - low))
            ends.append(total + np.cumsum(counts))
            total += len(pairs)
            columns.append(pairs % np.uint64(self.n))
        ends.close()
        columns.close()
        return repeated

    def drop(self) -> None:
        for bucket in range(self.count):
            self.path(bucket).unlink(missing_ok=True)
