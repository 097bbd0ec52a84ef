"""The methods, one file each. A new file here is a new method: nothing else lists them."""

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, one_of

if TYPE_CHECKING:
    from .base import Method

_FOLDER = Path(__file__).parent
_SHARED = {"__init__", "base", "options"}  # the files that are no method


def names() -> list[str]:
    """The keys of all methods: the names of their files."""
    return sorted(file.stem for file in _FOLDER.glob("*.py") if file.stem not in _SHARED)


def describe() -> dict[str, str]:
    """One line for each method, from its file's docstring. Nothing is imported: listing must be quick."""
    sources = {name: (_FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in names()}
    return {name: (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0] for name, text in sources.items()}


def find(name: str) -> "type[Method]":
    """The class of a method by its key, the name of its file."""
    from .base import Method

    module = import_module(f".{one_of('method', name, names())}", __package__)
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Method) and value.__module__ == module.__name__:
            return value
    raise InputError(f"methods/{name}.py defines no Method class")
