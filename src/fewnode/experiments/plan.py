"""What is left of a grid to do: done, possible and impossible runs, and how long they will take."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..datasets import open_dataset
from ..errors import InputError
from ..graph import Graph
from ..tasks import TaskSampler
from .grid import Run
from .results import Row


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


def graph_fingerprint(graph: Graph) -> str:
    """Of structure and features, then of labels and class names: a short text that another graph does not have."""
    labels = hashlib.sha256(graph.y.cpu().numpy().tobytes() + repr(graph.class_names).encode())
    return f"{graph.fingerprint[:16]}-{labels.hexdigest()[:8]}"


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
