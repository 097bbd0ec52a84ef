"""Made-up result rows: what a full grid would leave, in a moment and without training."""

import hashlib

import numpy as np

from fewnode.experiments.grid import BASELINES, Run

SKILL = {"tent": 0.62, "vantage": 0.66, "pn": 0.6, "maml": 0.5, "gpn": 0.64, "gmeta": 0.58}
LOSS = {"node_adaptation": 0.02, "class_adaptation": 0.0, "task_adaptation": 0.08}
VERSIONS = {"fewnode": "0.1.0", "python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.6", "scipy": "1.17.1"}


def row(run: Run, accuracy: float, tasks: int = 200, spread: float = 0.08) -> dict:
    """A row with about this accuracy; the difficulty of a task is the same for every method that meets it."""
    queries = run.n_way * run.n_query
    pool = hashlib.sha256(f"{run.dataset}{run.setting}{run.n_query}".encode()).hexdigest()[:16]
    hard = np.random.default_rng(int(pool, 16) % 2**32).normal(0, spread, tasks)
    own = np.random.default_rng(int(run.id, 16) % 2**32)
    chance = np.clip(accuracy + hard + own.normal(0, 0.01), 0.02, 0.98)
    correct = own.binomial(queries, chance)
    classes = {f"class {c}": [int(own.binomial(400, min(0.98, accuracy + c / 90))), 400] for c in range(14)}
    free = run.method == "probe"
    return {
        "format": 1, "id": run.id, "status": "ok", "finished": "2026-01-01T00:00:00+00:00", "versions": VERSIONS,
        "run": {**vars(run), "options": dict(run.options)}, "accuracy": float(correct.mean() / queries),
        "interval": 0.01, "pool": pool, "queries": queries, "correct": correct.tolist(), "per_class": classes,
        "curve": [] if free else [[10, 0.4], [20, 0.5]], "best": None if free else 0.5, "stopped_at": 20, "notes": [],
        "training_free": free, "task_transductive": False, "uses_labels": not free, "parameters": 100,
        "graph": "0" * 16, "seconds": {"train": 0.1 if free else float(own.uniform(3, 60)), "test": 0.5, "total": 20.0},
        "peak_memory": int(own.integers(4e8, 9e8)),
    }  # fmt: skip


def failed(run: Run, reason: str = "ValueError: <nothing> & more") -> dict:
    keys = ("format", "id", "finished", "versions", "run")
    return {**{key: row(run, 0.5)[key] for key in keys}, "status": "failed", "reason": reason}


SHAPES = ((5, 1, 10), (5, 3, 10), (5, 5, 10), (10, 5, 10), (5, 1, 5), (5, 3, 5), (5, 10, 5))


def grid(
    datasets=("cora_full_knnfeat", "coauthor_cs", "wordnet"), seeds: int = 2, shapes=SHAPES, skill=SKILL
) -> list[dict]:
    """Rows of every experiment the report knows: the table, ablation, sizes, shots, and one failure."""
    rows = []
    for place, dataset in enumerate(datasets):
        for shape in shapes:
            gain = 0.03 * shape[1] - 0.012 * shape[0] + 0.02 * place
            rows += [row(Run(dataset, "probe", o, *shape), 0.6 + gain + 0.05 * o["smooth"]) for o in BASELINES]
            rows += [
                row(Run(dataset, m, {}, *shape, seed=s), level + gain)
                for m, level in skill.items()
                for s in range(seeds)
            ]
        for part, loss in LOSS.items():
            run = Run(dataset, "tent", {part: False})
            rows += [row(Run(**{**vars(run), "seed": s}), 0.71 - loss) for s in range(seeds)]
        for size in ("train_way", "train_shot", "train_query"):
            rows += [row(Run(dataset, "tent", {size: n}), 0.6 + 0.05 * np.log(n)) for n in (3, 5, 10, 20)]
    for options, level in (({}, 0.5), ({"class_adaptation": False}, 0.3)):  # the ablation of another form of TENT
        rows.append(row(Run(datasets[0], "tent", {"preset": "paper"} | options), level))
    return [*rows, failed(Run(datasets[0], "rale"))]


def few() -> list[dict]:
    """Rows of every experiment, as few as give every figure and table."""
    return grid(("wordnet",), 1, [(5, shots, 10) for shots in (1, 3, 5)], {"tent": 0.62, "vantage": 0.66})
