"""fit, predict, find and explain on a store."""

import copy
import csv
import json
import re
from dataclasses import replace
from functools import partial

import pytest
import torch

import fewnode
from fewnode import FewShotClassifier, InputError
from fewnode.classifier.commands import predict_tables
from fewnode.cli import main
from fewnode.graph.stored import open_store, save_store
from fewnode.labelling.layout import layout
from fewnode.labelling.server import open_session
from fewnode.nn.views import COPIES
from fewnode.store import Space, parsed_memory

pytest.importorskip("pyarrow")
MEMORY = Space.least(400, 7 * 30)


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A graph with two classes unlabelled, its store, and examples of these two."""
    graph, _ = fewnode.planted(400, 8, seed=0)
    known = fewnode.training_view(graph, fewnode.ClassSplit(base=range(6), novel=(6, 7)))
    known = known.with_features(known.x.to_dense()[:, :60].contiguous())
    folder = tmp_path_factory.mktemp("stores")
    save_store(known, folder / "g.store")
    examples = {f"new{c}": (graph.y == c).nonzero().flatten()[:4].tolist() for c in (6, 7)}
    return known, folder / "g.store", examples


@pytest.fixture(scope="module")
def both(planted):
    """A classifier of the graph in memory, and one of its store."""
    known, store, examples = planted
    stored = open_store(store, MEMORY)
    return [FewShotClassifier(steps=25).fit(graph).adapt(examples) for graph in (known, stored)]


def test_predictions_through_a_store_are_those_in_memory(both):
    whole, stored = (one.predict_proba() for one in both)
    assert stored.classes == whole.classes
    assert (whole.probabilities - stored.probabilities).abs().max() < 0.02
    assert (whole.probabilities.argmax(1) == stored.probabilities.argmax(1)).float().mean() >= 0.99


def test_candidates_are_the_same(both):
    whole, stored = (one.find("new6", 10) for one in both)
    assert (
        len(set(whole.names) & set(stored.names)) >= 9
        and (whole.probabilities - stored.probabilities).abs().max() < 0.02
    )


def test_explanations_are_the_same(both):
    whole, stored = (one.explain(120) for one in both)
    assert stored.label == whole.label and stored.probability == pytest.approx(whole.probability, abs=0.02)
    assert [one.node for one in stored.neighbours] == [one.node for one in whole.neighbours]
    for a, b in zip(whole.neighbours, stored.neighbours, strict=True):
        assert a.influence == pytest.approx(b.influence, abs=0.02)


def test_a_kept_world_answers_as_before(both, planted):
    _, store, examples = planted
    again = FewShotClassifier(steps=25).fit(open_store(store, MEMORY)).adapt(examples)
    assert torch.allclose(again.predict_proba().probabilities, both[1].predict_proba().probabilities, atol=1e-5)


def test_rows_written_as_they_come_are_those_of_the_whole_table(both, tmp_path):
    one = copy.copy(both[1])
    nodes, found = one.unlabelled(), one.predict_proba(one.unlabelled())
    one.iter_proba = partial(one.iter_proba, batch_size=64)
    for name in ("p.csv", "p.parquet"):
        answered = predict_tables(one, tmp_path / name, nodes=nodes, threshold=0.6, all_probabilities=True)
        table = fewnode.tables.read_columns(tmp_path / name)
        whole = found.table(0.6, all_probabilities=True)
        assert list(table.columns) == list(whole) and table.text("label", "") == whole["label"]
        assert [float(p) for p in table.text("probability")] == whole["probability"].tolist()
    told = one.expect(found, 0.6)
    assert answered.counts == found.counts(0.6) and answered.rows == len(nodes)
    assert answered.expectation.right.value == pytest.approx(told.right.value, abs=1e-6)
    assert answered.expectation.classes["new6"].called == told.classes["new6"].called


def test_other_methods_and_too_few_classes_are_refused(planted):
    stored = open_store(planted[1])
    with pytest.raises(InputError, match="gpn holds the whole graph in memory; a store is for vantage"):
        FewShotClassifier("gpn").fit(stored)
    with pytest.raises(InputError, match="fewer than two classes"):
        FewShotClassifier().fit(stored.with_labels(torch.full_like(stored.y, -1)))
    with pytest.raises(InputError, match="Give memory="):  # enough for the views, but not for what comes after them
        FewShotClassifier().fit(open_store(planted[1], Space.least(400, COPIES)))


def test_a_graph_without_features_needs_room_for_structural_ones(tmp_path):
    graph, _ = fewnode.planted(150, 4, homophily=0.9, seed=0)
    bare = graph.with_features(None).with_labels(torch.where(graph.y < 3, graph.y, -1))
    examples = {"new": (graph.y == 3).nonzero().flatten()[:4].tolist()}
    save_store(bare, tmp_path / "g.store")
    told = r"making structural features .* Give memory= (\S+MB) or more"
    with pytest.raises(InputError, match=told) as refused:
        FewShotClassifier().fit(open_store(tmp_path / "g.store", 500 << 20))
    least = parsed_memory(re.search(told, str(refused.value)).group(1))  # what was asked for is enough
    both = [bare, open_store(tmp_path / "g.store", least)]
    whole, stored = (FewShotClassifier(steps=4).fit(one).adapt(examples).predict_proba() for one in both)
    assert (whole.probabilities.argmax(1) == stored.probabilities.argmax(1)).float().mean() >= 0.99


def test_labelling_on_a_store_is_that_in_memory(both):
    sessions = [open_session(copy.copy(one)) for one in both]
    nodes = both[0].unlabelled().tolist()
    for session in sessions:
        session.do({"do": "label", "nodes": [str(nodes[0]), str(nodes[1])], "class": "mine"})
    whole, stored = (session.scores()[0] for session in sessions)
    assert (whole == stored).mean() >= 0.99
    assert set(sessions[0].like([str(nodes[0])], 10)) & set(sessions[1].like([str(nodes[0])], 10))
    assert len(sessions[1].suggest(3)) == 3 and sessions[1].why(str(nodes[5])) is not None
    assert len(layout(sessions[1].classifier.coordinates())) == both[0].graph.num_nodes


def test_what_does_not_fit_or_work_on_a_store_is_refused_with_what_does(both):
    small = copy.copy(both[1])
    small.graph = replace(small.graph, space=replace(small.graph.space, memory=500 << 20))
    with pytest.raises(InputError, match=r"the page, .* \(`fewnode find` needs no page\), needs \S+MB. Give memory="):
        open_session(small)


def test_new_nodes_are_predicted_as_in_memory(both):
    features = both[0].schema.centre, both[0].schema.scale
    centre, scale = (torch.tensor(part) for part in features)
    given = (both[0].graph.x[:12] + 0.1) * scale + centre
    nodes = fewnode.Graph.from_edges(torch.tensor([[0], [1]]), given, node_names=[f"late{i}" for i in range(12)])
    edges = [(f"late{i}", str(17 * i + j)) for i in range(10) for j in range(3)]  # two have none
    whole, stored = (one.predict_proba(new_nodes=nodes, new_edges=edges) for one in both)
    assert stored.names == whole.names and stored.labels() == whole.labels()
    assert (whole.probabilities - stored.probabilities).abs().max() < 0.02


def test_a_model_works_on_the_store_of_another_graph(both, planted, tmp_path):
    known, _, examples = planted
    other = known.with_features(known.x.flip(1) + 0.1 * known.x)  # the same columns with other values
    save_store(other, tmp_path / "h.store")
    model, before = copy.copy(both[0]), both[0].predict_proba().probabilities
    whole, stored = (
        model.attach(graph).adapt(examples).predict_proba().probabilities
        for graph in (other, open_store(tmp_path / "h.store", MEMORY))
    )
    assert (whole.argmax(1) == stored.argmax(1)).float().mean() >= 0.99
    assert not torch.equal(whole, before)


def test_the_commands_from_tables_to_predictions(tmp_path, capsys):
    graph, _ = fewnode.planted(300, 5, seed=1)
    x, y = graph.x.to_dense()[:, :30], graph.y.tolist()
    with (tmp_path / "nodes.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "label", *(f"c{i}" for i in range(30))])
        rows.writerows([f"n{i}", "" if y[i] == 4 else f"k{y[i]}", *x[i].tolist()] for i in range(300))
    with (tmp_path / "edges.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["source", "target"])
        rows.writerows((f"n{a}", f"n{b}") for a, b in zip(*_edges(graph), strict=True))
    support = tmp_path / "support.csv"
    members = [i for i in range(300) if y[i] == 4]
    support.write_text("id,label\n" + "".join(f"n{i},new\n" for i in members[:4]))
    store, model, out = (str(tmp_path / name) for name in ("g.store", "model", "p.csv"))
    tables = ["--edges", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv")]
    assert main(["import", *tables, "--out", store, "--json"]) == 0
    imported = json.loads(capsys.readouterr().out)
    assert (imported["nodes"], imported["edges"], imported["columns"]) == (300, graph.num_edges, 30)
    fit = ["fit", "--edges", store, "--out", model, "--memory", "2GB", "--set", "steps=25", "--json"]
    assert main(fit) == 0
    asked = ["predict", model, "--support", str(support), "--memory", "2GB", "--json"]
    capsys.readouterr()
    assert main([*asked, "--out", out]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert told["nodes"] == len(rows) == len(members) - 4
    late = tmp_path / "late.csv"
    late.write_text(
        "id,"
        + ",".join(f"c{i}" for i in range(30))
        + "\n"
        + ",".join(["new1", *map(str, x[members[5]].tolist())])
        + "\n"
    )
    (tmp_path / "late_edges.csv").write_text(f"source,target\nnew1,n{members[6]}\nn{members[7]},new1\n")
    new = ["--new-nodes", str(late), "--new-edges", str(tmp_path / "late_edges.csv")]
    assert main([*asked, *new, "--out", str(tmp_path / "late_p.csv")]) == 0
    capsys.readouterr()
    assert [row["label"] for row in csv.DictReader((tmp_path / "late_p.csv").open())] == ["new"]
    assert sum(row["label"] == "new" for row in rows) > 0.8 * len(rows)
    assert main([*asked[:4], "--memory", "10MB", "--out", str(tmp_path / "q.csv")]) == 0  # nothing is left to make
    assert main(["fit", *tables, "--memory", "1GB", "--out", str(tmp_path / "m")]) == 2
    assert "--memory bounds the work on a store" in capsys.readouterr().err
    assert main(["fit", "--edges", store, "--nodes", tables[3], "--out", str(tmp_path / "m")]) == 2
    assert "give --edges alone" in capsys.readouterr().err
    assert main(["fit", "--edges", store, "--directed", "--out", str(tmp_path / "m")]) == 2
    assert "--directed is about tables" in capsys.readouterr().err
    assert main(["fit", "--edges", str(tmp_path / "no.store"), "--out", str(tmp_path / "m")]) == 2
    assert "Make one with `fewnode import" in capsys.readouterr().err


def _edges(graph: fewnode.Graph) -> tuple[list[int], list[int]]:
    arcs = graph.to_scipy().tocoo()
    once = arcs.row < arcs.col
    return arcs.row[once].tolist(), arcs.col[once].tolist()
