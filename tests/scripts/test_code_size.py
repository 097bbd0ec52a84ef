"""The ratchet: no package grows beyond its budget unnoticed."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import code_size
    finally:
        sys.path.pop(0)
    return code_size


def test_no_package_is_above_its_budget(script):
    assert script.exceeded(script.sizes(), script.budgets()) == [], (
        "shorten it, or raise [tool.fewnode.size] on purpose"
    )


def test_blank_lines_comments_and_docstrings_do_not_count(script, tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        '"""A module,\nin two lines."""\n\n# a comment\nX = (\n    1\n)\n\n\n'
        'def f():\n    """Does nothing."""\n    text = """a\n    b"""\n    return text  # said\n'
    )
    assert script.code_lines(file) == 3 + 1 + 2 + 1


def test_a_package_above_its_budget_or_without_one_is_named(script, tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/a.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "b.py").write_text("c = 3\n")
    found = script.sizes(tmp_path)
    assert found == {"inner": 2, script.TOP: 1}
    assert script.exceeded(found, {"inner": 1}) == [
        "top_level: 1 code lines, the budget is 0",
        "inner: 2 code lines, the budget is 1",
    ]
    assert script.exceeded(found, {"inner": 2, script.TOP: 1}) == []
