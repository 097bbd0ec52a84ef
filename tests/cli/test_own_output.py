"""What the commands for a user's own graph show."""

import io

import pytest
from rich.console import Console

from fewnode.cli.output import draw_fitted, draw_roles


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


@pytest.mark.parametrize(
    ("floor", "says"), [(0.94, "does not pay"), (0.93, "cannot tell"), (0.91, "cannot tell"), (0.9, "")]
)
def test_whether_training_pays_is_only_said_if_the_tasks_can_tell(floor, says):
    facts = {"interrupted": False, "steps": 150, "seconds": 1.0, "method": "vantage", "notes": [], "calibrations": []}
    facts |= {
        "beside_probe": [0.92, floor],
        "beside_probe_interval": 0.015,
        "folder": "model",
        "next": "fewnode predict",
    }
    console = Console(file=io.StringIO(), width=120)
    draw_fitted(console, facts)
    printed = console.file.getvalue()
    assert [part for part in ("does not pay", "cannot tell") if part in printed] == [says] * bool(says)
