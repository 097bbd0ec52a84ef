"""The tables of docs/ that come from benchmark rows say what these rows say."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import update_benchmarks
    finally:
        sys.path.pop(0)
    return update_benchmarks


def test_the_tables_are_current(script):
    assert script.outdated() == [], "run: python scripts/update_benchmarks.py"


def test_every_benchmark_with_a_table_is_on_a_page(script):
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    benchmarks = [
        path
        for path in (ROOT / "benchmarks").glob("*.py")
        if re.search(r"^def table\(.*\) -> str:", path.read_text(), re.MULTILINE)
    ]
    assert benchmarks
    assert [path.stem for path in benchmarks if f"benchmark:begin {path.stem}.table" not in pages] == []


def test_a_changed_table_is_found_and_written_again(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "ROOT", tmp_path)
    for folder in ("docs", "benchmarks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "benchmarks/made_up.py").write_text("def table():\n    return '| a |'\n")
    page = tmp_path / "docs/page.md"
    page.write_text("Text.\n<!-- benchmark:begin made_up.table -->\n| b |\n<!-- benchmark:end -->\nMore.\n")
    assert script.outdated() == ["docs/page.md"] and "| b |" in page.read_text()
    assert script.outdated(write=True) == ["docs/page.md"] and script.outdated() == []
    assert "| a |" in page.read_text() and page.read_text().endswith("More.\n")
