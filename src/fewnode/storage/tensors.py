"""Tensors in safetensors files."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from ..errors import InputError
from .files import PathLike, umask


def write_tensors(path: PathLike, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write torch tensors as safetensors, whole or not at all."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        save_file({name: part.detach().cpu().contiguous() for name, part in tensors.items()}, temporary, metadata)
        temporary.chmod(0o666 & ~umask())  # it is made for its owner alone; a model need not be
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def check_finite(tensors: Mapping[Any, Tensor]) -> None:
    """Refuse numbers that are none: whatever a model made of them would be nonsense."""
    for name, part in tensors.items():
        if part.is_floating_point() and not bool(torch.isfinite(part).all()):
            raise InputError(f"{name} holds NaN or infinity: these are no usable weights. Train or fit the model again")
