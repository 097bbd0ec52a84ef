"""GPN's support weights and prototypes, against loops."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewnode.methods.base import Method
from fewnode.methods.gpn import GPN, centrality, support_weights
from fewnode.tasks import Tasks, draw_tasks
from oracles import gcn, gpn


@given(st.lists(st.tuples(st.integers(0, 300), st.floats(-20, 20), st.integers(0, 2)), min_size=1, max_size=8))
def test_weights_are_sigmoids_over_their_sum(supports):
    degrees, values, labels = (
        list(part) for part in zip(*[*supports, (0, 1.0, 0), (5, 1.0, 1), (1, 0.0, 2)], strict=True)
    )
    importance = centrality(torch.tensor([degrees])) * torch.tensor([values], dtype=torch.float64)
    weights = support_weights(importance, torch.tensor([labels]), 3)[0]
    for label in range(3):
        mine = [i for i, y in enumerate(labels) if y == label]
        expected = gpn.weights([degrees[i] for i in mine], [values[i] for i in mine])
        assert weights[label, mine].tolist() == pytest.approx(expected, abs=1e-9)
        assert weights[label].sum() == pytest.approx(1.0)
        assert all(weights[label, i] == 0 for i in range(len(labels)) if i not in mine)


def test_a_node_without_edges_weighs_as_much_as_one_with_a_single_edge():
    assert centrality(torch.tensor([0, 1, 2])).tolist() == pytest.approx([0.0, 0.0, 0.6931471805599453])


def test_a_class_all_of_whose_sigmoids_vanish_still_has_weights():
    weights = support_weights(torch.tensor([[-900.0, -901.0, 5.0]]), torch.tensor([[0, 0, 1]]), 2)
    assert weights[0, 0].tolist() == pytest.approx([0.7310586, 0.2689414, 0.0])


def test_scores_are_distances_to_weighted_means():
    torch.manual_seed(0)
    graph = gcn.small_graph()
    model = GPN(graph.num_features, hidden_channels=6, out_channels=5).double().eval()
    model.inputs.float()  # as the features are
    model.prepare(graph)
    tasks = Tasks(torch.tensor([[0, 3, 1, 5, 2]]), torch.tensor([[0, 0, 1, 1, 1]]), torch.tensor([[8, 9, 2]]))
    value = model.value(torch.relu(model.valuator(model.inputs, graph)))[:, 0]
    z = model.encoder(model.inputs, graph)
    torch.testing.assert_close(model(graph, tasks), gpn.scores(z, graph.degree, value, tasks))


def test_the_loss_of_the_tasks_nodes_alone_is_the_loss_of_the_whole_graph():
    graph = gcn.small_graph()
    model = GPN(graph.num_features).double().eval()
    model.inputs.float()  # as the features are
    model.prepare(graph)
    tasks = draw_tasks(graph.y, [0, 1, 2], 3, 2, 2, 4)
    torch.testing.assert_close(model.loss(graph, tasks), Method.loss(model, graph, tasks))
