"""The files a user's graph was read from, remembered with the model so that predicting needs no second naming."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import io
from ..cluster import Engine
from ..errors import InputError
from ..graph import Graph
from ..graph.stored import open_store
from ..storage import PathLike
from ..store.manifest import Store, is_store
from ..store.remote import absolute, is_url
from .order import canonical

Files = PathLike | Sequence[PathLike]
Names = str | list[str] | None


@dataclass(frozen=True)
class TableSource:
    """Paths of the tables and what their columns are taken for, as ``io.read_graph`` takes them.

    ``options`` are its other options. ``memory`` is what was learned of the columns when the tables were read for the
    first time (``understood``); ``roles`` and ``notes`` say what was understood.
    """

    edges: Names = None
    nodes: Names = None
    features: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    labels: Names = None
    options: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] | None = None
    roles: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        edges: Files | None = None,
        nodes: Files | None = None,
        features: PathLike | None = None,
        *,
        labels: Files | None = None,
        options: dict[str, Any] | None = None,
        **columns: Any,
    ) -> "TableSource":
        """The tables in these files; ``columns`` and ``options`` are those of ``io.read_graph``."""
        one = None if features is None else str(Path(features).absolute())
        return cls(_absolute(edges), _absolute(nodes), one, columns, _absolute(labels), options or {})

    def elsewhere(
        self, edges: Files | None = None, nodes: Files | None = None, features: PathLike | None = None
    ) -> "TableSource":
        """The same columns in other files; if any is given, files not given are none."""
        if edges is None and nodes is None and features is None:
            return self
        there = TableSource.of(edges or self.edges, nodes, features)
        return replace(self, edges=there.edges, nodes=there.nodes, features=there.features, labels=None)

    @property
    def stored(self) -> bool:
        """Whether the edges are a store, which holds a whole graph."""
        return isinstance(self.edges, str) and is_store(self.edges)

    def _opened(self, limit: int | None, engine: Engine | None, verify: bool) -> Graph:
        if self.nodes or self.features or self.labels:
            raise InputError(f"{self.edges} is a store, which holds nodes and features too: give --edges alone")
        return open_store(str(self.edges), limit, verify=verify, engine=engine)

    def read(
        self, vocabulary: Sequence[str] | None = None, limit: int | None = None, engine: Engine | None = None
    ) -> Graph:
        """The graph in the files; its texts get the words of ``vocabulary``, if that is given. A store stays on disk:
        ``limit`` bounds the memory that the work on it takes, which ``engine`` does."""
        if self.stored:
            return self._opened(limit, engine, verify=False)
        _check_stored(limit, engine)
        return Graph.from_edges(**canonical(self._read(vocabulary).arguments))

    def understood(self, limit: int | None = None, engine: Engine | None = None) -> tuple[Graph, "TableSource"]:
        """The graph in the files, and the source with all that was found out about them. The hashes of a store are
        compared."""
        if self.stored:
            for name in (*self.columns, *self.options):
                flag = f"--{name.replace('_', '-')}"
                raise InputError(f"{flag} is about tables, and {self.edges} is a store: say it to `fewnode import`")
            return self._opened(limit, engine, verify=True), replace(self, memory={})
        _check_stored(limit, engine)
        found = self._read(None)
        roles = [asdict(role) for role in found.roles]
        named = replace(self, columns=found.columns, memory=found.memory.to_json(), roles=roles, notes=found.notes)
        return Graph.from_edges(**canonical(found.arguments)), named

    def _read(self, vocabulary: Sequence[str] | None) -> io.Understood:
        memory = None if self.memory is None else io.Memory.from_json(self.memory)
        files: dict[str, Any] = {"nodes": self.nodes, "features": self.features, "labels": self.labels}
        return io.read_graph(self.edges, **files, **self.columns, **self.options, memory=memory, vocabulary=vocabulary)

    def files(self) -> list[str]:
        """All files, in a fixed order."""
        parts = (self.edges, self.nodes, self.features, self.labels)
        return [path for part in parts for path in ([part] if isinstance(part, str) else part or [])]

    def digest(self) -> str:
        """SHA-256 of the files and of the names of their columns: tells whether anything was changed since.

        Of the inputs, because what is computed from them may differ in the last digit from one machine to another.
        """
        if self.stored:
            return Store(str(self.edges)).digest()
        sha = hashlib.sha256(repr(sorted(self.columns.items())).encode())
        sha.update(repr(sorted(self.options.items())).encode() if self.options else b"")
        for part in (self.edges, self.nodes, self.features, *([] if self.labels is None else [self.labels])):
            for path in [part] if part is None or isinstance(part, str) else part:
                sha.update(b"none" if path is None else hashlib.sha256(Path(path).read_bytes()).digest())
        return sha.hexdigest()

    def missing(self) -> str | None:
        """The first of the files that is not there."""
        return next((path for path in self.files() if not is_url(path) and not Path(path).exists()), None)

    @property
    def text_column(self) -> str | None:
        """The column of texts, the first if there are several."""
        given = self.columns.get("text_column")
        return given if given is None or isinstance(given, str) else given[0]

    @property
    def words(self) -> tuple[str, ...] | None:
        """The words of the texts that were learned from."""
        return tuple(self.memory["words"]) if self.memory and "words" in self.memory else None

    def to_json(self) -> dict[str, Any]:
        """All but the words, which a model keeps apart."""
        memory = None if self.memory is None else {name: part for name, part in self.memory.items() if name != "words"}
        return {**asdict(self), "memory": memory}


def _absolute(paths: Files | None) -> Names:
    if paths is None:
        return None
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    found = [absolute(one) for path in given for one in ([path] if "://" in str(path) else io.several(path))]
    return found[0] if len(found) == 1 else found


def _check_stored(limit: int | None, engine: Engine | None) -> None:
    for flag, given in (("--memory bounds the", limit), ("--engine does", engine)):
        if given is not None:
            raise InputError(f"{flag} work on a store; make one of the tables with `fewnode import`")
