"""Which node has a name: found by 128 bits of hash, for millions of names at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np

POWERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)  # odd, so that no letter is lost


def letters_of(names: Any) -> tuple[np.ndarray, np.ndarray]:
    """The ends ``[n + 1]`` and letters of an Arrow array of strings."""
    _, ends, letters = names.buffers()
    at = np.frombuffer(ends, np.int32)[names.offset : names.offset + len(names) + 1]
    text = np.frombuffer(letters, np.uint8) if letters is not None else np.zeros(0, np.uint8)
    return at.astype(np.int64) - int(at[0]), text[at[0] : at[-1]]


def keys_of(ends: np.ndarray, letters: np.ndarray) -> np.ndarray:
    """Two 64-bit hashes of each name, ``[n, 2]``: polynomials of its letters, mixed."""
    lengths = np.diff(ends)
    at = np.arange(len(letters)) - np.repeat(ends[:-1], lengths)
    longest = int(lengths.max(initial=0))
    found = np.empty((len(lengths), 2), np.uint64)
    with np.errstate(over="ignore"):
        for which, power in enumerate(POWERS):
            powers = np.cumprod(np.full(longest + 1, power, np.uint64))
            terms = (letters.astype(np.uint64) + np.uint64(1)) * powers[at]
            total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms)])
            mixed = total[ends[1:]] - total[ends[:-1]] + lengths.astype(np.uint64)
            mixed ^= mixed >> np.uint64(31)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            found[:, which] = mixed ^ (mixed >> np.uint64(29))
    return found


@dataclass(frozen=True)
class NodeKeys:
    """The keys of all nodes in the order of their first half, and the number of the node each belongs to."""

    first: np.ndarray
    second: np.ndarray
    node: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray) -> "NodeKeys":
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        return cls(keys[order, 0], keys[order, 1], order.astype(np.int64))

    def repeated(self) -> tuple[int, int] | None:
        """Two nodes that have the same name, the second as early as there is one."""
        same = (self.first[1:] == self.first[:-1]) & (self.second[1:] == self.second[:-1])
        if not same.any():
            return None
        at = np.flatnonzero(same)
        pairs = np.sort(np.stack([self.node[at], self.node[at + 1]], 1), axis=1)
        earliest = pairs[pairs[:, 1].argmin()]
        return int(earliest[0]), int(earliest[1])

    def look_up(self, keys: np.ndarray) -> np.ndarray:
        """The nodes ``[n]`` with these keys; -1 where there is none."""
        order = np.argsort(keys[:, 0], kind="stable")  # sorted questions walk through the table instead of jumping
        asked = keys[order]
        at = np.minimum(np.searchsorted(self.first, asked[:, 0]), len(self.first) - 1)
        right = (self.first[at] == asked[:, 0]) & (self.second[at] == asked[:, 1])
        found = np.empty(len(keys), np.int64)
        found[order] = np.where(right, self.node[at], -1)
        return found
