"""The encoder of the residual variant: where it starts, what it drops, some nodes as all; its equations: test_tent."""

import pytest
import torch

from fewnode.errors import InputError
from fewnode.graph import operators
from fewnode.methods.tent_residual import SmoothingEncoder, TENTResidual
from fewnode.nn.graph_layers import GraphEncoder, Inputs


@pytest.fixture(scope="module")
def inputs(tiny):
    inputs = Inputs(tiny[0].num_features, 12)
    inputs.fit(tiny[0])
    return inputs


@pytest.mark.parametrize(("hidden", "out", "kept"), [(24, 12, 12), (40, 30, 12), (10, 12, 5), (24, 7, 7)])
def test_it_starts_as_two_propagations_of_as_many_inputs_as_it_has_room_for(tiny, inputs, hidden, out, kept):
    graph, _ = tiny
    encoder = SmoothingEncoder(12, hidden, out, dropout=0.5).eval()
    encoder.radius = None  # before the sphere
    h = encoder(inputs, graph)
    smooth = operators.normalized_adjacency(graph)
    expected = (smooth @ inputs.smoothed(graph))[:, :kept]
    torch.testing.assert_close(h[:, :kept], expected)
    assert (h[:, kept:] == 0).all()


def test_at_rest_it_is_the_encoder_of_the_others(tiny, inputs):
    graph, _ = tiny
    ours = SmoothingEncoder(inputs.width, 6, 4, dropout=0.5).eval()
    theirs = GraphEncoder(inputs.width, 6, 4, dropout=0.5, radius=3.0).eval()
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(ours(inputs, graph), theirs(inputs, graph))
    nodes = torch.tensor([5, 0, 17])
    torch.testing.assert_close(ours(inputs, graph, nodes), theirs(inputs, graph)[nodes])


def test_a_unit_is_dropped_at_all_nodes_or_at_none(tiny, inputs):
    """With one unit per output, what is dropped shows as a column of zeros; what is kept counts double."""
    graph, _ = tiny
    encoder = SmoothingEncoder(12, 8, 8, dropout=0.5)
    encoder.radius = None  # before the sphere
    with torch.no_grad():
        torch.nn.init.normal_(encoder.weight)
        encoder.outer.weight.copy_(torch.eye(8))
        encoder.bias.fill_(10.0)  # no unit is silent anyway
        torch.manual_seed(0)
        trained, whole = encoder.train()(inputs, graph), encoder.eval()(inputs, graph)
    dropped = (trained == 0).all(0)
    assert int(dropped.sum()) == 4
    torch.testing.assert_close(trained[:, ~dropped], 2 * whole[:, ~dropped])


@pytest.mark.parametrize("option", [{"tau_at_test": True}, {"start": "xavier"}, {"normalize": True}])
def test_options_of_tent_that_would_make_it_another_method_are_refused(option):
    with pytest.raises(InputError, match=f"tent_residual has no option {next(iter(option))}"):
        TENTResidual(5, base_classes=(0, 1), **option)
