"""The tables of docs/ that come from benchmark rows say what these rows say."""

import json
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


def test_a_figure_in_a_sentence_comes_from_a_row_or_a_function(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "ROOT", tmp_path)
    for folder in ("docs", "benchmarks/rows"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "benchmarks/made_up.py").write_text("def least(graph, shots):\n    return f'{graph} {shots}'\n")
    rows = [{"kind": "a b", "n": 1, "x": 0.25}, {"kind": "a b", "n": 2, "x": 0.5}, {"kind": "c", "x": 9}]
    (tmp_path / "benchmarks/rows/made_up.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = tmp_path / "docs/page.md"
    page.write_text(
        'It takes <!-- = made_up "kind=a b" x .1f -->?<!-- . --> s, at least\n'
        "<!-- = made_up min:x %.0f -->?<!-- . --> %, on <!-- = made_up.least cora 3 -->?<!-- . -->.\n"
    )
    assert script.outdated(write=True) == ["docs/page.md"] and script.outdated() == []
    assert [match[0].split("-->")[1].split("<")[0] for match in script.FIGURE.finditer(page.read_text())] == [
        "0.5",
        "25",
        "cora 3",
    ]
    page.write_text("<!-- = made_up kind=none x .1f -->1<!-- . -->")
    with pytest.raises(SystemExit, match="no row of made_up"):
        script.outdated()


# Rules of a method or of a benchmark, not measurements.
STATED = {"1.25 times"}


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))])
def test_a_measured_figure_in_a_sentence_is_generated(script, page):
    text = (ROOT / page).read_text(encoding="utf-8")
    generated = (
        script.TABLE.pattern,
        script.FIGURE.pattern,
        r"<!-- results:begin.*?<!-- results:end -->",
        r"```.*?```",
    )
    for pattern in (*generated, r"`[^`]*`", r"^\|.*?$"):
        text = re.sub(pattern, "", text, flags=re.DOTALL | re.MULTILINE)
    measured = re.findall(r"\d+\.\d+ (?:%|points|s|ms|GB|MB|times)(?!\w)|\d+\.\d+ to \d+\.\d+", text)
    assert set(measured) <= STATED, "write <!-- = SOURCE -->...<!-- . -->: see scripts/update_benchmarks.py"
