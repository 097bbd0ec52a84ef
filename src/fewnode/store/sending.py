"""Work that is sent to other processes: arrays that are mapped from files go as the names of these."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .remote import Remote
from .space import Space, read_mapped


class Sent:
    """A function of a piece, to be called elsewhere; ``space`` knows which arrays are files."""

    def __init__(self, work: Callable[[Any], Any], space: Space) -> None:
        self.work, self.space = work, space

    def __call__(self, piece: Any) -> Any:
        return self.work(piece)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        from ray import cloudpickle

        space = self.space

        class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
            def reducer_override(self, value: Any) -> Any:
                if isinstance(value, np.memmap) and (file := space.file_of(value)):
                    return _opened, file
                if isinstance(value, Tensor) and value.layout == torch.strided and (file := space.file_of(value)):
                    return _tensor, file
                return super().reducer_override(value)

        with io.BytesIO() as out:
            Pickler(out).dump(self.work)
            return _received, (out.getvalue(),)


def _received(sent: bytes) -> Any:
    from ray import cloudpickle

    return cloudpickle.loads(sent)


def _opened(remote: Remote | None, path: str) -> np.memmap:
    """The array of a file: one of the store in object storage, if there is one."""
    if remote is None:
        return read_mapped(Path(path))
    target = remote.folder() / path
    return read_mapped(target if target.exists() else remote.fetch(path))


def _tensor(remote: Remote | None, path: str) -> Tensor:
    return torch.from_numpy(_opened(remote, path))
