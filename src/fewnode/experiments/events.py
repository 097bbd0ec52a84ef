"""What an engine reports while it does runs: ``Started``, ``Step``, ``Finished``.

An engine (``local`` or ``ray``) is a generator: it takes runs and yields these events. The session writes the rows; an
engine never does, so the rows of a cluster end up in one place too.
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
