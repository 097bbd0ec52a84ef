"""docs/architecture.md shows the order of packages that the import rule keeps; no module imports its own package."""

import re
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = next(contract["layers"] for contract in CONTRACTS if contract["type"] == "layers")
ENTRANCE = "__main__"  # `python -m fewnode`


def packages_of_the_rule() -> list[set[str]]:
    """The packages of each line of the import rule, lowest first."""
    lines = [set(re.split(r"\s*[|:]\s*", line)) for line in reversed(LAYERS)]
    return [line for line in lines if line != {ENTRANCE}]


def packages_of_the_page() -> list[str]:
    """The packages in the order of the code block under the heading Packages, lowest first."""
    page = (ROOT / "docs/architecture.md").read_text()
    block = re.search(r"^## Packages\n.*?```\w*\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    assert block, "docs/architecture.md has no code block under '## Packages'"
    return re.findall(r"\w+", block[1])


def test_the_page_shows_the_order_of_the_rule():
    shown = packages_of_the_page()
    for line in packages_of_the_rule():
        here, shown = shown[: len(line)], shown[len(line) :]
        assert set(here) == line, f"docs/architecture.md shows {here} where the rule has {sorted(line)}"
    assert shown == [], "docs/architecture.md names packages that the import rule does not have"


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("fewnode", cache_dir=None)


def test_every_package_is_in_the_rule(imports):
    packages = {name.removeprefix("fewnode.") for name in imports.find_children("fewnode")} - {ENTRANCE}
    assert packages == set().union(*packages_of_the_rule())


def test_no_module_imports_the_package_it_is_in(imports):
    # The linter compares siblings; a package and a module inside it are none, and their cycle would pass unseen.
    inside = [name for name in imports.modules if name.count(".") > 1]
    packages = {name: name.rpartition(".")[0] for name in inside}
    assert [name for name in inside if imports.direct_import_exists(importer=name, imported=packages[name])] == []
