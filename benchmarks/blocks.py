"""How much categories, numbers and vectors count beside words (``fewnode.tables.encode.SHARE``).

Real graphs with real words get made-up columns: some that tell classes apart, some that tell nothing. The share that is
best on tasks of the *validation* classes, on average over both, is the one to take; novel classes are never looked at.

    FEWNODE_DATA=DIR python benchmarks/blocks.py --macports DIR [--graphs NAME ...] [--method vantage]
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

import fewnode
from fewnode.classifier.inputs import choose_split
from fewnode.graph import Graph
from fewnode.tables import encode as blocks
from fewnode.tables.encode import Block, TableEncoder
from fewnode.training import evaluate as evaluation

SHARES = (0.0, 0.25, 0.5, 1.0, 2.0)
TASKS = 200


def made_up(kind: str, y: np.ndarray, telling: bool, seed: int) -> Block:
    """Columns that tell something about the class of each node, or nothing."""
    rng = np.random.default_rng(seed)
    n, classes = len(y), int(y.max()) + 1
    known = np.where(y < 0, rng.integers(0, classes, n), y) if telling else rng.integers(0, classes, n)
    if kind == "category":
        said = np.where(rng.random(n) < 0.5, known % 24, rng.integers(0, 24, n))
        flags = sp.csr_array((np.ones(n, np.float32), (np.arange(n), said)), shape=(n, 24))
        return Block(kind, flags, tuple(f"c={i}" for i in range(24)))
    width, noise = (6, 1.5) if kind == "number" else (64, 3.0)
    typical = np.random.default_rng(7).normal(size=(classes, width))
    x = typical[known] + noise * rng.normal(size=(n, width))
    return Block(kind, (x * 10.0 ** rng.integers(-2, 3, width)).astype(np.float32), None)


def graphs(wanted: list[str], macports: Path | None) -> dict[str, tuple[Graph, fewnode.ClassSplit]]:
    found = {}
    if macports is not None and "macports" in wanted:
        graph = Graph.from_files(macports / "dependencies.csv", macports / "ports.csv")
        found["macports"] = (graph, choose_split(graph, 10))
    for name in ("coauthor_cs", "wordnet"):
        if name in wanted:
            found[name] = fewnode.load_dataset(name)
    return found


def accuracy(graph: Graph, split: fewnode.ClassSplit, method: str) -> tuple[float, float]:
    """On tasks of the validation classes, 5-way 5-shot."""
    hidden = fewnode.ClassSplit(base=split.base, validation=split.validation, novel=())
    model = fewnode.fit(method, graph, hidden, seed=0)
    n_way = min(5, len(split.validation))
    found = evaluation.evaluate(model, graph, split.validation, n_way=n_way, n_tasks=TASKS, seed=1)
    return found.accuracy, found.interval


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--macports", type=Path)
    parser.add_argument("--method", default="probe")
    parser.add_argument("--graphs", nargs="+", default=["macports", "coauthor_cs", "wordnet"])
    parser.add_argument("--kinds", nargs="+", default=["category", "number", "vectors"])
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/rows/blocks.jsonl"))
    args = parser.parse_args()
    with args.out.open("a") as out:
        for name, (graph, split) in graphs(args.graphs, args.macports).items():
            words = Block("text", graph.features_scipy(), None)
            for kind in args.kinds:
                for telling in (True, False):
                    extra = made_up(kind, graph.y.numpy(), telling, seed=0)
                    for share in args.shares:
                        started = time.perf_counter()
                        blocks.SHARE[kind] = share
                        x, *_ = TableEncoder(categories={"c": ()}).combine([words, extra])
                        mixed = Graph.with_features(graph, fewnode.Graph.from_edges([[0], [0]], x).features)
                        value, interval = accuracy(mixed, split, args.method)
                        row = {
                            "graph": name,
                            "method": args.method,
                            "kind": kind,
                            "telling": telling,
                            "share": share,
                            "accuracy": round(value, 4),
                            "interval": round(interval, 4),
                            "seconds": round(time.perf_counter() - started, 1),
                        }
                        print(json.dumps(row), file=out, flush=True)
                        print(row, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
