"""The tests of significance against SciPy's and by hand."""

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from fewnode.report.results import holm, p_value


def test_paired_p_is_the_paired_t_test():
    random = np.random.default_rng(0)
    a = random.normal(size=80)
    b = a + random.normal(0.05, 0.3, 80)
    assert p_value(a, b, paired=True) == pytest.approx(ttest_rel(a, b).pvalue, rel=1e-9)
    assert p_value(a, b[:50], paired=False) == pytest.approx(ttest_ind(a, b[:50], equal_var=False).pvalue, rel=1e-9)
    assert p_value(a, b, paired=True) < p_value(a, b, paired=False)  # pairing takes the difficulty of the tasks out


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
