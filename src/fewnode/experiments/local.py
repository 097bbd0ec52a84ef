"""Runs in worker processes of this machine. One that dies (out of memory, a crash) takes its run down, nothing else."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from threading import Thread

from .events import Event, Finished, Started, Step
from .grid import Run

PAUSE = 0.5  # seconds between two reports of a training
NextRun = Callable[[], Run | None]


def execute(next_run: NextRun, jobs: int = 1, data_dir: str | None = None) -> Iterator[Event]:
    """Do what ``next_run`` hands out until it hands out None, ``jobs`` at a time; workers end with the generator."""
    workers: list[_Worker] = []
    try:
        while True:
            for worker in [worker for worker in workers if worker.run is None]:
                yield from _hand_out(worker, next_run)
            while len(workers) < jobs and (run := next_run()) is not None:
                workers.append(_Worker(data_dir))
                yield workers[-1].start(run)
            busy = {worker.pipe: worker for worker in workers if worker.run is not None}
            if not busy:
                return
            for pipe in wait(list(busy)):
                yield from busy[pipe].listen()  # type: ignore[index]
            workers = [worker for worker in workers if worker.alive]
    finally:
        for worker in workers:
            worker.stop()


def _hand_out(worker: "_Worker", next_run: NextRun) -> Iterator[Event]:
    run = next_run()
    if run is not None:
        yield worker.start(run)


class _Worker:
    """A process with a bench in it, and the pipe to it. ``run`` is what it is doing."""

    def __init__(self, data_dir: str | None) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share torch's threads and locks
        self.pipe, inner = context.Pipe()
        self.process = context.Process(target=_work, args=(inner, data_dir), daemon=True)
        with _one_thread():
            self.process.start()
        inner.close()
        self.run: Run | None = None
        self.alive = True

    def start(self, run: Run) -> Event:
        self.run, self.began = run, time.perf_counter()
        with suppress(OSError):  # it has died while idle: listening will tell
            self.pipe.send(run)
        return Started(run)

    def listen(self) -> Iterator[Event]:
        assert self.run is not None
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            yield self._died(self.run)
            return
        if isinstance(message, dict):
            run, self.run = self.run, None
            yield Finished(run, message)
        else:
            yield Step(self.run, *message)

    def _died(self, run: Run) -> Event:
        from .worker import failure

        self.process.join()
        self.alive, self.run = False, None
        self.pipe.close()
        row = failure(run, _cause(self.process.exitcode or 0))
        return Finished(run, {**row, "seconds": {"total": round(time.perf_counter() - self.began, 3)}})

    def stop(self) -> None:
        if self.alive:
            self.pipe.close()
            self.process.kill()  # nothing is lost: rows are written by the listener
            self.process.join()


def _cause(code: int) -> str:
    if code == -signal.SIGKILL:
        return "the worker was killed (SIGKILL); most often the machine ran out of memory"
    if code < 0:
        return f"the worker died of {signal.Signals(-code).name}"
    return f"the worker ended with exit code {code}"


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for a worker unless the user says otherwise: small solves crawl when threads compete. It must be in
    the environment before the worker's libraries are loaded."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = before or "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]


def _end_with_parent() -> None:
    """End at once when the process that started this one is gone, however it went: nobody would take the row."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _work(pipe: Connection, data_dir: str | None) -> None:
    """The worker: runs come in, progress and rows go out. It ends when nobody listens any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who listens
    Thread(target=_end_with_parent, daemon=True).start()
    import warnings

    warnings.simplefilter("ignore")  # what matters is among the notes of the row
    from ..training.callbacks import TrainingProgress
    from .worker import Bench, use_threads

    use_threads(int(os.environ["OMP_NUM_THREADS"]))
    bench = Bench(data_dir)
    said = 0.0
    best: float | None = None

    def report(now: TrainingProgress) -> None:
        nonlocal said, best
        best = now.accuracy if now.accuracy is not None else best
        if time.monotonic() - said >= PAUSE:
            said = time.monotonic()
            try:
                pipe.send((now.step, now.steps, best))
            except OSError:
                sys.exit(1)  # the listener is gone

    with suppress(EOFError, OSError):
        while True:
            run, best = pipe.recv(), None
            pipe.send(bench.do(run, report))
