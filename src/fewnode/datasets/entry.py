"""What the catalog holds about a data set."""

from dataclasses import dataclass

from .splits import Parts


@dataclass(frozen=True)
class File:
    """One original file: its name, its address (None: not fetched by this package), and its content checks.

    ``blob`` is the git blob id, the SHA-1 of ``b"blob <size>\\0"`` followed by the content.
    """

    name: str
    url: str | None = None
    blob: str | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Counts:
    """What a whole copy holds. ``stored`` counts the node pairs in the original files, ``edges`` the
    undirected edges they make; either may vouch for the structure."""

    nodes: int
    edges: int
    features: int
    classes: int
    stored: int | None = None


@dataclass(frozen=True)
class Entry:
    """A data set. ``reader`` names a function of ``readers.py``; ``note`` says what a stand-in lacks;
    ``folders`` are names under which the files may lie unpacked; ``recipe`` are the arguments of ``planted``
    for one that is made up instead of read."""

    name: str
    title: str
    files: tuple[File, ...]
    reader: str
    counts: Counts
    split: Parts
    license: str
    citation: str
    note: str = ""
    folders: tuple[str, ...] = ()
    bundled: bool = False
    recipe: tuple[tuple[str, float], ...] = ()

    @property
    def stand_in(self) -> bool:
        """Whether this is only a part of, or a substitute for, a published data set."""
        return self.note.startswith("Stand-in")
