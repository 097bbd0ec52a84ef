"""Views of a made-up graph by one Ray worker and by two, in turn; each worker is a node of one processor.

    python benchmarks/scale.py make 169k DIR            the graph
    python benchmarks/scale_ray.py 169k DIR 3           three times each; keeps a row
    python benchmarks/scale_ray.py papers 10            the plan for papers100M's size, rates measured ten times
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
from dataclasses import fields, replace
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch

from fewnode.classifier import planning
from fewnode.classifier.planning import Rates, machines
from fewnode.graph.stored import open_store
from fewnode.nn.views import Views
from fewnode.store import RayPieces, parsed_memory

ROWS = Path(__file__).parent / "rows" / "scale_ray.jsonl"
MEMORY = "1GB"
PAPERS, CLASSES, LABELLED = (111_000_000, 1_600_000_000, 128), 172, 1_500_000


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
    import torch

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


def papers(times: int) -> None:
    """The plan for papers100M's size: the seconds for an arc from the row of the largest graph of scale.py, the other
    rates the best of several times; processor seconds, but for the disk."""
    measured = [json.loads(line) for line in (ROWS.parent / "scale.jsonl").read_text(encoding="utf-8").splitlines()]
    largest = max((row for row in measured if "rate" in row), key=lambda row: row["edges"])
    count, edges, _ = PAPERS
    disk = min(Rates.measured(count, 2 * edges / count).byte for _ in range(times))
    planning.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    found = [Rates.measured(count, 2 * edges / count) for _ in range(times)]
    best = Rates(*(min(getattr(one, part.name) for one in found) for part in fields(Rates)))
    best = replace(best, arc=1e-9 * largest["rate"]["views"], byte=disk)
    Rates.measured = classmethod(lambda cls, nodes, degree, folder=None: best)  # type: ignore[method-assign,assignment]
    made = planning.plan(*PAPERS, classes=CLASSES, labelled=LABELLED / count, memory=32 << 30)
    first = machines(made, *PAPERS, classes=CLASSES, target=2 * 3600)
    longest = {
        count: machines(made, *PAPERS, classes=CLASSES, target=seconds).bottleneck
        for count, seconds in first.seconds.items()
    }
    row = {"papers": made.to_json(), "machines": first.to_json(), "longest": longest, "arc_of": largest["size"]}
    keep({**row, "load": round(os.getloadavg()[0], 1), "threads": torch.get_num_threads()})


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


def papers_table() -> str:
    """The last plan, for the page."""
    row, lines = rows("papers")[-1], ["| machines | all of it | what takes longest |", "|---|---|---|"]
    for count, seconds in row["machines"]["seconds"].items():
        lines.append(f"| {count} | {seconds / 3600:.1f} h | {row['longest'][count]} |")
    return "\n".join(lines)


def rows(kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    return [row for row in found if kind in row]


FURTHER = (papers_table,)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
    os.environ.setdefault("RAY_worker_niceness", "0")  # beside other work, as this program itself
    if len(sys.argv) < 2:
        print(table(), papers_table(), sep="\n\n")
    elif sys.argv[1] == "papers":
        papers(int(sys.argv[2]))
    else:
        compare(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
