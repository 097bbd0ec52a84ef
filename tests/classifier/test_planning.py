"""What a graph larger than memory will cost."""

import json

import pytest

from fewnode import InputError
from fewnode.classifier.planning import Rates, plan
from fewnode.cli import main

RATES = Rates(1e-9, 1e-11, 1e-9, 1e-11)


@pytest.fixture(autouse=True)
def fixed(monkeypatch):
    monkeypatch.setattr(Rates, "measured", classmethod(lambda cls, nodes, degree, folder=None: RATES))


def test_twice_the_graph_costs_twice():
    one, two = plan(1_000_000, 7_000_000, 128, memory=1 << 33), plan(2_000_000, 14_000_000, 128, memory=1 << 33)
    for name in ("views_seconds", "known_seconds", "predict_seconds", "disk"):
        assert getattr(two, name) == pytest.approx(2 * getattr(one, name), rel=0.01)
    assert one.disk_while_made > one.disk and two.blocks >= one.blocks >= 1 and two.least_memory > one.least_memory


def test_smoothing_is_counted_arc_by_arc():
    """128 columns: 44 passes for words, 14 for links; 13 of 144 columns for the directions of links."""
    found = plan(1000, 5_000_000, 128, memory=1 << 33)
    assert found.views_seconds == pytest.approx(1.3 * 1e7 * (128 * 58 + 144 * 13) * 1e-9, rel=0.05)


def test_the_command_prints_it(capsys):
    asked = ["plan", "--nodes", "111e6", "--edges", "1.6e9", "--columns", "128", "--memory", "64GB"]
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory"] == 64 << 30
    assert main(asked) == 0
    assert "blocks; at least" in capsys.readouterr().out


def test_nonsense_is_refused():
    with pytest.raises(InputError, match="nodes is 0; it is at least 1"):
        plan(0, 1, 1)
    with pytest.raises(InputError, match="labelled is 2; it is a share"):
        plan(1, 1, 1, labelled=2)


def test_rates_are_measured(monkeypatch, tmp_path):
    monkeypatch.undo()
    found = Rates.measured(1 << 20, 4.0, tmp_path, most=1 << 10)
    assert min(found.arc, found.product, found.byte, found.thin) > 0 and not list(tmp_path.iterdir())
