"""The files a user's graph was read from, remembered with the model so that predicting needs no second naming."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import io
from ..errors import InputError
from ..graph import Graph
from ..graph.stored import open_store
from ..storage import PathLike
from ..store.manifest import Store, is_store


@dataclass(frozen=True)
class TableSource:
    """Paths of the tables and the names of their columns, as ``io.graph_tables`` takes them."""

    edges: str
    nodes: str | None = None
    features: str | None = None
    columns: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, edges: PathLike, nodes: PathLike | None = None, features: PathLike | None = None, **columns: str
    ) -> "TableSource":
        def absolute(path: PathLike | None) -> str | None:
            return None if path is None else str(Path(path).absolute())

        return cls(str(Path(edges).absolute()), absolute(nodes), absolute(features), columns)

    def elsewhere(
        self, edges: PathLike | None = None, nodes: PathLike | None = None, features: PathLike | None = None
    ) -> "TableSource":
        """The same columns in other files; if any is given, files not given are none."""
        if edges is None and nodes is None and features is None:
            return self
        return replace(TableSource.of(edges or self.edges, nodes, features), columns=self.columns)

    @property
    def stored(self) -> bool:
        """Whether the edges are a store, which holds a whole graph."""
        return is_store(self.edges)

    def read(
        self, vocabulary: Sequence[str] | None = None, memory: int | None = None, *, verify: bool = False
    ) -> Graph:
        """The graph in the files; its texts get the words of ``vocabulary``, if that is given. That of a store stays
        there: ``memory`` bounds the work on it, ``verify`` compares its hashes."""
        if self.stored:
            if self.nodes or self.features:
                raise InputError(
                    f"{self.edges} is a store, which holds nodes and features too: leave --nodes and --features out"
                )
            return open_store(self.edges, memory, verify=verify)
        if memory is not None:
            raise InputError("--memory bounds the work on a store; make one of the tables with `fewnode import`")
        named: dict[str, Any] = {"edges": self.edges, "nodes": self.nodes, "features": self.features, **self.columns}
        return Graph.from_edges(**io.graph_tables(**named, vocabulary=vocabulary))

    def digest(self) -> str:
        """SHA-256 of the files and of the names of their columns: tells whether anything was changed since.

        Of the inputs, because what is computed from them may differ in the last digit from one machine to another.
        """
        if self.stored:
            return Store(self.edges).digest()
        sha = hashlib.sha256(repr(sorted(self.columns.items())).encode())
        for path in (self.edges, self.nodes, self.features):
            sha.update(b"none" if path is None else hashlib.sha256(Path(path).read_bytes()).digest())
        return sha.hexdigest()

    def missing(self) -> str | None:
        """The first of the files that is not there."""
        paths = (self.edges, self.nodes, self.features)
        return next((path for path in paths if path is not None and not Path(path).exists()), None)

    @property
    def text_column(self) -> str | None:
        return self.columns.get("text_column")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
