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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([*BUILD, folder], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_reference_has_every_public_name(site):
    page = (site / "api/index.html").read_text()
    assert [name for name in fewnode.__all__ if f'id="fewnode.{name}"' not in page] == []


def test_pages_load_nothing_from_elsewhere(site):
    pages = [page.read_text() for page in site.rglob("*.html")]
    loaded = {target for page in pages for kind in (LOADED, LINKED) for target in kind.findall(page)}
    assert any(target.endswith(".css") for target in loaded)
    assert [target for target in loaded if re.match(r"(https?:)?//", target)] == []


def test_what_leads_nowhere_stops_the_build(tmp_path):
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("bundled", "__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    lines = ["[a](nowhere.md)", "[a](cli.md#no-heading)", "![a](figures/nothing.svg)", "[a][fewnode.no_name]"]
    with (tmp_path / "docs/index.md").open("a") as page:
        page.write("\n\n".join(["", *lines, ""]))
    (tmp_path / "docs/left-out.md").write_text("# In no navigation")
    done = subprocess.run([*BUILD, tmp_path / "site"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    faults = ("nowhere.md", "no-heading", "nothing.svg", "fewnode.no_name", "left-out.md")
    assert [fault for fault in faults if fault not in done.stderr] == []
