"""The results page: every figure and table is also a file, nothing outside is needed, and no name becomes markup."""

import csv
import io
import re
import subprocess
import sys

import pytest

from fewnode.errors import InputError
from fewnode.experiments.grid import Run
from fewnode.report import page as report_page
from fewnode.report import write_report
from fewnode.report.page import all_tables, page
from fewnode.report.results import gather
from fewnode.report.tables import (
    ResultTable,
    every_cell,
)
from report.made_up import failed, few, row


def test_what_rows_say_never_becomes_markup(rows):
    bad = '"><script>alert(1)</script>'
    table = ResultTable(bad, bad, [bad, "2"], [[bad, bad], ["x", "1 ± 2"]], bad, frozenset({(1, 1)}))
    text = page([*rows, failed(Run(bad, "pn"))], gather(rows), {}, {"ablation": [table]})
    assert "<script" not in text and text.count("&gt;&lt;script&gt;alert(1)") == 7
    assert "pn on &#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;, 5w5s, seed 0" in text
    assert '<td class="strong">1 ± 2</td>' in text and text.count('class="strong"') == 1


def test_every_figure_and_table_is_also_a_file(written):
    names = {path.name for path in written}
    for figure in ("leaderboard", "cost", "shots"):
        assert {f"{figure}.svg", f"{figure}.pdf"} <= names
    tables = all_tables(gather(few()))
    assert all(made for key, made in tables.items() if key != "shots")
    for table in (table for group in tables.values() for table in group):
        assert {f"{table.name}.csv", f"{table.name}.md", f"{table.name}.tex"} <= names
    assert "cells.csv" in names and all(path.stat().st_size for path in written)


def test_the_page_is_one_file_that_asks_for_nothing(written):
    text = written[0].read_text()
    assert not re.search(r"<script|<link(?! rel=\"icon\" href=\"data:)|@import|<img|<iframe", text)
    assert not re.findall(r"(?:src|href|url)\s*[=(]\s*[\"']?(?!#|data:)[a-z]+:", text)
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    assert used <= set(ids)
    assert "ValueError: &lt;nothing&gt; &amp; more" in text and "failed: 1" in text


def test_the_same_rows_give_the_same_page(written, tmp_path, monkeypatch):
    draw = report_page.figure_bytes
    monkeypatch.setattr(
        report_page, "figure_bytes", lambda figure, kind, salt: draw(figure, "svg", salt)
    )  # no PDF is on it
    again = write_report(few(), tmp_path / "page.html")
    assert again[0].read_bytes() == written[0].read_bytes()


def test_one_row_is_enough_for_a_page(tmp_path):
    assert write_report([row(Run("d", "pn"), 0.5, tasks=1)], tmp_path / "page.html")[0].exists()


def test_reports_never_load_torch_or_a_method():
    code = (
        "import sys, fewnode.report, fewnode.report.figures, fewnode.experiments.rows;"
        "print([m for m in sys.modules if m == 'torch' or m.startswith('fewnode.methods.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_matplotlib_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"fewnode\[report\]"):
        write_report([row(Run("d", "pn"), 0.5)], tmp_path / "page.html")


UGLY = "<script>alert(1)</script> a$\\frac$b | `x` \x1b[31m\n=1+1"


def test_names_never_become_markup_formulas_or_escape_sequences():
    from fewnode.experiments.grid import Run
    from fewnode.report.figures import draw_accuracy
    from fewnode.report.page import all_tables, page, svg
    from fewnode.report.results import gather
    from report import made_up

    rows = [made_up.row(Run(UGLY, "tent", {}, 5, 3, 10, seed), 0.6, tasks=12) for seed in (0, 1)]
    for one in rows:
        one |= {"per_class": {UGLY: [1, 2], "=1+1": [1, 2]}, "versions": {"fewnode": UGLY}}
    cells = gather(rows)
    tables = all_tables(cells)
    drawn = svg(draw_accuracy(cells), "leaderboard")
    text = page(rows, cells, {"leaderboard": drawn}, tables)
    assert "<script" not in text and "<script" not in drawn and "\x1b" not in drawn and "alert(1)" in text
    for table in (table for group in tables.values() for table in group):
        assert "<script" not in table.markdown() and "\x1b" not in table.markdown() + table.latex()
        assert not any(cell.startswith("=") for line in csv.reader(io.StringIO(table.csv())) for cell in line)
        assert re.fullmatch(r"[\w-]+", table.name)
    assert "$" not in next(line for line in tables["leaderboard"][0].latex().splitlines() if "frac" in line).replace(
        r"\$", ""
    ).replace(r"$\pm$", "")
    assert UGLY.splitlines()[0] in every_cell(cells).csv()
