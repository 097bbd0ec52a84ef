"""What benchmarks measure, written out, and what the program says of their rows."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch

import fewnode
from fewnode.nn.graph_layers import renumbered
from fewnode.tables.encode import HINT

ROOT = Path(__file__).parents[2]


@pytest.fixture
def open_world(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield pytest.importorskip("open_world")
    del sys.modules["open_world"]


@pytest.fixture
def encoders(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield pytest.importorskip("encoders")
    del sys.modules["encoders"]


def test_too_sure_and_too_unsure_do_not_cancel_in_the_calibration_error(open_world):
    # Of four rows at 0.9 two are right (0.4 too sure), of four at 0.6 all are (0.4 too unsure).
    p = torch.tensor([[0.9, 0.1]] * 4 + [[0.6, 0.4]] * 4)
    y = torch.tensor([0, 0, 1, 1, 0, 0, 0, 0])
    assert open_world.expected_calibration_error(p, y) == pytest.approx(0.4)


def test_a_text_encoder_is_worth_what_the_note_says():
    rows = map(json.loads, (ROOT / "benchmarks/rows/text.jsonl").read_text(encoding="utf-8").splitlines())
    found: dict[str, dict[tuple[str, int, int], float]] = {"none": {}, "potion-base-8M": {}}
    for row in rows:
        if row["what"] == "accuracy" and row["classes"] == "novel" and row["text encoder"] in found:
            found[row["text encoder"]][row["graph"], row["split"], row["shots"]] = row["accuracy"]
    words, vectors = found.values()
    gains = [round(100 * (accuracy - words[key])) for key, accuracy in vectors.items()]
    assert (str(min(gains)), str(max(gains))) == re.search(r"worth (\d+) to (\d+) points", HINT).groups()


def dense_sage(model, x, neighbours):
    mean = neighbours / neighbours.sum(1, keepdim=True).clamp(min=1)
    h = torch.relu(torch.cat([x, mean @ x], 1) @ model.weight + model.bias)
    return model.outer(torch.cat([h, mean @ h], 1))


def dense_gat(model, x, neighbours):
    def layer(z, to, from_):
        z = z.unflatten(1, to.shape).transpose(0, 1)  # [heads, N, d]
        raw = (z @ to[:, :, None]) + (z @ from_[:, :, None]).transpose(1, 2)
        raw = torch.nn.functional.leaky_relu(raw, 0.2).masked_fill(neighbours + torch.eye(len(x)) == 0, -torch.inf)
        return torch.cat([*(raw.softmax(-1) @ z)], 1)

    h = torch.relu(layer(x @ model.weight, model.to_first, model.from_first) + model.bias)
    return layer(h @ model.outer.weight.t(), model.to_second, model.from_second) + model.outer.bias


@pytest.mark.parametrize(("form", "dense"), [("SagePN", dense_sage), ("GatPN", dense_gat)])
def test_an_encoder_is_that_of_dense_matrices_for_all_nodes_and_for_some(encoders, form, dense):
    graph, _ = fewnode.planted(60, 4, avg_degree=3, seed=0)
    graph = fewnode.Graph.from_edges(graph.edge_arrays()["edge_index"][:, :50], graph.features_scipy())  # some alone
    model = getattr(encoders, form)(graph.num_features)
    model.prepare(graph)
    model.eval()
    neighbours = torch.from_numpy(graph.to_scipy().toarray()).float()
    with torch.no_grad():
        wanted = dense(model.encoder, model.inputs.unit(graph), neighbours)
        wanted = encoders.projected(wanted, 3.0)
        some = torch.tensor([41, 3, 17])
        torch.testing.assert_close(model.embed(graph), wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(model.embed(graph, some), wanted[some], rtol=1e-4, atol=1e-5)


def test_negatives_are_of_no_class_of_the_task_and_without_any_the_loss_is_that_of_pn(encoders, monkeypatch):
    graph, _ = fewnode.planted(300, 6, seed=0)
    tasks = fewnode.draw_tasks(graph.y, range(4), 3, 2, 4, 5, 0)
    model = encoders.NearTaskNS(graph.num_features)
    model.prepare(graph)
    model.eval()
    seen = []
    monkeypatch.setattr(encoders, "renumbered", lambda given: seen.append(given) or renumbered(given))
    more = model.loss(graph, tasks)
    inside = graph.y[seen[0].query[:, tasks.query.shape[1] :]][:, :, None] == graph.y[tasks.support][:, None, :]
    assert seen[0].query.shape[1] == tasks.query.shape[1] + model.negatives and not inside.any()
    plain = encoders.PN.loss(model, graph, tasks)
    assert more.item() > plain.item()
    only = graph.with_labels(torch.where(torch.isin(graph.y, graph.y[tasks.support[0]]), graph.y, -1))
    torch.testing.assert_close(model.loss(only, tasks[:1]), encoders.PN.loss(model, only, tasks[:1]))
