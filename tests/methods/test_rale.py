"""RALE's paths, path attention, masks and locations against slow loops."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fewnode import Graph, draw_tasks
from fewnode.methods.rale import RALE, Choice, PathAttention, hubs, join, reach, to_hubs
from oracles import rale as oracle

SMALL = {"rank": 4, "channels": 8, "heads": 2, "n_walks": 4, "n_paths": 3, "n_hubs": 3, "hub_share": 0.2}


@pytest.fixture(scope="module")
def graph() -> Graph:
    random = np.random.default_rng(5)
    edges = random.integers(28, size=(2, 45))  # nodes 28 and 29 are isolated
    return Graph.from_edges(edges, random.normal(size=(30, 5)).astype(np.float32), np.arange(30) % 3, num_nodes=30)


def model_on(graph, **options) -> RALE:
    torch.manual_seed(0)
    model = RALE(graph.num_features, **{**SMALL, "dropout": 0.0, **options})
    model.prepare(graph)
    return model.double()


def is_walk(graph, nodes) -> bool:
    joined = graph.to_scipy().toarray() > 0
    return all(joined[a, b] for a, b in pairwise(nodes))


def test_reach_lists_each_node_once_with_its_shortest_way(graph):
    found = reach(graph, torch.arange(30).view(2, 15), 4, 3)
    for task, place in np.ndindex(2, 15):
        walks = found.walks[task, place].tolist()
        expected = {}
        for walk in walks:
            for step, node in enumerate(walk):
                expected[node] = min(step, expected.get(node, 9))
        real = found.node[task, place] < 30
        nodes, steps = found.node[task, place][real].tolist(), found.steps[task, place][real].tolist()
        assert nodes == sorted(nodes) and dict(zip(nodes, steps, strict=True)) == expected
        for node, walk, step in zip(nodes, found.walk[task, place][real].tolist(), steps, strict=True):
            assert walks[walk][step] == node


def test_paths_run_along_edges_from_end_to_end_and_none_is_missed(graph):
    here, there = torch.tensor([[0, 1, 5, 28], [2, 3, 9, 7]]), torch.tensor([[4, 6, 0], [3, 8, 29]])
    a, b = reach(graph, here, 4, 3), reach(graph, there, 4, 3)
    paths = join(a, b, 3)
    for task, u, s in np.ndindex(2, 4, 3):
        ways = [
            dict(zip(r.node[task, i].tolist(), r.steps[task, i].tolist(), strict=True)) for r, i in ((a, u), (b, s))
        ]
        shared = (ways[0].keys() & ways[1].keys()) - {30}
        total = sorted(ways[0][v] + ways[1][v] + 1 for v in shared if abs(ways[0][v] - ways[1][v]) <= 1)
        start, end = int(here[task, u]), int(there[task, s])
        lengths = paths.length[task, u, s].tolist()
        assert lengths == ([] if start == end else total)[:3] + [0] * (3 - min(3, 0 if start == end else len(total)))
        for number, length in enumerate(lengths):
            nodes = paths.node[task, u, s, number, :length].tolist()
            if length:
                assert (nodes if number % 2 == 0 else nodes[::-1])[:: max(1, length - 1)] == [start, end]
                assert is_walk(graph, nodes)


def test_ways_to_hubs_end_at_the_nearest_hubs(graph):
    chosen = hubs(graph, 0.2)
    found = reach(graph, torch.arange(30)[None], 4, 3)
    ways = to_hubs(found, chosen, 3)
    for node in range(30):
        reached = {
            v: s
            for v, s in zip(found.node[0, node].tolist(), found.steps[0, node].tolist(), strict=True)
            if v < 30 and s
        }
        steps = sorted(s for v, s in reached.items() if chosen[v])[:3]
        lengths = ways.length[0, node].tolist()
        assert lengths == [s + 1 for s in steps] + [0] * (3 - len(steps))
        for number, length in enumerate(lengths):
            nodes = ways.node[0, node, number, :length].tolist()
            assert not length or (nodes[0] == node and bool(chosen[nodes[-1]]) and is_walk(graph, nodes))


def test_path_attention_is_the_loops_and_does_not_see_behind_the_end():
    torch.manual_seed(0)
    model = PathAttention(8, 2, 7).double()
    nodes, lengths = torch.randn(5, 7, 8, dtype=torch.float64), torch.tensor([7, 1, 3, 5, 2])
    ours = model(nodes, lengths)
    theirs = [oracle.path_embedding(model, list(path[:n])) for path, n in zip(nodes, lengths.tolist(), strict=True)]
    torch.testing.assert_close(ours, torch.stack(theirs))
    masked = torch.arange(7) >= lengths[:, None]
    torch.testing.assert_close(model(torch.where(masked[..., None], 100.0, nodes), lengths), ours)


def test_choice_weighs_what_is_known_and_is_zero_without_anything():
    torch.manual_seed(0)
    model = Choice(4).double()
    r = torch.randn(3, 5, 4, dtype=torch.float64)
    known = torch.tensor([[True] * 5, [False, True, False, True, False], [False] * 5])
    theirs = [
        oracle.choice(model, [v for v, k in zip(*row, strict=True) if k], 4) for row in zip(r, known, strict=True)
    ]
    torch.testing.assert_close(model(r, known), torch.stack(theirs))


def test_locations_are_those_of_loops_over_paths(graph):
    model = model_on(graph)
    state = model.embed(graph)
    support, y = torch.tensor([[0, 1, 2, 3, 28]]), torch.tensor([[0, 1, 2, 0, 1]])
    nodes = torch.tensor([[4, 5, 9, 29, 0]])
    here, there = reach(graph, nodes, 4, 3), reach(graph, support, 4, 3)
    paths, ways = join(here, there, 3), to_hubs(here, state[1], 3)
    ours = model.locate(*state, nodes, here, there, F.one_hot(y, 3).to(torch.float64))[0]

    def real(found, *at):
        return [n[:k].tolist() for n, k in zip(found.node[at], found.length[at].tolist(), strict=True) if k]

    theirs = [
        oracle.location(
            model,
            state[0],
            int(nodes[0, u]),
            {s: real(paths, 0, u, s) for s in range(5)},
            y[0].tolist(),
            real(ways, 0, u),
        )
        for u in range(5)
    ]
    assert (paths.length > 4).any() and (paths.length == 0).any() and ((paths.length > 0) & (paths.length <= 4)).any()
    torch.testing.assert_close(ours, torch.stack(theirs))


def test_the_head_takes_one_gradient_step_from_zero(graph):
    """Scores and gradients of a batch of tasks against the step written out with autograd."""
    model = model_on(graph, inner_rate=0.7)
    tasks, state = draw_tasks(graph.y, [0, 1, 2], 3, 2, 2, 2, 0), model.embed(graph)
    target, there = F.one_hot(tasks.support_y, 3).to(torch.float64), reach(graph, tasks.support, 4, 3)
    z = model.locate(*state, tasks.support, there, there, target)
    q = model.locate(*state, tasks.query, reach(graph, tasks.query, 4, 3), there, target)
    theirs = []
    for task in range(2):
        head = [torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in ((3, z.shape[-1]), (3,))]
        scores = torch.nn.functional.elu(z[task] @ head[0].T + head[1])
        loss = torch.nn.functional.cross_entropy(scores, tasks.support_y[task])
        weight, bias = (-0.7 * gradient for gradient in torch.autograd.grad(loss, head, create_graph=True))
        theirs.append(torch.nn.functional.elu(q[task] @ weight.T + bias))
    ours = model(graph, tasks)
    torch.testing.assert_close(ours, torch.stack(theirs))
    gradients = (
        torch.autograd.grad(scores.square().sum(), list(model.parameters()), retain_graph=True)
        for scores in (ours, torch.stack(theirs))
    )
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


def test_batches_of_tasks_and_queries_score_alike(graph, monkeypatch):
    from fewnode.methods import rale

    model, tasks = model_on(graph), draw_tasks(graph.y, [0, 1, 2], 3, 2, 4, 5, 0)
    whole = model(graph, tasks)
    monkeypatch.setattr(rale, "PATHS", 100)
    monkeypatch.setattr(rale, "QUERIES", 5)
    torch.testing.assert_close(model(graph, tasks), whole)


def test_any_number_of_classes(graph):
    assert model_on(graph)(graph, draw_tasks(graph.y, [0, 1], 2, 2, 2, 2, 0)).shape == (2, 4, 2)


def test_features_may_be_missing_edges_too():
    lonely = Graph.from_edges(np.zeros((2, 0), int), np.eye(6, dtype=np.float32), [0, 0, 0, 1, 1, 1], num_nodes=6)
    model = model_on(lonely)
    assert torch.isfinite(model(lonely, draw_tasks(lonely.y, [0, 1], 2, 1, 2, 1, 0))).all()
