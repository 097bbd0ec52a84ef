"""The methods, one file each. A new file here is a new method; other packages register theirs as entry points."""

import ast
import sys
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, one_of, refused

if TYPE_CHECKING:
    from .base import Method

_FOLDER = Path(__file__).parent


def installed() -> dict[str, EntryPoint]:
    """The methods of other packages, by name: their entry points in the group ``fewnode.methods``."""
    return {point.name: point for point in entry_points(group="fewnode.methods")}


def names() -> list[str]:
    """The keys of all methods: the names of the files here, and those of other packages."""
    return sorted({file.stem for file in _FOLDER.glob("*.py")} - {"__init__", "base"} | installed().keys())


def describe() -> dict[str, str]:
    """One line for each method, from its file's docstring. Nothing is imported: listing must be quick."""
    found = {name: f"{point.value}, from another package" for name, point in installed().items()}
    for name in set(names()) - found.keys():
        text = (_FOLDER / f"{name}.py").read_text(encoding="utf-8")
        found[name] = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return dict(sorted(found.items()))


def check(name: str) -> str:
    """The name itself, if it names a method or has the form ``module:Class``; nothing is imported."""
    return name if ":" in name else one_of("method", name, names())


def find(name: str) -> "type[Method]":
    """The class of a method by its key: the name of its file here, that of an entry point, or ``module:Class``."""
    from .base import Method

    point = EntryPoint(name, name, "fewnode.methods") if ":" in check(name) else installed().get(name)
    if ":" in name and str(Path.cwd()) not in sys.path:  # a module beside the data, as other command lines find it
        sys.path.append(str(Path.cwd()))
    if point is not None:
        remedy = "write module:Class, and run where it is found"
        with refused(f"method {name!r} cannot be imported", ImportError, AttributeError, ValueError, remedy=remedy):
            kind = point.load()
        if not (isinstance(kind, type) and issubclass(kind, Method)):
            raise InputError(f"method {name!r} is {kind!r}; it must be a subclass of fewnode.Method")
        return kind
    module = import_module(f".{name}", __package__)
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Method) and value.__module__ == module.__name__:
            return value
    raise InputError(f"methods/{name}.py defines no Method class")
