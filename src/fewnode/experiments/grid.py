"""A run, and grids of runs written in TOML."""

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from .. import methods
from ..errors import InputError, one_of
from ..files import convert, parse_toml, read_toml, reading

TASKS, TASK_SEED = 500, 0  # the pool of test tasks: the same for every method and every repetition
FLOORS = ({"head": "logistic", "smooth": False}, {"head": "logistic", "smooth": True})
MOST_SEEDS, MOST_RUNS = 10_000, 1_000_000
Scalar = bool | int | float | str | None


class Block(msgspec.Struct):
    """What a grid, or one of its blocks, may say."""

    datasets: list[str]
    methods: list[str] | Literal["all"]
    settings: list[str]
    n_query: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10
    seeds: Annotated[int, msgspec.Meta(ge=1, le=MOST_SEEDS)] = 1
    options: list[dict[str, Scalar | list[Scalar]]] = msgspec.field(default_factory=lambda: [{}])
    floors: bool = True
    inductive: bool = False
    description: str = ""


_KEYS = {*Block.__struct_fields__, "block"}
_NEEDED = ("datasets", "methods", "settings")


@dataclass(frozen=True)
class Run:
    """One method with its options, trained on one data set from one seed and tested on tasks of one shape."""

    dataset: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    n_way: int = 5
    k_shot: int = 5
    n_query: int = 10
    seed: int = 0
    inductive: bool = False
    graph: str = ""  # fingerprint of a graph in a file, which may be replaced; a data set of the catalog is what it is

    @property
    def id(self) -> str:
        """The same for equal runs, on every machine: the beginning of a hash of the settings."""
        text = json.dumps(self.settings(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def settings(self) -> dict[str, Any]:
        """All of it, as a row keeps it."""
        found = asdict(self)
        return found if self.graph else {key: value for key, value in found.items() if key != "graph"}

    @property
    def setting(self) -> str:
        return f"{self.n_way}w{self.k_shot}s"

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value}" for key, value in self.options.items())
        named = f"{self.method}({options})" if options else self.method
        return f"{named} on {self.dataset}, {self.setting}, seed {self.seed}{', inductive' * self.inductive}"


@dataclass(frozen=True)
class Grid:
    """A grid as written: its blocks, each a product of data sets, methods, settings, options and seeds."""

    name: str
    description: str
    blocks: tuple[Mapping[str, Any], ...]
    where: str = ""

    def runs(
        self, *, datasets: Sequence[str] = (), methods: Collection[str] = (), seeds: int | None = None
    ) -> list[Run]:
        """All runs, those of a data set together. ``datasets`` replace the grid's, ``methods`` choose among its own."""
        with reading(self.where or self.name, "correct it"):
            return self._runs(datasets, methods, seeds)

    def _runs(self, datasets: Sequence[str], methods: Collection[str], seeds: int | None) -> list[Run]:
        blocks = [dict(block) for block in self.blocks]
        for block in blocks:
            block["datasets"] = list(datasets) or block["datasets"]
            block["seeds"] = seeds or block.get("seeds", 1)
        self._check_number(blocks)
        if methods:
            held = {name for block in blocks for name in _methods(block)}
            for name in methods:
                one_of(f"method of the grid {self.name}", name, held)
        found = [run for block in blocks for run in _expand(block, methods)]
        unique = {run.id: run for run in found}
        order = {name: place for place, name in enumerate(dict.fromkeys(run.dataset for run in found))}
        return sorted(unique.values(), key=lambda run: order[run.dataset])

    def _check_number(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        for block in blocks:
            parts = (block["datasets"], _methods(block), block["settings"], block.get("options", [{}]))
            number = math.prod(map(len, parts)) * block["seeds"]
            if block["seeds"] > MOST_SEEDS or number > MOST_RUNS:
                raise InputError(
                    f"the grid {self.name} asks for {number:,} runs with {block['seeds']:,} seeds; at most "
                    f"{MOST_RUNS:,} runs and {MOST_SEEDS:,} seeds are possible"
                )


def grid_names() -> list[str]:
    """The names of the grids that come with the package."""
    return sorted(
        file.name[:-5] for file in (files("fewnode.experiments") / "grids").iterdir() if file.name.endswith(".toml")
    )


def load_grid(name: str) -> Grid:
    """A grid by its name, or by the path of a TOML file."""
    if name.endswith(".toml"):
        if not Path(name).exists():
            raise InputError(f"there is no grid file {name}")
        with reading(name, "correct it"):
            return _checked(Path(name).stem, read_toml(Path(name)), name)
    one_of("grid", name, grid_names())
    data = (files("fewnode.experiments") / "grids" / f"{name}.toml").read_bytes()
    return _checked(name, parse_toml(data, name), f"the grid {name}")


def _checked(name: str, found: dict[str, Any], where: str) -> Grid:
    common = {key: value for key, value in found.items() if key not in ("block", "description")}
    given = convert(found.get("block", []), list[dict[str, Any]], f"{where}, block")
    whole = not given or all(key in common for key in _NEEDED)  # what stands above blocks may be a product itself
    above: list[dict[str, Any]] = [{}] if whole else []
    blocks = tuple({**common, **block} for block in above + given)
    for block in (found, *blocks):
        for key in block:
            one_of(f"key in the grid {name}", key, _KEYS)
    for block in blocks:
        for key in _NEEDED:
            if not block.get(key):
                raise InputError(f"the grid {name} does not say its {key}")
        convert(block, Block, where)
    return Grid(name, convert(found.get("description", ""), str, f"{where}, description"), blocks, where)


def _expand(block: Mapping[str, Any], wanted: Collection[str]) -> Iterator[Run]:
    shapes = [_shape(text, block.get("n_query", 10)) for text in block["settings"]]
    chosen = [name for name in _methods(block) if not wanted or name in wanted]
    variants = [(name, _options(name, given)) for name in chosen for given in block.get("options", [{}])]
    floors = [("probe", dict(floor)) for floor in FLOORS] if block.get("floors", True) else []
    for dataset, shape, (method, options) in product(block["datasets"], shapes, floors + variants):
        seeds = 1 if methods.find(method).training_settings is None else block.get("seeds", 1)
        run = Run(dataset, method, options, *shape, inductive=block.get("inductive", False))
        yield from (replace(run, seed=seed) for seed in range(seeds))


def _methods(block: Mapping[str, Any]) -> list[str]:
    known = methods.names()
    if block["methods"] == "all":
        return known
    return [one_of("method", name, known) for name in block["methods"]]


def _shape(text: str, n_query: int) -> tuple[int, int, int]:
    match = re.fullmatch(r"([1-9][0-9]{0,5})w([1-9][0-9]{0,5})s", text)
    if match is None:
        raise InputError(f"setting {text!r}: write 5w3s for 5-way 3-shot")
    return int(match[1]), int(match[2]), n_query


def _options(method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the method's signature wants them; a whole number where it says float is one."""
    from ..methods.options import check_option, option_types

    kind = methods.find(method)
    for name, value in given.items():
        check_option(kind, name, value)
    known = option_types(kind)
    return {name: _typed(f"option {name} of {method}", value, known[name]) for name, value in given.items()}


def _typed(what: str, value: Any, kind: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{what} is {value}; expected a finite number")
    if kind is float and type(value) is int:
        return float(value)
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{what} is {value!r}: {error}") from error
    except TypeError:  # a type that only the method itself can check
        pass
    return value
