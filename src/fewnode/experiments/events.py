"""Ways to get runs done: worker processes of this machine (``local``), or a Ray cluster (``ray``).

An engine is a generator: it takes runs and yields a ``Started``, ``Step`` or ``Finished`` as they happen. Whoever
listens writes the rows; an engine never does, so the rows of a cluster end up in one place too.
"""

from dataclasses import dataclass

from .grid import Run
from .results import Row


@dataclass(frozen=True)
class Started:
    run: Run


@dataclass(frozen=True)
class Step:
    """How far a run is: training steps so far, of at most how many, and the last validation accuracy."""

    run: Run
    step: int
    steps: int
    accuracy: float | None


@dataclass(frozen=True)
class Finished:
    run: Run
    row: Row


Event = Started | Step | Finished
