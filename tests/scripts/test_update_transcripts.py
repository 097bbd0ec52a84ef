"""What the pages say that commands print is what they print."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("update_transcripts", ROOT / "scripts/update_transcripts.py")
assert spec is not None and spec.loader is not None
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


@pytest.mark.parametrize("page", script.PAGES)
def test_the_commands_of_a_page_print_what_it_says(page, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    stored = (ROOT / page).read_text(encoding="utf-8")
    assert len(script.BLOCK.findall(stored)) >= 4
    assert script.differences(stored, script.replayed(stored)) == []


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("vantage: 150 steps in 0.9 s", "vantage: 150 steps in 123 s", True),
        ("mule  95 % (89 to 100)", "mule  93 % (88 to 100)", True),
        ("mule  95 % (89 to 100)", "mule  35 % (88 to 100)", False),
        ("--node p0497", "--node p0123", True),
        ("mule       new", "mule       known", False),
        ("two words", "two", False),
    ],
)
def test_words_must_agree_and_numbers_nearly(old, new, same):
    assert script.alike(old, new) == same


def test_a_command_that_fails_says_so_without_the_folder():
    with script.session():
        text = script.printed("fewnode fit --edges transfers.csv --nodes nobody.csv --out m")
        assert text.startswith("fewnode: ") and "nobody.csv" in text and "/tmp" not in text
        assert script.printed("head -1 transfers.csv") == "payer;payee\n"
        with pytest.raises(SystemExit, match="only fewnode and head"):
            script.printed("rm -rf transfers.csv")
