"""A run, and grids of runs written in TOML."""

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from .. import methods
from ..errors import InputError, one_of

TASKS, TASK_SEED = 500, 0  # the pool of test tasks: the same for every method and every repetition
FLOORS = ({"head": "logistic", "smooth": False}, {"head": "logistic", "smooth": True})
_KEYS = {
    "description", "datasets", "methods", "settings", "n_query", "seeds", "options", "floors", "inductive", "block",
}  # fmt: skip
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

    @property
    def id(self) -> str:
        """The same for equal runs, on every machine: the beginning of a hash of the settings."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

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

    def runs(
        self, *, datasets: Sequence[str] = (), methods: Collection[str] = (), seeds: int | None = None
    ) -> list[Run]:
        """All runs, those of a data set together. ``datasets`` replace the grid's, ``methods`` choose among its own."""
        blocks = [dict(block) for block in self.blocks]
        for block in blocks:
            block["datasets"] = list(datasets) or block["datasets"]
            block["seeds"] = seeds or block.get("seeds", 1)
        if methods:
            held = {name for block in blocks for name in _methods(block)}
            for name in methods:
                one_of(f"method of the grid {self.name}", name, held)
        found = [run for block in blocks for run in _expand(block, methods)]
        unique = {run.id: run for run in found}
        order = {name: place for place, name in enumerate(dict.fromkeys(run.dataset for run in found))}
        return sorted(unique.values(), key=lambda run: order[run.dataset])


def grid_names() -> list[str]:
    """The names of the grids that come with the package."""
    return sorted(
        file.name[:-5] for file in (files("fewnode.experiments") / "grids").iterdir() if file.name.endswith(".toml")
    )


def load_grid(name: str) -> Grid:
    """A grid by its name, or by the path of a TOML file."""
    if name.endswith(".toml"):
        file = Path(name)
        if not file.is_file():
            raise InputError(f"there is no grid file {file}")
        text = file.read_text(encoding="utf-8")
    else:
        one_of("grid", name, grid_names())
        text = (files("fewnode.experiments") / "grids" / f"{name}.toml").read_text(encoding="utf-8")
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not a TOML file: {error}") from error
    return _checked(Path(name).stem, found)


def _checked(name: str, found: dict[str, Any]) -> Grid:
    common = {key: value for key, value in found.items() if key not in ("block", "description")}
    parts = found.get("block", [])
    whole = not parts or all(key in common for key in _NEEDED)  # what stands above blocks may be a product itself
    blocks = tuple({**common, **block} for block in ([{}] if whole else []) + parts)
    for block in (found, *blocks):
        for key in block:
            one_of(f"key in the grid {name}", key, _KEYS)
    for block in blocks:
        for key in _NEEDED:
            if not block.get(key):
                raise InputError(f"the grid {name} does not say its {key}")
    return Grid(name, str(found.get("description", "")), blocks)


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
    match = re.fullmatch(r"(\d+)w(\d+)s", text)
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
    return {
        name: float(value) if known[name] is float and type(value) is int else value for name, value in given.items()
    }
