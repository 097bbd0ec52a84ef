"""What the pages print from a benchmark's rows is what the benchmark says."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("benchmark", "page"),
    [
        ("vantage_fresh_splits", "docs/vantage.md"),
        ("tent_recipe", "docs/tent.md"),
        ("open_world", "docs/open-world.md"),
        ("scale", "docs/scale.md"),
        ("scale_ray", "docs/scale.md"),
        ("labelling", "docs/label.md"),
        ("new_nodes", "docs/own-graph.md"),
        ("busy", "docs/cli.md"),
        ("edge_information", "docs/python-inputs.md"),
    ],
)
def test_the_table_of_a_benchmark_is_the_one_on_its_page(benchmark, page):
    spec = importlib.util.spec_from_file_location(benchmark, ROOT / f"benchmarks/{benchmark}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / page).read_text(encoding="utf-8")
    assert module.table() in text
    for further in getattr(module, "FURTHER", ()):  # tables about other things than the first
        assert further() in text
