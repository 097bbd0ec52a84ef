"""Made-up rows, and a report of a few, written once."""

from pathlib import Path

import pytest

from fewnode.report import write_report
from report.made_up import few, grid


@pytest.fixture(scope="session")
def rows() -> list[dict]:
    return grid()


@pytest.fixture(scope="session")
def written(tmp_path_factory) -> list[Path]:
    return write_report(few(), tmp_path_factory.mktemp("out") / "page.html")
