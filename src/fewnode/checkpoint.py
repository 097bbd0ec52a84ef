"""A fitted model as a folder: weights in safetensors, everything else in JSON. Nothing in it is ever executed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes

from . import methods
from .card import ModelCard
from .errors import InputError
from .methods.base import Method
from .methods.options import former_variant
from .storage import PathLike, atomic_write, read_json, readable, write_json

FORMAT = 1
WEIGHTS, CARD = "model.safetensors", "model.json"


def save(model: Method, folder: PathLike) -> Path:
    """Write a model that ``fit`` returned; an older one in the folder is replaced file by file, each atomically.

    Args:
        model: the fitted model.
        folder: where it goes; made if it is not there.

    Returns:
        The folder.

    Example:
        >>> import fewnode, tempfile
        >>> graph, _ = fewnode.planted(100, 4, seed=0)
        >>> folder = fewnode.save(fewnode.fit("probe", graph), tempfile.mkdtemp())
        >>> fewnode.load(folder).card.method
        'probe'
    """
    if not hasattr(model, "card"):
        raise InputError(f"this {type(model).__name__} was not made by fit: it does not know its options and classes")
    target = Path(folder)
    data = to_bytes({key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()})
    with atomic_write(target / WEIGHTS) as file:
        file.write(data)
    write_json(target / CARD, {"format": FORMAT, **model.card.to_json()})
    return target


def load(folder: PathLike, method: type[Method] | None = None) -> Method:
    """The model in a folder that ``save`` wrote.

    Args:
        folder: the folder.
        method: its class; only needed for one of your own.

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
    card = read_card(source)
    kind = method or methods.find(card.method)
    try:
        weights = from_bytes(readable(source / WEIGHTS).read_bytes())
        _refuse_former_tent(source, card, weights)
        model = kind(**card.context, **card.options)
        model.load_state_dict(weights)
    except (SafetensorError, RuntimeError, TypeError) as error:
        raise InputError(f"{source / WEIGHTS} does not hold the weights its card describes: {error}") from error
    model.card = card
    return model.eval()


def _refuse_former_tent(source: Path, card: ModelCard, weights: Mapping[str, Any]) -> None:
    """Three methods once shared the name tent; their weights were named ``core.*``, and the default was ``gated``."""
    if card.method == "tent" and ("variant" in card.options or any(name.startswith("core.") for name in weights)):
        now = former_variant(card.options.get("variant", "gated"))
        raise InputError(f"{source} was saved when tent had variants: {now}, so train that one anew")


def read_card(folder: PathLike) -> ModelCard:
    """What a saved model says of itself, checked to be one of ours and not from the future."""
    source = Path(folder)
    if not (source / CARD).exists():
        raise InputError(
            f"{source} is not a saved model: it has no {CARD}. "
            f"Train one with: fewnode train METHOD DATASET --out {source}"
        )
    document = read_json(source / CARD)
    if not isinstance(document, dict) or not {"format", "method", "options", "context"} <= document.keys():
        raise InputError(f"{source / CARD} is not the card of a fewnode model")
    if not isinstance(document["format"], int) or document["format"] > FORMAT:
        raise InputError(
            f"{source / CARD} has format {document['format']}; this version reads up to {FORMAT}: update fewnode"
        )
    try:
        return ModelCard.from_json(document)
    except TypeError as error:
        raise InputError(f"{source / CARD} is not the card of a fewnode model ({error})") from error
