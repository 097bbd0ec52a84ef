import torch

from fewnode.nn.graph_layers import rows_at


def test_rows_are_read_as_by_indexing_and_their_slope_does_not_depend_on_threads():
    generator = torch.Generator().manual_seed(0)
    nodes = torch.randint(40, (8, 500), generator=generator)  # each node many times: an unordered sum would show
    pull = torch.randn(8, 500, 64, generator=generator)
    h = torch.randn(40, 64, generator=generator, requires_grad=True)
    before = torch.get_num_threads()
    try:
        gradients = []
        for threads in (1, 2, 2, 2):
            torch.set_num_threads(threads)
            gradients += torch.autograd.grad(rows_at(h, nodes), h, pull)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(rows_at(h, nodes), h[nodes]) and torch.equal(rows_at(h[:, 0], nodes), h[nodes][..., 0])
    assert all(torch.equal(gradients[0], gradient) for gradient in gradients)
    torch.testing.assert_close(gradients[0], torch.zeros(40, 64).index_add(0, nodes.flatten(), pull.flatten(0, 1)))
