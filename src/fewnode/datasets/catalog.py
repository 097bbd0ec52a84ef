"""The catalogue of data sets, ``catalog.toml``: sources, checks and splits. Importing it is cheap."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ..errors import one_of


class File(msgspec.Struct, frozen=True):
    """One original file: its name, its address (None: not downloadable), and its content checks.

    ``blob`` is the git blob id, the SHA-1 of ``b"blob <size>\\0"`` followed by the content.
    """

    name: str
    url: str | None = None
    blob: str | None = None
    sha256: str | None = None


class Counts(msgspec.Struct, frozen=True):
    """The counts of a complete copy. ``stored`` counts the node pairs in the original files, ``edges`` the undirected
    edges they give; a copy must match one of the two."""

    nodes: int
    edges: int
    features: int
    classes: int
    stored: int | None = None


class Entry(msgspec.Struct, frozen=True):
    """A data set. ``reader`` names a function of ``loading.py``; ``split`` are the ids of base, validation and novel
    classes; ``note`` says what a stand-in lacks; ``folders`` are names under which the files may lie unpacked;
    ``planted`` are the arguments of ``planted`` for one that is generated instead of read, ``tables`` the options of
    one that is read from a user's tables."""

    name: str
    title: str
    files: tuple[File, ...]
    reader: str
    counts: Counts
    split: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    license: str
    citation: str
    note: str = ""
    folders: tuple[str, ...] = ()
    bundled: bool = False
    planted: Mapping[str, Any] = {}
    tables: Mapping[str, Any] = {}


@cache
def entries() -> dict[str, Entry]:
    """All data sets by name, the bundled one first."""
    document = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    splits = {name: list(parts.values()) for name, parts in document["splits"].items()}
    found = {
        name: {"name": name, **facts, "split": splits[facts["split"]]} for name, facts in document["datasets"].items()
    }
    return msgspec.convert(found, dict[str, Entry])


def entry(name: str) -> Entry:
    """The data set ``name``; the error for an unknown name suggests the closest one."""
    return entries()[one_of("data set", name, entries())]
