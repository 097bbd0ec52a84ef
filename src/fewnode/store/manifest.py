"""What a store says of itself: its format, its arrays with their shapes and hashes. Without it there is no store."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..storage import PathLike, read_json, write_json
from .space import read_mapped

FORMAT, VERSION = "fewnode graph store", 1
MANIFEST = "manifest.json"
BLOCK = 1 << 22


@dataclass(frozen=True)
class Manifest:
    """The facts about a graph that are no arrays; ``arrays`` says shape, dtype and SHA-256 of each file."""

    directed: bool = False
    self_loops: int = 0
    duplicates: int = 0
    width: int | None = None  # of sparse features
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    arrays: dict[str, dict[str, Any]] = field(default_factory=dict)

    def digest(self, labels: bool = True) -> str:
        """What tells one store from another; without ``labels``, one structure with its features from another."""
        if labels:
            return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        bare = {name: part for name, part in self.arrays.items() if name != "y" and not name.startswith("name_")}
        return replace(self, class_names=None, arrays=bare).digest()

    def write(self, folder: Path) -> None:
        write_json(folder / MANIFEST, {"format": FORMAT, "version": VERSION, **asdict(self)})


def is_store(path: PathLike | None) -> bool:
    """Whether a path is meant to be a store: a folder with a manifest, or one that is called so."""
    if path is None:
        return False
    folder = Path(path)
    return (folder / MANIFEST).exists() or (folder.is_dir() or not folder.exists()) and folder.suffix == ".store"


def read_manifest(path: PathLike) -> Manifest:
    """The manifest of a store; another format is refused by name."""
    folder = Path(path)
    if not (folder / MANIFEST).exists():
        there = "has no manifest, so it was not finished" if folder.is_dir() else "does not exist"
        raise InputError(f"{folder} {there}: make a store with `fewnode import --edges E --nodes N --out {folder}`")
    document = read_json(folder / MANIFEST)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{folder / MANIFEST} is not that of a {FORMAT}")
    if document.get("version") != VERSION:
        raise InputError(
            f"{folder} is a store of version {document.get('version')}, this program reads {VERSION}: import it again"
        )
    del document["format"], document["version"]
    try:
        for name in ("class_names", "feature_names"):
            document[name] = None if document[name] is None else tuple(document[name])
        return Manifest(**document)
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder / MANIFEST} is damaged ({error}): import the store again") from error


def facts(path: Path) -> dict[str, Any]:
    """Shape, dtype and hash of an array's file, for the manifest."""
    array = read_mapped(path)
    return {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": sha256(path)}


def checked_array(folder: Path, manifest: Manifest, name: str, verify: bool) -> np.memmap:
    """An array of a store, mapped; refused where it is not what the manifest says."""
    path, told = folder / f"{name}.npy", manifest.arrays[name]
    array = read_mapped(path)
    if [list(array.shape), str(array.dtype)] != [told["shape"], told["dtype"]]:
        raise InputError(
            f"{path} holds {array.dtype} {list(array.shape)}, the manifest says {told['dtype']} {told['shape']}: "
            "import the store again"
        )
    if verify and sha256(path) != told["sha256"]:
        raise InputError(f"{path} is not what was written (its SHA-256 differs): import the store again")
    return array


def sha256(path: Path) -> str:
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            sha.update(block)
    return sha.hexdigest()
