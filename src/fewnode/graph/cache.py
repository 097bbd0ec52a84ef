"""What has been computed of a graph already, under typed names."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class CacheKey(Generic[T]):
    """The name of a cached value of type ``T``; ``parameters`` tell apart values that options make different."""

    name: str
    parameters: tuple[Hashable, ...] = ()

    def of(self, *parameters: Hashable) -> "CacheKey[T]":
        """The key of the value for these parameters."""
        return CacheKey(self.name, parameters)


class GraphCache:
    """Values derived from one graph.

    A value depends on structure and features, never on labels, so graphs that differ in labels alone share a cache.
    A value made from a ``source`` tensor as well (a model's basis, say) holds for that very tensor until it is changed
    in place; the next request makes it anew and drops the old one. A graph with other edges or features starts with
    an empty cache.
    """

    def __init__(self) -> None:
        self._held: dict[CacheKey[Any], tuple[Tensor | None, int, Any]] = {}

    def get(self, key: CacheKey[T], make: Callable[[], T], source: Tensor | None = None) -> T:
        """The value under ``key``; ``make()`` computes it if it is not there or no longer holds."""
        version = 0 if source is None else source._version
        held = self._held.get(key)
        if held is None or held[0] is not source or held[1] != version:
            held = self._held[key] = (source, version, make())
        value: T = held[2]
        return value

    def names(self) -> list[str]:
        """The names of the values that are there, in order."""
        return sorted({key.name for key in self._held})

    def __len__(self) -> int:
        return len(self._held)
