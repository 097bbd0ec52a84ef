"""How long one explanation takes on a graph of tens of thousands of nodes, beyond loading.

python benchmarks/explain.py [dataset]                   a data set of the catalogue (nell_partial)
python benchmarks/explain.py --model DIR --support FILE  a model of `fewnode fit`, on its tables

Loading is reading the graph and the model that was kept; then come adapting to two new classes and explaining nodes: a
hub, and nodes drawn at random among those without a label. Seconds are of the clock and, in brackets, of the processor.
"""

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch

import fewnode
from fewnode.classifier.inputs import node_name, read_examples


class Watch:
    """Seconds since it was made, of the clock and of the processor."""

    def __init__(self) -> None:
        self.clock, self.busy = time.perf_counter(), time.process_time()

    def seconds(self) -> tuple[float, float]:
        return time.perf_counter() - self.clock, time.process_time() - self.busy

    def __str__(self) -> str:
        return "{:.2f} s ({:.2f} s)".format(*self.seconds())


def fitted(dataset: str, folder: str) -> dict[str, list[int]]:
    """Fit and save a model for a data set of which two classes are hidden; gives three examples of each."""
    graph, _ = fewnode.load_dataset(dataset)
    y = graph.y.numpy().copy()
    hidden = np.argsort(np.bincount(y[y >= 0]))[-6:-4]  # neither rare nor the most common
    examples = {f"class {c}": np.flatnonzero(y == c)[:3].tolist() for c in hidden}
    rng = np.random.default_rng(0)
    y[np.isin(y, hidden) | (rng.random(len(y)) < 0.3)] = -1
    target = np.repeat(np.arange(graph.num_nodes), graph.degree.numpy())
    edges = np.stack([graph.indices.numpy(), target])
    graph = fewnode.Graph.from_edges(edges, graph.features_scipy(), y, num_nodes=graph.num_nodes)
    watch = Watch()
    fewnode.FewShotClassifier("probe").fit(graph).save(f"{folder}/model")
    graph.save_npz(f"{folder}/graph.npz")
    print(f"{graph}\nfit and save: {watch}", flush=True)
    return examples


def loaded(folder: str, graph: str | None) -> fewnode.FewShotClassifier:
    """The model on its graph, with what was kept of the known classes."""
    watch = Watch()
    classifier = fewnode.FewShotClassifier.load(folder, fewnode.Graph.from_npz(graph) if graph else None)
    print(f"{classifier.graph}\nloading the graph and the model: {watch}", flush=True)
    return classifier


def measure(classifier: fewnode.FewShotClassifier, examples: dict, count: int) -> None:
    watch = Watch()
    classifier.adapt(examples)
    print(f"adapt to {len(examples)} new classes: {watch}", flush=True)
    graph = classifier.graph
    assert graph is not None
    found = classifier.predict_proba(classifier.unlabelled())
    rng = np.random.default_rng(0)
    new = np.flatnonzero(np.isin(found.labels(), list(examples)))
    drawn = [*rng.choice(new, min(count // 2, len(new)), replace=False), *rng.choice(len(found), count // 2)]
    nodes = [int(graph.degree.argmax()), *found.nodes[drawn].tolist()]
    rows = []
    for node in nodes:
        watch = Watch()
        why = classifier.explain(node)
        rows.append(watch.seconds())
        if len(rows) <= 4:
            name = node_name(graph, node)
            print(f"explain {name} (degree {why.degree}, {why.kind}): {rows[-1][0]:.2f} s ({rows[-1][1]:.2f} s)")
    clock, busy = np.array(rows).T
    print(
        f"{len(nodes)} explanations: median {np.median(clock):.2f} s ({np.median(busy):.2f} s), "
        f"largest {clock.max():.2f} s ({busy.max():.2f} s)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", default="nell_partial")
    parser.add_argument("--model")
    parser.add_argument("--support")
    parser.add_argument("--nodes", type=int, default=30)
    args = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if args.model:
        measure(loaded(args.model, None), read_examples(args.support), args.nodes)
        return
    with tempfile.TemporaryDirectory() as folder:
        examples = fitted(args.dataset, folder)
        measure(loaded(str(Path(folder) / "model"), f"{folder}/graph.npz"), examples, args.nodes)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
