"""The names of millions of nodes, on disk: bytes one after the other, and where each ends."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np

FEW = 100  # names that are looked for one by one; for more, all names are gone through once
BATCH = 1 << 16


class StoredNames(Sequence[str]):
    """``letters`` are the names in UTF-8, the i-th at ``ends[i] : ends[i + 1]``; both may be mapped from disk."""

    def __init__(self, ends: np.ndarray, letters: np.ndarray) -> None:
        self.ends, self.letters = ends, letters

    def __len__(self) -> int:
        return len(self.ends) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            assert step == 1
            ends = self.ends[start : stop + 1].tolist()
            if len(ends) < 2:
                return ()
            text = self.letters[ends[0] : ends[-1]].tobytes()
            first = ends[0]
            return tuple(text[a - first : b - first].decode() for a, b in pairwise(ends))
        at = at + len(self) if at < 0 else at
        if not 0 <= at < len(self):
            raise IndexError(at)
        name: bytes = self.letters[self.ends[at] : self.ends[at + 1]].tobytes()
        return name.decode()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.find([name]))

    def __iter__(self) -> Iterator[str]:
        for at in range(0, len(self), BATCH):
            yield from self[at : at + BATCH]

    def find(self, names: Iterable[str]) -> dict[str, int]:
        """Where those of the ``names`` are that there are."""
        wanted = set(names)
        if len(wanted) > FEW:
            return {name: i for i, name in enumerate(self) if name in wanted}
        found = ((name, self._place(name.encode())) for name in wanted)
        return {name: at for name, at in found if at is not None}

    def _place(self, name: bytes) -> int | None:
        """All names of that length, narrowed down letter by letter."""
        ends = np.asarray(self.ends)
        left = np.flatnonzero(ends[1:] - ends[:-1] == len(name))
        for k in range(len(name) - 1, -1, -1):  # ids differ in their last letters
            left = left[self.letters[ends[left] + k] == name[k]]
        return int(left[0]) if len(left) else None


def name_arrays(names: Sequence[str]) -> dict[str, np.ndarray]:
    """The two arrays of ``StoredNames``."""
    encoded = [name.encode() for name in names]
    ends = np.concatenate([[0], np.cumsum([len(part) for part in encoded])]).astype(np.int64)
    return {"name_ends": ends, "name_letters": np.frombuffer(b"".join(encoded), np.uint8)}
