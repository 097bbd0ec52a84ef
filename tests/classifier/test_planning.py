"""What a graph larger than memory needs."""

import json

import pytest

from fewnode import InputError
from fewnode.classifier.planning import plan
from fewnode.cli import main


def test_twice_the_graph_needs_twice_the_disk():
    one, two = plan(1_000_000, 7_000_000, 128, memory=1 << 33), plan(2_000_000, 14_000_000, 128, memory=1 << 33)
    for name in ("disk", "disk_while_made"):
        assert two[name] == 2 * one[name]
    assert one["disk_while_made"] > one["disk"] and two["least_memory"] > one["least_memory"]
    assert two["blocks"] >= one["blocks"] >= 1
    assert plan(1_000_000, 7_000_000, 128, memory=one["least_memory"])["blocks"] > one["blocks"]


def test_the_command_prints_it(capsys):
    asked = ["plan", "--nodes", "111e6", "--edges", "1.6e9", "--columns", "128", "--memory", "64GB"]
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory"] == 64 << 30
    assert main(asked) == 0
    assert "blocks; at least" in capsys.readouterr().out


def test_nonsense_is_refused():
    with pytest.raises(InputError, match="nodes is 0; it is at least 1"):
        plan(0, 1, 1)
