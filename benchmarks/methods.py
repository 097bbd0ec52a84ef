"""Every method on a Cora-full-sized graph: training and 500 test tasks at the default settings.

Each runs in a process of its own, so that its peak memory is its own.   python benchmarks/methods.py [METHOD ...]
"""

import json
import os
import resource
import subprocess
import sys
import time

NODES, CLASSES, DEGREE, COLUMNS, WORDS = 19_793, 70, 6.6, 8_710, 60  # Cora-full's


def measure(method: str) -> dict[str, float]:
    """Seconds to train and to score 500 tasks, steps a second, accuracy in percent, peak memory in MB."""
    import warnings

    import fewnode

    warnings.simplefilter("ignore")
    shape = {"avg_degree": DEGREE, "features": COLUMNS, "words_per_node": WORDS, "tail": 0.7}
    graph, split = fewnode.planted(NODES, CLASSES, **shape)  # type: ignore[arg-type]  # whole numbers are written as such
    start = time.perf_counter()
    model = fewnode.fit(method, graph, split, n_way=5, k_shot=5, seed=0)
    trained = time.perf_counter()
    accuracy = fewnode.evaluate(model, graph, split.novel, n_way=5, k_shot=5).accuracy
    tested = time.perf_counter()
    return {
        "train": trained - start,
        "test": tested - trained,
        "steps": model.card.stopped_at,
        "loop": model.card.training_seconds,
        "accuracy": 100 * accuracy,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    from fewnode import methods

    chosen = sys.argv[1:] or methods.names()
    print(f"{NODES:,} nodes, {COLUMNS:,} sparse columns, 5-way 5-shot, {os.cpu_count()} cores")
    print(
        f"{'method':<10}{'train s':>10}{'steps':>8}{'steps/s':>10}{'500 tasks s':>13}{'peak MB':>10}{'accuracy %':>12}"
    )
    for method in chosen:
        done = subprocess.run([sys.executable, __file__, "--one", method], capture_output=True, text=True)
        if done.returncode:
            print(f"{method:<10} failed: {done.stderr.strip().splitlines()[-1]}")
            continue
        row = json.loads(done.stdout)
        rate = row["steps"] / row["loop"] if row["loop"] else 0.0
        cells = f"{row['train']:>10.1f}{row['steps']:>8.0f}{rate:>10.1f}{row['test']:>13.2f}"
        print(f"{method:<10}{cells}{row['memory']:>10.0f}{row['accuracy']:>12.1f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2])))
    else:
        main()
