"""A report of made-up rows, written once."""

from pathlib import Path

import pytest

from fewnode.report import write_report
from report.made_up import grid


@pytest.fixture(scope="session")
def rows() -> list[dict]:
    return grid()


@pytest.fixture(scope="session")
def written(rows, tmp_path_factory) -> list[Path]:
    return write_report(rows, tmp_path_factory.mktemp("out") / "page.html")
