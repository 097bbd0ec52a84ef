"""Docstrings: every public name has an example, a wrong one fails, and no parameter is described that is none."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fewnode

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", sorted(set(fewnode.__all__) - {"InputError"}))
def test_a_public_name_has_an_example(name):
    assert ">>> " in (getattr(fewnode, name).__doc__ or "")


def test_a_wrong_example_fails(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    package = tmp_path / "src/fewnode"
    package.mkdir(parents=True)
    for name, answer in (("right", 2), ("wrong", 3)):
        (package / f"{name}.py").write_text(f'"""One and one.\n\n>>> 1 + 1\n{answer}\n"""\n')
    (tmp_path / "tests").mkdir()
    command = [sys.executable, "-m", "pytest", "--no-header"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed, 1 passed" in done.stdout, done.stdout


def described(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """The parameters in the section ``Args:``, of which a line may describe several."""
    _, _, section = (ast.get_docstring(node) or "").partition("Args:\n")
    lines = re.findall(r"^    ([\w, *]+):", section.split("\n\n")[0], re.MULTILINE)
    return [name.strip(" *") for line in lines for name in line.split(",")]


def parameters(node: ast.FunctionDef | ast.ClassDef) -> set[str] | None:
    """What can be given; None for a class that is made as its base is."""
    if isinstance(node, ast.ClassDef):
        made = next((part for part in node.body if getattr(part, "name", "") == "__init__"), None)
        fields = {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
        return parameters(made) if made else fields if node.decorator_list else None
    given = node.args
    several = [part for part in (given.vararg, given.kwarg) if part]
    return {part.arg for part in (*given.posonlyargs, *given.args, *given.kwonlyargs, *several)}


def test_every_parameter_that_is_described_is_one():
    wrong, seen = [], 0
    for file in (ROOT / "src/fewnode").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (known := parameters(node)) is not None:
                seen += len(described(node))
                wrong += [f"{file.name}: {node.name}({name})" for name in described(node) if name not in known]
    assert wrong == [] and seen > 100
