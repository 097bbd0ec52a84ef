"""The notebook runs, and shows what is stored in it."""

import json
import re
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_notebook_runs_and_shows_what_is_stored(tmp_path, monkeypatch):
    pytest.importorskip("pandas", reason="pandas is not installed")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import update_notebook

    stored = json.loads(update_notebook.NOTEBOOK.read_text(encoding="utf-8"))
    fresh = update_notebook.executed(stored, update_notebook.NOTEBOOK.parent)
    words = update_notebook.words(fresh)
    assert len(words) >= 10 and words == update_notebook.words(stored), "run: python scripts/update_notebook.py"
    found = int(re.search(r"(\d+) of the first 10 were changed", json.dumps(fresh))[1])
    assert found >= 8
    sys.modules.pop("update_notebook")
