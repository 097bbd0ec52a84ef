"""Nodes that arrive later: do they get the labels that a pass over the whole graph gives them, and how fast?

Of each graph 1,000 random nodes are taken away with their edges; two classes are new and have five examples each, 30 %
of the other labels are blank. The model is fitted on what is left, then the 1,000 nodes arrive together. Compared are
the labels they get with those of a pass over the whole graph with the same model (``same model``), and with those of a
model that learns everything again on the whole graph (``learned again``); how far two models that learn everything
again, with other random numbers, agree (``again twice``) says how much of the last is chance.

    python benchmarks/new_nodes.py [graph ...]     # rows are appended; what is there already is not run again
    python benchmarks/new_nodes.py --table

The row of cora70_titles is of draw 1; the others are of draw 0 and of an earlier model.

The data sets beside the bundled ``wordnet`` are looked for in the folder that FEWNODE_DATA names; ``planted`` is a
made-up graph of 170,000 nodes.
"""

import argparse
import json
import os
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import fewnode
from fewnode.classifier.known_classes import HopFeatures, NodeInputs
from fewnode.classifier.novelty import node_features, propagated_masses
from fewnode.classifier.open_set import OpenSetModel
from fewnode.graph.operators import mean_adjacency, normalized_adjacency, rows_of
from fewnode.nn.features import tfidf
from fewnode.nn.views import FAR_STEPS, NEAR_STEPS, Views, centred, neighbour_lists

GRAPHS = (
    "amazon_clothing_test20",
    "coauthor_cs",
    "cora_full_knnfeat",
    "nell_partial",
    "wordnet",
    "cora70_titles",
    "macports",
    "planted",
)
ROWS = Path(__file__).parent / "rows" / "new_nodes.jsonl"
NEW, SHOTS, BLANKED, LEAST, REPEATS = 1000, 5, 0.3, 20, 3


def load(name: str) -> Any:
    if name == "macports":
        folder = Path(os.environ["FEWNODE_DATA"]) / "raw" / "macports"
        tables = {"edges": folder / "dependencies.csv", "nodes": folder / "ports.csv"}
        return fewnode.Graph.from_files(**tables, label_column="category")
    if name != "planted":
        return fewnode.load_dataset(name)[0]
    graph, _ = fewnode.planted(170_000, 40, avg_degree=13.8, features=0, tail=0.5, seed=0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 128))[graph.y.numpy()].astype(np.float32)
    x += 3 * rng.standard_normal(x.shape, dtype=np.float32)
    return graph.with_features(torch.from_numpy(x))


def part(graph: Any, rows: np.ndarray, y: np.ndarray) -> Any:
    """The nodes ``rows`` with the edges among them, the labels ``y`` and their old numbers as names."""
    arcs = graph.to_scipy()[rows][:, rows].tocoo()
    names, x = [str(i) for i in rows], graph.features_scipy()[rows]
    classes = [str(c) for c in range(graph.num_classes)]
    edges = np.stack([arcs.col, arcs.row])
    return fewnode.Graph.from_edges(edges, x, y[rows], node_names=names, class_names=classes)


def drawn(graph: Any, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, list[str]]]:
    """The old and the new nodes, the labels that are left, and examples of the two new classes."""
    rng = np.random.default_rng(seed)
    y = graph.y.numpy()
    order = rng.permutation(graph.num_nodes)
    new, old = np.sort(order[:NEW]), np.sort(order[NEW:])
    picked = rng.permutation(np.flatnonzero(np.bincount(y[y >= 0]) >= LEAST))[:2]
    left = np.where(np.isin(y, picked), -1, y)
    known = np.flatnonzero(left >= 0)
    left[rng.permutation(known)[: int(BLANKED * len(known))]] = -1
    left[new] = -1
    examples = {f"new {c}": [str(i) for i in rng.permutation(old[y[old] == c])[:SHOTS]] for c in picked}
    return old, new, left, examples


@torch.no_grad()
def whole_pass(graph: Any, world: OpenSetModel, y: Tensor) -> OpenSetModel:
    """All rows of the graph made again with what the model knows: bases, means, PCA and known-class model."""
    sources = world.sources
    normal, mean = normalized_adjacency(graph), mean_adjacency(graph)
    sparse = graph.x.layout == torch.sparse_csr
    words = (tfidf(graph.x, sources.idf) if sparse else graph.x - sources.centre) @ sources.words
    basis = torch.cat([sources.links, sources.links.new_zeros(graph.num_nodes - len(sources.links), words.shape[1])])
    links = neighbour_lists(graph) @ basis
    raw = [
        words,
        mean @ (mean @ words),
        normal.smooth(words, *NEAR_STEPS),
        normal.smooth(words, *FAR_STEPS),
        mean @ (mean @ links),
        normal.smooth(links, *NEAR_STEPS),
    ]
    x = world.pca.transform([centred(h, m) for h, m in zip(raw, sources.means, strict=False)]).half().float()
    hops = HopFeatures.of(graph, sources) if len(world.known.hops) else None
    logits, alone = world.known.logits(NodeInputs(x, normal, graph.ranks, hops), y)
    features = node_features(x, world.moments, logits, alone, propagated_masses(normal, y))
    return replace(world, x=x, y=y, log_known=logits.log_softmax(1), features=features)


def measured(name: str, folder: Path, again: bool) -> dict[str, Any]:
    graph = load(name)
    old, new, left, examples = drawn(graph)
    fitted, arriving = part(graph, old, left), part(graph, new, left)
    arcs = graph.to_scipy()[new][:, old].tocoo()
    edges = [(str(new[a]), str(old[b])) for a, b in zip(arcs.row.tolist(), arcs.col.tolist(), strict=True)]
    row: dict[str, Any] = {"graph": name, "nodes": len(old), "edges": fitted.num_edges, "new": NEW}
    row |= {"new_edges": len(edges), "threads": torch.get_num_threads()}
    model = folder / name
    if not model.exists():
        fewnode.FewShotClassifier("probe").fit(fitted).save(model)
    clock, busy = time.perf_counter(), time.process_time()
    classifier = fewnode.FewShotClassifier.load(model).adapt(examples)
    classifier.open_set_model(inductive=True)
    row |= {"load_s": time.perf_counter() - clock, "load_cpu_s": time.process_time() - busy}
    row["relay_mb"] = (model / "cached_state.safetensors").stat().st_size / 2**20
    seconds = []
    for _ in range(REPEATS):  # the first reads what it needs from the disk
        clock, busy = time.perf_counter(), time.process_time()
        found = classifier.predict_proba(new_nodes=arriving, new_edges=edges)
        seconds.append((time.perf_counter() - clock, time.process_time() - busy))
    row |= {"append_s": seconds[0][0], "append_cpu_s": seconds[0][1], "append_again_s": min(seconds[1:])[0]}
    row |= one_by_one(classifier, graph, old, new)
    return row | compared(classifier, graph, old, new, left, examples, found, again)


def one_by_one(classifier: Any, graph: Any, old: np.ndarray, new: np.ndarray, count: int = 100) -> dict[str, float]:
    """Milliseconds of the processor for a single node with its edges to old ones, and the share of nodes that get the
    label they get among the others of these, which have no edges to each other."""
    features, arcs = graph.features_scipy(), graph.to_scipy()[new[:count]][:, old].tocsr()
    nodes = [fewnode.Graph.from_edges(np.zeros((2, 0), int), features[[i]], node_names=[str(i)]) for i in new[:count]]
    edges = [[(str(i), str(old[b])) for b in arcs[[row]].indices] for row, i in enumerate(new[:count])]
    milliseconds, labels = [], []
    for one, pairs in zip(nodes, edges, strict=True):
        clock = time.process_time()
        labels += list(classifier.predict(new_nodes=one, new_edges=pairs))
        milliseconds.append(1000 * (time.process_time() - clock))
    names = [str(i) for i in new[:count]]
    together = fewnode.Graph.from_edges(np.zeros((2, 0), int), features[new[:count]], node_names=names)
    same = classifier.predict(new_nodes=together, new_edges=[pair for part in edges for pair in part])
    agree = float(np.mean(np.array(labels) == np.array(same)))
    return {"one_ms": float(np.median(milliseconds)), "agree_one_by_one": agree}


def compared(
    classifier: Any,
    graph: Any,
    old: np.ndarray,
    new: np.ndarray,
    left: np.ndarray,
    examples: Any,
    found: Any,
    again: bool,
) -> dict[str, Any]:
    """Agreement with whole passes, and how many labels are right."""
    order = np.concatenate([old, new])
    full = classifier.schema.fit(part(graph, order, left))
    question, world = classifier.question, classifier.open_set_model()
    ids = torch.arange(len(old), len(order))
    y = torch.cat([world.y, torch.full((len(new),), -1)])
    clock, busy = time.perf_counter(), time.process_time()
    same = replace(question, model=whole_pass(full, world, y)).probabilities(ids).argmax(1)
    row = {"whole_pass_s": time.perf_counter() - clock, "whole_pass_cpu_s": time.process_time() - busy}
    append = found.probabilities.argmax(1)
    answers = {"append": append, "same_model": same}
    joined = full.degree[ids] > 0  # those without an edge are joined to others
    row |= {"agree_same_model": _share((append == same)[joined]), "new_without_edges": int((~joined).sum())}
    if again:
        learned = [_learned_again(full, y, world, question, ids, seed) for seed in (0, 1)]
        answers["learned_again"] = learned[0]
        row |= {
            "agree_learned_again": _share((append == learned[0])[joined]),
            "agree_again_twice": _share((learned[0] == learned[1])[joined]),
        }
    names = {int(label.removeprefix("new ")): label for label in examples}
    truth = [names.get(c, str(c)) for c in graph.y.numpy()[new].tolist()]
    target = torch.tensor([found.classes.index(name) if name in found.classes else -1 for name in truth])
    there = target >= 0
    # without their edges, and as a pass over the whole graph takes them, in which they are isolated
    alone = fewnode.Graph.from_edges(np.zeros((2, 0), int), graph.features_scipy()[new], node_names=found.names)
    answers["without_edges"] = classifier.predict_proba(new_nodes=alone).probabilities.argmax(1)
    apart = full.with_arcs((torch.stack([rows_of(full), full.indices.long()]) < len(old)).all(0))
    answers["isolated"] = replace(question, model=whole_pass(apart, world, y)).probabilities(ids).argmax(1)
    return row | {"right": {key: _share((answer == target)[there]) for key, answer in answers.items()}}


def _learned_again(full: Any, y: Tensor, world: Any, question: Any, ids: Tensor, seed: int) -> Tensor:
    views = Views(full.num_features).fit(full)
    model = OpenSetModel.fit(full, views, y, world.classes, seed=seed)
    return model.adapt(question.examples).probabilities(ids).argmax(1)


def _share(hits: Tensor) -> float:
    return float(hits.float().mean())


HEADS = (
    "graph",
    "nodes",
    "as the whole pass",
    "one by one",
    "as learned again",
    "again twice",
    "right (%): new, whole pass, learned again",
    "without edges: as they are joined, isolated",
    "loading",
    "1,000 nodes",
    "one node",
    "whole pass",
)


def table() -> str:
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for line in ROWS.read_text().splitlines():
        row = json.loads(line)
        keys = (
            "agree_same_model",
            "agree_one_by_one",
            "agree_learned_again",
            "agree_again_twice",
        )
        shares = [f"{100 * row[key]:.1f} %" if key in row else "" for key in keys]
        right = row["right"]
        without = [f"{100 * right[key]:.1f}" for key in ("without_edges", "isolated") if key in right]
        right = [f"{100 * right[key]:.1f}" for key in ("append", "same_model", "learned_again") if key in right]
        times = [f"{row[f'{key}_cpu_s']:.2f} s" for key in ("load", "append", "whole_pass")]  # of the processor
        times.insert(2, f"{row['one_ms']:.1f} ms" if "one_ms" in row else "")
        cells = [row["graph"], format(row["nodes"], ","), *shares, ", ".join(right), ", ".join(without), *times]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--folder", type=Path, help="keeps the fitted models; those that are there are taken")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        return print(table())
    done = {json.loads(line)["graph"] for line in ROWS.read_text().splitlines()} if ROWS.exists() else set()
    for name in (name for name in args.graphs if name not in done):
        with tempfile.TemporaryDirectory() as scratch:
            row = measured(name, args.folder or Path(scratch), again=name != "planted")
        with ROWS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # seconds of one core
    main()
