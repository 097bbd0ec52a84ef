"""The encoder of TENT: where it starts, what it drops, and that some nodes are embedded as all are."""

import pytest
import torch

from fewnode.graph import operators
from fewnode.nn.graph_layers import GraphEncoder, Inputs
from fewnode.nn.smoothing import SmoothingEncoder, start_as_smoothing


@pytest.fixture(scope="module")
def inputs(tiny):
    inputs = Inputs(tiny[0].num_features, "reduced", 12)
    inputs.fit(tiny[0])
    return inputs


@pytest.mark.parametrize(("hidden", "out", "kept"), [(24, 12, 12), (40, 30, 12), (10, 12, 5), (24, 7, 7)])
def test_it_starts_as_two_propagations_of_as_many_inputs_as_it_has_room_for(tiny, inputs, hidden, out, kept):
    graph, _ = tiny
    h = SmoothingEncoder(12, hidden, out, dropout=0.5, smoothing_start=True).eval()(inputs, graph)
    smooth = operators.normalized_adjacency(graph)
    expected = (smooth @ inputs.smoothed(graph))[:, :kept]
    torch.testing.assert_close(h[:, :kept], expected)
    assert (h[:, kept:] == 0).all()


@pytest.mark.parametrize("features", ["reduced", "raw"])
def test_at_rest_it_is_the_encoder_of_the_others(tiny, features):
    graph, _ = tiny
    inputs = Inputs(graph.num_features, features, 12)
    inputs.fit(graph)
    ours = SmoothingEncoder(inputs.width, 6, 4, dropout=0.5, smoothing_start=False).eval()
    theirs = GraphEncoder(inputs.width, 6, 4, dropout=0.5).eval()
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(inputs, graph), theirs(inputs, graph))
    nodes = torch.tensor([5, 0, 17])
    torch.testing.assert_close(ours(inputs, graph, nodes), theirs(inputs, graph)[nodes])


def test_a_unit_is_dropped_at_all_nodes_or_at_none(tiny, inputs):
    """With one unit per output, what is dropped shows as a column of zeros; what is kept counts double."""
    graph, _ = tiny
    encoder = SmoothingEncoder(12, 8, 8, dropout=0.5, smoothing_start=False)
    with torch.no_grad():
        encoder.outer.weight.copy_(torch.eye(8))
        encoder.bias.fill_(10.0)  # no unit is silent anyway
        torch.manual_seed(0)
        trained, whole = encoder.train()(inputs, graph), encoder.eval()(inputs, graph)
    dropped = (trained == 0).all(0)
    assert int(dropped.sum()) == 4
    torch.testing.assert_close(trained[:, ~dropped], 2 * whole[:, ~dropped])


def test_another_encoder_can_start_so_too(tiny, inputs):
    graph, _ = tiny
    encoder = GraphEncoder(12, 24, 12)
    start_as_smoothing(encoder)
    smooth = operators.normalized_adjacency(graph)
    torch.testing.assert_close(encoder(inputs, graph), smooth @ inputs.smoothed(graph))
