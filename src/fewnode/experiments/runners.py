"""Run a grid in worker processes of this machine or on a Ray cluster; every row is stored at once."""

import multiprocessing
import os
import re
import signal
import socket
import sys
import time
import warnings
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from threading import Thread
from typing import Any

from ..errors import InputError, refused
from ..tasks import TaskSampler
from . import rows as results
from .grid import Run
from .rows import Row
from .worker import do, failure, file_fingerprint, open_run


@dataclass(frozen=True)
class Plan:
    """The runs of a grid: runs to do, runs already done, and impossible runs with the reason."""

    todo: list[Run]
    done: list[Run]
    not_run: dict[str, str]  # data set -> why it is not here
    not_possible: list[tuple[Run, str]]


def make_plan(runs: Iterable[Run], rows: Iterable[Row], sizes: "Sizes") -> Plan:
    """Sort runs into done (a successful row exists), possible and impossible.

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
    """Sizes of the novel classes of the data sets of runs, each computed once; if there are none, the reason.

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
    """Mean seconds of earlier runs: of the same data and setting, otherwise the same data, otherwise the same
    method."""

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
    """The runs to do and the file for their rows. Sessions in other processes may share the file."""

    def __init__(self, path: Path, todo: Iterable[Run]) -> None:
        self.path = path
        self.queue = deque(todo)
        self.claims = results.Claims(path)
        self.elsewhere: list[Run] = []  # another process was doing or has done these
        self.failed: list[Row] = []
        self.done: list[Row] = []

    def conduct(self, engine: "Workers | Cluster") -> Iterator[tuple[Run, Row | None]]:
        """Let the engine do the queued runs.

        Every run is yielded when it begins, and again with its row when it has ended; the row is then on disk.
        """
        waiting: dict[Future[Row], Run] = {}
        try:
            while True:
                while len(waiting) < engine.slots() and (run := self.next_run()) is not None:
                    waiting[engine.submit(run)] = run
                    yield run, None
                if not waiting:
                    return
                for future in wait(waiting, timeout=5, return_when=FIRST_COMPLETED).done:
                    run, error = waiting.pop(future), future.exception()
                    row = failure(run, f"lost on the cluster: {error}") if error else future.result()
                    results.append(self.path, row)
                    (self.done if row["status"] == "ok" else self.failed).append(row)
                    yield run, row
        finally:
            engine.close()
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


class Workers:
    """Runs in ``jobs`` processes of this machine, each watched by a thread.

    If a process dies (out of memory, a crash), only its run fails.
    """

    def __init__(self, jobs: int = 1, data_dir: str | None = None) -> None:
        self.jobs, self.data_dir, self.threads = jobs, data_dir, ThreadPoolExecutor(jobs)
        self.processes: list[Any] = []
        self.idle: list[tuple[Any, Connection]] = []

    def slots(self) -> int:
        """The number of runs at a time."""
        return self.jobs

    def submit(self, run: Run) -> Future[Row]:
        return self.threads.submit(self._do, run)

    def _do(self, run: Run) -> Row:
        process, pipe = self.idle.pop() if self.idle else self._started()
        began = time.perf_counter()
        try:
            pipe.send(run)
            row: Row = pipe.recv()
        except (EOFError, OSError):
            process.join()
            code = process.exitcode
            how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
            hint = "; most often the machine ran out of memory" if code == -signal.SIGKILL else ""
            return failure(run, f"the worker {how}{hint}", time.perf_counter() - began)
        self.idle.append((process, pipe))
        return row

    def _started(self) -> tuple[Any, Connection]:
        context = multiprocessing.get_context("spawn")  # a fork would share torch's threads and locks
        pipe, inner = context.Pipe()
        process = context.Process(target=_work, args=(inner, self.data_dir), daemon=True)
        process.start()
        inner.close()
        self.processes.append(process)
        return process, pipe

    def close(self) -> None:
        for process in self.processes:
            process.kill()  # nothing is lost: rows are written by the session
            process.join()
        self.threads.shutdown()


def _end_with_parent() -> None:
    """End at once when the parent process is gone: the row would be lost."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _work(pipe: Connection, data_dir: str | None) -> None:
    """The loop of a worker process: receive a run, send its row, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")  # what matters is among the notes of the row
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    with suppress(EOFError, OSError):
        while True:
            pipe.send(do(pipe.recv(), data_dir, threads))


class Cluster:
    """Runs on the Ray cluster at ``address`` (None: a cluster of this machine alone).

    If a machine fails, its run is repeated on another one. ``resources`` are those of one run: ``{"cpu": 1, "gpu": 0.5,
    "memory": 4e9}``. Every machine needs fewnode and the data; rows are returned to the caller.
    """

    def __init__(
        self, address: str | None = None, data_dir: str | None = None, resources: Mapping[str, float] | None = None
    ) -> None:
        self.ray, self.data_dir = connected(address), data_dir
        own = {"cpu": 1.0, **(resources or {})}
        self.cpus = own.pop("cpu")
        known = {key: own.pop(key) for key in ("gpu", "memory") if key in own}
        needs = {"num_cpus": self.cpus, "num_gpus": known.get("gpu"), "memory": known.get("memory"), "resources": own}
        self.task = self.ray.remote(do).options(**needs, max_retries=3)
        self.begun: list[Any] = []

    def slots(self) -> int:
        """Twice the number of runs that the cluster can do at once, so that no machine waits for the next one."""
        return 2 * max(1, int(self.ray.cluster_resources().get("CPU", 1) / max(self.cpus, 0.01)))

    def submit(self, run: Run) -> Future[Row]:
        self.begun.append(self.task.remote(run, self.data_dir, int(self.cpus)))
        found: Future[Row] = self.begun[-1].future()
        return found

    def close(self) -> None:
        for reference in self.begun:
            self.ray.cancel(reference, force=True)  # one that is done stays done


def connected(address: str | None) -> Any:
    """Ray's module, connected to the cluster at ``address`` (None: a cluster of this machine alone)."""
    where = _start(address)
    with refused("the engine ray needs Ray", ImportError, remedy="pip install 'fewnode[ray]'"):
        import ray
    if ray.is_initialized():
        return ray
    if address is not None:
        _check_address(address)
    try:
        ray.init(**where, log_to_driver=False, configure_logging=False, include_dashboard=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"address={address!r}: Ray does not start there ({short(error)})") from error
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
    """Refuse an address that does not answer within ten seconds: Ray would wait for many minutes."""
    if address in ("auto", "local"):
        return
    remedy = "start a cluster with `ray start --head --port 6379`, and give the address that it prints"
    found = re.fullmatch(r"(?:ray://)?([^:/]+|\[[^]]+\]):(\d+)", address)
    if not found or not 0 < int(found[2]) < 1 << 16:
        raise InputError(f"address={address!r}: write HOST:PORT; {remedy}")
    try:
        socket.create_connection((found[1].strip("[]"), int(found[2])), 10).close()
    except OSError as error:
        raise InputError(f"address={address!r}: nobody answers there ({short(error)}); {remedy}") from error


def short(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
