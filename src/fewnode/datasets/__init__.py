"""Data sets: a catalog of published ones, one bundled, and a generator. Loaded when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loading import load_dataset, open_dataset
    from .synthetic import planted

__all__ = ["load_dataset", "open_dataset", "planted"]

_HOMES = {"load_dataset": "loading", "open_dataset": "loading", "planted": "synthetic"}


def __getattr__(name: str) -> Any:  # the catalog alone must not wait for torch
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
