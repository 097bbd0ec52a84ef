"""G-Meta's subgraphs, their network and the loss of the supports, against slow versions."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fewnode import Graph, draw_tasks
from fewnode.methods import gmeta
from fewnode.methods.gmeta import GMeta
from oracles import gmeta as oracle


@pytest.fixture(scope="module")
def graph() -> Graph:
    random = np.random.default_rng(5)
    edges = random.integers(28, size=(2, 45))  # nodes 28 and 29 are isolated
    return Graph.from_edges(edges, random.normal(size=(30, 5)).astype(np.float32), np.arange(30) % 3, num_nodes=30)


def model_on(graph, **options) -> GMeta:
    torch.manual_seed(0)
    model = GMeta(graph.num_features, rank=4, hidden_channels=6, inner_steps=2, inner_rate=0.3, **options)
    model.prepare(graph)
    return model.double()


@pytest.mark.parametrize("radius", [None, 3.0])
def test_every_node_is_embedded_as_on_its_own_cut_out_graph(graph, radius):
    model = model_on(graph, radius=radius)
    nodes = torch.arange(30).view(3, 10)
    inputs, pool = model.embed(graph).rows(nodes)
    ours = torch.stack([model.encoder(inputs[t], pool[t]) for t in range(3)]).flatten(0, 1)
    x = model.inputs.unit(graph)
    theirs = [oracle.embedding(graph, model.encoder, x, v) for v in range(30)]
    torch.testing.assert_close(ours, torch.stack(theirs), atol=1e-6, rtol=1e-6)


def test_support_loss_is_protomamls(graph):
    model = model_on(graph)
    y = torch.tensor([[0, 1, 0, 2, 1, 0]])
    inputs, pool = model.embed(graph).rows(torch.tensor([[0, 1, 3, 2, 4, 28]]))
    ours = model.task_loss(model.start(3), inputs[0], pool[0], F.one_hot(y, 3).to(inputs.dtype)[0])
    torch.testing.assert_close(ours, oracle.support_loss(model.encoder(inputs[0], pool[0]), y[0].tolist()))


def test_scores_are_distances_to_prototypes_after_the_steps(graph):
    model = model_on(graph)
    tasks = draw_tasks(graph.y, [0, 1, 2], 3, 2, 2, 2, 0)
    x = model.inputs.unit(graph)
    weights = list(model.encoder.parameters())
    for task in range(2):
        adapted = model_on(graph).encoder
        values = [w.detach() for w in weights]
        for _ in range(2):
            adapted.load_state_dict(dict(zip(dict(adapted.named_parameters()), values, strict=True)))
            z = torch.stack([oracle.embedding(graph, adapted, x, v) for v in tasks.support[task].tolist()])
            loss = oracle.support_loss(z, tasks.support_y[task].tolist())
            gradients = torch.autograd.grad(loss, list(adapted.parameters()))
            values = [value - 0.3 * gradient for value, gradient in zip(values, gradients, strict=True)]
        adapted.load_state_dict(dict(zip(dict(adapted.named_parameters()), values, strict=True)))
        z, q = (
            torch.stack([oracle.embedding(graph, adapted, x, v) for v in nodes[task].tolist()])
            for nodes in (tasks.support, tasks.query)
        )
        means = torch.stack([z[tasks.support_y[task] == c].mean(0) for c in range(3)])
        expected = -(torch.cdist(q, means) ** 2)
        torch.testing.assert_close(model(graph, tasks)[task], expected, atol=1e-4, rtol=1e-4)


def test_subgraphs_cut_in_small_batches_are_the_same(graph):
    whole = gmeta.local_subgraphs(graph, 1000)
    again = Graph.from_edges(np.stack(graph.to_scipy().nonzero()), graph.x, graph.y, num_nodes=30)
    for value, same in zip(gmeta.local_subgraphs(again, 1000, walks=20), whole, strict=True):
        assert torch.equal(value.to_dense(), same.to_dense())


def test_a_capped_subgraph_keeps_its_centre_and_depends_on_nothing_else(graph):
    hub = int(graph.degree.argmax())
    keys, middle = gmeta._two_hops(graph, torch.tensor([hub, 0, 28]), 4)
    sizes = torch.bincount(keys // 30, minlength=3)
    full = [len(oracle.subgraph(graph, v)[0]) for v in (hub, 0, 28)]
    assert sizes.tolist() == [min(4, size) for size in full]
    assert torch.isin(middle, keys).all()
    for place, node in enumerate((hub, 0, 28)):
        alone, _ = gmeta._two_hops(graph, torch.tensor([node]), 4)
        assert torch.equal(alone % 30, keys[keys // 30 == place] % 30)
        assert set((alone % 30).tolist()) <= set(oracle.subgraph(graph, node)[0])


def test_a_capped_model_scores_finitely(graph):
    model = model_on(graph, max_nodes=3)
    assert torch.isfinite(model(graph, draw_tasks(graph.y, [0, 1, 2], 3, 1, 2, 2, 0))).all()


def test_any_number_of_classes(graph):
    assert model_on(graph)(graph, draw_tasks(graph.y, [0, 1], 2, 2, 2, 2, 0)).shape == (2, 4, 2)
