"""What the commands for a user's own graph show."""

from rich.console import Console

from fewnode.cli.own_output import draw_roles


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
