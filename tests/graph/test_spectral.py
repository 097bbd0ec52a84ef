import torch

from fewnode.graph.arrays import leading_eigenvectors, random_block


def test_main_directions_are_the_leading_eigenvectors():
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(60, 60, generator=generator)).Q
    values = torch.cat([torch.tensor([9.0, -7.0, 5.0, 3.0]), 0.1 * torch.rand(56, generator=generator)])
    matrix = basis * values @ basis.T
    found, vectors = leading_eigenvectors(lambda v: matrix @ v, random_block(60, 4), 4)
    torch.testing.assert_close(found, torch.tensor([9.0, -7.0, 5.0, 3.0]), atol=1e-3, rtol=1e-3)
    overlap = (vectors * basis[:, :4]).sum(0).abs()
    torch.testing.assert_close(overlap, torch.ones(4), atol=1e-3, rtol=1e-3)


def test_more_directions_than_there_are_rows_gives_all():
    found, vectors = leading_eigenvectors(lambda v: 2 * v, random_block(3, 10), 10)
    torch.testing.assert_close(found, torch.full((3,), 2.0))
    assert vectors.shape == (3, 3)
