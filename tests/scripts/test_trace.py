"""What a trace counts: functions of the package that are called, not imports and not other people's code."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("trace_script", ROOT / "scripts/trace.py")  # not the library's trace
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner/low.py").write_text(
        "def made_at_import():\n    return 1\n\nclass C:\n    x = made_at_import()\n\n"
        "    def f(self):\n        return [i for i in (lambda: range(3))()]\n"
    )
    (folder / "high.py").write_text(
        "def go():\n    from inner.low import C\n    C().f()\n    C().f()\n    step()\n\ndef step():\n    pass\n"
    )


def test_functions_are_counted_once_and_imports_never(script, tmp_path, monkeypatch):
    write(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import high

    trace = script.Trace(tmp_path)
    trace.run(high.go)
    assert trace.packages() == {"inner": (1, 1), "top level": (1, 2)}
    assert trace.changes == 3  # high, low, high
    assert str(trace).splitlines()[-1].split() == ["total", "2", "3", "3", "changes", "of", "file"]
    for name in ("high", "inner.low", "inner"):
        sys.modules.pop(name, None)


def test_a_command_is_run_and_its_visits_are_printed(script, capsys):
    assert script.main(["ls", "methods"]) == 0
    out = capsys.readouterr().out
    assert "vantage" in out and "changes of file" in out
    _, files, functions = next(line for line in out.splitlines() if line.startswith("cli")).split()
    assert int(files) >= 2 and int(functions) >= 4
