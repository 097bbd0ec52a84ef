"""Folders in object storage (s3, gs, ...), of which every machine keeps the files it has looked at.

Whole files, not ranges: a smoothing reads all edges dozens of times, so they are fetched once and mapped from the disk
of the machine. Storage is what counts: a file is there once it is there, and copies of what is gone are removed.
"""

import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..storage import PathLike, cache_dir
from ..storage.files import atomic_path, lock
from ..storage.manifest import NAME, Manifest, sha256

URL = re.compile(r"[a-z][a-z0-9+.-]+://")
WAIT = 0.2  # seconds until it is looked again whether another process has fetched a file


def is_url(path: PathLike | None) -> bool:
    """Whether a path names object storage."""
    return path is not None and bool(URL.match(str(path))) and not str(path).startswith("file://")


def absolute(path: PathLike) -> str:
    """A path as it is found from anywhere: a URL, or an absolute path (of ``file://``, too)."""
    return str(path) if is_url(path) else str(Path(str(path).removeprefix("file://")).absolute())


@dataclass(frozen=True)
class Remote:
    """The folder ``inside`` the store at ``root``; ``key`` tells one state of that store from another."""

    root: str
    key: str
    inside: str = ""

    @classmethod
    def of(cls, url: str) -> "Remote":
        """The store at a URL, as it is now; its manifest is on this machine."""
        found = cls(url.rstrip("/"), "")
        with _told(f"{found.root}/{NAME}"):
            fs, path = _file_system(found.root)
            if not fs.exists(f"{path}/{NAME}"):
                raise InputError(f"{url} holds no {NAME}, so it is no store: copy the folder of one there, all of it")
            manifest = fs.cat_file(f"{path}/{NAME}")
        key = hashlib.sha256(found.root.encode() + manifest).hexdigest()[:16]
        found = replace(found, key=key)
        found.folder().mkdir(parents=True, exist_ok=True)
        if not (found.folder() / NAME).exists():
            with atomic_path(found.folder() / NAME) as temporary:
                temporary.write_bytes(manifest)
        return found

    @property
    def url(self) -> str:
        return f"{self.root}/{self.inside}".rstrip("/")

    def folder(self) -> Path:
        """The copy on this machine."""
        return cache_dir() / "stores" / f"{self.root.rpartition('/')[2]}-{self.key}" / self.inside

    def handle(self, path: Path) -> tuple["Remote", str]:
        """How another machine names a file of this one's copy of the store."""
        whole = replace(self, inside="")
        return whole, str(path.relative_to(whole.folder()))

    def within(self, name: str) -> "Remote":
        return replace(self, inside=f"{self.inside}/{name}".lstrip("/"))

    def has(self, name: str) -> bool:
        with _told(f"{self.url}/{name}"):
            fs, path = _file_system(self.url)
            found: bool = fs.exists(f"{path}/{name}")
            return found

    def fetch(self, name: str, manifest: Manifest | None = None) -> Path:
        """A file on this machine; one of the ``manifest`` is refused if it is not as it was written. Of several
        processes that want it, one fetches it."""
        target = self.folder() / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f".{target.name}.lock").open("wb") as held:
            while not lock(held.fileno()):
                time.sleep(WAIT)
            if not target.exists():
                self._tidy()
                with _told(f"{self.url}/{name}"), atomic_path(target) as temporary:
                    fs, path = _file_system(self.url)
                    fs.get_file(f"{path}/{name}", str(temporary))
                    if manifest is not None and sha256(temporary) != manifest.files[name].sha256:
                        raise InputError(f"{self.url}/{name} is damaged: its SHA-256 is not the one that was written")
        return target

    def put(self, file: Path, name: str) -> None:
        """Copy a file into the folder: it is there when all of it is."""
        with _told(f"{self.url}/{name}"):
            fs, path = _file_system(self.url)
            fs.put_file(str(file), f"{path}/{name}")

    def remove(self, name: str | None = None) -> None:
        """Remove a file, or all of the folder, if it is there."""
        with _told(self.url), suppress(FileNotFoundError):
            fs, path = _file_system(self.url)
            fs.rm(path, recursive=True) if name is None else fs.rm_file(f"{path}/{name}")

    def _tidy(self) -> None:
        """Remove this machine's copies of files that are no longer in the storage: steps that are over."""
        if not self.inside:
            return
        now, (fs, path) = time.time(), _file_system(self.url)
        with suppress(FileNotFoundError):
            there = {found.rpartition("/")[2] for found in fs.ls(path, detail=False)}
            for file in self.folder().glob("*.npy"):
                if file.name not in there and file.stat().st_mtime < now - 60:  # a fresh one may be newer than the list
                    file.unlink(missing_ok=True)


@lru_cache(maxsize=8)
def _opened(protocol: str) -> Any:
    try:
        import fsspec

        return fsspec.filesystem(protocol, use_listings_cache=False)
    except ImportError as error:
        extra = {"s3": "'fewnode[s3]'", "gs": "'fewnode[gs]'", "gcs": "'fewnode[gs]'"}.get(protocol)
        raise InputError(
            f"{protocol}:// needs more: pip install {extra or f'what fsspec needs for {protocol}'}"
        ) from error
    except ValueError as error:
        raise InputError(f"{protocol}:// is not known to fsspec; s3://BUCKET/FOLDER, gs://BUCKET/FOLDER are") from error


def _file_system(url: str) -> tuple[Any, str]:
    protocol, _, path = url.partition("://")
    fs = _opened(protocol)
    fs.invalidate_cache()
    return fs, fs._strip_protocol(url) or path


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Whatever goes wrong in the storage is an ``InputError`` that names the URL."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # every kind of storage has its own words
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise InputError(f"{url} cannot be reached ({type(error).__name__}: {reason})") from error
