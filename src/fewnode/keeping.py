"""A fitted classifier as a folder: the model, and beside it what it knows of classes, features and files."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from . import checkpoint
from .calibration import Calibration
from .errors import InputError
from .known import KnownClasses
from .schema import Schema
from .source import Source
from .storage import PathLike, read_json, write_json

if TYPE_CHECKING:
    from .prediction import FewShotClassifier

FORMAT = 1
OWN, WORDS, EMBEDDING = "own.json", "vocabulary.json", "embedding.safetensors"
LARGE = 20_000  # nodes from which the embedding is kept too: making it again takes longer than reading it


def save(classifier: "FewShotClassifier", folder: PathLike, force: bool) -> None:
    """Write a new folder beside the target and put it in its place when it is whole; until then the old one stays."""
    model, schema = classifier._fitted()
    target = check_folder(folder, force)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        checkpoint.save(model, fresh)
        if classifier.vocabulary is not None:
            write_json(fresh / WORDS, classifier.vocabulary)
        _keep_embedding(classifier, fresh / EMBEDDING)
        write_json(fresh / OWN, _document(classifier, schema))
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


def _keep_embedding(classifier: "FewShotClassifier", path: Path) -> None:
    """Keep what the model made of the graph it was fitted on, if that is large and plain tensors."""
    if classifier.graph is None or classifier.graph.num_nodes < LARGE or not classifier.on_own_graph():
        return
    state = classifier._attached()[1]
    parts = state if type(state) is list else [state]
    if all(isinstance(part, Tensor) for part in parts):
        named = {str(i): part.detach().cpu().contiguous() for i, part in enumerate(parts)}
        save_file(named, path, metadata={"kind": "list" if type(state) is list else "tensor"})


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


def _document(classifier: "FewShotClassifier", schema: Schema) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "classes": classifier.known.to_json(),
        "features": schema.to_json(),
        "calibrations": [one.to_json() for one in classifier.calibrations],
        "source": None if classifier.source is None else classifier.source.to_json(),
        "min_size": classifier.min_size,
        "notes": classifier.notes,
    }


def load(kind: "type[FewShotClassifier]", folder: PathLike) -> "FewShotClassifier":
    """The classifier in a folder; one with a model alone (``fewnode train``) is read from the model's card."""
    source = Path(folder)
    model = checkpoint.load(source)
    card = model.card
    shape = {key: card[key] for key in ("n_way", "k_shot", "n_query", "seed")}
    made = kind(card["method"], **shape, **card["options"])
    made.model, made.schema, made.notes = model, Schema.of_card(card), list(card["notes"])
    made.named_classes, made.folder = (source / OWN).exists(), source
    if made.named_classes:
        _fill(made, source)
    return made


def _fill(made: "FewShotClassifier", folder: Path) -> None:
    document = read_json(folder / OWN)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{folder / OWN} is not of format {FORMAT}, which this version reads; fit the model again")
    try:
        made.schema = Schema.from_json(document["features"])
        made.known = KnownClasses(*(tuple(document["classes"][part]) for part in ("base", "validation")))
        made.calibrations = [Calibration(**one) for one in document["calibrations"]]
        made.source = None if document["source"] is None else Source(**document["source"])
        made.min_size, made.notes = document["min_size"], document["notes"]
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder / OWN} is damaged ({error}); fit the model again") from error
    made.vocabulary = read_json(folder / WORDS) if (folder / WORDS).exists() else None
