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
from dataclasses import fields, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from fewnode.cluster import RayPieces
from fewnode.graph.stored import open_store
from fewnode.nn.views import Views
from fewnode.own.machines import machines
from fewnode.own.planning import Rates, plan
from fewnode.store.space import parsed_memory

ROWS = Path(__file__).parent / "rows" / "scale_ray.jsonl"
MEMORY = "1GB"


class Timed(RayPieces):
    """Adds up the processor seconds of the busiest worker of each call."""

    critical = total = 0.0

    def __call__(self, work: Callable[[Any], Any], pieces: Sequence[Any]) -> Iterator[Any]:
        def timed(piece: Any) -> tuple[Any, int, float]:
            started = time.process_time()
            return work(piece), os.getpid(), time.process_time() - started

        spent: dict[int, float] = defaultdict(float)
        for result, worker, seconds in super().__call__(timed, pieces):
            spent[worker] += seconds
            yield result
        self.critical += max(spent.values(), default=0.0)
        self.total += sum(spent.values())


def once(store: Path, workers: int) -> dict[str, float]:
    """Seconds of the views with so many workers."""
    import ray
    from ray.cluster_utils import Cluster

    for old in store.glob("views-*"):
        shutil.rmtree(old)
    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "memory": 0})
    try:
        for _ in range(workers):
            machines.add_node(num_cpus=1, memory=2 << 30)
        ray.init(address=machines.address, log_to_driver=False)
        engine = Timed(memory=parsed_memory(MEMORY))
        list(engine(_import, range(2 * workers)))  # workers are there, torch is imported
        engine.critical = engine.total = 0.0
        graph = open_store(store, engine=engine)
        views = Views(graph.num_features).fit(graph)
        started, own = time.perf_counter(), time.process_time()
        views(graph)
        wall, own = time.perf_counter() - started, time.process_time() - own
    finally:
        ray.shutdown()
        machines.shutdown()
    found = {"wall": wall, "critical": own + engine.critical, "driver": own, "total": own + engine.total}
    return {name: round(value, 2) for name, value in found.items()}


def _import(number: int) -> None:
    import torch

    torch.ones(1)
    time.sleep(1)  # so that every worker gets one


def compare(size: str, folder: Path, times: int) -> None:
    store = folder / f"{size}.store"
    spent: dict[int, list[dict[str, float]]] = {1: [], 2: []}
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
    """111 M nodes, 1.6 billion edges, 128 columns, 172 classes, 1.5 M labels: the seconds for an arc from the row of
    the largest graph of scale.py, the other rates the best of several times."""
    nodes, edges, columns, classes = 111_000_000, 1_600_000_000, 128, 172
    rows = [json.loads(line) for line in (ROWS.parent / "scale.jsonl").read_text(encoding="utf-8").splitlines()]
    largest = max((row for row in rows if "rate" in row), key=lambda row: row["edges"])
    found = [Rates.measured(2 * edges / nodes) for _ in range(times)]
    best = Rates(*(min(getattr(one, part.name) for one in found) for part in fields(Rates)))
    best = replace(best, arc=1e-9 * largest["rate"]["views"])
    Rates.measured = classmethod(lambda cls, degree, folder=None: best)  # type: ignore[method-assign,assignment]
    made = plan(nodes, edges, columns, classes=classes, labelled=1.5e6 / nodes, memory=32 << 30)
    several = {
        gbit: machines(made, nodes, edges, columns, classes=classes, target=2 * 3600, network=gbit).to_json()
        for gbit in (10.0, 25.0)
    }
    row = {"papers": made.to_json(), "machines": several, "arc_of": largest["size"], "load": round(os.getloadavg()[0], 1)}
    keep({**row, "threads": torch.get_num_threads()})


def keep(row: dict[str, Any]) -> None:
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(row)


def papers_table(row: dict[str, Any]) -> str:
    """The last plan for the page."""
    lines = ["| machines | " + " | ".join(f"{float(gbit):.0f} Gbit/s" for gbit in row["machines"]) + " |"]
    lines += ["|" + "---|" * (1 + len(row["machines"]))]
    counts = sorted({int(count) for one in row["machines"].values() for count in one["seconds"]})
    for count in counts:
        spent = [one["seconds"].get(str(count)) for one in row["machines"].values()]
        lines.append(f"| {count} | " + " | ".join("" if s is None else f"{s / 3600:.1f} h" for s in spent) + " |")
    return "\n".join([*lines, str({gbit: one["bottleneck"] for gbit, one in row["machines"].items()})])


def tables() -> str:
    """The rows for the page."""
    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    plans = [row for row in rows if "papers" in row]
    return "\n\n".join([table([row for row in rows if "workers" in row]), *map(papers_table, plans[-1:])])


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| nodes / edges / columns | load | one worker | two | ratio | ratio of processor seconds |"]
    lines += ["|---|---|---|---|---|---|"]
    for row in rows:
        size = f"{row['nodes']:,} / {row['edges']:,} / {row['columns']}"
        one, two = (median(found["wall"] for found in row["workers"][number]) for number in ("1", "2"))
        lines.append(f"| {size} | {row['load']} | {one:.0f} s | {two:.0f} s | {row['wall']} | {row['critical']} |")
    return "\n".join(lines)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if len(sys.argv) < 2:
        print(tables())
    elif sys.argv[1] == "papers":
        papers(int(sys.argv[2]))
    else:
        compare(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
