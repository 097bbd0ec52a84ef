"""How many machines reach a time."""

import json

import pytest

from fewnode import InputError
from fewnode.classifier.planning import Rates, Share, machines, parsed_seconds, plan
from fewnode.cli import main

SHAPE = (111_000_000, 1_600_000_000, 128)


@pytest.fixture(autouse=True)
def fixed(monkeypatch):
    monkeypatch.setattr(Rates, "measured", classmethod(lambda cls, *given: Rates(5e-10, 2e-11, 1e-9, 1e-11)))


def test_a_share_takes_as_long_as_the_machine_with_most_pieces():
    assert [Share("blocks", 9.0, 9).on(count) for count in (1, 2, 3, 8, 9, 20)] == [9, 5, 3, 2, 1, 1]
    assert Share("rows", 9.0, None).on(4) == 2.25


def test_one_machine_takes_what_the_plan_says_and_more_take_less():
    one = plan(*SHAPE, memory=1 << 36)
    found = machines(one, *SHAPE)
    assert found.seconds[1] == pytest.approx(one.views_seconds + one.known_seconds + one.predict_seconds, rel=0.01)
    assert list(found.seconds.values()) == sorted(found.seconds.values(), reverse=True)
    half = machines(one, *SHAPE, target=found.seconds[1] / 2)
    assert half.needed is not None and half.seconds[half.needed] <= found.seconds[1] / 2 and half.needed in (2, 3)
    assert machines(one, *SHAPE, target=60.0).needed is None
    assert machines(one, *SHAPE, network=1).bottleneck == "the network"


def test_the_command_says_how_many(capsys):
    asked = ["plan", "--nodes", "111e6", "--edges", "1.6e9", "--columns", "128", "--memory", "64GB"]
    assert main([*asked, "--target", "8h"]) == 0
    assert "like this one for 8.0 h" in " ".join(capsys.readouterr().out.split())
    assert main([*asked, "--target", "1s"]) == 0
    assert "cannot be reached" in capsys.readouterr().out
    assert main([*asked, "--target", "8h", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machines"]["needed"] > 1


def test_times_are_read():
    assert [parsed_seconds(text) for text in ("2h", "90min", "1.5d", "45 s")] == [7200, 5400, 129600, 45]
    for wrong in ("2", "soon", "0h", "1.2.3h", "-1h"):
        with pytest.raises(InputError, match=r"--target .*write a time, for example 2h"):
            parsed_seconds(wrong)
    with pytest.raises(InputError, match="--network 0: it is a rate"):
        machines(plan(*SHAPE, memory=1 << 36), *SHAPE, network=0)
