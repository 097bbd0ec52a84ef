"""Where runs are done: in worker processes of this machine or on a Ray cluster; every row is kept at once."""

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from typing import Any

from ..datasets import open_dataset
from ..errors import InputError
from ..store import AHEAD, connected, task_options
from ..tasks import TaskSampler
from . import rows as results
from .grid import Run
from .rows import Row
from .worker import Event, Finished, Started, Step, graph_fingerprint


# --- What is left of a grid to do: done, possible and impossible runs, and how long they will take.
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
    finished = {row["id"]: row for row in rows if row["status"] == "ok"}
    plan = Plan([], [], {}, [])
    for run in (_identified(run, sizes) for run in runs):
        if run.id in finished or _done_before(run, finished):
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


def _identified(run: Run, sizes: "Sizes") -> Run:
    """A run on a graph in a file, with the fingerprint of what the file holds now."""
    if not run.dataset.endswith(".npz") or isinstance(sizes(run.dataset), str):
        return run
    return replace(run, graph=sizes.graphs[run.dataset])


def _done_before(run: Run, finished: Mapping[str, Row]) -> bool:
    """Whether a row from the time when ids held no fingerprint is about this very graph."""
    old = finished.get(replace(run, graph="").id) if run.graph else None
    return old is not None and run.graph.startswith(f"{old.get('graph')}-")


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
        self.graphs: dict[str, str] = {}  # fingerprints of those in files

    def __call__(self, dataset: str) -> list[int] | str:
        if dataset not in self.known:
            try:
                self.known[dataset] = self._look_up(dataset)
            except (InputError, OSError) as error:
                self.known[dataset] = " ".join(str(error).split())
        return self.known[dataset]

    def _look_up(self, dataset: str) -> list[int]:
        graph, split = open_dataset(dataset, self.data_dir, fetch=self.fetch)
        if dataset.endswith(".npz"):
            self.graphs[dataset] = graph_fingerprint(graph)
        sizes: list[int] = TaskSampler(graph.y, split.novel).size.tolist()
        return sizes


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


# --- Between a plan and an engine: hands out runs, leaves to other processes what is theirs, keeps every row at once.
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


# --- Runs in worker processes of this machine. One that dies (out of memory, a crash) takes its run down, nothing else.
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
    from ..training.loop import TrainingProgress
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


# --- Runs on a Ray cluster: each is a task with its resources; one lost with its machine is done again elsewhere.
def execute_ray(
    next_run: Callable[[], Run | None],
    address: str | None = None,
    data_dir: str | None = None,
    resources: Mapping[str, float] | None = None,
) -> Iterator[Event]:
    """Do what ``next_run`` hands out on the cluster at ``address`` (None: a cluster of this machine alone).

    ``resources`` are those of one run: ``{"cpu": 1, "gpu": 0.5, "memory": 4e9}``. fewnode and the data must be on every
    machine; rows come back to the caller.
    """
    ray = connected(address)
    needs = {"cpu": 1.0, **(resources or {})}
    task = ray.remote(_do).options(**task_options(needs))
    waiting: dict[Any, Run] = {}
    try:
        while True:
            slots = max(1, int(ray.cluster_resources().get("CPU", 1) / max(needs["cpu"], 0.01)))
            while len(waiting) < AHEAD * slots and (run := next_run()) is not None:
                waiting[task.remote(run, data_dir, needs["cpu"])] = run
                yield Started(run)
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=5)
            for reference in ready:
                run = waiting.pop(reference)
                yield Finished(run, _row(ray, reference, run))
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)


def _row(ray: Any, reference: Any, run: Run) -> Row:
    try:
        row: Row = ray.get(reference)
        return row
    except ray.exceptions.RayError as error:  # lost more often than it is tried again
        from .worker import failure

        return {**failure(run, f"lost on the cluster: {error}"), "seconds": {"total": 0.0}}


_benches: dict[str | None, Any] = {}  # a Ray worker does many runs: the data stay loaded between them


def _do(run: Run, data_dir: str | None, cpus: float) -> Row:
    # the module itself: its benches outlive this task
    from fewnode.experiments.worker import Bench, use_threads

    use_threads(int(cpus))
    bench = _benches.setdefault(data_dir, Bench(data_dir))
    row: Row = bench.do(run)
    return row
