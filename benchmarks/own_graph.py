"""Adapting to five new classes and classifying every node: time and memory at the size of ogbn-arxiv, or larger.

python benchmarks/own_graph.py [nodes] [method] [threads]      (169343 vantage 2)
"""

import resource
import sys
import tempfile
import time
import warnings

import numpy as np
import torch

import fewnode


def peak() -> float:
    """The largest memory this process has held so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(n: int, method: str) -> None:
    graph, _ = fewnode.planted(n, 40, avg_degree=13.8, features=0, tail=0.5, seed=0)
    truth = graph.y.numpy()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 128))[truth].astype(np.float32)
    x += 3 * rng.standard_normal(x.shape, dtype=np.float32)
    degree = graph.degree.numpy()
    target = np.repeat(np.arange(n), degree)
    new = np.argsort(np.bincount(truth))[:5]
    y = np.where(np.isin(truth, new), -1, truth)
    graph = fewnode.Graph.from_edges(np.stack([graph.indices.numpy(), target]), x, y)
    del x, target
    print(f"{graph}, made within {peak():.2f} GB", flush=True)

    options = {} if method == "probe" else {"steps": 4, "check_every": 4}  # how well it learns is measured elsewhere
    started = time.perf_counter()
    classifier = fewnode.FewShotClassifier(method, **options).fit(graph)
    print(f"fit (short): {time.perf_counter() - started:.1f} s, peak {peak():.2f} GB", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        classifier.save(f"{folder}/model")
        classifier = fewnode.FewShotClassifier.load(f"{folder}/model").attach(graph.fresh())
        measure(classifier, truth, new)


def measure(classifier: fewnode.FewShotClassifier, truth: np.ndarray, new: np.ndarray) -> None:
    """Adapt and predict as after loading: what is remembered of the graph is what the folder holds."""
    examples = {f"new{c}": np.flatnonzero(truth == c)[:5].tolist() for c in new}
    started, busy = time.perf_counter(), time.process_time()
    classifier.adapt(examples)
    adapted = time.perf_counter()
    found = classifier.predict_proba()
    done = time.perf_counter()
    labels = np.array(found.labels())
    inside = np.isin(truth, new)
    right = (labels[inside] == np.array([f"new{c}" for c in truth[inside]])).mean()
    print(
        f"{classifier.method}: adapt {adapted - started:.1f} s, predict_proba of {len(truth):,} nodes "
        f"{done - adapted:.1f} s ({time.process_time() - busy:.1f} s of processor), peak {peak():.2f} GB; "
        f"{100 * right:.1f} % of the new classes right"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    given = [*sys.argv[1:], *("169343", "vantage", "2")[len(sys.argv) - 1 :]]
    torch.set_num_threads(int(given[2]))
    main(int(given[0]), given[1])
