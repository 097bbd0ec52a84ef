"""Runs on a Ray cluster: each is a task with its resources; one lost with its machine is done again elsewhere."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..cluster import AHEAD, connected, task_options
from .events import Event, Finished, Started
from .grid import Run
from .results import Row


def execute(
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
    from fewnode.experiments import ray as engine  # the module itself: its benches outlive this task
    from fewnode.experiments.worker import Bench, use_threads

    use_threads(int(cpus))
    bench = engine._benches.setdefault(data_dir, Bench(data_dir))
    row: Row = bench.do(run)
    return row
