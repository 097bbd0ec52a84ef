"""Cells from rows, comparisons of two sets of rows, and the tests of significance against SciPy's and by hand."""

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_ind, ttest_rel

from fewnode.experiments.grid import BASELINES, Run
from fewnode.report import compare
from fewnode.report.results import gather, holm, p_value, title
from report.made_up import failed, row


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


def test_titles_fall_back_to_the_key_and_its_options():
    assert title("tent", {}) == "TENT" and title("new", {"a": 1, "b": 2}) == "new (a=1, b=2)"
    assert title("probe", BASELINES[0]) == "training-free: logistic, raw"


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
    old, new = gather(before)[0], gather(after)[0]
    assert p_value(old.per_task, new.per_task, paired=True) < 0.05  # over tasks alone
    assert change["p"] > 0.05 and not change["more_than_noise"]


def test_the_variance_over_seeds_is_that_of_all_cells_of_a_method_or_the_larger_own():
    levels = {"d": [0.5, 0.6, 0.7], "e": [0.6, 0.61, 0.62], "f": [0.6]}
    cells = gather(row(Run(name, "pn", seed=s), a) for name, part in levels.items() for s, a in enumerate(part))
    own = {cell.problem.dataset: cell.deviation for cell in cells}
    pooled = (2 * own["d"] ** 2 + 2 * own["e"] ** 2) / 4
    assert [cell.seeds for cell in cells] == [
        (own["d"] ** 2, 4),
        (pytest.approx(pooled), 4),
        (pytest.approx(pooled), 4),
    ]
    assert gather([row(Run("d", "pn"), 0.6)])[0].seeds is None


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


def test_paired_p_is_the_paired_t_test():
    random = np.random.default_rng(0)
    a = random.normal(size=80)
    b = a + random.normal(0.05, 0.3, 80)
    assert p_value(a, b, paired=True) == pytest.approx(ttest_rel(a, b).pvalue, rel=1e-9)
    assert p_value(a, b[:50], paired=False) == pytest.approx(ttest_ind(a, b[:50], equal_var=False).pvalue, rel=1e-9)
    assert p_value(a, b, paired=True) < p_value(a, b, paired=False)  # pairing takes the difficulty of the tasks out


def test_the_variance_over_seeds_is_added_to_that_over_tasks():
    random = np.random.default_rng(0)
    a, b = random.normal(0.6, 0.1, 400), random.normal(0.62, 0.1, 400)
    seeds = [(0.02**2 / 3, 2), (0.03**2 / 5, 4)]
    parts = [((a - b).var(ddof=1) / 400, 399), (0.02**2 / 3, 2), (0.03**2 / 5, 4)]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / free for part, free in parts)
    by_hand = 2 * student.sf(abs(a.mean() - b.mean()) / np.sqrt(variance), freedom)
    assert p_value(a, b, True, seeds) == pytest.approx(by_hand, rel=1e-9)
    assert p_value(a, b, True) < p_value(a, b, True, seeds)


def test_false_alarms_stay_rare_when_seeds_scatter():
    """Two methods that are equal, each trained three times: the luck of a seed is the same on all tasks."""
    random = np.random.default_rng(2)
    alarms = {"tasks": 0, "both": 0}
    for _ in range(200):
        tasks = random.normal(0.6, 0.1, 300)
        sides = [tasks + random.normal(0, 0.02, (3, 1)) + random.normal(0, 0.05, (3, 300)) for _ in range(2)]
        means, seeds = [side.mean(0) for side in sides], [(side.mean(1).var(ddof=1) / 3, 2) for side in sides]
        alarms["tasks"] += p_value(*means, True) < 0.05
        alarms["both"] += p_value(*means, True, seeds) < 0.05
    assert alarms["tasks"] > 60 and alarms["both"] < 20


def test_no_spread_at_all():
    a = np.full(10, 0.5)
    assert p_value(a, a, paired=True) == 1.0 and p_value(a, a + 0.1, paired=True) == 0.0
    assert p_value(a, a, paired=False) == 1.0 and p_value(a, a + 0.25, paired=False) == 0.0


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.9, 0.8]) == [1.0, 1.0]


def test_holm_keeps_false_alarms_rare():
    random = np.random.default_rng(1)
    alarms = 0
    for _ in range(200):
        base = random.normal(size=60)
        p = [p_value(base, base + random.normal(0, 0.2, 60), paired=True) for _ in range(6)]
        alarms += min(holm(p)) < 0.05
    assert alarms < 24  # 5 % of 200 is 10
