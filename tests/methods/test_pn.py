"""The prototypical network and the encoder it shares, against loops."""

import pytest
import torch

from fewnode.graph import Graph
from fewnode.methods.base import Method
from fewnode.methods.pn import PN
from fewnode.nn.graph_layers import GraphEncoder, Inputs, renumbered
from fewnode.tasks import Tasks, draw_tasks
from oracles import gcn, gpn

UNEQUAL = Tasks(
    torch.tensor([[3, 4, 5, 6], [7, 0, 1, 2]]),
    torch.tensor([[0, 0, 0, 1], [1, 0, 0, 0]]),
    torch.tensor([[8, 9], [1, 3]]),
)


def make(graph: Graph, **options: object) -> PN:
    torch.manual_seed(1)
    model = PN(graph.num_features, hidden_channels=6, out_channels=5, **options).double().eval()  # type: ignore[arg-type]
    if model.use_graph:
        model.inputs.float()  # as the features are
    model.prepare(graph)
    return model


@pytest.mark.parametrize("options", [{}, {"radius": None}, {"use_graph": False}])
def test_scores_are_distances_to_class_means(options):
    graph = gcn.small_graph()
    model = make(graph, **options)
    z = model.embed(graph)
    ones = torch.ones(graph.num_nodes)
    expected = gpn.scores(z, ones, ones, UNEQUAL)
    torch.testing.assert_close(model(graph, UNEQUAL), expected)


@pytest.mark.parametrize("sparse", [True, False])
def test_the_encoder_is_two_graph_convolutions(sparse):
    graph = gcn.small_graph(sparse=sparse)
    inputs, encoder = Inputs(graph.num_features), GraphEncoder(graph.num_features, 6, 5).double()
    inputs.fit(graph)
    x = inputs.unit(graph).double()
    expected = gcn.encode(encoder, x, gcn.propagation(gcn.pairs(graph), graph.num_nodes))
    torch.testing.assert_close(encoder(inputs, graph), expected, rtol=1e-6, atol=1e-6)


def test_some_nodes_are_embedded_as_all_are():
    graph = gcn.small_graph()
    model = make(graph)
    nodes = torch.tensor([5, 0, 2, 17, 3])
    torch.testing.assert_close(model.embed(graph, nodes), model.embed(graph)[nodes])


def test_embeddings_lie_on_the_sphere_and_nodes_that_say_nothing_have_finite_slopes():
    graph = gcn.small_graph()
    model = make(graph, radius=4.0).train()
    assert float(model.embed(graph)[5].norm().detach()) == pytest.approx(4.0, rel=1e-2)
    tasks = Tasks(torch.tensor([[2, 5]]), torch.tensor([[0, 1]]), torch.tensor([[6, 7]]), torch.tensor([[0, 1]]))
    model.loss(graph, tasks).backward()
    assert all(weight.grad is not None and weight.grad.abs().max() < 1e4 for weight in model.parameters())


@pytest.mark.parametrize("options", [{}, {"use_graph": False}])
def test_the_loss_of_the_tasks_nodes_alone_is_the_loss_of_the_whole_graph(options):
    graph = gcn.small_graph()
    model = make(graph, **options)
    tasks = draw_tasks(graph.y, [0, 1, 2], 3, 2, 2, 4)
    torch.testing.assert_close(model.loss(graph, tasks), Method.loss(model, graph, tasks))


def test_the_weak_form_sees_no_edges():
    graph = gcn.small_graph()
    model = make(graph, use_graph=False)
    lonely = Graph.from_edges(torch.empty(2, 0, dtype=torch.long), graph.features_scipy(), graph.y)
    torch.testing.assert_close(model(graph, UNEQUAL), model(lonely, UNEQUAL))


def test_renumbered_tasks_name_the_same_nodes():
    nodes, local = renumbered(UNEQUAL)
    assert nodes.tolist() == sorted(set(UNEQUAL.support.flatten().tolist() + UNEQUAL.query.flatten().tolist()))
    assert torch.equal(nodes[local.support], UNEQUAL.support) and torch.equal(nodes[local.query], UNEQUAL.query)
