"""What a fresh machine relies on: the metadata, the pins and the make targets agree with each other."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fewnode

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def package(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert name, requirement
    return name[0].lower().replace("-", "_")


def direct_dependencies() -> set[str]:
    extras = PROJECT["optional-dependencies"].values()
    return {package(line) for group in (PROJECT["dependencies"], *extras) for line in group}


def test_every_direct_dependency_is_pinned():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9.]+", line) for line in lines)
    assert direct_dependencies() | {"hatchling"} == {package(line) for line in lines}
    assert "torch==2.13.0" in lines


def test_versions_agree():
    assert PROJECT["version"] == fewnode.__version__
    assert f"[{fewnode.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("target", ["install", "quickstart", "test", "bench"])
def test_make_targets_exist_and_survive_a_path_with_spaces(target, tmp_path):
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (folder / name).write_text((ROOT / name).read_text())
    plan = subprocess.run(["make", "--dry-run", target], cwd=folder, capture_output=True, text=True)
    assert plan.returncode == 0, plan.stderr
    assert "-m venv .venv" in plan.stdout


def test_a_second_call_installs_nothing(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / ".venv").mkdir()
    for stamp in ("base.stamp", "dev.stamp"):
        (tmp_path / ".venv" / stamp).touch()
    plan = subprocess.run(["make", "--dry-run", "test"], cwd=tmp_path, capture_output=True, text=True)
    assert "pip install" not in plan.stdout and "pytest" in plan.stdout
    (tmp_path / "constraints.txt").write_text("changed")
    plan = subprocess.run(["make", "--dry-run", "test"], cwd=tmp_path, capture_output=True, text=True)
    assert plan.stdout.count("pip install") == 3  # base, extras, and the browser


def test_importing_the_package_and_its_parser_loads_nothing_heavy():
    code = (
        "import sys, fewnode, fewnode.cli; fewnode.cli.build_parser();"
        "print([m for m in ('torch', 'numpy', 'scipy', 'sklearn', 'rich') if m in sys.modules]);"
        "import fewnode.labelling.server;"  # and a command that needs torch loads little else
        "print([m for m in ('scipy.stats', 'sklearn', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "[]"]


@pytest.mark.parametrize("name", ["README.md", "docs/index.md", "docs/cli.md", "docs/architecture.md"])
def test_links_in_the_documentation_lead_somewhere(name):
    page = ROOT / name
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert [target for target in targets if "://" not in target and not (page.parent / target).exists()] == []
