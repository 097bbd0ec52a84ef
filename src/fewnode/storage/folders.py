"""Folders written whole: a new one is made beside the old and takes its place in one step."""

import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import InputError
from .files import lock, sweep
from .manifest import NAME, Manifest

EXCHANGE, AT_FDCWD = 2, -100  # of Linux's renameat2


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A new folder to write files into; when that is done it gets a manifest and takes the place of ``target``.

    At every instant ``target`` is the old folder or the new one. What others put into the old
    folder is kept. What killed writers left beside it is removed.
    """
    target = target.resolve()  # the folder a link leads to is replaced, not the link
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target)
    fresh, handle = _fresh(target)
    try:
        yield fresh
        Manifest.write(fresh)
        fresh.chmod(0o755)  # mkdtemp is private; a model need not be
        _sync(handle)
        _put_in_place(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # what is under this name now: the old folder, or half a new one
        if handle >= 0:
            os.close(handle)


def _fresh(target: Path) -> tuple[Path, int]:
    """A new folder beside ``target``, locked: as long as its writer lives nobody sweeps it."""
    while True:
        fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".new"))
        if os.name != "posix":
            return fresh, -1
        with suppress(FileNotFoundError):  # swept before it could be locked
            handle = os.open(fresh, os.O_RDONLY)
            if lock(handle) and fresh.exists():
                return fresh, handle
            os.close(handle)


def _sync(handle: int) -> None:
    if handle >= 0:
        with suppress(OSError):  # not every file system can
            os.fsync(handle)


def _put_in_place(fresh: Path, target: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    kept = _others(target, fresh)
    for path in kept:
        if path.is_file():
            _link(path, fresh / path.name)
    if not _exchange(fresh, target):
        _in_two_steps(fresh, target)
    for path in kept:  # folders cannot be linked: they follow
        if not (target / path.name).exists() and (fresh / path.name).exists():
            (fresh / path.name).rename(target / path.name)


def _others(target: Path, fresh: Path) -> list[Path]:
    """What is in the old folder and was not written by us."""
    ours: set[str] = {NAME}
    with suppress(InputError):
        ours |= Manifest.read(target).files.keys()
    return [path for path in target.iterdir() if path.name not in ours and not (fresh / path.name).exists()]


def _link(path: Path, other: Path) -> None:
    try:
        other.hardlink_to(path)
    except OSError:  # a file system without links
        shutil.copy2(path, other)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    if sys.platform != "linux":
        return False
    with suppress(OSError, AttributeError):
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        return bool(rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), EXCHANGE) == 0)
    return False


def _in_two_steps(fresh: Path, target: Path) -> None:
    """Where folders cannot be swapped: the old one steps aside under a name that ``check_aside`` knows."""
    aside = _aside(target)
    shutil.rmtree(aside, ignore_errors=True)
    target.rename(aside)
    try:
        fresh.rename(target)
    except OSError:
        aside.rename(target)
        raise
    aside.rename(fresh)  # the caller removes it


def check_place(target: Path) -> None:
    """Refuse a file or folder that could not be written: to be asked before the work that fills it."""
    try:
        place = next(parent for parent in target.absolute().parents if parent.exists())
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror or error}); choose another place") from error
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        why = "may not be written to" if place.is_dir() else "is a file, not a folder"
        raise InputError(f"{target} cannot be written: {place} {why}; choose another place")


def check_aside(folder: Path) -> None:
    """Say where a folder is that stepped aside for a writer who was then killed."""
    if not folder.exists() and _aside(folder).exists():
        raise InputError(
            f"{folder} was being replaced when its writer was killed; the old one is whole: rename {_aside(folder)} "
            f"to {folder}"
        )


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")
