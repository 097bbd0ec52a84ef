"""The tables of the README and of docs/results.md say what the stored rows say."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from report.made_up import grid

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/results.md", "docs/tent.md"]


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import update_results
    finally:
        sys.path.pop(0)
    return update_results


def test_the_tables_are_current(script):
    assert script.outdated() == [], "run: python scripts/update_results.py"


def test_new_rows_make_them_outdated_until_written(script, tmp_path):
    for name in PAGES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/paper_table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in grid()))
    assert script.outdated(tmp_path) == PAGES
    assert script.outdated(tmp_path, write=True) == PAGES
    assert script.outdated(tmp_path) == []
    readme, page, tent = ((tmp_path / name).read_text() for name in PAGES)
    assert "| vantage | TENT | TENT, printed | residual TENT | best other trained |" in readme
    assert readme.endswith((ROOT / "README.md").read_text()[-200:])
    assert "Not run: DBLP" in page
    assert "10w3s, 10w5s on Coauthor-CS, which has 5 novel classes" in page
    assert "without it" in page and "Fig. 3: without class-ego graphs" in page
    assert "Failed: rale on cora_full_knnfeat" in page and "without node level" in page
    assert "Its mean gain over the best training-free row" in page and "-shot, 5 queries" not in page
    assert "`vantage` has the highest accuracy of all that see one query at a time in" in page
    assert "Means over graphs on which every method ran (3 shots: Coauthor-CS, Cora-full (kNN), WordNet" in tent


def test_rows_without_a_commit_are_counted_by_method(script):
    rows = [
        {"run": {"method": name}, "commit": commit} for name, commit in (("pn", None), ("pn", None), ("gcn", "abc"))
    ]
    assert "1 of 3 rows name their commit. The others are of PN (2)." in script._origin(rows)
    assert script._origin(rows[2:]) == "All 1 rows name their commit.\n"


def test_the_figure_of_the_shots_is_drawn_from_rows(script):
    picture = script.shots_figure(script.gather(grid()))
    assert picture.startswith("<svg") and "vantage" in picture and "PN" not in picture
    assert script.shots_figure([]) is None
