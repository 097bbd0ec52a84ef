"""Where runs are done: in worker processes of this machine or on a Ray cluster; every row is kept at once."""

import multiprocessing
import os
import re
import signal
import socket
import sys
import time
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import fmean
from threading import Thread
from typing import Any

from ..errors import InputError
from ..tasks import TaskSampler
from . import rows as results
from .grid import Run
from .rows import Row
from .worker import Bench, Event, failure, file_fingerprint, open_run, use_threads

NextRun = Callable[[], Run | None]  # hands out one run after another, then None
Engine = Callable[[NextRun], Iterator[Event]]


@dataclass(frozen=True)
class Plan:
    """The runs of a grid: what to do, what is done, what cannot be done and why."""

    todo: list[Run]
    done: list[Run]
    not_run: dict[str, str]  # data set -> why it is not here
    not_possible: list[tuple[Run, str]]


def make_plan(runs: Iterable[Run], rows: Iterable[Row], sizes: "Sizes") -> Plan:
    """Sort runs into done (a row without failure exists), possible and impossible.

    ``sizes(run)`` gives the node counts of its novel classes, or the reason why there are none.
    """
    finished = {row["id"] for row in rows if row["status"] == "ok"}
    plan = Plan([], [], {}, [])
    for run in runs:
        if (run.dataset.endswith(".npz") or run.split or run.pool) and not isinstance(sizes(run), str):
            run = replace(run, graph=sizes.files[run.source])  # what the files hold now
        if run.id in finished:
            plan.done.append(run)
            continue
        found = sizes(run)
        if isinstance(found, str):
            plan.not_run[run.dataset] = found
            continue
        each = run.k_shot + run.n_query
        large = sum(size >= each for size in found)
        if large >= run.n_way or run.pool:
            plan.todo.append(run)
        else:
            needed = f"{run.n_way}-way needs {run.n_way} novel classes of {each} nodes"
            plan.not_possible.append((run, f"{needed}; {run.dataset} has {large} of {len(found)}"))
    return plan


class Sizes:
    """Sizes of the novel classes of runs' data sets, each looked up once; one that cannot be had is a reason.

    ``files`` are the fingerprints of the files that runs name.
    """

    def __init__(self, data_dir: str | None = None, fetch: bool = True) -> None:
        self.data_dir, self.fetch = data_dir, fetch
        self.known: dict[tuple[str, ...], list[int] | str] = {}
        self.files: dict[tuple[str, ...], str] = {}

    def __call__(self, run: Run) -> list[int] | str:
        if run.source not in self.known:
            try:
                graph, split, _ = open_run(run, self.data_dir, fetch=self.fetch)
                self.known[run.source] = TaskSampler(graph.y, split.novel).size.tolist()
                self.files[run.source] = file_fingerprint(run, graph)
            except (InputError, OSError) as error:
                self.known[run.source] = " ".join(str(error).split())
        return self.known[run.source]


class Durations:
    """Mean seconds of earlier runs: of the same data and setting, else the same data, else the same method."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.seen = defaultdict[tuple[Any, ...], list[float]](list)
        for row in rows:
            for key in _likeness(**row["run"]) if row["status"] == "ok" else ():
                self.seen[key].append(row["seconds"]["total"])

    def guess(self, run: Run) -> float | None:
        return next((fmean(self.seen[key]) for key in _likeness(**vars(run)) if key in self.seen), None)


def _likeness(method: str, dataset: str, n_way: int, k_shot: int, **_: Any) -> list[tuple[Any, ...]]:
    return [(method, dataset, n_way, k_shot), (method, dataset), (method,)]


class Session:
    """The runs to do and the file their rows go to. Other sessions, in other processes, may share the file."""

    def __init__(self, path: Path, todo: Iterable[Run]) -> None:
        self.path = path
        self.queue = deque(todo)
        self.claims = results.Claims(path)
        self.elsewhere: list[Run] = []  # another process was doing or has done these
        self.failed: list[Row] = []
        self.done: list[Row] = []

    def conduct(self, engine: Engine) -> Iterator[Event]:
        """Let the engine work through the queue; a row is on disk before its event is passed on."""
        events = engine(self.next_run)
        try:
            for event in events:
                if event.row is not None:
                    results.append(self.path, event.row)
                    (self.done if event.row["status"] == "ok" else self.failed).append(event.row)
                yield event
        finally:
            events.close()  # type: ignore[attr-defined]  # an engine is a generator: this ends its workers
            self.claims.close()

    def next_run(self) -> Run | None:
        """The next run that no other process is doing or has done."""
        while self.queue:
            run = self.queue.popleft()
            if self.claims.take(run.id) and run.id not in self._finished():
                return run
            self.elsewhere.append(run)
        return None

    def _finished(self) -> set[str]:
        if not self.path.exists():
            return set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lines that are no rows were named when the plan was made
            return {row["id"] for row in results.read(self.path) if row["status"] == "ok"}


def execute(next_run: NextRun, jobs: int = 1, data_dir: str | None = None) -> Iterator[Event]:
    """Do what ``next_run`` hands out in ``jobs`` processes of this machine. One that dies (out of memory, a crash)
    fails its run, nothing else; all end with the generator."""
    workers = [_Worker(data_dir) for _ in range(jobs)]
    try:
        while True:
            for worker in workers:
                if worker.run is None and (run := next_run()) is not None:
                    yield worker.start(run)
            busy: dict[Any, _Worker] = {worker.pipe: worker for worker in workers if worker.run is not None}
            if not busy:
                return
            for pipe in wait(list(busy)):
                yield busy[pipe].listen()
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process with a bench in it, started with its first run and again after its death. ``run`` is what it is doing;
    the ``pipe`` leads to it."""

    def __init__(self, data_dir: str | None) -> None:
        self.data_dir = data_dir
        self.process: Any = None
        self.run: Run | None = None

    def start(self, run: Run) -> Event:
        if self.process is None or not self.process.is_alive():
            context = multiprocessing.get_context("spawn")  # a fork would share torch's threads and locks
            self.pipe, inner = context.Pipe()
            self.process = context.Process(target=_work, args=(inner, self.data_dir), daemon=True)
            self.process.start()
            inner.close()
        self.run, self.began = run, time.perf_counter()
        with suppress(OSError):  # it has just died: listening will tell
            self.pipe.send(run)
        return Event(run)

    def listen(self) -> Event:
        """What the process says next: progress, a row, or nothing, because it has died."""
        assert self.run is not None
        run = self.run
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            message = failure(run, _cause(self.process.exitcode), time.perf_counter() - self.began)
        if not isinstance(message, dict):
            return Event(run, *message)
        self.run = None
        return Event(run, row=message)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()  # nothing is lost: rows are written by the listener
            self.process.join()


def _cause(code: int) -> str:
    if code == -signal.SIGKILL:
        return "the worker was killed (SIGKILL); most often the machine ran out of memory"
    if code < 0:
        return f"the worker died of {signal.Signals(-code).name}"
    return f"the worker ended with exit code {code}"


def _end_with_parent() -> None:
    """End at once when the process that started this one is gone, however it went: nobody would take the row."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _work(pipe: Connection, data_dir: str | None) -> None:
    """The worker: runs come in, progress (twice a second) and rows go out. It ends when nobody listens any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who listens
    Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")  # what matters is among the notes of the row
    use_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    bench = Bench(data_dir)
    reported = 0.0
    best: float | None = None

    def report(now: Any) -> None:
        nonlocal reported, best
        best = now.accuracy if now.accuracy is not None else best
        if time.monotonic() - reported >= 0.5:
            reported = time.monotonic()
            pipe.send((now.step, now.steps, best))

    with suppress(EOFError, OSError):
        while True:
            run, best = pipe.recv(), None
            pipe.send(bench.do(run, report))


def execute_ray(
    next_run: NextRun,
    address: str | None = None,
    data_dir: str | None = None,
    resources: Mapping[str, float] | None = None,
) -> Iterator[Event]:
    """Do what ``next_run`` hands out on the Ray cluster at ``address`` (None: a cluster of this machine alone). A run
    that is lost with its machine is done again elsewhere.

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
            # Two tasks for each that the cluster can do at once: no machine waits for the next one.
            while len(waiting) < 2 * slots and (run := next_run()) is not None:
                waiting[task.remote(run, data_dir, needs["cpu"])] = run
                yield Event(run)
            if not waiting:
                return
            for reference in ray.wait(list(waiting), num_returns=1, timeout=5)[0]:
                run = waiting.pop(reference)
                try:
                    row = ray.get(reference)
                except ray.exceptions.RayError as error:  # lost more often than it is tried again
                    row = failure(run, f"lost on the cluster: {error}")
                yield Event(run, row=row)
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)


def connected(address: str | None) -> Any:
    """Ray's module, connected to the cluster at ``address`` (None: a cluster of this machine alone)."""
    where = _start(address)
    try:
        import ray
    except ImportError as error:
        raise InputError("the engine ray needs Ray: pip install 'fewnode[ray]'") from error
    if ray.is_initialized():
        return ray
    if address is not None:
        _check_address(address)
    try:
        ray.init(**where, log_to_driver=False, configure_logging=False, include_dashboard=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"address={address!r}: Ray does not start there ({_first_line(error)})") from error
    return ray


def _start(address: str | None) -> dict[str, Any]:
    """How to reach Ray: a cluster that was asked for, or one of this machine alone, which only this machine can reach.

    Whoever talks to the latter must know its token (Ray 2.52 or later); a cluster has the rule it was started with.
    """
    if address is not None:
        return {"address": address}
    if "ray" not in sys.modules:  # Ray looks at these when it is imported
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # on every system: no clusters, so loopback
    return {"address": "local", "_node_ip_address": "127.0.0.1"}


def _check_address(address: str) -> None:
    """Refuse an address where nobody answers within ten seconds: Ray would wait for many minutes."""
    if address in ("auto", "local"):
        return
    remedy = "start a cluster with `ray start --head --port 6379`, and give the address that it prints"
    found = re.fullmatch(r"(?:ray://)?([^:/]+|\[[^]]+\]):(\d+)", address)
    if not found or not 0 < int(found[2]) < 1 << 16:
        raise InputError(f"address={address!r}: write HOST:PORT; {remedy}")
    try:
        socket.create_connection((found[1].strip("[]"), int(found[2])), 10).close()
    except OSError as error:
        raise InputError(f"address={address!r}: nobody answers there ({_first_line(error)}); {remedy}") from error


def task_options(needs: Mapping[str, float]) -> dict[str, Any]:
    """Ray's options of a task with such needs: ``{"cpu": 1, "gpu": 0.5, "memory": 4e9}`` and resources of one's own."""
    known = {"cpu": "num_cpus", "gpu": "num_gpus", "memory": "memory"}
    own = {known[key]: value for key, value in needs.items() if key in known}
    return {**own, "resources": {key: value for key, value in needs.items() if key not in known}, "max_retries": 3}


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


_benches: dict[str | None, Bench] = {}  # a Ray worker does many runs: the data stay loaded between them


def _do(run: Run, data_dir: str | None, cpus: float) -> Row:
    from fewnode.experiments import runners  # the module itself: its benches outlive this task

    use_threads(int(cpus))
    return runners._benches.setdefault(data_dir, Bench(data_dir)).do(run)
