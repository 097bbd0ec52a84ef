"""Answers depend neither on the order of rows and columns, nor on the names of classes, nor on the way in."""

import csv
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import own_graph
from fewnode import FewShotClassifier, Graph, InputError
from fewnode.classifier.commands import load_attached, predict_tables
from fewnode.classifier.inputs import TableSource, natural_order
from fewnode.labelling.server import open_session
from fewnode.tables.importing import import_tables

Tables = dict[str, list[list[str]]]


def shuffled(tables: Tables) -> Tables:
    rng = random.Random(1)
    return {name: [rows[0], *rng.sample(rows[1:], len(rows) - 1)] for name, rows in tables.items()}


def doubled(tables: Tables) -> Tables:
    edges = tables["edges"]
    return tables | {"edges": [*edges, *([b, a] for a, b in edges[1:]), *edges[1:]]}


def self_loops(tables: Tables) -> Tables:
    return tables | {"edges": [*tables["edges"], *([row[0]] * 2 for row in tables["nodes"][1::5])]}


def columns_moved(tables: Tables) -> Tables:
    return tables | {"nodes": [[row[i] for i in (3, 0, 5, 1, 2, 4, 7, 6)] for row in tables["nodes"]]}


def renamed_class(name: str) -> str:
    return name and f"K{name[::-1]}"


def renamed(tables: Tables) -> Tables:
    head, *rows = tables["nodes"]
    return tables | {"nodes": [head, *([row[0], renamed_class(row[1]), *row[2:]] for row in rows)]}


CHANGES = (shuffled, doubled, self_loops, columns_moved, renamed)


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


def test_predictions_of_all_nodes_are_in_the_order_of_the_table(tables, tmp_path):
    source = written(tables, tmp_path)
    classifier = FewShotClassifier("probe", k_shot=3).fit(edges=source.edges, nodes=source.nodes)
    ids = [row[0] for row in tables["nodes"][1:]]
    assert classifier.predict_proba().names == ids != list(classifier.graph.node_names)
    assert classifier.predict().tolist() == classifier.predict(ids).tolist()
    for rows in ([0, 1], [True] * len(ids)):  # of the table, or of the graph? neither
        with pytest.raises(InputError, match="there is no node"):
            classifier.predict(rows)
    classifier.save(tmp_path / "model")
    loaded = FewShotClassifier.load(tmp_path / "model")
    assert loaded.predict_proba().names == ids and loaded.get_params() == classifier.get_params()


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_graph_to_the_last_bit(tables, tmp_path, change):
    (tmp_path / "other").mkdir()
    graph, other = written(tables, tmp_path).infer()[0], written(change(tables), tmp_path / "other").infer()[0]
    assert graph.fingerprint == other.fingerprint and torch.equal(graph.y, other.y)
    assert graph.feature_names == other.feature_names
    names = tuple(map(renamed_class, graph.class_names)) if change is renamed else graph.class_names
    assert (other.node_names, other.class_names) == (graph.node_names, names)


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
    assert answers(renamed(tables), tmp_path, method) == before


# Open-set answers: the same through every interface

SETTINGS = {"steps": 2, "check_every": 1, "k_shot": 3}


def labels_of(classifier: FewShotClassifier, support: Path) -> dict[str, str]:
    found = classifier.adapt(support).predict_proba()
    return dict(zip(found.names, found.labels(), strict=True))


@pytest.fixture(scope="module")
def answered(tables, tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """The tables, and the label of each node that the commands write."""
    folder = tmp_path_factory.mktemp("ways")
    graph, source = written(tables, folder).infer()
    FewShotClassifier(**SETTINGS).fit(graph, source=source).save(folder / "model")
    adapted = load_attached(folder / "model").adapt(folder / "support.csv")
    predict_tables(adapted, folder / "p.csv", nodes=[row[0] for row in tables["nodes"][1:]])
    rows = csv.DictReader((folder / "p.csv").open())
    return folder, {row["id"]: row["label"] for row in rows}


def test_every_way_in_gives_the_same_answers(answered, tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    folder, expected = answered
    files = {name: folder / f"{name}.csv" for name in ("edges", "nodes")}
    frames = {name: pandas.read_csv(file) for name, file in files.items()}
    graph = Graph.from_files(**files)
    given = graph.arguments()
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    given |= {"edge_index": np.argsort(order)[given["edge_index"]], "x": given["x"][order], "y": given["y"][order]}
    import_tables(files["edges"], files["nodes"], tmp_path / "g.store")
    fits = {
        "files": files, "frames": frames, "graph": {"graph": graph}, "store": {"edges": tmp_path / "g.store"},
        "arrays": {"graph": Graph.from_edges(**given | {"node_names": [graph.node_names[i] for i in order]})},
        "networkx": {"graph": graph.to_networkx()},
    }  # fmt: skip
    for way, arguments in fits.items():
        classifier = FewShotClassifier(**SETTINGS).fit(**arguments)
        assert labels_of(classifier, folder / "support.csv") == expected, way
    for arguments in (files, frames, {"graph": graph}, {"edges": tmp_path / "g.store"}):
        loaded = FewShotClassifier.load(folder / "model").attach(**arguments)
        assert labels_of(loaded, folder / "support.csv") == expected
    session = open_session(load_attached(folder / "model"))
    for node, name in csv.reader((folder / "support.csv").read_text().splitlines()[1:]):
        session.do({"do": "label", "nodes": [node], "class": name})
    (choice, _, labelled), names = session.scores(), session.graph.node_names
    shown = {names[i]: session.classes[choice[i]][0] for i in np.flatnonzero(labelled == 0)}
    assert len(shown) > 100 and {name: expected[name] for name in shown} == shown


@pytest.mark.parametrize("change", CHANGES)
def test_order_and_names_of_classes_do_not_change_an_open_set_answer(answered, tables, tmp_path, change):
    _, expected = answered
    written(change(tables), tmp_path)
    for name in ("edges", "nodes"):  # another separator
        file = tmp_path / f"{name}.csv"
        file.write_text(file.read_text().replace(",", ";"))
    graph = Graph.from_files(edges=tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv")
    found = labels_of(FewShotClassifier(**SETTINGS).fit(graph), tmp_path / "support.csv")
    if change is renamed:
        expected = {n: renamed_class(label) if label in own_graph.TRADES else label for n, label in expected.items()}
    assert found == expected


def test_names_are_listed_as_a_reader_expects():
    names = ["n10", "n2", "a", "10", "9", "n1", ""]
    assert [names[i] for i in natural_order(names)] == ["", "9", "10", "a", "n1", "n2", "n10"]
