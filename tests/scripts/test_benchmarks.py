"""What benchmarks measure, written out, and what the program says of their rows."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import fewnode
from fewnode import Tasks
from fewnode.nn.graph_layers import renumbered
from fewnode.tables.encode import HINT

ROOT = Path(__file__).parents[2]


def benchmark(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield pytest.importorskip(name)
    del sys.modules[name]


@pytest.fixture
def open_world(monkeypatch):
    yield from benchmark("open_world", monkeypatch)


@pytest.fixture
def task_transductive(monkeypatch):
    yield from benchmark("task_transductive", monkeypatch)


@pytest.fixture
def encoders(monkeypatch):
    yield from benchmark("encoders", monkeypatch)


def test_too_sure_and_too_unsure_do_not_cancel_in_the_calibration_error(open_world):
    # Of four rows at 0.9 two are right (0.4 too sure), of four at 0.6 all are (0.4 too unsure).
    p = torch.tensor([[0.9, 0.1]] * 4 + [[0.6, 0.4]] * 4)
    y = torch.tensor([0, 0, 1, 1, 0, 0, 0, 0])
    assert open_world.expected_calibration_error(p, y) == pytest.approx(0.4)


@pytest.fixture
def two_tasks():
    generator = torch.Generator().manual_seed(0)
    nodes = F.normalize(torch.randn(40, 6, generator=generator), dim=-1)
    order = torch.stack([torch.randperm(40, generator=generator) for _ in range(2)])
    return nodes, Tasks(order[:, :6], [[0, 0, 1, 1, 2, 2]] * 2, order[:, 6:18], [[0, 1, 2] * 4] * 2)


def test_laplacian_shot_adds_the_mean_assignment_of_the_nearest_queries(task_transductive, two_tasks):
    nodes, tasks = two_tasks
    rows = task_transductive.Rows.of(nodes, tasks)
    found = task_transductive.laplacian_shot(rows, neighbours=3, scale=10.0, weight=0.2, rounds=2)
    for t, cosines in enumerate(task_transductive.rectified(rows)):
        q = nodes[tasks.query[t]]
        near = [sorted(set(range(12)) - {i}, key=lambda j: -float(q[i] @ q[j]))[:3] for i in range(12)]
        scores = cosines
        for _ in range(2):
            p = (10 * scores).softmax(-1)
            scores = torch.stack([cosines[i] + 0.2 * sum(p[j] for j in near[i]) / 3 for i in range(12)])
        torch.testing.assert_close(found[t], scores, atol=1e-4, rtol=1e-4)


def test_tim_alternates_between_assignments_and_weights(task_transductive, two_tasks):
    nodes, tasks = two_tasks
    tau, alpha, support, balance = 8.0, 0.5, 0.3, 0.5
    rows = task_transductive.Rows.of(nodes, tasks)
    found = task_transductive.tim(rows, tau, alpha, support, balance, rounds=2).softmax(-1)
    for t in range(2):
        z, y, q = nodes[tasks.support[t]], tasks.support_y[t].tolist(), nodes[tasks.query[t]]
        w = [torch.stack([z[s] for s in range(6) if y[s] == k]).mean(0) for k in range(3)]

        def probability(x, w=w):
            return torch.stack([-tau / 2 * (x - each).square().sum() for each in w]).softmax(0)

        for _ in range(2):
            p_z, p_q = [probability(x, w) for x in z], [probability(x, w) for x in q]
            total = [sum(p[k] ** (1 + alpha) for p in p_q) ** balance for k in range(3)]
            raw = [[p[k] ** (1 + alpha) / total[k] for k in range(3)] for p in p_q]
            a = [[each / sum(row) for each in row] for row in raw]
            last, w = w, []
            for k in range(3):
                top = sum((y[s] == k) * z[s] + p_z[s][k] * (last[k] - z[s]) for s in range(6)) * support / (1 + alpha)
                top = top + 6 / 12 * sum(a[i][k] * q[i] + p_q[i][k] * (last[k] - q[i]) for i in range(12))
                weight = support / (1 + alpha) * y.count(k) + 6 / 12 * sum(row[k] for row in a)
                w.append(top / weight)
        expected = torch.stack([probability(x, w) for x in q])
        torch.testing.assert_close(found[t], expected, atol=1e-4, rtol=1e-4)


def test_half_of_the_queries_are_drawn_without_replacement(task_transductive, two_tasks):
    _, tasks = two_tasks
    kept = task_transductive.half(tasks, seed=1)
    label = [dict(zip(*pair, strict=True)) for pair in zip(tasks.query.tolist(), tasks.query_y.tolist(), strict=True)]
    for t, (nodes, y) in enumerate(zip(kept.query.tolist(), kept.query_y.tolist(), strict=True)):
        assert len(set(nodes)) == 6 and [label[t][node] for node in nodes] == y


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
