"""A progress bar for people: what takes longer than two seconds shows one on a terminal or in a notebook."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Literal

Progress = Callable[[str, float], None]  # called with the current step and the share that is done
Shown = Progress | Literal["auto"] | None  # "auto": a bar, if a person is there to see it; None: nothing


@contextmanager
def shown(progress: Shown, seconds: float = 2.0) -> Iterator[Progress]:
    """What to tell of the progress: the function that was given, or that of a bar that appears after some seconds."""
    from rich.console import Console
    from rich.errors import LiveError
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if progress != "auto" or not (console.is_terminal or console.is_jupyter):
        yield progress if callable(progress) else lambda what, part: None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    bar = Bar(*columns, console=console, transient=True)
    task = bar.add_task("", total=1.0)

    def start() -> None:
        with suppress(LiveError):  # another bar is shown already
            bar.start()

    timer = Timer(seconds, start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda what, part: bar.update(task, description=what, completed=part)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
