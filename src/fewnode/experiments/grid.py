"""A run, and grids of runs written in TOML."""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from .. import methods
from ..errors import InputError, one_of
from ..files import Count, Positive, convert, read_toml, reading

GRIDS = Path(__file__).with_name("grids")
BASELINES = ({"head": "logistic", "smooth": False}, {"head": "logistic", "smooth": True})  # training-free, of ``probe``
Scalar = bool | int | float | str | None


@dataclass(frozen=True)
class Run:
    """One method with its options, trained on one data set with one seed and tested on tasks of one shape.

    ``split`` is a JSON file with other classes than those of the data set, ``pool`` a file of test tasks that replaces
    drawn ones, and ``text_encoder`` reads texts beside their words. ``graph`` is the fingerprint of all files that the
    run names (the graph, the split, the pool), because they may change; it is empty for a data set of the catalog.
    """

    dataset: str
    method: str
    options: Mapping[str, Scalar | list[Scalar]] = field(default_factory=dict)
    n_way: Positive = 5
    k_shot: Positive = 5
    n_query: Positive = 10
    seed: Count = 0
    inductive: bool = False
    graph: str = ""
    split: str = ""
    pool: str = ""
    text_encoder: str = ""

    @property
    def id(self) -> str:
        """The beginning of a hash of the settings: equal runs have the same id on every machine."""
        text = json.dumps(self.settings(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def settings(self) -> dict[str, Any]:
        """The settings as stored in a row, without empty ones."""
        return {key: value for key, value in asdict(self).items() if value != ""}

    @property
    def source(self) -> tuple[str, ...]:
        """The data that the run reads: runs with the same source can share them."""
        return (self.dataset, self.split, self.text_encoder, *((self.pool, self.setting) if self.pool else ()))

    @property
    def setting(self) -> str:
        return f"{self.n_way}w{self.k_shot}s"

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value}" for key, value in self.options.items())
        named = f"{self.method}({options})" if options else self.method
        given = {"split": self.split, "tasks of": self.pool, "texts by": self.text_encoder}
        more = "".join(f", {word} {name}" for word, name in given.items() if name)
        return f"{named} on {self.dataset}, {self.setting}, seed {self.seed}{', inductive' * self.inductive}{more}"


class Block(msgspec.Struct, frozen=True):
    """A product of data sets, methods, settings, options and seeds: the keys of a grid or of one of its blocks."""

    datasets: Annotated[list[str], msgspec.Meta(min_length=1)]
    methods: Annotated[list[str], msgspec.Meta(min_length=1)] | Literal["all"]
    settings: Annotated[list[str], msgspec.Meta(min_length=1)]
    n_query: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10
    seeds: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    options: list[dict[str, Scalar | list[Scalar]]] = msgspec.field(default_factory=lambda: [{}])
    baselines: bool = True
    inductive: bool = False
    split: str = ""
    pool: str = ""
    text_encoder: str = ""
    description: str = ""

    def method_names(self) -> list[str]:
        return methods.names() if self.methods == "all" else [methods.check(name) for name in self.methods]

    def runs(self, wanted: Collection[str]) -> Iterator[Run]:
        """The runs of the ``wanted`` methods (all, if empty) and of the training-free baselines."""
        from ..methods.base import checked_options

        names = [name for name in self.method_names() if not wanted or name in wanted]
        variants: list[tuple[str, Mapping[str, Any]]] = [("probe", options) for options in BASELINES if self.baselines]
        variants += [(name, checked_options(methods.find(name), given)) for name in names for given in self.options]
        shapes = [_shape(setting) for setting in self.settings]
        for dataset, (way, shot), (name, options) in product(self.datasets, shapes, variants):
            files = {"split": self.split, "pool": self.pool, "text_encoder": self.text_encoder}
            for seed in range(1 if methods.find(name).training_settings is None else self.seeds):
                yield Run(dataset, name, options, way, shot, self.n_query, seed, self.inductive, **files)


@dataclass(frozen=True)
class Grid:
    """A grid as written in its file; errors name ``where`` it is."""

    name: str
    description: str
    blocks: tuple[Block, ...]
    where: str

    def runs(
        self, *, datasets: Sequence[str] = (), methods: Collection[str] = (), seeds: int | None = None
    ) -> list[Run]:
        """All runs, ordered by data set. ``datasets`` replace those of the grid, ``methods`` select among its
        methods."""
        with reading(self.where, "correct it"):
            blocks = [
                msgspec.structs.replace(block, datasets=datasets or block.datasets, seeds=seeds or block.seeds)
                for block in self.blocks
            ]
            held = {name for block in blocks for name in block.method_names()}
            for name in methods:
                one_of(f"method of the grid {self.name}", name, held)
            for block in blocks:
                variants = len(block.method_names()) * len(block.options)
                number = len(block.datasets) * len(block.settings) * variants * block.seeds
                if number > 1_000_000:
                    raise InputError(f"the grid {self.name} asks for {number:,} runs; at most 1,000,000 are possible")
            found = {run.id: run for block in blocks for run in block.runs(methods)}
        order = list(dict.fromkeys(run.dataset for run in found.values()))
        return sorted(found.values(), key=lambda run: order.index(run.dataset))


def grid_names() -> list[str]:
    """The names of the grids in the package."""
    return sorted(file.stem for file in GRIDS.glob("*.toml"))


def load_grid(name: str) -> Grid:
    """A grid by its name, or from a TOML file."""
    if name.endswith(".toml"):
        path, where = Path(name), name
    else:
        path, where = GRIDS / f"{one_of('grid', name, grid_names())}.toml", f"the grid {name}"
    with reading(where, "correct it"):
        found = read_toml(path)
        given = convert(found.pop("block", []), list[dict[str, Any]], f"{where}, block")
        if not given or {"datasets", "methods", "settings"} <= found.keys():  # the keys above the blocks are one, too
            given = [{}, *given]
        tables = [found | block for block in given]
        for key in (key for table in tables for key in table):
            one_of(f"key in the grid {path.stem}", key, {*Block.__struct_fields__, "block"})
        blocks = tuple(convert(table, Block, where) for table in tables)
        return Grid(path.stem, convert(found.get("description", ""), str, f"{where}, description"), blocks, where)


def _shape(setting: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9][0-9]{0,5})w([1-9][0-9]{0,5})s", setting)
    if match is None:
        raise InputError(f"setting {setting!r}: write 5w3s for 5-way 3-shot")
    return int(match[1]), int(match[2])
