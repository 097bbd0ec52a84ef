"""What commands print: tables in a pipe and in a terminal, templates, and what the drawings leave out."""

import re

from rich.console import Console

from fewnode.cli import output
from fewnode.cli.classifier import shortened
from fewnode.cli.output import fill, texts

RECORDS = [{"name": "a class with a long name " * 5, "share": 0.7512, "range": "75 % (70 to 100)"}]
TABLE = """{% filter table %}
class | >share | >range
{% for row in rows %}
{{ row.name }} | {{ row.share | percent }} | {{ row.range }}
{% endfor %}
{% endfilter %}"""


def test_in_a_pipe_no_column_is_cut_or_wrapped(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    _, line = texts().from_string(TABLE).render(rows=RECORDS).splitlines()
    assert RECORDS[0]["name"].strip() in line and line.rstrip().endswith("75.1 %  75 % (70 to 100)")


def test_a_narrow_terminal_wraps_names_but_never_figures(monkeypatch, tmp_path):
    with (tmp_path / "screen").open("w") as file:
        terminal = Console(width=50, force_terminal=True, markup=False, color_system=None, file=file)
        monkeypatch.setattr(output, "_console", lambda: terminal)
        drawn = texts().from_string(TABLE).render(rows=RECORDS)
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", drawn).splitlines()]
    assert len(lines) > 3 and lines[1].endswith("75.1 %  75 % (70 to 100)") and "…" not in "".join(lines)


def test_templates_are_filled_in_and_names_are_not_templates():
    template = texts().from_string("{{ n | number }} of {{ name }}: {{ p | percent }}{{ missing }}")
    assert template.render(n=1234, name="{{ n }} [b]", p=0.5, missing=None) == "1,234 of {{ n }} [b]: 50.0 %"


def test_many_columns_that_were_taken_for_the_same_are_counted():
    roles = [{"table": "n.csv", "column": "id", "use": "id", "why": "its name", "change": "--id-column"}]
    roles += [
        {"table": "n.csv", "column": f"p{k}", "use": "number", "why": "its content", "change": f"--ignore-column p{k}"}
        for k in range(64)
    ]
    lines = fill("roles", roles=shortened(roles), notes=[]).splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["id", "p0", "...", "p63"] and "... 62 more" in lines[3]
    lines = fill("roles", roles=shortened(roles[:8]), notes=[]).splitlines()
    assert len(lines) == 1 + 8, "a short list is shown as it is"
