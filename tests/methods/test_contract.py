"""What every method must do, whatever it is: one contract, run over all of them."""

import inspect
from functools import cache

import numpy as np
import pytest
import torch
from scipy import sparse as sp

from fewnode import Graph, Method, methods
from fewnode.training.contract import CHECKS, Subject, check_method
from fewnode.training.evaluate import score_tasks

VARIANTS = {
    "tent": [{}, {"preset": "paper", "normalize": True, "learning_rate": 0.005, "clip": 1.0}],
    "probe": [{}, {"head": "ridge"}, {"head": "logistic"}],
}
SMALLER = {  # nothing in the contract depends on how wide a method is or how many walks it takes
    "rale": {"rank": 32, "channels": 16, "heads": 2, "n_walks": 8, "n_paths": 2, "n_hubs": 4},
    "gmeta": {"rank": 32, "hidden_channels": 32, "out_channels": 16, "inner_steps": 5},
}
CASES = [(name, options) for name in methods.names() for options in VARIANTS.get(name, [{}])]
IDS = ["-".join([name, *map(str, options.values())]) for name, options in CASES]


@cache
def subject(case: int) -> Subject:
    name, options = CASES[case]
    return Subject(methods.find(name), {**SMALLER.get(name, {}), **options})


every_method = pytest.mark.parametrize("case", range(len(CASES)), ids=IDS)


@every_method
@pytest.mark.parametrize("check", CHECKS)
def test_contract(case, check):
    CHECKS[check](subject(case))


class Leaky(Method):
    """Looks at the labels of queries, has a weight that nothing reaches, and forgets a buffer."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.unused = torch.nn.Parameter(torch.zeros(1))
        self.used = torch.nn.Parameter(torch.ones(1))

    def embed(self, graph):
        return graph.y

    def score(self, graph, state, tasks):
        scores = torch.nn.functional.one_hot(state[tasks.query].clamp(min=0) % tasks.n_way, tasks.n_way).float()
        return scores * self.used + scores.mean(1, keepdim=True)


def test_the_checks_tell_what_is_wrong_with_a_method():
    found = check_method(Leaky)
    assert "labels of queries change the scores" in found["scores_do_not_depend_on_the_classes_of_queries"]
    assert "no gradient reaches unused" in found["every_trainable_parameter_gets_a_gradient"]
    assert found["a_query_alone_scores_as_among_others"].startswith("failed")
    assert found["scores_are_finite_and_shaped"] == found["save_and_load_give_the_same_scores"] == "passed"


def copies_of(graph: Graph, copies: int = 40) -> Graph:
    """Many copies side by side, with no edge between them: two tasks then touch little of the graph."""
    adjacency = graph.to_scipy().tocoo()
    shift = graph.num_nodes * np.arange(copies)[:, None]
    edges = np.stack([(part + shift).ravel() for part in (adjacency.col, adjacency.row)])
    x = sp.vstack([graph.features_scipy()] * copies).tocsr()
    return Graph.from_edges(edges, x, np.tile(graph.y.numpy(), copies), num_nodes=copies * graph.num_nodes)


@every_method
def test_a_local_method_reads_only_what_is_near_the_tasks(case, monkeypatch):
    """Few tasks on a large graph get the scores that a pass over all of it gives, without that pass."""
    model = subject(case).untrained
    if not model.local:
        assert "nodes" not in inspect.signature(model.embed).parameters
        return
    large, tasks = copies_of(subject(case).world[0]), subject(case).tasks()[:2]
    with torch.no_grad():
        expected = model.eval().score(large, model.embed(large), tasks)
    whole, asked = model.embed, []
    monkeypatch.setattr(model, "embed", lambda graph, nodes=None: asked.append(nodes) or whole(graph, nodes))
    torch.testing.assert_close(score_tasks(model, large, tasks), expected, rtol=1e-4, atol=1e-5)
    assert [len(nodes) for nodes in asked] == [len(torch.unique(torch.cat([tasks.support, tasks.query], 1)))]


@every_method
def test_whether_edge_weights_are_read_is_declared(case):
    """What is declared decides about a note in the card."""
    graph, split = subject(case).world
    arrays = graph.edge_arrays()
    weights = np.random.default_rng(0).gamma(2, 1, arrays["edge_index"].shape[1]) + 0.1
    alike = np.equal(*graph.y.numpy()[arrays["edge_index"]])
    weighted = Graph.from_edges(
        arrays["edge_index"], graph.features_scipy(), graph.y, edge_weight=weights * (1 + 4 * alike), num_nodes=600
    )
    models = (subject(case).fit(each, split, steps=0) for each in (graph, weighted))
    tasks = subject(case).tasks()
    scores = [subject(case).scores(tasks, *pair) for pair in zip((graph, weighted), models, strict=True)]
    assert ("weights" in subject(case).kind.reads_edges) != torch.allclose(*scores, atol=1e-6)
