"""The command line in this process, in a folder of its own."""

from collections.abc import Callable

import pytest

from fewnode import cli


@pytest.fixture
def run(capsys, monkeypatch, tmp_path, worlds_once) -> Callable[..., tuple[int, str, str]]:
    """Runs a command; gives its exit code and what it printed on both streams."""
    monkeypatch.chdir(tmp_path)

    def _run(*argv: object) -> tuple[int, str, str]:
        code = cli.main([str(word) for word in argv])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return _run
