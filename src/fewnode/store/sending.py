"""Work that is sent to other processes: arrays that are mapped from files go as the names of these."""

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .pages import read_mapped
from .remote import Remote

FileOf = Callable[[Any], tuple[Remote | None, str] | None]  # given an array; as any machine finds the file


class Sent:
    """A function of a piece, to be called elsewhere; ``file_of`` knows which arrays are mapped from files."""

    def __init__(self, work: Callable[[Any], Any], file_of: FileOf) -> None:
        self.work, self.file_of = work, file_of

    def __call__(self, piece: Any) -> Any:
        return self.work(piece)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        from ray import cloudpickle

        file_of = self.file_of

        class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
            def reducer_override(self, value: Any) -> Any:
                if isinstance(value, np.memmap) and (file := file_of(value)):
                    return _opened, file
                if isinstance(value, Tensor) and value.layout == torch.strided and (file := file_of(value)):
                    return _tensor, file
                return super().reducer_override(value)

        with io.BytesIO() as out:
            Pickler(out).dump(self.work)
            return _received, (out.getvalue(),)


def _received(sent: bytes) -> Callable[[Any], Any]:
    from ray import cloudpickle

    work = cloudpickle.loads(sent)

    def answer(piece: Any) -> Any:
        found = work(piece)
        return found.numpy() if isinstance(found, Tensor) else found  # which Ray hands over without a copy

    return answer


def returned(found: Any) -> Any:
    """What the work gave back elsewhere; a tensor may be looked at, not changed: it is in Ray's own memory."""
    if not isinstance(found, np.ndarray):
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it may not be changed
        return torch.from_numpy(found)


def _opened(remote: Remote | None, path: str) -> np.memmap:
    """The array of a file: one of the store in object storage, if there is one."""
    if remote is None:
        return read_mapped(Path(path))
    target = remote.folder() / path
    return read_mapped(target if target.exists() else remote.fetch(path))


def _tensor(remote: Remote | None, path: str) -> Tensor:
    return torch.from_numpy(_opened(remote, path))
