"""Run experiments in this process: load the data set, train, test, measure."""

import hashlib
import platform
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from ..datasets.loading import open_dataset
from ..errors import InputError
from ..graph import Graph
from ..methods.base import versions
from ..tasks import ClassSplit, Tasks, draw_tasks
from ..training.evaluate import check_unseen, evaluate, task_classes
from ..training.loop import fit
from .grid import Run
from .rows import FORMAT, Row


def open_run(run: Run, data_dir: str | None = None, **options: Any) -> tuple[Graph, ClassSplit, Tasks | None]:
    """The data set of a run, its classes and its test tasks, if they are in a file; ``options`` as in ``load_dataset``.

    Test tasks with classes on which the method would be trained or selected are refused.
    """
    texts = {"text_encoder": run.text_encoder} if run.text_encoder else {}
    graph, split = open_dataset(run.dataset, data_dir, **texts, **options)
    split = ClassSplit.load(run.split) if run.split else split
    tasks = Tasks.load(run.pool) if run.pool else None
    if tasks is not None:
        shape = (tasks.n_way, tasks.shots().unique().tolist(), tasks.query.shape[1])
        if shape != (run.n_way, [run.k_shot], run.n_way * run.n_query):
            held = f"{shape[0]}-way tasks with {' or '.join(map(str, shape[1]))} shots and {shape[2]} queries"
            raise InputError(
                f"{run.pool} holds {held}; the grid says {run.setting}, {run.n_query} queries of each class"
            )
        check_unseen(asdict(split), task_classes(graph, tasks), "name another pool or split")
    return graph, split, tasks


class Bench:
    """Runs experiments. The last data set stays loaded, with the arrays computed from its structure and features.

    The field ``shared`` of a row lists these arrays, because the seconds of the row do not include them.
    """

    def __init__(self, data_dir: str | None = None) -> None:
        self.data_dir = data_dir
        self.loaded: dict[tuple[str, ...], tuple[Graph, ClassSplit, Tasks | None]] = {}  # at most one

    def do(self, run: Run) -> Row:
        """The row of a run. A failed run also gives a row, with the reason."""
        started = time.perf_counter()
        reset_peak()
        try:
            row = self._measure(run)
        except Exception as error:
            row = failure(run, f"{type(error).__name__}: {error}")
        row["seconds"]["total"] = round(time.perf_counter() - started, 3)
        return row | {"peak_memory": peak_memory()}

    def _measure(self, run: Run) -> Row:
        graph, split, tasks = self._data(run)
        shared = graph.cache.names()
        shape: dict[str, Any] = {"n_way": run.n_way, "k_shot": run.k_shot, "n_query": run.n_query}
        if tasks is None:  # the pool of test tasks: the same for every method and every repetition
            tasks = draw_tasks(graph.y, split.novel, **shape, n_tasks=500, seed=0)
        began = time.perf_counter()
        settings = {**shape, "seed": run.seed, "inductive": run.inductive, **run.options}
        model = fit(run.method, graph, split, callback=lambda _: None, **settings)  # no bar of its own
        trained = time.perf_counter()
        found = evaluate(model, graph, tasks=tasks, allow_seen=True)
        tested, queries, card = time.perf_counter(), tasks.query.shape[1], model.card
        return {
            **_row(run, "ok"),
            "accuracy": round(found.accuracy, 6),
            "interval": round(found.interval, 6),
            "pool": hashlib.sha256(tasks.support.numpy().tobytes() + tasks.query.numpy().tobytes()).hexdigest()[:16],
            "queries": queries,
            "correct": (queries * found.per_task).round().long().tolist(),
            "per_class": {name: [round(recall * asked), asked] for name, (recall, asked) in found.per_class.items()},
            "curve": [[step, round(accuracy, 4)] for step, accuracy in card.curve],
            "best": None if card.best is None else round(card.best, 6),
            "stopped_at": card.stopped_at,
            "notes": list(card.notes),
            "training_free": model.training_settings is None,
            "task_transductive": model.task_transductive,
            "uses_labels": model.uses_labels,
            "parameters": sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
            "graph": graph.fingerprint[:16],
            "seconds": {"train": round(trained - began, 3), "test": round(tested - trained, 3)},
            "shared": shared,
        }

    def _data(self, run: Run) -> tuple[Graph, ClassSplit, Tasks | None]:
        key = (*run.source, run.graph)
        if key not in self.loaded:
            self.loaded.clear()  # the old one goes before the new one comes
            data = open_run(run, self.data_dir)
            if run.graph and file_fingerprint(run, data[0]) != run.graph:
                raise InputError(f"{run.dataset} was changed after the runs were planned; run the grid again")
            _ = data[0].x, data[0].fingerprint  # computed here once, kept for all runs
            self.loaded[key] = data
        return self.loaded[key]


bench = cache(Bench)  # a worker does many runs: the data stay loaded between them


def do(run: Run, data_dir: str | None, threads: int) -> Row:
    """The row of a run, in a worker: small solves are slow when the threads of several compete."""
    torch.set_num_threads(max(1, threads))
    threadpool_limits(max(1, threads))
    return bench(data_dir).do(run)


def _row(run: Run, status: str) -> Row:
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    head = {"format": FORMAT, "id": run.id, "status": status, "run": run.settings()}
    machine = {"threads": torch.get_num_threads(), "processor": processor()}
    return {**head, "finished": finished, "versions": versions(), **machine, **source()}


@cache
def processor() -> str:
    """The name of this machine's processor."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(": ")[2]
    return platform.processor() or platform.machine()


@cache
def source() -> Row:
    """The commit of fewnode's source, and whether files were changed since; None for an installed package."""

    def git(*words: str) -> str:
        folder = Path(__file__).parent
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    with suppress(OSError, subprocess.CalledProcessError):
        git("ls-files", "--error-unmatch", Path(__file__).name)  # or it is the repository that an environment is in
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", ":/"))}
    return {"commit": None, "dirty": None}


def failure(run: Run, reason: str, seconds: float = 0.0) -> Row:
    """The row of a run that failed."""
    return {**_row(run, "failed"), "reason": " ".join(reason.split()), "seconds": {"total": round(seconds, 3)}}


def reset_peak() -> None:
    """Reset the peak memory of the process, if the system allows it (Linux); elsewhere the peak is that of all runs."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """The peak memory of this process in bytes since the last reset, including the loaded data."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def file_fingerprint(run: Run, graph: Graph) -> str:
    """A short hash of the files that a run names; empty if it names none.

    It covers structure and features of the graph, its labels and class names, the split and the pool.
    """
    own = run.dataset.endswith(".npz")
    files = [Path(path).read_bytes() for path in (run.split, run.pool) if path]
    if not own and not files:
        return ""
    labels = [graph.y.cpu().numpy().tobytes() + repr(graph.class_names).encode()] if own else []
    return f"{graph.fingerprint[:16]}-{hashlib.sha256(b''.join(labels + files)).hexdigest()[:8]}"
