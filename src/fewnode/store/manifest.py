"""What a store says of itself: what graph it holds, and shape, length and hash of every array."""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..errors import InputError
from ..storage import PathLike, write_json
from ..storage.documents import parse_json
from ..storage.manifest import Manifest
from .pages import read_mapped
from .remote import Remote, absolute, is_url

FORMAT = 1
STORE = "store.json"
REMEDY = "import the graph again"
OF_NODES = ("features", "x_", "name_")  # what edges do not need


class Facts(msgspec.Struct, frozen=True):
    """What is known of a graph beside its arrays, and of each array its type and shape."""

    format: int
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    self_loops: int = 0
    duplicates: int = 0
    width: int | None = None  # of sparse features
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()  # what was not used of the tables

    @classmethod
    def write(cls, folder: Path, graph: Mapping[str, Any]) -> None:
        """Describe the arrays in a folder, and the ``graph`` they are; with the hashes, the folder is a store."""
        arrays = {path.stem: _kind(read_mapped(path)) for path in sorted(folder.glob("*.npy"))}
        write_json(folder / STORE, {"format": FORMAT, "arrays": arrays, **graph})
        Manifest.write(folder)


class Store:
    """The arrays of a store by name, mapped; what is not as it was written is refused."""

    def __init__(self, path: PathLike, verify: bool = False) -> None:
        self.verify, self.remote = verify, Remote.of(str(path)) if is_url(path) else None
        self.folder = Path(absolute(path)) if self.remote is None else self.remote.folder()
        self.manifest = self._manifest(path)
        if self.remote is not None:
            self.remote.fetch(STORE, self.manifest)
        with self.manifest.checking(self.folder, STORE, REMEDY) as file:
            document = file.read_bytes()
        told = msgspec.json.decode(document)
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            found = told.get("format") if isinstance(told, dict) else None
            raise InputError(f"{path} is a store of format {found}, this version reads {FORMAT}: {REMEDY}")
        self.facts = parse_json(document, Facts, str(self.folder / STORE))

    def _manifest(self, path: PathLike) -> Manifest:
        if self.remote is None and not (self.folder / STORE).exists():
            there = f"has no {STORE}, so it is none" if self.folder.is_dir() else "does not exist"
            raise InputError(f"{path} is to be a store but {there}: make one with `fewnode import --out {path}`")
        return Manifest.read(self.folder, REMEDY)

    @cached_property
    def arrays(self) -> dict[str, np.memmap]:
        return self.opened()

    def opened(self, structure: bool = False) -> dict[str, np.memmap]:
        """All arrays; or, for work that looks at the edges alone, all but features and names."""
        return {name: self._array(name) for name in self.facts.arrays if not (structure and name.startswith(OF_NODES))}

    def _array(self, name: str) -> np.memmap:
        path, told = self.folder / f"{name}.npy", self.facts.arrays[name]
        if self.remote is not None:
            self.remote.fetch(path.name, self.manifest)
        elif not path.exists():
            raise InputError(f"{path} is gone, so the store is damaged: {REMEDY}")
        elif self.verify:
            with self.manifest.checking(self.folder, path.name, REMEDY):
                pass
        array = read_mapped(path)
        if _kind(array) != told or path.stat().st_size != self.manifest.files[path.name].bytes:
            raise InputError(f"{path} holds {_kind(array)}, the store says {told}: {REMEDY}")
        return array

    def digest(self, labels: bool = True) -> str:
        """What tells one store from another; without ``labels``, one structure with its features from another."""
        files = {name: entry.sha256 for name, entry in self.manifest.files.items()}
        if not labels:
            files = {name: sha for name, sha in files.items() if not name.startswith(("y.", "name_", STORE))}
        return hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()


def is_store(path: PathLike | None) -> bool:
    """Whether a path is meant to be a store: a URL, a folder that holds one, or a name that ends so."""
    if path is None or is_url(path):
        return path is not None
    return Path(path).suffix == ".store" or (Path(path) / STORE).exists()


def _kind(array: np.ndarray) -> tuple[str, tuple[int, ...]]:
    return str(array.dtype), array.shape
