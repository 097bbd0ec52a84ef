import math

import pytest
import torch

from fewnode.methods import vantage as module
from fewnode.methods.vantage import Pool


def unit(row):
    length = math.sqrt(sum(number * number for number in row))
    return [number / length for number in row] if length else row


def written_out(parts, lengths, mean, count):
    """Join the parts of each node, sort all nodes by their cosine with ``mean``, add up the first."""
    rows = [
        unit([length * number for length, part in zip(lengths, parts, strict=True) for number in part[node]])
        for node in range(len(parts[0]))
    ]
    alike = [sum(a * b for a, b in zip(row, mean, strict=True)) for row in rows]
    chosen = sorted(range(len(rows)), key=lambda node: -alike[node])[:count]
    return unit([sum(column) for column in zip(*(rows[node] for node in chosen), strict=True)])


@pytest.mark.parametrize("lengths", [(0.9, 0.4, 0.2), (0.0, 0.5, 0.5)])
def test_a_search_without_joined_rows_is_that_among_joined_rows(lengths, monkeypatch):
    monkeypatch.setattr(module, "SHARE", 0.12)
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(50, width, generator=generator) for width in (5, 3, 4)]
    parts[0][7] = parts[1][7] = parts[2][7] = 0.0  # a node that nothing is known of
    means = torch.randn(2, 3, 12, generator=generator)
    found = Pool(parts).pseudo_supports(means, torch.tensor(lengths))
    plain = [part.tolist() for part in parts]
    expected = [[written_out(plain, lengths, mean, 6) for mean in task] for task in means.tolist()]
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("nodes", "count"), [(10, 1), (1_000, 10)])
def test_pseudo_supports_are_a_share_of_where_they_are_looked_for(nodes, count):
    generator = torch.Generator().manual_seed(0)
    part, mean = torch.randn(nodes, 4, generator=generator), torch.randn(4, generator=generator)
    expected = written_out([part.tolist()], (1.0,), mean.tolist(), count)
    found = Pool([part]).pseudo_supports(mean[None], torch.ones(1))
    torch.testing.assert_close(found, torch.tensor([expected]), atol=1e-5, rtol=1e-4)
