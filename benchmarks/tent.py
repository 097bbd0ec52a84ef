"""Speed and memory of ``tent_residual`` beside ``pn``, and of ``tent`` in the paper's protocol.

5-way 5-shot, 10 queries per class and 8 tasks a step unless stated.

    python benchmarks/tent.py                sizes of Cora-full and OGBN-arxiv, and how costs grow
    python benchmarks/tent.py million        a million nodes and ten million edges
    python benchmarks/tent.py protocol       the paper's settings and protocol on raw columns, one thread: 500 steps of
                                             one task, 20 checks of 50 tasks, 500 test tasks

Each size runs in a process of its own, so that its peak memory is its own. Times are medians.
"""

import json
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp

from fewnode.graph import Graph
from fewnode.methods.base import Method, Training, constructor_parameters
from fewnode.methods.pn import PN
from fewnode.methods.tent import TENT
from fewnode.methods.tent_residual import TENTResidual
from fewnode.tasks import Tasks, draw_tasks
from fewnode.training.evaluate import score_tasks
from fewnode.training.loop import TrainingState

SIZES: dict[str, dict[str, int]] = {
    "cora_full": {"nodes": 19_793, "edges": 65_311, "features": 8_710, "words": 59, "classes": 70},
    "ogbn_arxiv": {"nodes": 169_343, "edges": 1_166_243, "features": 128, "words": 0, "classes": 40},
    "million": {"nodes": 1_000_000, "edges": 10_000_000, "features": 64, "words": 0, "classes": 100},
}
WANTED = {  # a step in steps of PN, seconds of 500 tasks after the pass over the graph, peak memory in GB: at most
    "cora_full": {"over_pn": 4.0, "tasks_500_seconds": 1.0, "peak_gb": 1.0},
    "ogbn_arxiv": {"peak_gb": 2.0},
    "million": {"peak_gb": 6.0},
    "protocol": {"step_seconds": 0.012, "protocol_seconds": 7.0, "peak_gb": 0.49},
}
TASKS_PER_STEP = 8


def synthetic(nodes: int, edges: int, features: int, words: int, classes: int) -> Graph:
    """Edges with skewed degrees (a few hubs), half of them within a class; ``words`` > 0: sparse counts."""
    random = np.random.default_rng(0)
    y = random.integers(classes, size=nodes)
    order = np.argsort(y, kind="stable")
    ends = (nodes * random.random((2, edges)) ** 1.5).astype(np.int64)
    near = np.clip(ends[0] + random.integers(-50, 51, edges), 0, nodes - 1)
    ends[1] = np.where(random.random(edges) < 0.5, near, ends[1])
    if words:
        columns = (features * random.random(nodes * words) ** 2).astype(np.int64)
        rows = np.repeat(np.arange(nodes), words)
        x = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(nodes, features))
    else:
        x = random.standard_normal((nodes, features), dtype=np.float32)
    return Graph.from_edges(order[ends], x, y)


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """Median time of one call, after one to warm up."""
    return medians([work], repeats)[0]


def medians(works: list[Callable[[], Any]], repeats: int) -> list[float]:
    """Median times of several calls made in turn, so that what else the machine does meets them alike."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(repeats + 1):
        for work, taken in zip(works, times, strict=True):
            start = time.perf_counter()
            work()
            if turn:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


class Bench:
    """A model, its optimiser and tasks on one graph."""

    def __init__(
        self,
        model: Method,
        graph: Graph,
        way: int = 5,
        shot: int = 5,
        tasks_per_step: int = TASKS_PER_STEP,
        **training: Any,
    ) -> None:
        self.model, self.graph, self.way, self.shot, self.tasks_per_step = model, graph, way, shot, tasks_per_step
        self.model.prepare(graph)
        self.state = TrainingState(model, replace(model.training_settings or Training(), **training), None)
        self.tasks = self.draw(20 * tasks_per_step)
        self.at = 0

    def draw(self, count: int) -> Tasks:
        return draw_tasks(self.graph.y, range(self.graph.num_classes), self.way, self.shot, 10, count, 0)

    def step(self) -> None:
        """One training step."""
        self.model.train()
        self.at = (self.at + self.tasks_per_step) % len(self.tasks)
        tasks = self.tasks[self.at : self.at + self.tasks_per_step]
        self.state.take_step(self.model.loss(self.graph, tasks), None)

    def score_seconds(self, count: int, repeats: int = 5) -> float:
        """Scoring that many tasks, after the pass over the graph."""
        tasks = self.draw(count)
        self.model.eval()
        with torch.no_grad():
            state = self.model.embed(self.graph)
            return seconds(lambda: self.model.score(self.graph, state, tasks), repeats)


def residual(graph: Graph, **shape: int) -> Bench:
    torch.manual_seed(0)
    return Bench(TENTResidual(graph.num_features, base_classes=tuple(range(graph.num_classes))), graph, **shape)


def measure(size: str) -> dict[str, float]:
    """All figures of one size, in this process."""
    graph = synthetic(**SIZES[size])
    bench = residual(graph)
    repeats = 20 if size == "cora_full" else 2
    step = seconds(bench.step, repeats)
    found = {"step_seconds": step, "tasks_500_seconds": bench.score_seconds(500)}
    score_tasks(bench.model, graph, bench.draw(500))
    found["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # before PN takes its own
    step, pn = medians([bench.step, Bench(PN(graph.num_features), graph).step], repeats)
    return found | {"over_pn": step / pn}


def protocol() -> dict[str, float]:
    """The paper's protocol with the paper's settings on Cora-full's size, in this process and with one thread."""
    torch.set_num_threads(1)
    graph = synthetic(**SIZES["cora_full"])
    torch.manual_seed(0)
    paper, training = dict(TENT.presets["paper"]), {}
    for name in paper.keys() - constructor_parameters(TENT).keys():
        training[name] = paper.pop(name)
    bench = Bench(TENT(graph.num_features, base_classes=tuple(range(25)), **paper), graph, **training)
    step = seconds(bench.step, 50)
    start, processor = time.perf_counter(), time.process_time()
    for _ in range(20):
        for _ in range(25):
            bench.step()
        bench.model.eval()
        score_tasks(bench.model, graph, bench.draw(50))
    tests = bench.draw(500)
    trained = time.perf_counter()
    score_tasks(bench.model, graph, tests)
    ended = time.perf_counter()
    return {
        "step_seconds": step,
        "test_task_seconds": (ended - trained) / len(tests),
        "protocol_seconds": ended - start,
        "protocol_processor_seconds": time.process_time() - processor,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def growth() -> None:
    """How a training step and 500 scored tasks grow with each dimension on its own, from the size of Cora-full."""
    base = SIZES["cora_full"]
    print(f"{'':24}{'step, ms':>12}{'500 tasks, ms':>16}")
    plain = residual(synthetic(**base))
    for name, bench in {
        "as it is": plain,
        "nodes x 4": residual(synthetic(**base | {"nodes": 4 * base["nodes"]})),
        "edges x 4": residual(synthetic(**base | {"edges": 4 * base["edges"]})),
        "way x 4 (20)": residual(plain.graph, way=20),
        "shot x 4 (20)": residual(plain.graph, shot=20),
    }.items():
        print(f"{name:24}{1e3 * seconds(bench.step, 20):12.1f}{1e3 * bench.score_seconds(500):16.0f}", flush=True)
    print(f"{'tasks x 4 (2000)':24}{'':12}{1e3 * plain.score_seconds(2000):16.0f}")


def report(size: str) -> None:
    """Measure one size in a process of its own and print each figure beside what is wanted."""
    command = [sys.executable, __file__, "measure", size]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"{size}: {SIZES.get(size, SIZES['cora_full'])}")
    for name, value in found.items():
        wanted = WANTED[size].get(name)
        ratio = "" if wanted is None else f"   wanted {wanted}, ratio {value / wanted:.2f}"
        print(f"  {name:26}{value:12.5f}{ratio}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    match sys.argv[1:]:
        case ["measure", size]:
            print(json.dumps(protocol() if size == "protocol" else measure(size)))
        case ["growth"]:
            growth()
        case [*sizes]:
            for size in sizes or ["cora_full", "ogbn_arxiv"]:
                report(size)
            if not sizes:
                growth()
