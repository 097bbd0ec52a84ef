"""What a grid is doing, as one live table on standard error; where there is no terminal, a line for each run."""

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ..experiments.grid import Run
from ..experiments.rows import Row
from ..experiments.runners import Durations, Plan
from ..experiments.worker import Event, Finished, Started, Step
from .output import clock, console, printable, say

if TYPE_CHECKING:
    from rich.table import Table

LAST = 6  # finished runs that stay in view


class RunTable:
    """Told every event; shows what runs, what has just finished, how many are left and for how long."""

    def __init__(self, name: str, plan: Plan, rows: list[Row], jobs: int) -> None:
        from rich.live import Live

        self.name, self.jobs, self.total = name, jobs, len(plan.todo)
        self.rows = list(rows)
        self.left = {run.id: run for run in plan.todo}
        self.running: dict[str, tuple[Run, float, Step | None]] = {}
        self.last: deque[tuple[Run, str]] = deque(maxlen=LAST)
        self.failed = 0
        screen = console(stderr=True)
        self.live = Live(console=screen, get_renderable=self.draw, refresh_per_second=2)
        self.seen = screen.is_terminal

    def __enter__(self) -> "RunTable":
        if self.seen and self.total:
            self.live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.live.is_started:
            self.live.stop()

    def show(self, event: Event) -> None:
        run = event.run
        if isinstance(event, Started):
            self.running[run.id] = (run, time.monotonic(), None)
        elif isinstance(event, Step):
            self.running[run.id] = (run, self.running[run.id][1], event)
        else:
            self._finish(event)

    def _finish(self, event: Finished) -> None:
        row, run = event.row, event.run
        self.running.pop(run.id, None)
        self.left.pop(run.id, None)
        self.rows.append(row)
        self.failed += row["status"] != "ok"
        self.last.append((run, outcome(row)))
        if not self.seen:
            say(f"[{self.total - len(self.left)}/{self.total}] {run}: {outcome(row)}")

    def seconds_left(self) -> float | None:
        """By the rows so far; runs of which none tells count as much as the others do on average."""
        known = Durations(self.rows)
        guesses = [known.guess(run) for run in self.left.values()]
        told = [guess for guess in guesses if guess is not None]
        spent = sum(time.monotonic() - began for _, began, _ in self.running.values())
        if not told:
            return None
        return max(0.0, sum(told) / len(told) * len(guesses) - spent) / self.jobs

    def draw(self) -> "Table":
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        done, left = self.total - len(self.left), self.seconds_left()
        about = "" if left is None or not self.left else f", about {clock(left)} left"
        failed = f", {self.failed} failed" if self.failed else ""
        table = Table(
            title=f"{printable(self.name)}: {done} of {self.total} runs{failed}{about}", expand=True, box=None
        )
        table.add_column("run", ratio=3, no_wrap=True, overflow="ellipsis")
        table.add_column("steps", ratio=1)
        table.add_column("", justify="right", no_wrap=True)
        table.add_row("all", ProgressBar(max(self.total, 1), done), f"{done}/{self.total}")
        for run, text in self.last:
            table.add_row(printable(str(run)), "", printable(text), style="dim")
        for run, began, step in list(self.running.values()):
            bar = ProgressBar(step.steps, step.step) if step else ""
            checked = f"validation {100 * step.accuracy:.1f} %  " if step and step.accuracy is not None else ""
            table.add_row(printable(str(run)), bar, f"{checked}{clock(time.monotonic() - began)}")
        return table


def outcome(row: Row) -> str:
    """A row in a few words."""
    if row["status"] != "ok":
        return f"failed: {row['reason']}"
    return f"{100 * row['accuracy']:.1f} % ± {100 * row['interval']:.1f} in {row['seconds']['total']:.1f} s"
