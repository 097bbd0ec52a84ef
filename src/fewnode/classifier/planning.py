"""What a graph larger than memory will cost: time, memory and disk, from rates measured on this very machine."""

import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from ..graph.arrays import STEPS
from ..graph.operators import BoundedOperator, Pattern
from ..nn import view_blocks
from ..nn.views import FAR_STEPS, NEAR_STEPS, VIEWS
from ..store import Space, default_memory
from .known_classes import COPIES, PENALTIES, SELECTION, SPREADS, WIDTH
from .novelty import SAMPLE
from .simulation import WORLDS

# --- What a graph larger than memory will cost: time, memory and disk, from rates measured on this very machine.
RANK, LEAST_RANK, SPARE = 256, 64, 16  # of the views: most, least, and columns to spare while directions are found
TRIED, ARCS = 1 << 21, 1 << 24  # most nodes and arcs of the graph on which the rates are measured
BLOCK, PASSES = 16, 3  # columns of a block on which they are measured, and passes
THIN = 40  # columns of a product with few
LEARNED = 45  # passes over the labelled nodes until the known classes are learned
ANSWER, HALF = 8, 5  # arcs that take as long as a class's answer at a node, and a coordinate in half precision
WHOLE = 1.3  # times as long as by the best of short tries: what whole runs of three sizes took (benchmarks/scale.py)
EPISODES = 1.3e11  # multiplications that take as long as what is learned from tasks or worlds, whatever the graph
TRIALS = 43 * len(PENALTIES) + 25 * WORLDS  # passes over the sample on which the penalty is chosen, and over worlds


@dataclass(frozen=True)
class Rates:
    """Seconds for an arc and a column of smoothing, for a multiplication of a dense product, for a byte on disk, and
    for a multiplication of a product with as few columns as there are classes."""

    arc: float
    product: float
    byte: float
    thin: float

    @classmethod
    def measured(cls, nodes: int, degree: float, folder: Path | None = None) -> "Rates":
        """On a random graph with that mean degree and that many nodes, or as many as a few seconds allow."""
        random = torch.Generator().manual_seed(0)
        n = min(nodes, TRIED, max(1 << 12, int(ARCS / max(degree, 1))))
        arcs = int(n * max(degree, 1))
        indptr = torch.arange(n + 1) * arcs // n
        indices = torch.randint(n, (arcs,), generator=random, dtype=torch.int32)
        with tempfile.TemporaryDirectory(dir=folder) as where:
            space = Space(Path(where), 1 << 40)
            operator = BoundedOperator(Pattern(indptr, indices), torch.ones(n), torch.ones(n), True, space)
            h = torch.randn(n, BLOCK, generator=random)
            smooth = _seconds(lambda: operator.smooth(h, PASSES, 0.1)) / PASSES
            left, right = torch.randn(4096, 256), torch.randn(256, 256)
            product = _seconds(lambda: left @ right) / (4096 * 256 * 256)
            few = right[:, :THIN].contiguous()
            thin = _seconds(lambda: left.T @ (left @ few)) / (2 * 4096 * 256 * THIN)
            byte = _seconds(lambda: _written(space, h))
        return cls(smooth / (arcs * BLOCK), product, byte / (8 * h.numel()), thin)


def _written(space: Space, h: torch.Tensor) -> None:
    space.write("h", h)
    space.read("h")


def _seconds(work: Callable[[], Any]) -> float:
    """What a piece of work takes, the quickest of three times."""
    spent = []
    for _ in range(3):
        started = time.perf_counter()
        work()
        spent.append(time.perf_counter() - started)
    return min(spent)


@dataclass(frozen=True)
class Plan:
    """Seconds of each part of the work, bytes of memory (at least, and as given) and of disk."""

    views_seconds: float
    known_seconds: float
    predict_seconds: float
    least_memory: int
    memory: int
    blocks: int
    disk: int
    disk_while_made: int
    rates: Rates

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def plan(
    nodes: int, edges: int, columns: int, *, classes: int = 40, labelled: float = 0.5, memory: int | None = None
) -> Plan:
    """What fitting and predicting will cost on this machine.

    Args:
        nodes: of the graph.
        edges: each counted once.
        columns: of features.
        classes: that are known.
        labelled: share of the nodes that have a label.
        memory: bytes that the work may take; half of what is free, if not given.
    """
    sizes = {"nodes": nodes, "edges": edges, "columns": columns, "classes": classes}
    for name, value in sizes.items():
        if value < 1:
            raise InputError(f"--{name} {value}: it is at least 1")
    if not 0 <= labelled <= 1:
        raise InputError(f"--labelled {labelled}: it is a share of the nodes, from 0 to 1")
    memory = default_memory() if memory is None else memory
    rates = Rates.measured(nodes, 2 * edges / nodes)
    rank = rank_of(columns)
    wide, coordinates = rank + SPARE, min(WIDTH, len(VIEWS) * rank)
    disk = 8 * edges + nodes * (16 + 8 * columns + 2 * rank * (1 + len(VIEWS)))
    disk += nodes * (2 * coordinates + 14 * classes + 24)
    least = Space.least(nodes, max(view_blocks.COPIES, COPIES))
    blocks = len(Space(Path(), max(memory, least)).columns(nodes, rank, view_blocks.COPIES))
    return Plan(
        WHOLE * _views(nodes, edges, rank, wide, rates),
        WHOLE * _known(nodes, edges, coordinates, classes, labelled, rates),
        nodes * (coordinates * 20 * rates.product + (2 * coordinates + 200) * rates.byte + 6e-6),
        least,
        memory,
        blocks,
        disk,
        disk + 4 * nodes * (2 * rank + 2 * wide + 2 * classes),
        rates,
    )


def rank_of(columns: int) -> int:
    """The width of the views of a graph with so many columns."""
    return min(RANK, max(columns, LEAST_RANK))


def _views(nodes: int, edges: int, rank: int, wide: int, rates: Rates) -> float:
    smoothings = rank * (2 * 2 + 2 * NEAR_STEPS[0] + FAR_STEPS[0]) + wide * (2 * STEPS + 1)
    turned = 2 * (STEPS + 3) * wide * wide * 2  # inner products and turns, in double precision
    written = 4 * (wide * 4 * (STEPS + 2) + rank * len(VIEWS) * 4)
    rest = nodes * (turned * rates.product + written * rates.byte)
    return 2 * edges * smoothings * rates.arc + rest + EPISODES * rates.thin


def _known(nodes: int, edges: int, width: int, classes: int, labelled: float, rates: Rates) -> float:
    passes = 2 * sum(steps for _, steps in SPREADS) * classes * (WORLDS + 2)
    spread = passes * (2 * edges * rates.arc + nodes * ANSWER * rates.arc)
    learned = LEARNED * labelled * width * (2 * classes * rates.thin + HALF * rates.arc)
    scored = (WORLDS + 2) * width * (classes * rates.thin + HALF * rates.arc)
    joined = 2 * width * width * rates.product
    sampled = min(labelled * nodes, SELECTION) * 2 * width * classes * rates.thin * TRIALS
    moments = min(nodes, SAMPLE) * 2 * width * width * rates.product * (WORLDS + 1)
    return spread + nodes * (learned + scored + joined) + sampled + moments + EPISODES * rates.thin


# --- How long the work on a store takes on several machines, and how many reach a given time.
COLUMNS = 16  # of the narrowest block: a line of the processor's cache
WRITTEN = 5e-6  # seconds in which one machine writes a row of predictions that others have made
MOST, WORTH = 256, 1.05  # machines that are thought of; a few more are not worth what they save beyond that
UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Share:
    """Seconds that one machine alone takes for a part of the work, and the pieces it comes in (None: any number)."""

    what: str
    seconds: float
    pieces: int | None

    def on(self, machines: int) -> float:
        """The seconds of the machine that gets most of the pieces."""
        if self.pieces is None:
            return self.seconds / machines
        return self.seconds * -(-self.pieces // machines) / self.pieces


@dataclass(frozen=True)
class Machines:
    """Seconds with 1, 2, 4, ... machines; how many are ``needed`` for the ``target`` (None: no number is enough), and
    what takes longest then."""

    seconds: dict[int, float]
    target: float | None
    needed: int | None
    bottleneck: str
    network: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def machines(
    plan: Plan,
    nodes: int,
    edges: int,
    columns: int,
    *,
    classes: int = 40,
    target: float | None = None,
    network: float = 10.0,
) -> Machines:
    """What several machines like this one make of a plan.

    Args:
        plan: of one machine, for so many ``nodes``, ``edges``, ``columns`` and known ``classes``.
        target: seconds in which everything is to be done.
        network: of each machine, in Gbit/s.
    """
    if network <= 0:
        raise InputError(f"--network {network:g}: it is a rate in Gbit/s, above zero")
    shares = _shares(plan, nodes, edges, rank_of(columns), classes)
    moved = 4 * nodes * (rank_of(columns) + SPARE) * (STEPS + 2) / (network * 1e9 / 8)

    def parts(count: int) -> dict[str, float]:
        found = {share.what: share.on(count) for share in shares}
        return (
            found
            | {"one machine, which writes the table": nodes * WRITTEN}
            | ({"the network": moved} if count > 1 else {})
        )

    every = {count: sum(parts(count).values()) for count in range(1, MOST + 1)}
    best = next(count for count in every if every[count] <= WORTH * min(every.values()))
    needed = best if target is None else next((count for count in every if every[count] <= target), None)
    longest = parts(needed or best)
    shown = sorted({1, 2, 4, 8, 16, 32, 64, best, *([needed] if needed else [])})
    seconds = {count: every[count] for count in shown if count <= max(best, needed or 0)}
    return Machines(seconds, target, needed if target else None, max(longest, key=lambda what: longest[what]), network)


def _shares(plan: Plan, nodes: int, edges: int, rank: int, classes: int) -> list[Share]:
    arcs, product = WHOLE * 2 * edges * plan.rates.arc, WHOLE * plan.rates.product
    wide, blocks, groups = rank + SPARE, -(-rank // COLUMNS), -(-classes // COLUMNS)
    links = arcs * wide * (2 * STEPS + 1) + nodes * 2 * (STEPS + 3) * wide * wide * product
    smooth = arcs * rank * (2 * 2 + 2 * NEAR_STEPS[0] + FAR_STEPS[0])
    spread = arcs * 2 * sum(steps for _, steps in SPREADS) * classes
    shares = [
        Share("directions of the links", links, -(-wide // COLUMNS)),
        Share("smoothing", smooth, (len(VIEWS) - 1) * blocks),
        Share("what neighbours say", spread * (WORLDS + 1), 2 * len(SPREADS) * groups),
        Share("what neighbours say, of all nodes", spread, groups),
    ]
    all_seconds = plan.views_seconds + plan.known_seconds + plan.predict_seconds
    rest = all_seconds - sum(share.seconds for share in shares) - nodes * WRITTEN
    return [*shares, Share("chunks of rows", max(rest, 0.0), None)]


def parsed_seconds(text: str) -> float:
    """Seconds of ``2h``, ``90min``, ``45s``, ``1.5d``."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*(s|m|min|h|d)\s*", text)
    try:
        seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise InputError(f"--target {text!r}: write a time, for example 2h or 90min")
    return seconds
