"""Graphs of growing size through a store with bounded memory, and the same in memory: time, memory, agreement.

    python benchmarks/scale.py make  169k DIR           a made-up graph as DIR/169k.store
    python benchmarks/scale.py run   169k DIR 1GB       fit, adapt and predict all through the store; keeps a row
    python benchmarks/scale.py memory 169k DIR          the same in memory; agreement with the store's predictions
    python benchmarks/scale.py rate  169k DIR           views beside bare CSR products of the same block
    python benchmarks/scale.py agree DIR GRAPH ...      predictions through a store and in memory on real graphs
    python benchmarks/scale.py links wordnet DIR        the views of links beside those of double precision
    python benchmarks/scale.py                          the table of all rows

The graphs have 40 planted classes and power-law degrees; five classes have no label. Seconds are wall-clock and
processor seconds. Peak memory is the largest resident set, and without pages of files that the system may drop.
"""

import json
import os
import resource
import shutil
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

import fewnode
from fewnode.classifier.commands import predict_tables
from fewnode.graph.arrays import csr_tensor, leading_eigenvectors, to_scipy
from fewnode.graph.edge_types import union
from fewnode.graph.operators import mean_adjacency, normalized_adjacency
from fewnode.graph.stored import open_store, save_store
from fewnode.nn.views import (
    COPIES,
    FAR_STEPS,
    NEAR_STEPS,
    VIEWS,
    Views,
    centred,
    neighbour_lists,
    random_fourier,
    wordless_bytes,
)
from fewnode.store import Facts, Space, format_bytes, parsed_memory
from fewnode.tables.importing import GrowingArrays, write_arcs
from fewnode.tables.read import connect

ROWS = Path(__file__).parent / "rows" / "scale.jsonl"
SIZES = {"20k": (20_000, 140_000, 64), "169k": (169_343, 1_170_000, 128), "1m": (1_000_000, 7_000_000, 128)}
SIZES |= {"10m": (10_000_000, 100_000_000, 64)}
CLASSES, NEW, ALIKE, BATCH = 40, 5, 0.7, 1 << 20


def make(size: str, folder: Path) -> None:
    """Node i is of class i % 40; the ends of edges are drawn by popularity, seven of ten within a class."""
    n, edges, width = SIZES[size]
    out, rng = folder / f"{size}.store", np.random.default_rng(0)
    out.mkdir(parents=True)
    means = rng.normal(size=(CLASSES, width)).astype(np.float32)
    features = GrowingArrays(out)
    for at in range(0, n, BATCH):
        own = np.arange(at, min(at + BATCH, n)) % CLASSES
        features.append("features", means[own] + 3 * rng.standard_normal((len(own), width), dtype=np.float32))
    features.close()
    y = np.arange(n) % CLASSES
    y[(y >= CLASSES - NEW) | (rng.random(n) < 0.3)] = -1
    np.save(out / "y.npy", y)
    work = folder / f"{size}.work"
    work.mkdir()
    with connect(work / "edges", folder=work) as database:
        database.execute("create table ends (s integer, t integer, w integer)")
        for at in range(0, edges, BATCH):
            count = min(BATCH, edges - at)
            source, other = ((n * rng.random(count) ** 2).astype(np.int64) for _ in range(2))
            alike = (other - other % CLASSES + source % CLASSES) % n
            target = np.where(rng.random(count) < ALIKE, alike, other)
            database.register("batch", {"s": source, "t": target})
            database.execute("insert into ends select s, t, 1 from batch")
        write_arcs(database, out, n, weighted=False)
    shutil.rmtree(work)
    Facts.write(out, {"class_names": [f"c{i}" for i in range(CLASSES)]})


class Peak:
    """The most memory that is not of files, and the largest resident set of each part of the work; looked at ten times
    a second."""

    def __init__(self) -> None:
        self.most, self.doing, self.parts = 0.0, "", dict[str, tuple[float, float]]()
        threading.Thread(target=self._look, daemon=True).start()

    def __call__(self, what: str, part: float) -> None:
        self.doing = f"{what} {100 * part:.0f} %"
        print(f"{time.process_time():9.1f} s  {self.doing}", flush=True)

    def _look(self) -> None:
        while True:
            lines = Path("/proc/self/status").read_text().splitlines()
            sizes = {line.split(":")[0]: int(line.split()[1]) / 2**20 for line in lines if "kB" in line}
            self.most = max(self.most, sizes["RssAnon"])
            now = (round(sizes["VmRSS"], 2), round(sizes["RssFile"], 2))
            self.parts[self.doing] = max(self.parts.get(self.doing, now), now)
            time.sleep(0.1)

    def largest(self) -> list[tuple[str, tuple[float, float]]]:
        """Of each part the resident set and its files, the largest first."""
        return sorted(self.parts.items(), key=lambda part: -part[1][0])[:8]


def steps(graph: fewnode.Graph, out: Path, watch: Peak) -> dict[str, list[float]]:
    """Fit, adapt and predict, with wall-clock and processor seconds of each."""
    told: dict[str, list[float]] = {}
    before = [time.perf_counter(), time.process_time()]

    def done(name: str) -> None:
        nonlocal before
        now = [time.perf_counter(), time.process_time()]
        watch.doing = f"after {name}"
        told[name] = [round(b - a, 2) for a, b in zip(before, now, strict=True)]
        print(name, told[name], flush=True)
        before = [time.perf_counter(), time.process_time()]

    examples = {f"n{c}": [c + CLASSES * (3 + 7 * k) for k in range(5)] for c in range(CLASSES - NEW, CLASSES)}

    def progress(what: str, part: float) -> None:
        if "views and fit" not in told:
            done("views and fit")
        watch(what, part)

    classifier = fewnode.FewShotClassifier(steps=4, check_every=4).fit(graph, progress=progress)
    done("known classes")
    classifier.adapt(examples)
    done("adapt")
    predict_tables(classifier, out, nodes=torch.arange(graph.num_nodes), force=True)
    done("predict all")
    return told


def keep(row: dict[str, object]) -> None:
    row["threads"], row["load"] = torch.get_num_threads(), round(os.getloadavg()[0], 1)
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(row)


def run(size: str, folder: Path, memory: str | None) -> None:
    """Through the store, or in memory where no bound is given."""
    peak, path = Peak(), folder / f"{size}.store"
    graph = open_store(path, None if memory is None else parsed_memory(memory))
    if memory is None:
        arcs = np.stack([graph.indices.numpy(), np.repeat(np.arange(graph.num_nodes), graph.degree.numpy())])
        graph = fewnode.Graph.from_edges(arcs, graph.features.numpy(), graph.y.numpy(), class_names=graph.class_names)
    name = folder / f"{size}-{'memory' if memory is None else 'store'}.csv"
    told = steps(graph, name, peak)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    row = {"size": size, "nodes": graph.num_nodes, "edges": graph.num_edges, "columns": graph.num_features}
    row |= {"memory": memory, "seconds": told, "peak": round(largest, 2), "without_files": round(peak.most, 2)}
    print(*peak.largest(), sep="\n")
    if memory is None and (other := folder / f"{size}-store.csv").exists():
        own, its = ([line.split(",")[1] for line in path.open()] for path in (name, other))
        row["agree"] = sum(a == b for a, b in zip(own, its, strict=True)) / len(own)
    keep(row)


def rate(size: str, folder: Path) -> None:
    """Nanoseconds for an arc and a column: of smoothing by blocks, and of a bare product of the block with a sparse
    matrix in memory; in turn, the quicker of two times."""
    graph = open_store(folder / f"{size}.store", 1 << 40)
    arcs, width, passes = len(graph.indices), 32, 3
    operator, h = normalized_adjacency(graph), torch.empty(graph.num_nodes, width)
    h.normal_()
    spent: dict[str, list[float]] = {"views": [], "bare": []}
    for _ in range(2):
        started = time.process_time()
        operator.smooth(h, passes, 0.1)
        spent["views"].append((time.process_time() - started) / passes)
        sparse = csr_tensor(graph.indptr, graph.indices.to(graph.indptr.dtype), torch.ones(arcs), operator.shape)
        started = time.process_time()
        sparse @ h
        spent["bare"].append(time.process_time() - started)
        del sparse
    told = {name: 1e9 * min(seconds) / arcs / width for name, seconds in spent.items()}
    keep({"size": size, "rate": told, "columns": width, "nodes": graph.num_nodes, "edges": graph.num_edges})


def agree(folder: Path, names: list[str]) -> None:
    """Of each graph at hand, the share of nodes that get the same class through a store as in memory; the memory is so
    small that columns are made in several blocks."""
    for name in names:
        graph, examples = asked(name)
        path = folder / f"{name}.store"
        shutil.rmtree(path, ignore_errors=True)
        save_store(graph, path)
        space = Space.least(graph.num_nodes, COPIES * 40)
        if not graph.has_features:
            space = max(space, Space.memory_for(wordless_bytes(graph.num_nodes, len(graph.indices)), graph.num_nodes))
        found = [answers(one, examples) for one in (graph, open_store(path, space))]
        row = {"graph": name, "nodes": graph.num_nodes, "edges": graph.num_edges, "memory": format_bytes(space)}
        keep({**row, "same": same(*found), "furthest": float((found[0] - found[1]).abs().max())})
        shutil.rmtree(path)


def at_hand(name: str) -> fewnode.Graph:
    """A graph of the catalogue, or one of two that are not in it."""
    folder = Path(os.environ.get("FEWNODE_DATA", "."))
    if name == "macports":
        tables = folder / "raw" / "macports"
        return fewnode.Graph.from_files(tables / "dependencies.csv", tables / "ports.csv")
    if name == "fb15k237_types":
        return fewnode.Graph.from_npz(folder / f"{name}.npz")
    return fewnode.load_dataset(name)[0]


def asked(name: str) -> tuple[fewnode.Graph, dict[str, list[int]]]:
    """A graph without the labels of its last three large classes, and five examples of each."""
    graph = union(at_hand(name))
    sizes = torch.bincount(graph.y[graph.y >= 0])
    new = [int(c) for c in (sizes >= 15).nonzero().flatten()[-3:]]
    examples = {f"n{c}": (graph.y == c).nonzero().flatten()[:5].tolist() for c in new}
    return graph.with_labels(torch.where(torch.isin(graph.y, torch.tensor(new)), -1, graph.y)), examples


def answers(graph: fewnode.Graph, examples: dict[str, list[int]]) -> torch.Tensor:
    classifier = fewnode.FewShotClassifier(steps=25).fit(graph).adapt(examples)
    return classifier.predict_proba(torch.arange(graph.num_nodes)).probabilities


def same(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.argmax(1) == other.argmax(1)).float().mean())


def links(name: str, folder: Path) -> None:
    """How far cosines of 3,000 nodes by their links are from those of double precision: in memory, and from a store."""
    graph = union(fewnode.load_dataset(name)[0])
    path, views = folder / f"{name}.store", Views(graph.num_features).fit(graph)
    shutil.rmtree(path, ignore_errors=True)
    save_store(graph, path)
    words = F.pad(views.features(graph), (0, views.rank - views.features.basis.shape[1]))
    start = random_fourier(words, views.rank + 16).double()
    lists, mean = neighbour_lists(graph), mean_adjacency(graph)
    left, twice = to_scipy(lists.matrix).astype("float64"), to_scipy(mean.matrix).astype("float64")
    found = leading_eigenvectors(lambda v: torch.from_numpy(left.T @ (left @ v.numpy())), start, views.rank)[1]
    exact = centred(torch.from_numpy(twice @ (twice @ (left @ found.numpy()))))
    at = VIEWS.index("links_two_steps")
    made = {"memory": views(graph)[at], "store": views(open_store(path))[at]}
    chosen = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))[:3000]

    def cosines(view: torch.Tensor) -> torch.Tensor:
        return view[chosen].double() @ view[chosen].double().T

    off = {where: float((cosines(view) - cosines(exact)).abs().max()) for where, view in made.items()}
    keep({"links": off, "name": name, "nodes": graph.num_nodes})
    shutil.rmtree(path)


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]


def passes(row: dict[str, Any]) -> float:
    """Arcs times columns times passes of the views of a row's graph."""
    rank = min(256, max(row["columns"], 64))
    smoothed = rank * (2 * 2 + 2 * NEAR_STEPS[0] + FAR_STEPS[0])
    return float(2 * row["edges"] * (smoothed + (rank + 16) * (2 * 6 + 1)))  # 6 steps of subspace iteration


def table() -> str:
    """The rows for the page: one for each size and memory, the last that was measured."""
    rows = read()
    lines = [
        "| nodes / edges / columns | memory | views and fit | each pass | known classes | adapt | predict all | peak |",
        "|---|---|---|---|---|---|---|---|",
    ]
    last = {(row["size"], row["memory"]): row for row in rows if "seconds" in row}
    for row in sorted(last.values(), key=lambda row: row["nodes"]):
        spent = [f"{part[1]:.0f} s" for part in row["seconds"].values()]
        spent.insert(1, f"{1e9 * row['seconds']['views and fit'][1] / passes(row):.2f} ns")
        size = f"{row['nodes']:,} / {row['edges']:,} / {row['columns']}"
        peak = f"{row['peak']:.2f} GB ({row['without_files']:.2f})"
        lines.append(f"| {size} | {row['memory'] or 'in memory'} | {' | '.join(spent)} | {peak} |")
    return "\n".join(lines)


def rates() -> str:
    lines = ["| nodes / edges | views | bare product |", "|---|---|---|"]
    last = {row["size"]: row for row in read() if "rate" in row}
    for row in sorted(last.values(), key=lambda row: row["nodes"]):
        views, bare = row["rate"]["views"], row["rate"]["bare"]
        lines.append(f"| {row['nodes']:,} / {row['edges']:,} | {views:.2f} ns | {bare:.2f} ns |")
    return "\n".join(lines)


def agreement() -> str:
    lines = ["| graph | nodes | memory given | same class |", "|---|---|---|---|"]
    last = {row["graph"]: row for row in read() if "same" in row}
    for row in sorted(last.values(), key=lambda row: row["nodes"]):
        lines.append(f"| {row['graph']} | {row['nodes']:,} | {row['memory']} | {100 * row['same']:.2f} % |")
    return "\n".join(lines)


def links_off() -> str:
    lines = ["| graph | nodes | in memory | from a store |", "|---|---|---|---|"]
    rows = [row for row in read() if "links" in row]
    for row in rows:
        off = " | ".join(f"{row['links'][where]:.0e}" for where in ("memory", "store"))
        lines.append(f"| {row['name']} | {row['nodes']:,} | {off} |")
    return "\n".join(lines) if rows else ""


FURTHER = (rates, agreement, links_off)

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    what, *given = sys.argv[1:] or ["table"]
    if what == "table":
        print(table(), *(further() for further in FURTHER), sep="\n\n")
    elif what == "agree":
        agree(Path(given[0]), given[1:])
    elif what == "links":
        links(given[0], Path(given[1]))
    elif what == "make":
        make(given[0], Path(given[1]))
    elif what == "rate":
        rate(given[0], Path(given[1]))
    else:
        run(given[0], Path(given[1]), given[2] if what == "run" else None)
