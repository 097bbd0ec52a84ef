"""Bytes of memory and of disk: how many there are, and how people write them."""

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import InputError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def room(folder: Path, needed: int) -> None:
    """Refuse to begin an array for which the disk has no room."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"the disk of {folder} has {said(free)} free, {said(needed)} are needed: {said(needed - free)} are missing"
        )


@contextmanager
def full_disk(folder: Path, needed: int) -> Iterator[None]:
    """Say how much is missing, should the disk fill up while ``needed`` bytes are written."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        room(folder, needed)
        raise InputError(f"the disk of {folder} became full: make room for {said(needed)}") from error


def parsed_memory(text: str) -> int:
    """Bytes of ``4GB``, ``512M``, ``1.5g``, ``2000000000``."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    try:
        return int(float(found[1]) * UNITS[found[2].upper()]) if found else int(text)
    except ValueError:
        raise InputError(f"--memory {text!r}: write a size, for example 4GB or 512MB") from None


def free_memory() -> int:
    """Bytes that programs could still take on this machine."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):  # not Linux
        return 8 << 30


def said(size: float) -> str:
    """Bytes for people, and for ``--memory``; rounded up."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= scale:
            return f"{-(-size * 10 // scale) / 10:g}{unit}"
    return f"{int(size)}B"


def default_memory() -> int:
    """Half of what is free."""
    return free_memory() // 2
