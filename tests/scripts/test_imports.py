"""Benchmarks, scripts and examples are run by hand: what they import of fewnode must still be there."""

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(file for folder in ("benchmarks", "scripts", "examples") for file in (ROOT / folder).glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_what_is_imported_of_fewnode_exists(file):
    absent = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "fewnode":
            module = import_module(node.module)
            names = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            package = hasattr(module, "__path__")
            absent += [name for name in names if not package or find_spec(f"{node.module}.{name}") is None]
    assert not absent
