"""Experiments: a run, grids of runs in TOML, and what is left of a grid to do."""

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from . import methods
from .errors import InputError, one_of
from .results import Row

TASKS, TASK_SEED = 500, 0  # the pool of test tasks: the same for every method and every repetition
FLOORS = ({"head": "logistic", "smooth": False}, {"head": "logistic", "smooth": True})
_KEYS = {
    "description", "datasets", "methods", "settings", "n_query", "seeds", "options", "floors", "inductive", "block",
}  # fmt: skip


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
    return sorted(file.name[:-5] for file in (files("fewnode") / "grids").iterdir() if file.name.endswith(".toml"))


def load_grid(name: str) -> Grid:
    """A grid by its name, or by the path of a TOML file."""
    if name.endswith(".toml"):
        file = Path(name)
        if not file.is_file():
            raise InputError(f"there is no grid file {file}")
        text = file.read_text(encoding="utf-8")
    else:
        one_of("grid", name, grid_names())
        text = (files("fewnode") / "grids" / f"{name}.toml").read_text(encoding="utf-8")
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not a TOML file: {error}") from error
    return _checked(Path(name).stem, found)


def _checked(name: str, found: dict[str, Any]) -> Grid:
    common = {key: value for key, value in found.items() if key not in ("block", "description")}
    blocks = tuple({**common, **block} for block in found.get("block", [{}]))
    for block in (found, *blocks):
        for key in block:
            one_of(f"key in the grid {name}", key, _KEYS)
    for block in blocks:
        for key in ("datasets", "methods", "settings"):
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
    from .options import option_types

    known = option_types(method)
    for name in given:
        one_of(f"option of {method}", name, known)
    return {
        name: float(value) if known[name] is float and type(value) is int else value for name, value in given.items()
    }


@dataclass(frozen=True)
class Plan:
    """A grid sorted: what to do, what is done, what cannot be done and why."""

    todo: list[Run]
    done: list[Run]
    not_run: dict[str, str]  # data set -> why it is not here
    not_possible: list[tuple[Run, str]]

    def seconds(self, rows: Iterable[Row]) -> tuple[float, int]:
        """How long it all takes one after another by earlier rows, and for how many runs there is no such row."""
        known = Durations(rows)
        guesses = [known.guess(run) for run in self.todo]
        return sum(guess or 0.0 for guess in guesses), sum(guess is None for guess in guesses)


def make_plan(runs: Iterable[Run], rows: Iterable[Row], sizes: "Sizes") -> Plan:
    """Sort runs into done (a row without failure exists), possible and impossible.

    ``sizes(dataset)`` gives the node counts of its novel classes, or the reason why there are none.
    """
    finished = {row["id"] for row in rows if row["status"] == "ok"}
    plan = Plan([], [], {}, [])
    for run in runs:
        if run.id in finished:
            plan.done.append(run)
            continue
        found = sizes(run.dataset)
        if isinstance(found, str):
            plan.not_run[run.dataset] = found
        elif reason := _impossible(run, found):
            plan.not_possible.append((run, reason))
        else:
            plan.todo.append(run)
    return plan


def _impossible(run: Run, sizes: Sequence[int]) -> str | None:
    each = run.k_shot + run.n_query
    large = sum(size >= each for size in sizes)
    if large >= run.n_way:
        return None
    return f"{run.n_way}-way needs {run.n_way} novel classes of {each} nodes; {run.dataset} has {large} of {len(sizes)}"


class Sizes:
    """Sizes of the novel classes of data sets, each looked up once; a data set that cannot be had is a reason."""

    def __init__(self, data_dir: str | None = None, fetch: bool = True) -> None:
        self.data_dir, self.fetch = data_dir, fetch
        self.known: dict[str, list[int] | str] = {}

    def __call__(self, dataset: str) -> list[int] | str:
        if dataset not in self.known:
            from .engines.work import novel_sizes

            try:
                self.known[dataset] = novel_sizes(dataset, self.data_dir, self.fetch)
            except (InputError, OSError) as error:
                self.known[dataset] = " ".join(str(error).split())
        return self.known[dataset]


class Durations:
    """Mean seconds of earlier runs, from the most alike to the least: same data and setting, same data, same method."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.seen: dict[tuple[Any, ...], list[float]] = {}
        for row in rows:
            if row["status"] == "ok":
                for key in _likeness(row["run"]):
                    self.seen.setdefault(key, []).append(row["seconds"]["total"])

    def guess(self, run: Run) -> float | None:
        for key in _likeness(asdict(run)):
            if key in self.seen:
                return sum(self.seen[key]) / len(self.seen[key])
        return None


def _likeness(run: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    method, dataset = run["method"], run["dataset"]
    return [(method, dataset, run["n_way"], run["k_shot"]), (method, dataset), (method,)]
