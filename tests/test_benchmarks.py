"""What the pages print from a benchmark's rows is what the benchmark says."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def fresh_splits():
    spec = importlib.util.spec_from_file_location("fresh_splits", ROOT / "benchmarks/vantage_fresh_splits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_fresh_splits_is_the_one_on_the_page(fresh_splits):
    assert fresh_splits.table() in (ROOT / "docs/vantage.md").read_text(encoding="utf-8")
