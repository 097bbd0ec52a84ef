"""The documentation as a site: the reference has every public name, and the pages load nothing from elsewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fewnode

ROOT = Path(__file__).parents[1]
BUILD = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir"]
LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(\S+?)[\"'\s>]")
LINKED = re.compile(r"<link[^>]*\shref=[\"']?(\S+?)[\"'\s>]")


FAULTS = {
    "[a](nowhere.md)": "nowhere.md",
    "[a](cli.md#no-heading)": "no-heading",
    "![a](figures/nothing.svg)": "nothing.svg",
    "[a][fewnode.no_name]": "fewnode.no_name",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site with a few things in it that lead nowhere, and what the build said: these, and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("bundled", "__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", folder)
    with (folder / "docs/index.md").open("a") as page:
        page.write("\n\n".join(["", *FAULTS, ""]))
    (folder / "docs/left-out.md").write_text("# In no navigation")
    done = subprocess.run([*BUILD, folder / "site"], cwd=folder, capture_output=True, text=True)
    return folder / "site", done


def test_what_leads_nowhere_stops_the_build_and_nothing_else_does(built):
    said = built[1].stderr
    assert built[1].returncode != 0 and [name for name in (*FAULTS.values(), "left-out.md") if name not in said] == []
    assert len(re.findall("^WARNING", said, re.MULTILINE)) == len(FAULTS) + 1, said


def test_the_reference_has_every_public_name_and_its_methods(built):
    page = (built[0] / "api/index.html").read_text()
    names = (*fewnode.__all__, "FewShotClassifier.adapt", "FewShotClassifier.attach", "Graph.from_files")
    assert [name for name in names if f'id="fewnode.{name}"' not in page] == []


def test_pages_load_nothing_from_elsewhere(built):
    pages = [page.read_text() for page in built[0].rglob("*.html")]
    loaded = {target for page in pages for kind in (LOADED, LINKED) for target in kind.findall(page)}
    assert any(target.endswith(".css") for target in loaded)
    assert [target for target in loaded if re.match(r"(https?:)?//", target)] == []


def test_files_and_tests_named_in_the_pages_exist():
    named = re.compile(r"`((?:tests|benchmarks|scripts|src|examples)/[\w/.]+)(?:::(\w+))?`")
    for page in (ROOT / "docs").glob("*.md"):
        for path, test in named.findall(page.read_text(encoding="utf-8")):
            assert (ROOT / path).exists(), f"{page.name}: {path}"
            assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{page.name}: {test}"
