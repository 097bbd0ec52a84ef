"""Nodes that only the edges name: told, not predicted unless asked, never put to a person."""

import copy
import csv
import json

import numpy as np
import pytest
import torch

import own_graph
from fewnode import FewShotClassifier, Graph, InputError
from fewnode.classifier.drift import measure_drift
from fewnode.cli import main
from fewnode.labelling.server import open_session

GHOSTS = [f"g{i}" for i in range(12)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unlisted")
    own_graph.write_tables(folder)
    with (folder / "edges.csv").open("a") as file:
        file.writelines(f"{ghost},n{i}\n{ghost},n{i + 40}\n" for i, ghost in enumerate(GHOSTS))
    return folder


@pytest.fixture(scope="module")
def learned(files) -> FewShotClassifier:
    classifier = FewShotClassifier("probe", k_shot=3).fit(edges=files / "edges.csv", nodes=files / "nodes.csv")
    return classifier


@pytest.fixture
def fitted(learned) -> FewShotClassifier:
    return copy.copy(learned).adapt(own_graph.examples())


def test_they_are_part_of_the_graph_and_marked(files, tmp_path):
    graph = Graph.from_files(files / "edges.csv", files / "nodes.csv")
    graph.save_npz(tmp_path / "g.npz")
    kept = graph.subgraph(torch.arange(graph.num_nodes) % 2 == 1)
    for one in (graph, Graph.from_npz(tmp_path / "g.npz")):
        assert [one.node_names[i] for i in (~one.listed).nonzero().flatten().tolist()] == GHOSTS
    assert [kept.node_names[i] for i in (~kept.listed).nonzero().flatten().tolist()] == GHOSTS[1::2]
    assert bool(own_graph.graph().listed.all())


def test_they_are_not_predicted_unless_asked(fitted):
    assert not set(fitted.predict_proba().names) & set(GHOSTS)
    assert not set(fitted.find("mule", top=100).names) & set(GHOSTS)
    assert fitted.predict_proba(GHOSTS[:2]).names == GHOSTS[:2]  # by name
    fitted.adapt(own_graph.examples(), include_unlisted=True)
    assert set(GHOSTS) < set(fitted.predict_proba().names)
    fitted.partial_adapt(add={"mule": ["n150"]})
    assert set(GHOSTS) < set(fitted.predict_proba(fitted.unlabelled()).names)


def test_shares_are_those_of_the_listed_nodes(fitted):
    ghosts = fitted.graph.unlisted.nonzero().flatten()
    assert not bool(torch.isin(fitted.task.pool, ghosts).any())
    assert not bool(torch.isin(fitted.task.model.reference.nodes, ghosts).any())


@pytest.mark.parametrize("by", ["teach", "margin", "typical", "other", "random"])
def test_they_are_never_suggested(fitted, by):
    fitted.adapt(own_graph.examples(), include_unlisted=True)
    assert not set(fitted.suggest(40, by=by).names) & set(GHOSTS)


def test_the_label_page_does_not_ask_about_them(fitted):
    session = open_session(fitted)
    session.do({"do": "label", "nodes": ["n6"], "class": "mule"})
    asked = [*session.suggest(40).names, *session.more("mule", 40), *session.like(["n6"], 40)]
    assert len(asked) > 80 and not set(asked) & set(GHOSTS)


def test_the_commands_tell_how_many_there_are(files, tmp_path, capsys):
    tables = ["--edges", str(files / "edges.csv"), "--nodes", str(files / "nodes.csv")]
    assert main(["fit", *tables, "--out", str(tmp_path / "model"), "--method", "probe", "--k-shot", "3"]) == 0
    assert "12 nodes that only the edges name" in capsys.readouterr().out
    asked = ["predict", str(tmp_path / "model"), "--support", str(files / "support.csv"), "--json"]
    assert main([*asked, "--out", str(tmp_path / "p.csv")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main([*asked, "--out", str(tmp_path / "q.csv"), "--include-unlisted"]) == 0
    more = json.loads(capsys.readouterr().out)
    assert (told["unlisted"], more["unlisted"]) == (12, 0) and more["nodes"] == told["nodes"] + 12
    rows = {row["id"] for row in csv.DictReader((tmp_path / "q.csv").open())}
    assert set(GHOSTS) < rows


def test_what_is_refused_changes_nothing(fitted):
    before, table = fitted.predict_proba().names, fitted.source.table
    with pytest.raises(InputError, match="there is no node 'nobody'"):
        fitted.adapt({"mule": ["nobody"]}, include_unlisted=True)
    with pytest.raises(InputError, match="feature columns"):
        fitted.attach(own_graph.graph().with_features(torch.ones(240, 3), None))
    assert fitted.predict_proba().names == before and fitted.source.table is table


def test_nothing_is_learned_of_columns_from_them(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,label,size\n" + "".join(f"n{i},{'ab'[i % 2]},{i}\n" for i in range(40)))
    edges = [f"n{i},n{(i + 2) % 40}\n" for i in range(40)] + [f"n{i},g{i}\n" for i in range(30)]
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(edges))
    graph = Graph.from_files(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    assert graph.feature_names == ("size",)  # no column tells that they have no size


def test_new_data_are_compared_with_listed_nodes():
    graph, (edges, x, y) = own_graph.graph(), own_graph.arrays()
    n, ghosts = len(y), np.arange(400)
    edges = np.concatenate([edges, [ghosts % n, n + ghosts]], 1)
    x = np.concatenate([x, np.full((400, x.shape[1]), 9.0, x.dtype)])
    y = np.concatenate([graph.y.numpy(), np.full(400, -1)])
    names = {"class_names": graph.class_names, "feature_names": graph.feature_names}
    larger = Graph.from_edges(edges, x, y, unlisted=np.arange(n + 400) >= n, **names)
    found = measure_drift(larger, graph)
    assert found.n_before == n and all(shift.psi == 0 for shift in found.columns)
