"""MAML against a dense GCN whose inner steps are written out, and its head of fixed width."""

import numpy as np
import pytest
import torch

from fewnode import ClassSplit, Graph, Tasks, draw_tasks
from fewnode.methods.base import cross_entropy
from fewnode.methods.maml import MAML
from oracles import maml as oracle


@pytest.fixture(scope="module")
def world(tiny) -> tuple[Graph, ClassSplit]:
    """The tiny graph with dense features, and three validation classes."""
    graph, split = tiny
    adjacency = graph.to_scipy().tocoo()
    dense = Graph.from_edges(np.stack([adjacency.col, adjacency.row]), graph.x.to_dense(), graph.y)
    return dense, ClassSplit(split.base, (*split.validation, split.novel[0]), split.novel[1:])


SMALL = {"rank": 6, "hidden_channels": 5, "out_channels": 4, "inner_steps": 2, "inner_rate": 0.4}


def model_on(data, **options) -> MAML:
    torch.manual_seed(0)
    model = MAML(data.num_features, **{**SMALL, **options})
    model.prepare(data)
    return model.double()


def test_scores_and_meta_gradient_are_those_of_the_loops(world):
    graph, split = world
    model = model_on(graph)
    tasks = draw_tasks(graph.y, split.base, 3, 2, 3, 2, 0)
    x = model.inputs.unit(graph)
    theirs = torch.stack([oracle.scores(model, graph, x, tasks, task) for task in range(2)])
    ours = model(graph, tasks)
    torch.testing.assert_close(ours, theirs)
    gradients = (
        torch.autograd.grad(cross_entropy(scores, tasks), list(model.parameters())) for scores in (ours, theirs)
    )
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


def test_scoring_leaves_the_weights_alone(world):
    graph, split = world
    model = model_on(graph)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        model(graph, draw_tasks(graph.y, split.novel, 3, 2, 3, 2, 0))
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_many_queries_and_tasks_score_as_few(world, monkeypatch):
    from fewnode.methods import base

    graph, split = world
    model = model_on(graph)
    tasks = draw_tasks(graph.y, split.novel, 3, 2, 10, 6, 0)
    whole = model(graph, tasks)
    monkeypatch.setattr(base.InnerLoopMethod, "rows_at_a_time", 100)
    monkeypatch.setattr(base.InnerLoopMethod, "queries_at_a_time", 7)
    torch.testing.assert_close(model(graph, tasks), whole)


def test_a_head_at_zero_takes_any_number_of_classes_in_any_order(world):
    graph, split = world
    model = model_on(graph)
    assert model(graph, draw_tasks(graph.y, split.base, 4, 2, 3, 2, 0)).shape == (2, 12, 4)
    tasks = draw_tasks(graph.y, split.base, 3, 2, 3, 2, 0)
    order = torch.tensor([2, 0, 1])
    turned = Tasks(tasks.support, order[tasks.support_y], tasks.query, None, 3)
    torch.testing.assert_close(model(graph, turned)[..., order], model(graph, tasks))


@pytest.mark.parametrize("sparse", [False, True])
def test_without_a_graph_it_sees_a_nodes_own_raw_features_only(world, tiny, sparse):
    graph, split = tiny if sparse else world
    model = model_on(graph, use_graph=False)
    tasks = draw_tasks(graph.y, split.base, 3, 2, 3, 2, 0)
    rows = model.embed(graph).rows(tasks.query)[0]
    torch.testing.assert_close(rows, graph.x.to_dense()[tasks.query].double())
    alone = Graph.from_edges([[0], [1]], graph.features_scipy(), graph.y)
    torch.testing.assert_close(model(graph, tasks), model(alone, tasks))
