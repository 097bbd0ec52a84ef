"""A fitted model as a folder: weights in safetensors, everything else in JSON. Nothing in it is ever executed."""

from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from .. import methods
from ..errors import InputError, refused
from ..files import Manifest, PathLike, check_finite, parse_json, unchanged, whole_folder, write_json, write_tensors
from ..methods.base import Method, ModelCard

FORMAT = 2
WEIGHTS, CARD = "model.safetensors", "model.json"


def save(model: Method, folder: PathLike) -> Path:
    """Save a model that ``fit`` returned. An older model in the folder stays in place until the new one is complete.

    Args:
        model: the fitted model.
        folder: the folder to write; it is created if necessary.

    Returns:
        The folder.

    Example:
        >>> import fewnode, tempfile
        >>> graph, _ = fewnode.planted(100, 4, seed=0)
        >>> folder = fewnode.save(fewnode.fit("probe", graph), tempfile.mkdtemp())
        >>> fewnode.load(folder).card.method
        'probe'
    """
    with whole_folder(Path(folder)) as fresh:
        write(model, fresh)
    return Path(folder)


def write(model: Method, folder: Path) -> None:
    """Write the files of a model, without a manifest."""
    if not hasattr(model, "card"):
        raise InputError(f"this {type(model).__name__} was not made by fit: it does not know its options and classes")
    write_tensors(folder / WEIGHTS, model.state_dict())
    write_json(folder / CARD, {"format": FORMAT, **vars(model.card)})


def load(folder: PathLike, method: type[Method] | None = None) -> Method:
    """Load a model that ``save`` wrote.

    Args:
        folder: the folder.
        method: the class of the method; only needed for a method of your own.

    Returns:
        The model, in eval mode, with its card.

    Example:
        >>> import fewnode, tempfile
        >>> graph, _ = fewnode.planted(100, 4, seed=0)
        >>> folder = fewnode.save(fewnode.fit("probe", graph, head="ridge"), tempfile.mkdtemp())
        >>> fewnode.load(folder).card.options
        {'head': 'ridge'}
    """
    source = Path(folder)
    return unchanged(source, lambda: read(source, read_manifest(source), method))


def read(source: Path, manifest: Manifest, method: type[Method] | None = None) -> Method:
    """The model among the files of a manifest."""
    data, where = manifest.read_bytes(source, CARD), str(source / CARD)
    stated = parse_json(data, dict[str, Any], where).get("format")
    if type(stated) is int and stated > FORMAT:
        raise InputError(f"{where} has format {stated}; this version reads up to {FORMAT}: update fewnode")
    card = ModelCard.from_json(data, where)
    try:
        kind = method or methods.find(card.method)
    except InputError as error:
        raise InputError(f"{where}: {error}. If the method is of another package, install that") from error
    with manifest.checking(source, WEIGHTS) as file:
        weights = load_file(file)
        check_finite(weights)
        with refused(f"{file} does not hold the weights its card describes", RuntimeError, TypeError):
            model = kind(**card.context, **card.options)
            model.load_state_dict(weights)
    model.card = card
    return model.eval()


def read_manifest(folder: PathLike) -> Manifest:
    """The manifest of a saved model. The error for a folder without a model differs from that for a damaged one."""
    source = Path(folder)
    if not (source / CARD).exists():
        what = f"is not a saved model: it has no {CARD}" if source.exists() else "does not exist"
        raise InputError(
            f"{source} {what}. `fewnode fit ... --out {source}` makes a model of your own graph, "
            f"`fewnode train METHOD DATASET --out {source}` one of a data set"
        )
    return Manifest.read(source)
