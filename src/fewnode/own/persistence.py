"""A fitted classifier as a folder: the model, and beside it what it knows of classes, features and files."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from .. import checkpoint
from ..errors import InputError
from ..methods.base import Method
from ..storage import PathLike, read_json, write_json, write_tensors
from . import opening
from .calibration import Calibration
from .classes import KnownClasses
from .features import FeatureSchema
from .openworld import OpenWorldModel
from .tables import TableSource

FORMAT = 2  # 1 held texts weighted by rarity, which were then weighted again
OWN, WORDS, EMBEDDING = "own.json", "vocabulary.json", "embedding.safetensors"
KEPT = ("labels.jsonl", "labels.jsonl.cut")  # what a person said by hand outlives the model it was said to
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


def save(
    saved: SavedClassifier, folder: PathLike, force: bool, embedding: Any = None, world: OpenWorldModel | None = None
) -> None:
    """Write a new folder beside the target and put it in its place when it is whole; until then the old one stays.

    ``embedding`` is what the model made of the graph it was fitted on, where that is worth keeping; ``world`` the
    open-world model of that graph.
    """
    target = check_folder(folder, force)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        checkpoint.save(saved.model, fresh)
        if saved.vocabulary is not None:
            write_json(fresh / WORDS, saved.vocabulary)
        _keep_embedding(embedding, fresh / EMBEDDING)
        if world is not None:
            opening.save(world, fresh)
        write_json(fresh / OWN, _document(saved))
        for name in KEPT:
            if (target / name).exists():
                shutil.copy2(target / name, fresh / name)
        fresh.chmod(0o755)  # mkdtemp is private; a model need not be
        _replace(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def check_folder(folder: PathLike, force: bool) -> Path:
    """The folder, if it may be written: it is new or empty, or it holds a model and ``force`` is given."""
    target = Path(folder)
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


def _replace(fresh: Path, target: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    target.rename(old / "model")
    try:
        fresh.rename(target)
    except OSError:
        (old / "model").rename(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _keep_embedding(state: Any, path: Path) -> None:
    """Keep an embedding that is one tensor or a list of them; others are made again."""
    parts = state if type(state) is list else [state]
    if all(isinstance(part, Tensor) for part in parts):
        named = {str(i): part for i, part in enumerate(parts)}
        write_tensors(path, named, {"kind": "list" if type(state) is list else "tensor"})


def read_embedding(folder: Path, device: torch.device) -> Any:
    """The embedding that was kept, or None if there is none."""
    path = folder / EMBEDDING
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt", device=str(device)) as file:
            parts = [file.get_tensor(str(i)) for i in range(len(file.keys()))]
            return parts if file.metadata()["kind"] == "list" else parts[0]
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged ({error}); remove it, it will be made again") from error


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


def load(folder: PathLike) -> SavedClassifier:
    """What a folder holds; one with a model alone (``fewnode train``) is read from the model's card."""
    source = Path(folder)
    model = checkpoint.load(source)
    if not (source / OWN).exists():
        return SavedClassifier(model, FeatureSchema.of_card(model.card), list(model.card.notes))
    document = read_json(source / OWN)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{source / OWN} is not of format {FORMAT}, which this version reads; fit the model again")
    try:
        return SavedClassifier(
            model,
            FeatureSchema.from_json(document["features"]),
            list(document["notes"]),
            KnownClasses(*(tuple(document["classes"][part]) for part in ("base", "validation"))),
            tuple(Calibration(**one) for one in document["calibrations"]),
            None if document["source"] is None else TableSource(**document["source"]),
            tuple(read_json(source / WORDS)) if (source / WORDS).exists() else None,
            document["min_size"],
            document.get("inputs"),
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"{source / OWN} is damaged ({error}); fit the model again") from error
