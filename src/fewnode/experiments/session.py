"""Between a plan and an engine: hands out runs, leaves to other processes what is theirs, keeps every row at once."""

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from ..errors import InputError
from . import results
from .events import Event, Finished
from .grid import Run

Engine = Callable[[Callable[[], Run | None]], Iterator[Event]]


class Session:
    """The runs to do and the file their rows go to. Other sessions, in other processes, may share the file."""

    def __init__(self, path: Path, todo: Iterable[Run]) -> None:
        self.path = path
        self.queue = deque(todo)
        self.claims = results.Claims(path)
        self.elsewhere: list[Run] = []  # another process was doing or has done these
        self.failed: list[results.Row] = []
        self.done: list[results.Row] = []

    def conduct(self, engine: Engine) -> Iterator[Event]:
        """Let the engine work through the queue; a row is on disk before its event is passed on."""
        events = engine(self.next_run)
        try:
            for event in events:
                if isinstance(event, Finished):
                    self.keep(event)
                yield event
        finally:
            events.close()  # type: ignore[attr-defined]  # an engine is a generator: this ends its workers
            self.claims.close()

    def next_run(self) -> Run | None:
        while self.queue:
            run = self.queue.popleft()
            if self.claims.take(run.id):
                if run.id not in self._finished():
                    return run
                self.claims.drop(run.id)
            self.elsewhere.append(run)
        return None

    def keep(self, event: Finished) -> None:
        results.append(self.path, event.row)
        self.claims.drop(event.run.id)
        (self.done if event.row["status"] == "ok" else self.failed).append(event.row)

    def _finished(self) -> set[str]:
        with suppress(InputError), warnings.catch_warnings():  # no file yet
            warnings.simplefilter("ignore")  # bad lines were named when the plan was made
            return {row["id"] for row in results.read(self.path) if row["status"] == "ok"}
        return set()
