import math

import pytest
import torch
from sklearn import metrics as sk

from fewnode import Graph, Tasks, draw_tasks, evaluate, fit
from fewnode.errors import InputError
from fewnode.methods.base import Method
from fewnode.training import evaluate as module


class Oracle(Method):
    """Knows the labels of a graph up to a chosen error."""

    def __init__(self, wrong: float = 0.0, broken: bool = False):
        super().__init__()
        self.wrong, self.broken, self.embeddings, self.batches = wrong, broken, 0, 0

    def embed(self, graph):
        self.embeddings += 1
        assert not torch.is_grad_enabled() and not self.training
        return graph.y

    def score(self, graph, state, tasks):
        self.batches += 1
        same = state[tasks.query][:, :, None] == state[tasks.support][:, None, :]
        first = torch.nn.functional.one_hot(tasks.support_y, tasks.n_way).bool()
        hit = (same[..., None] & first[:, None]).any(2).float()
        flip = torch.arange(tasks.query.shape[1]) < self.wrong * tasks.query.shape[1]
        hit[:, flip] = 1 - hit[:, flip]
        return hit / 0 if self.broken else hit


def test_accuracy_and_interval_written_out(tiny):
    graph, split = tiny
    result = evaluate(Oracle(), graph, split.novel, n_way=3, k_shot=1, n_query=4, n_tasks=30)
    assert (result.accuracy, result.interval, result.n_tasks) == (1.0, 0.0, 30)
    per_task = torch.tensor([0.5, 1.0, 0.75], dtype=torch.float64)
    tasks = draw_tasks(graph.y, split.novel, 3, 1, 4, 3, 0)
    summary = module.summarize(per_task, tasks)
    assert summary.accuracy == 0.75
    assert summary.interval == pytest.approx(1.96 * 0.25 / math.sqrt(3))
    assert "75.00 % ± 28.29" in str(summary)


def test_the_pool_is_the_same_for_everybody_and_one_pass_serves_all_tasks(tiny, monkeypatch):
    graph, split = tiny
    model = Oracle(wrong=0.25)
    one = evaluate(model, graph, split.novel, n_way=3, k_shot=1, n_query=4, n_tasks=30, seed=4)
    assert (model.embeddings, model.batches) == (1, 1)
    assert one.accuracy == pytest.approx(0.75)
    monkeypatch.setattr("fewnode.training.evaluate.CELLS", 20_000)
    other = evaluate(model, graph, split.novel, n_way=3, k_shot=1, n_query=4, n_tasks=30, seed=4)
    assert model.embeddings == 2 and model.batches > 2
    assert torch.equal(one.per_task, other.per_task)


def test_the_widest_layer_bounds_how_many_tasks_are_scored_at_a_time(tiny, monkeypatch):
    graph, split = tiny
    model = Oracle()
    model.wide = torch.nn.Parameter(torch.zeros(1, 10_000))
    monkeypatch.setattr("fewnode.training.evaluate.CELLS", 1_000_000)
    evaluate(model, graph, split.novel, n_way=3, k_shot=1, n_query=4, n_tasks=30)
    assert model.batches == 5  # six tasks of 15 nodes


def test_nodes_come_in_batches_of_a_bounded_load():
    assert module.batches(torch.tensor([3, 3, 3, 3]), 6) == [(0, 2), (2, 4)]
    assert module.batches(torch.tensor([10, 1, 1]), 6) == [(0, 1), (1, 3)]  # what is too large alone, is alone
    model, n = Oracle(), 70_000
    graph = Graph.from_edges([[0], [1]], y=torch.arange(n) % 2, num_nodes=n)
    scores = module.score_nodes(model, graph, graph.y, torch.tensor([0, 1]), torch.tensor([0, 1]), 2, torch.arange(n))
    assert model.batches == 3 and torch.equal(scores.argmax(1), graph.y)  # isolated nodes are a load too


def test_a_split_stands_for_its_novel_classes(tiny):
    graph, split = tiny
    model = fit("probe", graph)
    one, other = (evaluate(model, graph, asked, n_way=3, k_shot=1, n_tasks=30) for asked in (split, split.novel))
    assert torch.equal(one.per_task, other.per_task)


def test_bad_requests_are_refused(tiny):
    graph, split = tiny
    tasks = Tasks([[0, 1]], [[0, 1]], [[2]], None)
    for arguments, words in (
        (dict(), "give either the classes"),
        (dict(classes=split.novel, tasks=tasks), "not both"),
        (dict(tasks=tasks), "no query_y"),
        (dict(tasks=Tasks([[0, 1]], [[0, 1]], [[9999]], [[0]])), "name node 9999"),
        (dict(tasks=Tasks([[0, 9999]], [[0, 1]], [[1]], [[0]])), "name node 9999"),
        (dict(tasks=Tasks([[0, 1]], [[0, 1]], [[graph.num_nodes]], [[0]])), f"name node {graph.num_nodes}, but"),
    ):
        with pytest.raises(InputError, match=words):
            evaluate(Oracle(), graph, **arguments)


def test_nan_never_passes_silently(tiny):
    graph, split = tiny
    with pytest.raises(FloatingPointError, match="not all finite"):
        evaluate(Oracle(broken=True), graph, split.novel, n_way=2, k_shot=1, n_query=2, n_tasks=3)


def test_the_model_is_left_in_the_mode_it_was_in(tiny):
    graph, split = tiny
    model = Oracle().train()
    evaluate(model, graph, split.novel, n_way=2, k_shot=1, n_query=2, n_tasks=3)
    assert model.training


def test_a_single_task_has_no_interval():
    graph = Graph.from_edges([[0], [1]], y=[0, 1, 0, 1], num_nodes=4)
    tasks = Tasks([[0, 1]], [[0, 1]], [[2, 3]], [[0, 1]])
    assert evaluate(Oracle(), graph, tasks=tasks).interval == 0.0
    two = module.summarize(torch.tensor([0.0, 1.0]), tasks)  # a standard deviation of sqrt(1/2) over sqrt(2)
    assert two.interval == pytest.approx(1.96 / 2)


def test_metrics_agree_with_scikit_learn(tiny):
    graph, split = tiny
    tasks = draw_tasks(graph.y, split.novel, 3, 2, 4, 6, 0, balanced=False)
    query_y = tasks.query_y.clone()
    query_y[0] = query_y[0].clamp(max=1)  # no query of class 2
    tasks = Tasks(tasks.support, tasks.support_y, tasks.query, query_y)
    scores = torch.randn(6, 6, 3, generator=torch.Generator().manual_seed(0)).repeat(1, 2, 1)  # pairs of ties
    found = module.metrics(scores, tasks)
    f1, balanced, auroc = [], [], []
    for truth, each in zip(tasks.query_y, scores, strict=True):
        there = truth.unique().tolist()
        called, p = each.argmax(-1), each.double().softmax(-1)
        f1.append(sk.f1_score(truth, called, labels=there, average="macro", zero_division=0))
        balanced.append(sk.recall_score(truth, called, labels=there, average="macro"))
        auroc.append(sum(sk.roc_auc_score(truth == c, p[:, c]) for c in there) / len(there))
    expected = {"macro_f1": f1, "balanced_accuracy": balanced, "auroc": auroc}
    assert found == pytest.approx({name: sum(values) / 6 for name, values in expected.items()})


def test_an_evaluation_tells_the_recall_of_each_class(tiny):
    graph, split = tiny
    found = evaluate(Oracle(), graph, split.novel, n_way=3, k_shot=1, n_query=4, n_tasks=30)
    assert found.per_class.keys() == {str(c) for c in split.novel}
    assert {recall for recall, _ in found.per_class.values()} == {1.0}
    assert sum(asked for _, asked in found.per_class.values()) == 30 * 12
    assert found.metrics == {"macro_f1": 1.0, "balanced_accuracy": 1.0, "auroc": 1.0}


def test_tasks_of_classes_that_the_model_has_seen_are_refused(tiny):
    graph, split = tiny
    model = fit("pn", graph, split, n_way=2, k_shot=2, steps=1)
    seen = draw_tasks(graph.y, (*split.base[:2], split.validation[0], *split.novel[:2]), 5, 2, 2, 3, 0)
    with pytest.raises(InputError, match=r"2 base classes \(.*1 validation classes \(.*allow_seen=True"):
        evaluate(model, graph, tasks=seen)
    assert evaluate(model, graph, tasks=seen, allow_seen=True).n_tasks == 3
    assert evaluate(model, graph, tasks=draw_tasks(graph.y, split.novel, 2, 2, 2, 3, 0)).n_tasks == 3
    assert evaluate(fit("probe", graph, split), graph, tasks=seen).n_tasks == 3  # which learns from no class


def test_tasks_of_another_graph_are_refused(tiny):
    graph, split = tiny
    model = fit("probe", graph)
    tasks = draw_tasks(graph.y, split.novel, 2, 3, 4, 5)
    other = graph.with_labels(graph.y.roll(1))
    with pytest.raises(InputError, match=r"class \d of task \d has nodes with the labels \d+ and .*drawn from it"):
        evaluate(model, other, tasks=tasks)


def test_tasks_may_have_nodes_whose_labels_the_graph_does_not_know(tiny):
    graph, split = tiny
    model, tasks = fit("probe", graph), draw_tasks(graph.y, split.novel, 2, 3, 4, 5)
    hidden = graph.with_labels(graph.y.index_fill(0, tasks.query.flatten()[::3], -1))
    assert torch.equal(evaluate(model, hidden, tasks=tasks).per_task, evaluate(model, graph, tasks=tasks).per_task)


def test_the_shots_told_are_those_that_every_class_has():
    graph = Graph.from_edges([[0], [1]], y=[0, 1, 0, 1, 1], num_nodes=5)
    tasks = Tasks([[0, 1, 4]], [[0, 1, 1]], [[2, 3]], [[0, 1]])
    assert evaluate(Oracle(), graph, tasks=tasks).k_shot == 1


class Elsewhere(Method):
    """A model on a device of its own, which must find the graph and the tasks there."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(1, device="meta"))

    def embed(self, graph):
        assert graph.device == graph.x.device == self.weight.device
        return graph.x

    def score(self, graph, state, tasks):
        assert tasks.support.device == tasks.query.device == self.weight.device
        return torch.zeros(*tasks.query.shape, tasks.n_way)


def test_the_graph_goes_to_the_device_of_the_model(tiny):
    graph, split = tiny
    assert evaluate(Elsewhere(), graph, split, n_way=2, k_shot=1, n_query=2, n_tasks=3).accuracy == 0.5
    assert graph.device.type == "cpu"
