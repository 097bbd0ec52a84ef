"""How long the work on a store takes on several machines, and how many reach a given time.

A block of columns or classes is a piece of work for one machine, chunks of rows are shared out evenly, and some work is
left to the machine that the command runs on. Every machine reads all columns while the directions of links are found.
"""

import re
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import InputError
from ..graph.spectral import STEPS
from ..nn.views import FAR_STEPS, NEAR_STEPS, VIEWS
from .openworld.rehearsal import WORLDS
from .openworld.spreading import SPREADS
from .planning import SPARE, WHOLE, Plan, rank_of

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
