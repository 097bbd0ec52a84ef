"""A graph from tables does not depend on the order of rows, columns and classes, nor on names."""

import csv
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import own_graph
from fewnode import FewShotClassifier
from fewnode.classifier.inputs import TableSource, canonical, natural_order

Tables = dict[str, list[list[str]]]


def shuffled(tables: Tables) -> Tables:
    rng = random.Random(1)
    return {name: [rows[0], *rng.sample(rows[1:], len(rows) - 1)] for name, rows in tables.items()}


def doubled(tables: Tables) -> Tables:
    edges = tables["edges"]
    return tables | {"edges": [*edges, *([b, a] for a, b in edges[1:]), *edges[1:]]}


def columns_moved(tables: Tables) -> Tables:
    return tables | {"nodes": [[row[i] for i in (3, 0, 5, 1, 2, 4, 7, 6)] for row in tables["nodes"]]}


def renamed_node(name: str) -> str:
    return f"z{int(name[1:]) * 7919 % 1009:04d}"


def renamed_class(name: str) -> str:
    return name and f"K{name[::-1]}"


def renamed(tables: Tables) -> Tables:
    heads = {name: rows[0] for name, rows in tables.items()}
    return {
        "nodes": [
            heads["nodes"], *([renamed_node(r[0]), renamed_class(r[1]), *r[2:]] for r in tables["nodes"][1:])
        ],
        "edges": [heads["edges"], *([renamed_node(a), renamed_node(b)] for a, b in tables["edges"][1:])],
        "support": [heads["support"], *([renamed_node(a), b] for a, b in tables["support"][1:])],
    }  # fmt: skip


CHANGES = (shuffled, doubled, columns_moved, renamed)


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Tables:
    folder = tmp_path_factory.mktemp("tables")
    own_graph.write_tables(folder)
    return {name: list(csv.reader((folder / f"{name}.csv").open())) for name in ("nodes", "edges", "support")}


def written(tables: Tables, folder: Path) -> TableSource:
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    return TableSource.of(folder / "edges.csv", folder / "nodes.csv")


def test_files_and_frames_are_the_graph_of_the_command_line(tables, tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    graph = written(tables, tmp_path).infer()[0]
    files = {name: tmp_path / f"{name}.csv" for name in ("edges", "nodes")}
    frames = {name: pandas.read_csv(file) for name, file in files.items()}
    for given in (files, frames):
        fitted = FewShotClassifier("probe", k_shot=3).fit(**given).graph
        assert fitted.node_names == graph.node_names and torch.equal(fitted.indices, graph.indices)


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_graph_to_the_last_bit(tables, tmp_path, change):
    (tmp_path / "other").mkdir()
    graph, other = written(tables, tmp_path).infer()[0], written(change(tables), tmp_path / "other").infer()[0]
    assert graph.fingerprint == other.fingerprint and torch.equal(graph.y, other.y)
    assert graph.feature_names == other.feature_names
    if change is renamed:
        assert other.node_names == tuple(map(renamed_node, graph.node_names))
        assert other.class_names == tuple(map(renamed_class, graph.class_names))
    else:
        assert (graph.node_names, graph.class_names) == (other.node_names, other.class_names)


SMALL = {"vantage": {}, "rale": {"rank": 4, "channels": 8, "heads": 2, "n_walks": 4, "n_paths": 2, "n_hubs": 3}}


def answers(tables: Tables, folder: Path, method: str) -> dict[str, list[float]]:
    source = written(tables, folder)
    options = {"steps": 2, "check_every": 1, "n_way": 2, "k_shot": 2, "n_query": 2, "seed": 3, **SMALL[method]}
    classifier = FewShotClassifier(method, **options).fit(source.infer()[0])
    examples: dict[str, list[str]] = {}
    for node, label in tables["support"][1:]:
        examples.setdefault(label, []).append(node)
    found = classifier.adapt(dict(sorted(examples.items())), among="new").predict_proba()
    return dict(zip(found.names, found.probabilities.tolist(), strict=True))


@pytest.mark.parametrize("method", SMALL)
def test_the_same_answers_to_the_last_bit(tables, tmp_path, method):
    before = answers(tables, tmp_path, method)
    assert answers(shuffled(tables), tmp_path, method) == before
    other = answers(renamed(tables), tmp_path, method)
    assert other == {renamed_node(name): p for name, p in before.items()}


def test_alike_nodes_are_told_apart_by_class_and_then_by_name():
    arguments = {
        "edge_index": np.array([[0], [1]]), "node_names": ["c", "d", "b", "a"], "class_names": ["x", "y"],
        "y": np.array([-1, -1, 1, 0]), "x": None,
    }  # fmt: skip
    found = canonical(arguments)
    alone = [name for name in found["node_names"] if name in "ab"]
    assert sorted(found["node_names"]) == list("abcd") and alone == ["a", "b"]
    assert canonical(found | {"node_names": list(found["node_names"])})["node_names"] == found["node_names"]


def test_names_are_listed_as_a_reader_expects():
    names = ["n10", "n2", "a", "10", "9", "n1", ""]
    assert [names[i] for i in natural_order(names)] == ["", "9", "10", "a", "n1", "n2", "n10"]
