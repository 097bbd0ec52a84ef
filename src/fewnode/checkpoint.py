"""A fitted model as a folder: weights in safetensors, everything else in JSON. Nothing in it is ever executed."""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes

from . import methods
from .errors import InputError
from .methods.method import Method
from .storage import PathLike, atomic_write, read_json, readable, write_json

FORMAT = 1
WEIGHTS, CARD = "model.safetensors", "model.json"


def save(model: Method, folder: PathLike) -> Path:
    """Write a model that ``fit`` returned; an older one in the folder is replaced file by file, each atomically."""
    if not hasattr(model, "card"):
        raise InputError(f"this {type(model).__name__} was not made by fit: it does not know its options and classes")
    target = Path(folder)
    data = to_bytes({key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()})
    with atomic_write(target / WEIGHTS) as file:
        file.write(data)
    write_json(target / CARD, {"format": FORMAT, **model.card})
    return target


def load(folder: PathLike, method: type[Method] | None = None) -> Method:
    """The model in a folder that ``save`` wrote; ``method`` is only needed for a class of your own."""
    source = Path(folder)
    card = read_card(source)
    kind = method or methods.find(card["method"])
    context = {key: tuple(value) if isinstance(value, list) else value for key, value in card["context"].items()}
    try:
        model = kind(**context, **card["options"])
        model.load_state_dict(from_bytes(readable(source / WEIGHTS).read_bytes()))
    except (SafetensorError, RuntimeError, TypeError) as error:
        raise InputError(f"{source / WEIGHTS} does not hold the weights its card describes: {error}") from error
    model.card = card
    return model.eval()


def read_card(folder: PathLike) -> dict[str, Any]:
    """What a saved model says of itself, checked to be one of ours and not from the future."""
    source = Path(folder)
    if not (source / CARD).exists():
        raise InputError(
            f"{source} is not a saved model: it has no {CARD}. "
            f"Train one with: fewnode train METHOD DATASET --out {source}"
        )
    card = read_json(source / CARD)
    if not isinstance(card, dict) or not {"format", "method", "options", "context"} <= card.keys():
        raise InputError(f"{source / CARD} is not the card of a fewnode model")
    if not isinstance(card["format"], int) or card["format"] > FORMAT:
        raise InputError(
            f"{source / CARD} has format {card['format']}; this version reads up to {FORMAT}: update fewnode"
        )
    return card
