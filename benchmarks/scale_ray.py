"""Views of a made-up graph by one Ray worker and by two, in turn; each worker is a node of one processor.

    python benchmarks/scale.py make 169k DIR            the graph
    python benchmarks/scale_ray.py 169k DIR 3           three times each; keeps a row
    python benchmarks/scale_ray.py                      the tables of all rows

Wall-clock seconds count only if nothing else runs on the machine. ``critical`` is what does not depend on that:
processor seconds of this program and of the worker that was busiest between two waits for all of them.
"""

import json
import os
import shutil
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch

from fewnode.graph.stored import open_store
from fewnode.nn.views import Views
from fewnode.store import RayPieces, parsed_memory

ROWS = Path(__file__).parent / "rows" / "scale_ray.jsonl"
MEMORY = "1GB"


class Timed(RayPieces):
    """Adds up the processor seconds of the busiest worker of each call."""

    critical = total = 0.0

    def __call__(self, work: Callable[[Any], Any], pieces: Sequence[Any]) -> Iterator[Any]:
        def timed(piece: Any) -> tuple[Any, int, float]:
            started = time.process_time()
            return work(piece), os.getpid(), time.process_time() - started

        return self._counted(super().__call__(timed, pieces))

    def _counted(self, done: Iterator[tuple[Any, int, float]]) -> Iterator[Any]:
        spent: dict[int, float] = defaultdict(float)
        for result, worker, seconds in done:
            spent[worker] += seconds
            yield result
        self.critical += max(spent.values(), default=0.0)
        self.total += sum(spent.values())


@contextmanager
def nodes(count: int) -> Iterator[None]:
    """Ray nodes of one processor each, beside a head that does no work; the first has the resource ``first``."""
    import ray
    from ray.cluster_utils import Cluster

    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "memory": 0})
    try:
        for number in range(count):
            machines.add_node(num_cpus=1, memory=2 << 30, resources={"first": 1} if number == 0 else {})
        ray.init(address=machines.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        machines.shutdown()


def once(store: Path, workers: int) -> dict[str, float]:
    """Seconds of the views with one worker or all."""
    for old in store.glob("views-*"):
        shutil.rmtree(old)
    engine = Timed(memory=parsed_memory(MEMORY), needs={"first": 1.0} if workers == 1 else {})
    engine.slots = workers
    list(engine(_import, range(2 * workers)))  # workers are there, torch is imported
    engine.critical = engine.total = 0.0
    graph = open_store(store, engine=engine)
    views = Views(graph.num_features).fit(graph)
    started, own = time.perf_counter(), time.process_time()
    views(graph)
    wall, own = time.perf_counter() - started, time.process_time() - own
    found = {"wall": wall, "critical": own + engine.critical, "driver": own, "total": own + engine.total}
    return {name: round(value, 2) for name, value in found.items()}


def _import(number: int) -> None:

    torch.ones(1)
    time.sleep(1)  # so that every worker gets one


def compare(size: str, folder: Path, times: int) -> None:
    store, spent = folder / f"{size}.store", {1: [], 2: []}
    with nodes(2):
        for _ in range(times):
            for workers, found in spent.items():
                found.append(once(store, workers))
                print(workers, found[-1], flush=True)
    graph = open_store(store)
    row: dict[str, Any] = {"size": size, "nodes": graph.num_nodes, "edges": graph.num_edges}
    row |= {"columns": graph.num_features, "memory": MEMORY, "load": round(os.getloadavg()[0], 1), "workers": spent}
    for how in ("wall", "critical"):
        row[how] = round(median(a[how] / b[how] for a, b in zip(spent[1], spent[2], strict=True)), 2)
    keep(row)


def keep(row: dict[str, Any]) -> None:
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(row)


def table() -> str:
    """One worker beside two, for the page: of each size, the last that was measured."""
    lines = ["| nodes / edges / columns | load | one worker | two | ratio | ratio of processor seconds |"]
    lines += ["|---|---|---|---|---|---|"]
    for row in {row["size"]: row for row in rows("workers")}.values():
        size = f"{row['nodes']:,} / {row['edges']:,} / {row['columns']}"
        one, two = (median(found["wall"] for found in row["workers"][number]) for number in ("1", "2"))
        lines.append(f"| {size} | {row['load']} | {one:.0f} s | {two:.0f} s | {row['wall']} | {row['critical']} |")
    return "\n".join(lines)


def rows(kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    return [row for row in found if kind in row]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
    os.environ.setdefault("RAY_worker_niceness", "0")  # beside other work, as this program itself
    if len(sys.argv) < 2:
        print(table())
    else:
        compare(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
