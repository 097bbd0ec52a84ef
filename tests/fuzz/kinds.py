"""Every kind of file that is ever read: a whole one, and the reader that must refuse it when it is damaged.

A reader returns what it made of the files, as something that can be compared. ``sealed`` kinds carry a hash: a damaged
one must never be accepted with another result. Of the others, which people may write by hand or with hashes that fit,
any result will do.
"""

import csv
import gzip
import json
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp

import own_graph
from fewnode import FewShotClassifier, Graph, Tasks, draw_tasks, fit, load, planted, save
from fewnode.classifier.inputs import TableSource, read_examples
from fewnode.datasets import loading
from fewnode.experiments import rows as results
from fewnode.experiments.grid import Run, load_grid
from fewnode.files import Manifest, reading
from fewnode.graph.graph import summary
from fewnode.graph.operators import normalized_adjacency
from fewnode.graph.stored import open_store, save_store
from fewnode.methods.base import Training
from fewnode.report.page import all_tables, page
from fewnode.report.results import compare, gather
from fewnode.report.tables import every_cell
from fewnode.training.loop import TrainingState
from report import made_up


@dataclass(frozen=True)
class Kind:
    """``make`` writes whole files into a folder, of which those in ``files`` get damaged; ``read`` reads the folder."""

    make: Callable[[Path], None]
    read: Callable[[Path], Any]
    files: tuple[str, ...]  # patterns
    sealed: bool = False
    seal: Callable[[Path], None] | None = None  # gives a damaged folder hashes that fit


def tensors(parts: Any) -> list[Any]:
    """Tensors as bytes."""
    return [part.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes() for part in parts]


def small() -> tuple[Any, Any]:
    return planted(90, 6, features=20, seed=1)


def make_model(folder: Path) -> None:
    graph, split = small()
    save(fit("pn", graph, split, n_way=2, k_shot=2, n_query=3, steps=2, check_every=1, hidden_channels=4), folder)


def read_model(folder: Path) -> Any:
    model = load(folder)
    return tensors(model.state_dict().values()), model.card


def make_own(folder: Path) -> None:
    folder.mkdir()
    own_graph.write_tables(folder)
    source = TableSource.of(folder / "edges.csv", folder / "nodes.csv")
    classifier = FewShotClassifier("vantage", steps=2, check_every=1, n_way=2, k_shot=2)
    graph, source = source.infer()
    classifier.fit(graph, source=source)
    classifier.save(folder / "model")


def read_own(folder: Path) -> Any:
    classifier = FewShotClassifier.load(folder / "model")
    assert classifier.model is not None
    if classifier.graph is None:  # a folder without a graph
        return None
    world = classifier.open_set_model()
    shown = (classifier.notes, classifier.known, classifier.source, classifier.schema)
    kept = tensors([world.x, world.log_known, world.features]), world.simulated
    return classifier.model.card, shown, kept


def make_store(folder: Path) -> None:
    """Of a graph with words, names and weights, with all that a fit keeps in it."""
    folder.mkdir()
    graph, _ = small()
    arguments = graph.arguments()
    weight = 1.0 + np.arange(np.asarray(arguments["edge_index"]).shape[1]) % 3
    names = [f"n{i}" for i in range(graph.num_nodes)]
    save_store(
        Graph.from_edges(
            **arguments | {"edge_weight": weight, "node_names": names},
        ),
        folder / "g.store",
    )
    classifier = FewShotClassifier("vantage", steps=2, check_every=1, n_way=2, k_shot=2)
    classifier.fit(edges=folder / "g.store").save(folder / "model")


def read_store(folder: Path) -> Any:
    graph = open_store(folder / "g.store")
    assert graph.node_names is not None and graph.weights is not None
    classifier = FewShotClassifier.load(folder / "model")
    world = classifier.attach(edges=folder / "g.store").open_set_model()
    kept = tensors([graph.y, graph.indices, graph.weights, world.x, world.log_known, world.features])
    return kept, list(graph.node_names), graph.class_names, world.simulated


def read_resealed_store(folder: Path) -> Any:
    graph = open_store(folder / "g.store")
    names = [] if graph.node_names is None else list(graph.node_names)
    smooth = normalized_adjacency(graph).smooth(torch.ones(graph.num_nodes, 2), 2)
    return names, smooth.isfinite().all(), graph.x.shape, graph.num_classes, summary(graph)


def reseal(inside: str) -> Callable[[Path], None]:
    return lambda folder: Manifest.write(folder / inside)


def make_state(folder: Path) -> None:
    graph, split = small()
    fit("pn", graph, split, n_way=2, k_shot=2, n_query=3, steps=2, check_every=1, hidden_channels=4, resume=folder)


def read_state(folder: Path) -> Any:
    model = _trained()
    state = TrainingState(model, Training(steps=2), folder)
    moments = [value for part in state.optimizer.state_dict()["state"].values() for value in part.values()]
    kept = tensors([*model.state_dict().values(), *state.best_weights.values(), *moments])
    return kept, state.waited, model.card.stopped_at, model.card.best, model.card.curve


@cache
def _trained() -> Any:
    graph, split = small()
    return fit("pn", graph, split, n_way=2, k_shot=2, n_query=3, steps=2, check_every=1, hidden_channels=4)


def make_rows(folder: Path) -> None:
    folder.mkdir()
    runs = [Run("wordnet", method, {}, 5, 3, 10, seed) for method in ("tent", "probe") for seed in (0, 1)]
    runs.append(Run("wordnet", "tent", {"train_way": 3}, 5, 3, 10))
    runs.append(Run("wordnet", "tent", {"node_adaptation": False}, 5, 3, 10))
    for run in runs:
        results.append(folder / "rows.jsonl", made_up.row(run, 0.6, tasks=12))
    results.append(folder / "rows.jsonl", made_up.failed(Run("wordnet", "rale")))


def read_rows(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = results.read(folder / "rows.jsonl")
    cells = gather(rows)
    if cells:
        tables = all_tables(cells)
        for table in (table for group in tables.values() for table in group):
            assert all(letter.isalnum() or letter in "_-" for letter in table.name), table.name
            table.csv(), table.markdown(), table.latex()
        text = page(rows, cells, {}, tables)
        assert "<script" not in text.lower() and "\x1b" not in text
        every_cell(cells).csv()
    return json.dumps(compare(rows, rows), default=str)


GRID = """description = "small"
datasets = ["wordnet", "a.npz"]
methods = ["tent"]
settings = ["5w3s", "2w1s"]
n_query = 5
seeds = 2
options = [{}, {gamma = 0.5, hidden_channels = 8}]
baselines = true
inductive = false

[[block]]
datasets = ["wordnet"]
settings = ["5w3s"]
methods = "all"
options = [{}]

[[block]]
seeds = 3
"""


def make_grid(folder: Path) -> None:
    folder.mkdir()
    (folder / "grid.toml").write_text(GRID)


def read_grid(folder: Path) -> Any:
    return [run.id for run in load_grid(str(folder / "grid.toml")).runs()]


def make_graph(folder: Path) -> None:
    folder.mkdir()
    graph = own_graph.graph()
    graph.save_npz(folder / "dense.npz")
    sparse = Graph.from_edges([[0, 1, 2], [1, 2, 3]], sp.csr_matrix(np.eye(4, 5, dtype=np.float32)), [0, 1, -1, 0])
    sparse.save_npz(folder / "sparse.npz")


def read_graph(folder: Path) -> Any:
    graphs = [Graph.from_npz(folder / f"{name}.npz") for name in ("dense", "sparse")]
    for graph in graphs:
        assert graph.num_classes <= 1 << 20 and graph.num_nodes < 10**6
        graph.fingerprint, graph.num_features  # noqa: B018 - uses every index
    return None


def _graph(reader: str, paths: list[Path]) -> None:
    with reading(paths[0], "fetch it again"):  # as load_dataset does
        Graph.from_edges(**loading.READERS[reader](paths))


def make_benchmark(folder: Path) -> None:
    folder.mkdir()
    edges = sp.csr_matrix((np.ones(6, np.float32), ([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0])), shape=(6, 6))
    x = sp.csr_matrix(np.eye(6, 4, dtype=np.float32))
    parts = {f"adj_{part}": getattr(edges, part) for part in ("data", "indices", "indptr")}
    parts |= {f"attr_{part}": getattr(x, part) for part in ("data", "indices", "indptr")}
    shapes = {"adj_shape": np.array(edges.shape), "attr_shape": np.array(x.shape)}
    np.savez(folder / "photo.npz", **parts, **shapes, labels=np.arange(6) % 3, class_names=np.array(["a", "b", "c"]))


def read_benchmark(folder: Path) -> Any:
    _graph("npz", [folder / "photo.npz"])


def make_pool(folder: Path) -> None:
    folder.mkdir()
    graph, split = small()
    draw_tasks(graph.y, split.novel, 2, 2, 3, 5).save(folder / "pool.npz")


def read_pool(folder: Path) -> Any:
    tasks = Tasks.load(folder / "pool.npz")
    assert tasks.n_way <= tasks.support.shape[1]
    tasks.shots()


def make_tables(folder: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    folder.mkdir()
    own_graph.write_tables(folder)
    for name in ("nodes", "edges", "support"):
        pyarrow.parquet.write_table(pyarrow.csv.read_csv(folder / f"{name}.csv"), folder / f"{name}.parquet")


def make_more_tables(folder: Path) -> None:
    import openpyxl

    make_tables(folder)
    for name in ("nodes", "edges", "support"):
        lines = (folder / f"{name}.csv").read_text().splitlines()
        rows = list(csv.reader(lines))
        objects = [dict(zip(rows[0], map(_number, row), strict=True)) for row in rows[1:]]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects))
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append([_number(cell) for cell in row])
        book.save(folder / f"{name}.xlsx")
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))


def _number(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return cell


def make_graphml(folder: Path) -> None:
    folder.mkdir()
    own_graph.graph().to_graphml(folder / "g.graphml")


def read_graphml(folder: Path) -> Any:
    Graph.from_graphml(folder / "g.graphml").fingerprint  # noqa: B018


def read_tables(ending: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        graph = TableSource.of(folder / f"edges.{ending}", folder / f"nodes.{ending}").infer()[0]
        graph.fingerprint, read_examples(folder / f"support.{ending}")

    return read


def make_ogb(folder: Path) -> None:
    folder.mkdir()
    tables = {"edge": "0,1\n1,2\n2,0\n", "node-feat": "0.5,1\n0,2\n1,1\n", "node-label": "0\n1\n0\n"}
    with zipfile.ZipFile(folder / "toy.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in tables.items():
            archive.writestr(f"toy/raw/{name}.csv.gz", gzip.compress(text.encode()))


def read_ogb(folder: Path) -> Any:
    _graph("ogb", [folder / "toy.zip"])


MODEL = ("model.json", "model.safetensors", "manifest.json")
TABLES = ("nodes", "edges", "support")
KINDS = {
    "model": Kind(make_model, read_model, MODEL, sealed=True),
    "resealed model": Kind(make_model, read_model, MODEL[:2], seal=reseal(".")),
    "own model": Kind(make_own, read_own, ("model/*",), sealed=True),
    "resealed own model": Kind(make_own, read_own, ("model/*",), seal=reseal("model")),
    "store": Kind(make_store, read_store, ("g.store/**/*",), sealed=True),
    "resealed store": Kind(make_store, read_resealed_store, ("g.store/*",), seal=reseal("g.store")),
    "training state": Kind(make_state, read_state, ("training.safetensors",), sealed=True),
    "rows": Kind(make_rows, read_rows, ("rows.jsonl",)),
    "grid": Kind(make_grid, read_grid, ("grid.toml",)),
    "graph": Kind(make_graph, read_graph, ("dense.npz", "sparse.npz")),
    "gnn-benchmark": Kind(make_benchmark, read_benchmark, ("photo.npz",)),
    "task pool": Kind(make_pool, read_pool, ("pool.npz",)),
    "csv": Kind(make_tables, read_tables("csv"), ("nodes.csv", "edges.csv", "support.csv")),
    "parquet": Kind(make_tables, read_tables("parquet"), ("nodes.parquet", "edges.parquet", "support.parquet")),
    "gzip": Kind(make_more_tables, read_tables("csv.gz"), tuple(f"{name}.csv.gz" for name in TABLES)),
    "json lines": Kind(make_more_tables, read_tables("jsonl"), tuple(f"{name}.jsonl" for name in TABLES)),
    "excel": Kind(make_more_tables, read_tables("xlsx"), tuple(f"{name}.xlsx" for name in TABLES)),
    "graphml": Kind(make_graphml, read_graphml, ("g.graphml",)),
    "ogb": Kind(make_ogb, read_ogb, ("toy.zip",)),
}
