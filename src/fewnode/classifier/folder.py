"""A fitted classifier as a folder, and the way from such a folder back to a classifier."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import safe_open
from torch import Tensor

from ..errors import InputError
from ..files import (
    Manifest,
    PathLike,
    Positive,
    check_finite,
    check_place,
    parse_json,
    whole_folder,
    write_json,
    write_tensors,
)
from ..methods.base import Method
from ..training import checkpoint
from . import open_set as opening
from .calibration import Calibration
from .features import FeatureSchema
from .inputs import KnownClasses, TableSource
from .open_set import OpenSetModel

# --- A fitted classifier as a folder: the model, and beside it what it knows of classes, features and files.
FORMAT = 2  # 1 held texts weighted by rarity, which were then weighted again
OWN, WORDS, EMBEDDING = "own.json", "vocabulary.json", "embedding.safetensors"
LARGE = 20_000  # nodes from which the embedding is kept too: making it again takes longer than reading it


@dataclass(frozen=True)
class SavedClassifier:
    """What a folder holds. ``known`` and what follows are None for a model that was trained on a data set."""

    model: Method
    schema: FeatureSchema
    notes: list[str]
    known: KnownClasses | None = None
    calibrations: tuple[Calibration, ...] = ()
    source: TableSource | None = None
    vocabulary: tuple[str, ...] | None = None
    min_size: int | None = None
    inputs: str | None = None  # digest of the files of ``source``
    manifest: Manifest | None = None  # of the folder it was read from


def save(
    saved: SavedClassifier, folder: PathLike, force: bool, embedding: Any = None, world: OpenSetModel | None = None
) -> None:
    """Write a new folder beside the target and put it in its place when it is whole; until then the old one stays.

    ``embedding`` is what the model made of the graph it was fitted on, where that is worth keeping; ``world`` the
    open-world model of that graph.
    """
    with whole_folder(check_folder(folder, force)) as fresh:
        checkpoint.write(saved.model, fresh)
        if saved.vocabulary is not None:
            write_json(fresh / WORDS, saved.vocabulary)
        _keep_embedding(embedding, fresh / EMBEDDING)
        if world is not None:
            opening.save(world, fresh)
        write_json(fresh / OWN, _document(saved))


def check_folder(folder: PathLike, force: bool) -> Path:
    """The folder, if it may be written: it is new or empty, or it holds a model and ``force`` is given."""
    target = Path(folder)
    check_place(target)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; name a folder")
    if target.is_dir() and any(target.iterdir()):
        if not (target / checkpoint.CARD).exists():
            raise InputError(f"{target} holds other files than a model; name a new folder")
        if not force:
            raise InputError(
                f"{target} holds a model already; choose another folder or overwrite it (--force, in Python force=True)"
            )
    return target


def _keep_embedding(state: Any, path: Path) -> None:
    """Keep an embedding that is one tensor or a list of them; others are made again."""
    parts = state if type(state) is list else [state]
    if all(isinstance(part, Tensor) for part in parts):
        named = {str(i): part for i, part in enumerate(parts)}
        write_tensors(path, named, {"kind": "list" if type(state) is list else "tensor"})


def read_embedding(folder: Path, manifest: Manifest, device: torch.device) -> Any:
    """The embedding that was kept, or None if there is none."""
    if EMBEDDING not in manifest:
        return None
    with manifest.checking(folder, EMBEDDING) as path, safe_open(path, "pt", device=str(device)) as file:
        parts = [file.get_tensor(str(i)) for i in range(len(file.keys()))]
        check_finite(dict(enumerate(parts)))
        return parts if file.metadata()["kind"] == "list" else parts[0]


def _document(saved: SavedClassifier) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "classes": (saved.known or KnownClasses()).to_json(),
        "features": saved.schema.to_json(),
        "calibrations": [one.to_json() for one in saved.calibrations],
        "source": None if saved.source is None else saved.source.to_json(),
        "min_size": saved.min_size,
        "inputs": saved.inputs,
        "notes": saved.notes,
    }


class OwnDocument(msgspec.Struct, frozen=True):
    """What ``own.json`` holds."""

    format: int
    classes: KnownClasses
    features: FeatureSchema
    calibrations: tuple[Calibration, ...]
    source: TableSource | None
    notes: list[str]
    min_size: Positive | None = None
    inputs: str | None = None


def load(folder: PathLike) -> SavedClassifier:
    """What a folder holds; one with a model alone (``fewnode train``) is read from the model's card."""
    source = Path(folder)
    manifest = checkpoint.read_manifest(source)
    model = checkpoint.read(source, manifest)
    if OWN not in manifest:
        schema = FeatureSchema.of_card(model.card)
        return SavedClassifier(model, schema, list(model.card.notes), manifest=manifest)
    data, where = manifest.read_bytes(source, OWN), str(source / OWN)
    if parse_json(data, dict[str, Any], where).get("format") != FORMAT:
        raise InputError(f"{where} is not of format {FORMAT}, which this version reads; fit the model again")
    found = parse_json(data, OwnDocument, where)
    words = None
    if WORDS in manifest:
        words = parse_json(manifest.read_bytes(source, WORDS), tuple[str, ...], str(source / WORDS))
    return SavedClassifier(
        model,
        found.features,
        found.notes,
        found.classes,
        found.calibrations,
        found.source,
        words,
        found.min_size,
        found.inputs,
        manifest,
    )


# --- A training for a user's model that is not whole yet: where its state is kept, so that a killed one can go on.
def unfinished(out: PathLike, resume: bool) -> Path:
    """The folder beside ``out`` that keeps the state of a training until there is a whole model; empty unless it is to
    be gone on with."""
    target = Path(out)
    state = target.with_name(f"{target.name}.training")
    if resume and not state.exists():
        raise InputError(f"there is no training to go on with at {state}; leave --resume out to start one")
    if not resume:
        forget(state)
    return state


def stopped_early(folder: PathLike) -> bool:
    """Whether the folder holds a model whose training was stopped by hand."""
    return (Path(folder) / checkpoint.CARD).exists() and checkpoint.load(folder).card.interrupted


def forget(state: Path) -> None:
    """Remove the state of a training that is whole."""
    shutil.rmtree(state, ignore_errors=True)
