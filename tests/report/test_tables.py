"""The tables of a report: the numbers, the marks, and three notations."""

import csv
import io
import re

from fewnode.experiments.grid import BASELINES, Run
from fewnode.report.results import gather, read_names
from fewnode.report.tables import (
    ResultTable,
    ablations,
    difficulties,
    every_cell,
    leaderboards,
    side_by_side,
    verdicts,
)
from report.made_up import row


def trained(method: str, accuracy: float, seeds: int = 3, **facts: object) -> list[dict]:
    return [row(Run("d", method, seed=seed), accuracy) | facts for seed in range(seeds)]


def test_marks_say_what_the_test_says():
    made = [row(Run("d", "probe", o), 0.7 - 0.1 * (not o["smooth"])) for o in BASELINES]
    made += [*trained("pn", 0.9), *trained("gpn", 0.5)]
    for best in trained("pn", 0.9):
        twin = row(Run("d", "tent", seed=best["run"]["seed"]), 0.9)
        twin["correct"] = [max(0, c - (place % 40 == 0)) for place, c in enumerate(best["correct"])]
        twin["correct"][1] = min(50, twin["correct"][1] + 1)
        made.append(twin)
    marks, best = verdicts(gather(made))
    assert not re.search("[≈↓]", marks["PN"]) and marks["GPN"].endswith("↓")
    assert "≈" not in marks["training-free: logistic, raw"] and "↓" not in marks["training-free: logistic, raw"]
    assert re.fullmatch(r"\d\d\.\d ± \d\.\d \(\d\.\d\) ≈", marks["TENT"])
    assert best == ["PN", "training-free: logistic, smoothed"]


def test_bold_and_marks_stay_within_a_setting():
    made = [*trained("pn", 0.7), *trained("naq", 0.6, uses_labels=False), *trained("tlp", 0.5, uses_labels=False)]
    made += [*trained("tim", 0.9, task_transductive=True), *trained("gpn", 0.4)]
    made.append(row(Run("d", "rectified"), 0.95) | {"training_free": True, "task_transductive": True})
    (table,) = leaderboards(gather(made))
    assert [line[:2] for line in table.rows] == [
        ["PN", "supervised"],
        ["GPN", "supervised"],
        ["NaQ", "label-free"],
        ["TLP", "label-free"],
        ["prototype rectification", "task-transductive"],
        ["tim", "task-transductive"],
    ]
    assert table.strong == {(0, 2), (2, 2), (4, 2)}
    assert not any("↓" in text for line in table.rows for text in line)  # what sees the queries is no baseline


def test_a_trained_method_with_one_seed_everywhere_has_no_marks():
    made = [row(Run("d", "probe", BASELINES[1]), 0.7), *trained("pn", 0.8), *trained("gpn", 0.5, seeds=1)]
    assert not re.search("[≈↓]", verdicts(gather(made))[0]["GPN"])
    assert verdicts(gather([*made, *trained("gpn", 0.5)]))[0]["GPN"].endswith("↓")


def test_text_encoders_splits_and_pools_have_tables_of_their_own():
    runs = [
        Run("d", "pn"),
        Run("d", "pn", text_encoder="/x/potion-base-8M"),
        Run("d", "pn", split="a.json", pool="b.npz"),
    ]
    tables = leaderboards(gather([row(run, 0.7) for run in runs]))
    assert sorted(table.title for table in tables) == [
        "5-way 5-shot",
        "5-way 5-shot, split a.json, pool b.npz",
        "5-way 5-shot, text encoder potion-base-8M",
    ]
    assert len({table.name for table in tables}) == 3


def test_the_leaderboard_has_a_row_for_every_method_and_two_baselines(rows):
    tables = {table.name: table for table in leaderboards(gather(rows))}
    table = tables["leaderboard_5w5s_10q"]
    names = [line[0] for line in table.rows]
    methods = {"vantage", "TENT", "TENT, settings of the paper", "PN", "MAML", "GPN", "G-Meta"}
    assert set(names) == methods | {"training-free: logistic, raw", "training-free: logistic, smoothed"}
    assert names[-2:] == ["training-free: logistic, smoothed", "training-free: logistic, raw"]
    assert list(table.columns) == ["method", "setting", "Coauthor-CS", "Cora-full (kNN)", "WordNet"]
    assert len(table.strong) == 6  # for each data set the best supervised and the best training-free


def test_a_missing_cell_is_a_dash():
    made = [row(Run("a", "pn"), 0.7), row(Run("b", "gpn"), 0.7), row(Run("b", "pn"), 0.6)]
    (table,) = leaderboards(gather(made))
    assert dict(zip([line[0] for line in table.rows], [line[2] for line in table.rows], strict=True))["GPN"] == "–"


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
    assert {line[2] for line in table.rows} == {"TENT", "TENT, settings of the paper"} and len(table.rows) == 4
    assert all(float(line[6].split()[0]) < -3 for line in table.rows if line[2] == "TENT")
    assert [line[5] for line in table.rows if line[2] != "TENT"] == ["–"]  # not every part was left out there
    assert float(next(line[4] for line in table.rows if line[2] != "TENT").split()[0]) < -15
    assert "class 0" in difficulties(cells)[0].rows[0][2]
    lines = list(csv.DictReader(io.StringIO(every_cell(cells).csv())))
    assert len(lines) == len(cells)
    assert {line["seeds"] for line in lines} == {"1", "2"}


def test_no_class_is_both_hard_and_easy():
    made = row(Run("d", "pn"), 0.5) | {"per_class": {str(c): [10 * c, 100] for c in range(5)}}
    assert difficulties(gather([made]))[0].rows[0][2:] == ["0 0, 1 10", "4 40, 3 30"]


def test_tables_in_three_notations():
    table = ResultTable(
        "t", "A & B", ["x_1", "50 %"], [["a|b", "1 ± 2"], ["<c>", 'say "d", e']], "≈ none", frozenset({(0, 1)})
    )
    assert list(csv.reader(io.StringIO(table.csv()))) == [["x_1", "50 %"], ["a|b", "1 ± 2"], ["<c>", 'say "d", e']]
    assert "| a\\|b | **1 ± 2** |" in table.markdown() and "x\\_1" in table.markdown()
    assert r"\textbf{1 $\pm$ 2}" in table.latex() and r"A \& B" in table.latex() and r"50 \%" in table.latex()
