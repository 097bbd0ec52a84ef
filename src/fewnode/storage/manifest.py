"""The manifest of a folder: length and SHA-256 of every file in it, so that damage is never taken for a model."""

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ..errors import InputError
from .documents import Count, Hash, Positive, parse_json
from .files import readable, reading, write_json

NAME, FORMAT = "manifest.json", 1
BLOCK = 1 << 20  # bytes hashed at a time


class Entry(msgspec.Struct, frozen=True):
    bytes: Count
    sha256: Hash


class Manifest(msgspec.Struct, frozen=True):
    """What the files of a folder were when they were written."""

    format: Positive
    files: Mapping[str, Entry]

    @classmethod
    def write(cls, folder: Path) -> None:
        """Describe every file that is in the folder now."""
        files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != NAME)
        entries = {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files}
        write_json(folder / NAME, {"format": FORMAT, "files": entries})

    @classmethod
    def read(cls, folder: Path, remedy: str = "train or fit the model again") -> "Manifest":
        """The manifest of a folder; one without is refused, because nothing in it could be trusted."""
        path = folder / NAME
        if not path.exists():
            raise InputError(
                f"{folder} has no {NAME}: it was written by an earlier version of fewnode, or the file was lost. "
                f"{remedy.capitalize()}"
            )
        with reading(path, remedy):
            found = parse_json(readable(path).read_bytes(), cls, str(path))
        if found.format > FORMAT:
            raise InputError(f"{path} has format {found.format}; this version reads up to {FORMAT}: update fewnode")
        return found

    def __contains__(self, name: str) -> bool:
        return name in self.files

    @contextmanager
    def checking(self, folder: Path, name: str, remedy: str = "train or fit the model again") -> Iterator[Path]:
        """The file of that name, hashed in a second thread while the caller reads it.

        A file that differs is refused by name, whatever the caller made of it; other errors while reading are, too.
        """
        path = folder / name
        if name not in self.files:
            raise InputError(f"{path} is not among the files of {folder / NAME}; {remedy}")
        readable(path)
        with ThreadPoolExecutor(1) as thread, reading(path, remedy):
            found = thread.submit(self._differs, path)
            try:
                yield path
            finally:
                if differs := found.result():
                    raise InputError(f"{path} is damaged: {differs}. Restore it from a copy, or {remedy}")

    def read_bytes(self, folder: Path, name: str) -> bytes:
        """The content of a file, as it was written."""
        with self.checking(folder, name) as path:
            return path.read_bytes()

    def _differs(self, path: Path) -> str:
        entry, size = self.files[path.name], path.stat().st_size
        if size != entry.bytes:
            return f"it has {size:,} bytes, {entry.bytes:,} were written"
        return "" if sha256(path) == entry.sha256 else "its SHA-256 is not the one that was written"


def sha256(path: Path) -> str:
    """The hash of a file, read in blocks."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            sha.update(block)
    return sha.hexdigest()
