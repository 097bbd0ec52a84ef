"""The self-supervised losses and views, against loops; training that sees no label."""

import pytest
import torch

from fewnode.graph import Graph
from fewnode.methods import tlp as module
from fewnode.methods.tlp import TLP, contrast, cut_around, disagreement, dropped_adjacency, random_view
from fewnode.tasks import draw_tasks
from oracles import gcn, tlp


def make(objective: str = "bgrl") -> TLP:
    torch.manual_seed(0)
    model = TLP(12, objective=objective, hidden_channels=8, out_channels=6, sample=30)  # type: ignore[arg-type]
    model.prepare(gcn.small_graph())
    return model


def test_the_losses_agree_with_loops():
    one, two = torch.randn(2, 9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    assert float(disagreement(one, two)) == pytest.approx(tlp.bgrl(one, two))
    assert float(contrast(one, two, 0.4)) == pytest.approx(tlp.grace(one, two, 0.4))


@pytest.mark.parametrize("directed", [False, True])
def test_a_view_is_the_propagation_over_the_edges_kept(directed):
    graph = gcn.small_graph()
    if directed:
        rows, columns = graph.to_scipy().nonzero()
        edges = torch.tensor([columns[::3].tolist(), rows[::3].tolist()])
        graph = Graph.from_edges(edges, graph.features_scipy(), graph.y, directed=True)
    keep = torch.rand(len(graph.indices), generator=torch.Generator().manual_seed(1)) < 0.5
    operator = dropped_adjacency(graph, keep)
    dense = operator.matrix.to_dense().double()
    left = {(int(j), int(i)) for i, j in (dense != 0).nonzero() if i != j}
    assert 0 < len(left) < len(graph.indices) and left < gcn.pairs(graph)
    assert directed or left == {(j, i) for i, j in left}
    torch.testing.assert_close(dense, gcn.propagation(left, graph.num_nodes), rtol=1e-5, atol=1e-6)
    assert torch.equal(operator.T.matrix.to_dense(), operator.matrix.to_dense().t())


def test_nothing_dropped_is_the_graph_itself():
    graph, model = gcn.small_graph(), make().eval()
    chosen = torch.tensor([5, 0, 17])
    seen = model.encoder.around(*random_view(model.inputs.unit(graph), graph, chosen, 0.0, 0.0))
    torch.testing.assert_close(seen, model.encoder(model.inputs, graph)[chosen])


def test_what_is_read_around_nodes_is_what_the_whole_view_has_there():
    """Two dense convolutions over the whole view, with the masked columns of the inputs; values and gradients."""
    graph = gcn.small_graph()
    model = TLP(12, hidden_channels=8, out_channels=6).double()
    model.inputs.float()  # as the features are
    model.prepare(graph)
    chosen, encoder = torch.tensor([5, 0, 17, 5]), model.encoder.eval()
    torch.manual_seed(2)
    columns = torch.rand(12) >= 0.3
    smooth = dropped_adjacency(graph, torch.rand(len(graph.indices)) >= 0.4).matrix.to_dense().double()
    assert 0 < int(columns.sum()) < 12
    x = model.inputs.unit(graph).double() * columns
    h = encoder.middle(smooth @ x @ encoder.weight + encoder.bias)
    expected = encoder.end(smooth @ h @ encoder.outer.weight.t() + encoder.outer.bias)[chosen]
    torch.manual_seed(2)
    seen = encoder.around(*random_view(model.inputs.unit(graph), graph, chosen, 0.4, 0.3))
    torch.testing.assert_close(seen, expected, rtol=1e-5, atol=1e-6)
    gradients = [torch.autograd.grad(out.square().sum(), list(encoder.parameters())) for out in (seen, expected)]
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


def path(n: int) -> Graph:
    features = torch.randn(n, 12, generator=torch.Generator().manual_seed(5))
    return Graph.from_edges(torch.stack([torch.arange(n - 1), torch.arange(1, n)]), features, torch.zeros(n).long())


def test_a_cut_holds_what_two_layers_read():
    part, nodes = cut_around(path(20), torch.tensor([9, 0]))
    assert nodes.tolist() == [0, 1, 2, 7, 8, 9, 10, 11]
    assert gcn.pairs(part) == {(i, j) for i in range(8) for j in range(8) if abs(nodes[i] - nodes[j]) == 1}


def test_a_cut_around_a_whole_component_is_embedded_as_in_the_graph():
    line = path(24)
    arcs = [(i, i + 1) for i in range(23) if i % 4 != 3]  # six pieces of four nodes
    graph = Graph.from_edges(torch.tensor(arcs).t(), line.features_scipy(), line.y, num_nodes=24)
    model = make().eval()
    model.prepare(graph)
    part, nodes = cut_around(graph, torch.tensor([1, 13, 14]))
    assert len(nodes) == 8
    x = model.inputs.unit(graph)[nodes]
    seen = model.encoder.around(*random_view(x, part, torch.arange(len(nodes)), 0.0, 0.0))
    torch.testing.assert_close(seen, model.encoder(model.inputs, graph)[nodes])


@pytest.mark.parametrize("objective", ["bgrl", "grace"])
def test_a_large_graph_is_trained_on_cuts(objective, monkeypatch):
    graph = gcn.small_graph()
    model = make(objective)
    tasks = draw_tasks(graph.y, [0, 1], 2, 1, 1, 1)
    losses = []
    for limit in (graph.num_nodes, graph.num_nodes - 1):  # with a sample of all nodes the cut is the graph itself
        monkeypatch.setattr(module, "WHOLE", limit)
        torch.manual_seed(4)
        model.sample = graph.num_nodes
        losses.append(float(model.eval().loss(graph, tasks).detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_target_follows_the_encoder():
    model = make()
    before, goal = model.target.weight.clone(), model.encoder.weight
    model.follow()
    torch.testing.assert_close(model.target.weight, 0.99 * before + 0.01 * goal)
    assert not any(weight.requires_grad for weight in model.target.parameters())


@pytest.mark.parametrize("objective", ["bgrl", "grace"])
def test_labels_and_tasks_change_nothing(objective):
    graph = gcn.small_graph()
    losses = []
    for view, shots in ((graph, 1), (graph.with_labels(torch.full_like(graph.y, -1)), 2)):
        model = make(objective)
        losses.append(model.loss(view, draw_tasks(graph.y, [0, 1], 2, shots, 1, 1)))
    assert torch.equal(*losses) and not TLP.uses_labels
    losses[0].backward()
    assert torch.isfinite(losses[0])
