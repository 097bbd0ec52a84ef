"""Ray: a cluster that was asked for, or one of this machine alone, and pieces of work as its tasks."""

import os
import re
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import InputError

RETRIES = 3  # of a task that was lost with its machine
PER_SLOT = 4  # tasks of a call for each that the cluster can do at once: small pieces are handed over together
AHEAD = 2  # tasks handed to the cluster for each that it can do at once: no machine waits for the next one
PATIENCE = 10.0  # seconds for an address to answer


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
        raise InputError(f"--address {address}: Ray does not start there ({_first_line(error)})") from error
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
    """Refuse an address where nobody answers: Ray would wait for many minutes."""
    if address in ("auto", "local"):
        return
    remedy = "start a cluster with `ray start --head --port 6379`, and give the address that it prints"
    found = re.fullmatch(r"(?:ray://)?([^:/]+|\[[^]]+\]):(\d+)", address)
    if not found or not 0 < int(found[2]) < 1 << 16:
        raise InputError(f"--address {address}: write HOST:PORT; {remedy}")
    try:
        socket.create_connection((found[1].strip("[]"), int(found[2])), PATIENCE).close()
    except OSError as error:
        raise InputError(f"--address {address}: nobody answers there ({_first_line(error)}); {remedy}") from error


def task_options(needs: Mapping[str, float]) -> dict[str, Any]:
    """Ray's options of a task with such needs: ``{"cpu": 1, "gpu": 0.5, "memory": 4e9}`` and resources of one's own."""
    known = {"cpu": "num_cpus", "gpu": "num_gpus", "memory": "memory"}
    own = {known[key]: value for key, value in needs.items() if key in known}
    other = {key: value for key, value in needs.items() if key not in known}
    return {**own, "resources": other, "max_retries": RETRIES}


class Engine(Protocol):
    """Does work on pieces, maybe elsewhere: ``slots`` of them at a time, each of which may take ``memory`` bytes.
    ``alone``: all of it on this machine."""

    slots: int
    memory: int
    alone: bool

    def __call__(self, work: Callable[[Any], Any], pieces: Sequence[Any]) -> Iterator[Any]: ...

    def check(self, path: str) -> None: ...


@dataclass(frozen=True)
class Lack:
    """What a machine says that it cannot do."""

    host: str
    why: str


class RayPieces:
    """Pieces of work as tasks: each takes files and leaves files, or gives back what is small; one that was lost with
    its machine is done again elsewhere.

    Args:
        address: of the cluster; None for one of this machine alone.
        memory: bytes that a task may take; Ray puts no more of them on a machine than it has room for.
        needs: what else a task needs, ``{"cpu": 1}``.
    """

    def __init__(self, address: str | None = None, memory: int | None = None, needs: Mapping[str, float] = {}) -> None:
        if "memory" in needs:
            raise InputError("--per-task memory: what a task may take is said with --memory")
        self.ray = connected(address)
        alive = [node for node in self.ray.nodes() if node["Alive"]]
        self.alone = {node["NodeManagerHostname"] for node in alive} == {socket.gethostname()}
        machines = [node["Resources"] for node in alive]
        self.needs = {"cpu": 1.0, **needs}
        self.memory = memory or int(min(_for_each_task(one, self.needs["cpu"]) for one in machines))
        largest = int(max(one.get("memory", 0) for one in machines))
        if self.memory > largest:
            raise InputError(
                f"--memory {self.memory >> 20}MB: no machine of the cluster has so much for a task, the largest has "
                f"{largest >> 20}MB; give less"
            )
        self.slots = max(1, sum(_tasks_at_once(one, self.needs["cpu"], self.memory) for one in machines))
        self.task = self.ray.remote(_do).options(**task_options({**self.needs, "memory": self.memory}))

    def __call__(self, work: Callable[[Any], Any], pieces: Sequence[Any]) -> Iterator[Any]:
        """What the work gives back for each piece, in their order. The work is handed over at once, and once to every
        machine instead of with every piece."""
        return self._results(self.ray.put(work), pieces)

    def _results(self, shared: Any, pieces: Sequence[Any]) -> Iterator[Any]:
        threads, waiting = max(1, int(self.needs["cpu"])), deque[Any]()
        size = max(1, len(pieces) // (PER_SLOT * self.slots))
        left = (pieces[at : at + size] for at in range(0, len(pieces), size))
        try:
            while True:
                while len(waiting) < AHEAD * self.slots and (some := next(left, None)) is not None:
                    waiting.append(self.task.remote(shared, some, threads))
                if not waiting:
                    return
                yield from self._result(waiting.popleft())
        finally:
            for reference in waiting:
                self.ray.cancel(reference, force=True)

    def _result(self, reference: Any) -> list[Any]:
        try:
            found: list[Any] | Lack = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            raise InputError(
                f"a piece of work was lost on the cluster more than {RETRIES} times, or failed ({_first_line(cause)}); "
                "the same command goes on with the pieces that are done"
            ) from error
        if isinstance(found, Lack):
            raise InputError(f"the machine {found.host} of the cluster says: {found.why}")
        return found

    def check(self, path: str) -> None:
        """Refuse a path that some machine of the cluster does not see."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        for node in self.ray.nodes():
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1:
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                task = self.ray.remote(_sees).options(num_cpus=1, scheduling_strategy=there, max_retries=RETRIES)
                seen = True
                with suppress(self.ray.exceptions.RayError):  # a machine that was lost meanwhile gets no work either
                    seen = self.ray.get(task.remote(path))
                if not seen:
                    raise InputError(
                        f"the machine {node['NodeManagerHostname']} of the cluster does not see {path}: give a folder "
                        "that all machines share under the same name, or a store in object storage (s3://..., gs://...)"
                    )


def _for_each_task(resources: Mapping[str, float], cpus: float) -> float:
    """Half of the memory of a machine, divided among the tasks that its processors can do at once."""
    return resources.get("memory", 0) / 2 / max(1, resources.get("CPU", 0) // max(cpus, 0.01))


def _tasks_at_once(resources: Mapping[str, float], cpus: float, memory: int) -> int:
    return int(min(resources.get("CPU", 0) / max(cpus, 0.01), resources.get("memory", 0) / memory))


def _do(work: Callable[[Any], Any], pieces: Sequence[Any], threads: int) -> list[Any] | Lack:
    import torch

    torch.set_num_threads(threads)
    try:
        return [work(piece) for piece in pieces]
    except InputError as error:
        return Lack(socket.gethostname(), str(error))


def _sees(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - the path comes from another machine


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
