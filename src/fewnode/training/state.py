"""The state of a training between two checks, kept on disk so that a killed one goes on as if nothing had happened."""

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from ..errors import InputError
from ..methods.base import Method, Training
from ..nn.optimizers import Adam
from ..storage import atomic_write, readable, reading
from ..storage.documents import Count, Share, parse_json
from ..storage.files import sweep
from ..storage.tensors import check_finite
from .distributed import is_first

FILE, FORMAT = "training.safetensors", 2  # 1 had no hash


class Numbers(msgspec.Struct, frozen=True):
    """How far a training was."""

    step: Count
    waited: Count
    best: Share | None
    curve: tuple[tuple[Count, Share], ...]


class TrainingState:
    """Weights, optimiser, the best weights so far and how long since; written at every check if there is a folder."""

    def __init__(self, model: Method, settings: Training, folder: str | Path | None) -> None:
        self.model = model
        self.optimizer = optimizer(model, settings)
        self.step = 0
        self.waited = 0
        self.best: float | None = None
        self.best_weights: dict[str, Tensor] = {}
        self.curve: list[tuple[int, float]] = []
        self.identity = model.card.identity()
        self.file = None if folder is None else Path(folder) / FILE
        if self.file is not None and self.file.parent.is_dir() and is_first():
            sweep(self.file)
        if self.file is not None and self.file.exists():
            self._read(self.file)

    def check(self, accuracy: float | None) -> None:
        """Take note of a validation accuracy (None: there is nothing to select on) and write the state."""
        if accuracy is not None:
            self.curve.append((self.step, accuracy))
        if accuracy is None or self.best is None or accuracy > self.best:
            self.best, self.waited = accuracy, 0
            self.best_weights = {key: value.detach().clone() for key, value in self.model.state_dict().items()}
        else:
            self.waited += 1
        if self.file is not None and is_first():
            self._write(self.file)

    def finish(self) -> None:
        """Give the model its best weights back."""
        if self.best_weights:
            _restore(self.model, self.best_weights)

    def _write(self, file: Path) -> None:
        tensors = {f"weights/{key}": value for key, value in self.model.state_dict().items()}
        tensors |= {f"best/{key}": value for key, value in self.best_weights.items()}
        for number, entries in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{number}/{key}": torch.as_tensor(value) for key, value in entries.items()}
        numbers = {"step": self.step, "waited": self.waited, "best": self.best, "curve": self.curve}
        tensors = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        meta = {"format": str(FORMAT), "numbers": json.dumps(numbers), "identity": json.dumps(self.identity)}
        data = to_bytes(tensors, meta | {"sha256": _digest(tensors, meta)})
        with atomic_write(file) as out:
            out.write(data)

    def _read(self, file: Path) -> None:
        with reading(file, "delete it to start anew"):
            tensors, meta = _content(readable(file))
            identity = parse_json(meta["identity"].encode(), dict[str, Any], "its identity")
            for key, value in json.loads(json.dumps(self.identity)).items():
                if identity.get(key) != value:
                    raise InputError(
                        f"{file} belongs to another training: its {key} is {identity.get(key)!r}, this one's is "
                        f"{value!r}. Use another folder, or delete it to start anew"
                    )
            numbers = parse_json(meta["numbers"].encode(), Numbers, "its numbers")
            check_finite(tensors)
            self.step, self.waited, self.best = numbers.step, numbers.waited, numbers.best
            self.curve = list(numbers.curve)
            _restore(self.model, _under("weights/", tensors))
            self.best_weights = _under("best/", tensors)
            self._restore_optimizer(_under("optimizer/", tensors))

    def _restore_optimizer(self, tensors: dict[str, Tensor]) -> None:
        state: dict[int, dict[str, Tensor]] = {}
        for path, value in tensors.items():
            number, key = path.split("/")
            state.setdefault(int(number), {})[key] = value
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": state})


def _content(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and texts of a state, if they are those that were written: the file holds their hash.

    Its own hash, not a manifest's: a state is replaced at every check, and one file is replaced in one step.
    """
    with safe_open(file, "pt") as stored:
        meta = dict(stored.metadata() or {})
        tensors = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118 - not a dict
    if meta.get("format") != str(FORMAT):
        raise InputError(f"{file} is not a training state of format {FORMAT}; delete it to start anew")
    if meta.pop("sha256", "") != _digest(tensors, meta):
        raise InputError(f"{file} is damaged: its SHA-256 is not the one that was written; delete it to start anew")
    return tensors, meta


def _digest(tensors: dict[str, Tensor], meta: dict[str, str]) -> str:
    sha = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for key in sorted(tensors):
        part = tensors[key]
        sha.update(f"{key} {part.dtype} {tuple(part.shape)}".encode())
        sha.update(part.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


@torch.no_grad()
def _restore(model: Method, weights: dict[str, Tensor]) -> None:
    """Put weights back, touching only those that differ: values cached for an unchanged basis stay valid."""
    for key, value in model.state_dict().items():
        if not torch.equal(value, weights[key].to(value.device)):
            value.copy_(weights[key])


def optimizer(model: Method, settings: Training) -> torch.optim.Optimizer:
    """Adam over what a method learns."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    each = not settings.fused  # all weights in one call: the same as one after the other, to the bit
    rate, decay = settings.learning_rate, settings.weight_decay
    return Adam(weights, rate, weight_decay=decay, foreach=each, fused=settings.fused)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
