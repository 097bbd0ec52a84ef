"""From rows to tables, figures and the page: the numbers, the marks, and that nothing outside is needed."""

import csv
import io
import re
import subprocess
import sys

import numpy as np
import pytest

from fewnode.errors import InputError
from fewnode.experiments.grid import BASELINES, Run
from fewnode.report import compare, write_report
from fewnode.report import page as report_page
from fewnode.report.page import all_tables, page
from fewnode.report.results import gather, read_names, title
from fewnode.report.tables import (
    ResultTable,
    ablations,
    difficulties,
    every_cell,
    leaderboards,
    side_by_side,
    verdicts,
)
from report.made_up import failed, few, row


def test_a_cell_averages_seeds_and_knows_both_spreads():
    found = [row(Run("d", "tent", {}, seed=s), 0.6 + s / 50) for s in range(3)]
    (cell,) = gather([*found, failed(Run("d", "tent", {}, seed=3))])
    accuracies = [np.mean(r["correct"]) / r["queries"] for r in found]
    assert cell.accuracy == pytest.approx(np.mean(accuracies))
    assert cell.deviation == pytest.approx(np.std(accuracies, ddof=1))
    per_task = np.mean([np.array(r["correct"]) / r["queries"] for r in found], axis=0)
    assert cell.interval == pytest.approx(1.96 * per_task.std(ddof=1) / np.sqrt(len(per_task)))
    assert gather(found[:1])[0].deviation is None


def test_rows_of_an_older_pool_are_not_mixed_in():
    old, new = (row(Run("d", "tent", {}, seed=s), 0.6) for s in (0, 1))
    (cell,) = gather([old | {"pool": "other", "finished": "2025"}, new])
    assert [r["id"] for r in cell.rows] == [new["id"]]


def test_marks_say_what_the_test_says():
    made = [row(Run("d", "probe", o), 0.7 - 0.1 * (not o["smooth"])) for o in BASELINES]
    made += [row(Run("d", "pn"), 0.9), row(Run("d", "gpn"), 0.5)]
    twin = row(Run("d", "tent"), 0.9)
    best = next(r for r in made if r["run"]["method"] == "pn")
    twin["correct"] = [max(0, c - (place % 40 == 0)) for place, c in enumerate(best["correct"])]
    twin["correct"][1] = min(50, twin["correct"][1] + 1)
    marks = verdicts(gather([*made, twin]))
    assert not re.search("[≈↓]", marks["PN"]) and marks["GPN"].endswith("↓")
    assert "≈" not in marks["training-free: logistic, smoothed"] and "↓" not in marks["training-free: logistic, raw"]
    assert re.fullmatch(r"\d\d\.\d ± \d\.\d( ≈)?", marks["TENT"])


def test_the_leaderboard_has_a_row_for_every_method_and_two_baselines(rows):
    tables = {table.name: table for table in leaderboards(gather(rows))}
    table = tables["leaderboard_5w5s_10q"]
    names = [line[0] for line in table.rows]
    methods = {"vantage", "TENT", "TENT, as printed", "PN", "MAML", "GPN", "G-Meta"}
    assert set(names) == methods | {"training-free: logistic, raw", "training-free: logistic, smoothed"}
    assert names[-2:] == ["training-free: logistic, smoothed", "training-free: logistic, raw"]
    assert list(table.columns) == ["method", "Coauthor-CS", "Cora-full (kNN)", "WordNet"] and len(table.strong) == 3


def test_a_missing_cell_is_a_dash():
    made = [row(Run("a", "pn"), 0.7), row(Run("b", "gpn"), 0.7), row(Run("b", "pn"), 0.6)]
    (table,) = leaderboards(gather(made))
    assert dict(zip([line[0] for line in table.rows], [line[1] for line in table.rows], strict=True))["GPN"] == "–"


def test_published_numbers_stand_beside_ours(rows):
    tables = {table.name: table for table in side_by_side(gather(rows))}
    assert {"published_tent_dblp", "published_tent_cora_full", "published_naq_cora_full"} <= set(tables)
    assert "published_naq_dblp" not in tables and "not run here" in tables["published_tent_dblp"].note
    cora = tables["published_tent_cora_full"]
    line = next(line for line in cora.rows if line[0] == "TENT")
    assert line[1] == "64.80" and line[2] != "–" and "stand-in" in cora.note
    assert len(read_names("published.toml")["source"][0]["dblp"]) == 7


def test_ablation_classes_and_every_cell(rows):
    cells = gather(rows)
    (table,) = ablations(cells)
    assert list(table.columns)[4:] == [f"without {level} level" for level in ("class", "node", "task")]
    assert {line[2] for line in table.rows} == {"TENT", "TENT, as printed"} and len(table.rows) == 4
    assert all(float(line[6].split()[0]) < -3 for line in table.rows if line[2] == "TENT")
    assert [line[5] for line in table.rows if line[2] != "TENT"] == ["–"]  # not every part was left out there
    assert float(next(line[4] for line in table.rows if line[2] != "TENT").split()[0]) < -15
    assert "class 0" in difficulties(cells)[0].rows[0][2]
    lines = list(csv.DictReader(io.StringIO(every_cell(cells).csv())))
    assert len(lines) == len(cells)
    assert {line["seeds"] for line in lines} == {"1", "2"}


def test_tables_in_three_notations():
    table = ResultTable(
        "t", "A & B", ["x_1", "50 %"], [["a|b", "1 ± 2"], ["<c>", 'say "d", e']], "≈ none", frozenset({(0, 1)})
    )
    assert list(csv.reader(io.StringIO(table.csv()))) == [["x_1", "50 %"], ["a|b", "1 ± 2"], ["<c>", 'say "d", e']]
    assert "| a\\|b | **1 ± 2** |" in table.markdown() and "x\\_1" in table.markdown()
    assert r"\textbf{1 $\pm$ 2}" in table.latex() and r"A \& B" in table.latex() and r"50 \%" in table.latex()


def test_what_rows_say_never_becomes_markup(rows):
    bad = '"><script>alert(1)</script>'
    table = ResultTable(bad, bad, [bad, "2"], [[bad, bad], ["x", "1 ± 2"]], bad, frozenset({(1, 1)}))
    text = page([*rows, failed(Run(bad, "pn"))], gather(rows), {}, {"gains": [table]})
    assert "<script" not in text and text.count("&gt;&lt;script&gt;alert(1)") == 6
    assert "pn on script&gt;, 5w5s" in text
    assert '<td class="strong">1 ± 2</td>' in text and text.count('class="strong"') == 1


def test_titles_fall_back_to_the_key_and_its_options():
    assert title("tent", {}) == "TENT" and title("new", {"a": 1, "b": 2}) == "new (a=1, b=2)"
    assert title("probe", BASELINES[0]) == "training-free: logistic, raw"


def test_every_figure_and_table_is_also_a_file(written):
    names = {path.name for path in written}
    for figure in ("leaderboard", "cost", "shots", "ablation", "sensitivity", "classes"):
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
    draw = report_page._bytes
    monkeypatch.setattr(report_page, "_bytes", lambda figure, kind, salt: draw(figure, "svg", salt))  # no PDF is on it
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


def test_compare_tells_changes_from_noise():
    before = [row(Run("d", "pn", {}, seed=s), 0.6) for s in range(3)] + [row(Run("d", "gpn"), 0.6)]
    better = [row(Run("d", "pn", {}, seed=s), 0.7) for s in range(3)] + [row(Run("e", "gpn"), 0.6)]
    found = compare(before, better)
    (change,) = found["changes"]
    assert change["more_than_noise"] and change["paired"] and change["difference"] > 0.05
    assert [cell["dataset"] for cell in found["only_before"] + found["only_after"]] == ["d", "e"]
    same = compare(before, before)["changes"]
    assert [(change["difference"], change["more_than_noise"]) for change in same] == [(0.0, False)] * 2


def test_compare_counts_the_noise_of_training_too():
    """Three seeds that scatter by ten points: a difference the tasks are sure of may still be the seeds' luck."""
    scattered = [0.5, 0.6, 0.7]
    before = [row(Run("d", "pn", {}, seed=s), a, tasks=500) for s, a in enumerate(scattered)]
    after = [row(Run("d", "pn", {}, seed=s), a + 0.03, tasks=500) for s, a in enumerate(scattered)]
    for r in after:
        r["correct"] = [min(50, c) for c in r["correct"]]
    (change,) = compare(before, after)["changes"]
    assert change["p"] < 0.05 and not change["more_than_noise"]


def test_compare_takes_the_seeds_both_have():
    several = [row(Run("d", "pn", {}, seed=s), 0.5 + s / 10) for s in range(3)]
    (change,) = compare(several, several[1:2])["changes"]
    assert change["difference"] == 0 and change["seeds"] == [1, 1] and change["one_seed"]
    (change,) = compare(several[:1], several[2:])["changes"]
    assert change["difference"] > 0.1


def test_compare_on_other_tasks_is_unpaired():
    a, b = row(Run("d", "pn"), 0.6), row(Run("d", "pn"), 0.8) | {"pool": "other"}
    (change,) = compare([a], [b])["changes"]
    assert not change["paired"] and change["more_than_noise"]


UGLY = "<script>alert(1)</script> a$\\frac$b | `x` \x1b[31m\n=1+1"


def test_names_never_become_markup_formulas_or_escape_sequences():
    from fewnode.experiments.grid import Run
    from fewnode.report.figures import draw_classes
    from fewnode.report.page import all_tables, page, svg
    from fewnode.report.results import gather
    from fewnode.report.tables import every_cell
    from report import made_up

    rows = [made_up.row(Run(UGLY, "tent", {}, 5, 3, 10, seed), 0.6, tasks=12) for seed in (0, 1)]
    for one in rows:
        one |= {"per_class": {UGLY: [1, 2], "=1+1": [1, 2]}, "versions": {"fewnode": UGLY}}
    cells = gather(rows)
    tables = all_tables(cells)
    drawn = svg(draw_classes(cells), "classes")
    text = page(rows, cells, {"classes": drawn}, tables)
    assert "<script" not in text and "<script" not in drawn and "\x1b" not in drawn and "alert(1)" in text
    for table in (table for group in tables.values() for table in group):
        assert "<script" not in table.markdown() and "\x1b" not in table.markdown() + table.latex()
        assert not any(cell.startswith("=") for line in csv.reader(io.StringIO(table.csv())) for cell in line)
        assert re.fullmatch(r"[\w-]+", table.name)
    assert "$" not in next(line for line in tables["leaderboard"][0].latex().splitlines() if "frac" in line).replace(
        r"\$", ""
    ).replace(r"$\pm$", "")
    assert UGLY.splitlines()[0] in every_cell(cells).csv()
