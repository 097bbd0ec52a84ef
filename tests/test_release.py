"""What a release shows of itself."""

import re
from pathlib import Path

import fewnode

ROOT = Path(__file__).parents[1]


def test_the_citation_has_the_version_of_the_package():
    version = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert version and version[1] == fewnode.__version__
