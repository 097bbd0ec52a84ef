"""Work that is sent to other processes: arrays that are mapped from files go as the names of these."""

import copyreg
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .pages import read_mapped
from .remote import Remote

FileOf = Callable[[Any], tuple[Remote | None, str] | None]  # given an array; as any machine finds the file


class Sent:
    """A function of a piece, to be called elsewhere."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work

    def __call__(self, piece: Any) -> Any:
        found = self.work(piece)
        return found.numpy() if isinstance(found, Tensor) else found  # which Ray hands over without a copy


@contextmanager
def files_by_name(file_of: FileOf) -> Iterator[None]:
    """While work is handed to Ray: arrays that are mapped from files, which ``file_of`` knows, go as their names."""

    def reduced(value: Any) -> Any:
        mapped = isinstance(value, np.memmap) or value.layout == torch.strided
        if mapped and (file := file_of(value)):
            return (_opened if isinstance(value, np.memmap) else _tensor), file
        return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)

    before = {kind: copyreg.dispatch_table.get(kind) for kind in (np.memmap, Tensor)}
    copyreg.dispatch_table.update(dict.fromkeys(before, reduced))
    try:
        yield
    finally:
        for kind, former in before.items():
            if former is None:
                del copyreg.dispatch_table[kind]
            else:
                copyreg.dispatch_table[kind] = former


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
