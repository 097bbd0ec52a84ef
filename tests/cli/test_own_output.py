"""What the commands for a user's own graph show."""

import io

import pytest
from rich.console import Console

from fewnode.cli.own_output import draw_fitted, draw_roles


def test_many_columns_that_were_taken_for_the_same_are_counted(capsys):
    roles = [{"table": "n.csv", "column": "id", "use": "id", "why": "its name", "change": "--id-column"}]
    roles += [
        {"table": "n.csv", "column": f"p{k}", "use": "number", "why": "its content", "change": f"--ignore-column p{k}"}
        for k in range(64)
    ]
    draw_roles(Console(width=120), {"columns": roles, "notes": []})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["id", "p0", "...", "p63"] and "... 62 more" in lines[3]
    draw_roles(Console(width=120), {"columns": roles[:8], "notes": []})
    assert len(capsys.readouterr().out.splitlines()) == 1 + 8, "a short list is shown as it is"


@pytest.mark.parametrize(("floor", "advice"), [(0.9312, True), (0.9234, False), (0.91, False)])
def test_training_does_not_pay_only_if_the_printed_numbers_say_so(floor, advice):
    facts = {"interrupted": False, "steps": 150, "seconds": 1.0, "method": "vantage", "notes": [], "calibrations": []}
    console = Console(file=io.StringIO(), width=120)
    draw_fitted(console, {**facts, "beside_probe": (0.9232, floor), "folder": "model", "next": "fewnode predict"})
    assert ("does not pay" in console.file.getvalue()) == advice
