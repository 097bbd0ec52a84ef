"""The means beside the paper's statements, by hand."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fewnode.experiments.grid import Run
from fewnode.report.results import gather
from report.made_up import row

RUN = Run("coauthor_cs", "tent_residual")


@pytest.fixture(scope="module")
def statements():
    sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
    try:
        from paper_statements import statements
    finally:
        sys.path.pop(0)
    return statements


def cell(accuracy, run=RUN, **options):
    return gather([row(replace(run, options=options), 0.5) | {"correct": [round(100 * accuracy)], "queries": 100}])[0]


def test_the_change_without_a_level_is_the_mean_over_graphs(statements):
    other = replace(RUN, dataset="wordnet")
    cells = [cell(0.9), cell(0.8, node_adaptation=False), cell(0.7, other), cell(0.68, other, node_adaptation=False)]
    text = statements([*cells, cell(0.1, replace(RUN, method="vantage"), node_adaptation=False)])
    assert "without it -6.0 at 5w5s (from -10.0 to -2.0; Coauthor-CS, WordNet)" in text
    assert text.count("Fig. 3") == 1


def test_sizes_are_compared_on_graphs_that_have_them_all(statements):
    other = replace(RUN, dataset="wordnet")
    cells = [cell(0.8, train_way=3), cell(0.9, train_way=20), cell(0.1, other, train_way=3)]
    assert "80.0 at 3, 90.0 at 20 (mean; Coauthor-CS)" in statements(cells)


def test_nothing_is_said_without_rows(statements):
    assert statements([cell(0.9)]) == "No rows are stored yet.\n"
