"""JSON and TOML documents, read into the types they must have.

What a document must hold is written once, as annotated classes; msgspec checks it and names the place of what is wrong
(``$.run.n_way``). msgspec because it reads plain dataclasses, has no dependencies and costs a few milliseconds.
"""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from ..errors import InputError
from .files import readable

DEPTH = 64  # lists and tables within one another
T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]

_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(rb"[\[{]|[\]}]")


def parse_json(data: bytes, kind: type[T], where: str) -> T:
    """JSON text that must be a ``kind``; ``where`` it stands is named if it is not."""
    try:
        check_depth(data)
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{where} is damaged or of another kind: {plain(error)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"{where} is not a JSON file ({error})") from error


def convert(value: Any, kind: type[T], where: str) -> T:
    """A document already read, as a ``kind``."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{where}: {plain(error)}") from error


def check_depth(data: bytes) -> None:
    """Refuse JSON nested deeper than ``DEPTH``: readers that call themselves would run out of stack."""
    if data.count(b"[") + data.count(b"{") <= DEPTH:
        return
    depth = deepest = 0
    for mark in _BRACKETS.finditer(_QUOTED.sub(b"", data)):
        depth += 1 if mark[0] in b"[{" else -1
        deepest = max(deepest, depth)
    if deepest > DEPTH:
        raise ValueError(f"nested {deepest} deep, at most {DEPTH}")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    file = readable(path)
    return parse_toml(file.read_bytes(), str(file))


def parse_toml(data: bytes, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise InputError(f"{where} is not a TOML file: it is nested too deep, at most {DEPTH} is sensible") from error
    except ValueError as error:  # tomllib's own error, and text that is not UTF-8
        raise InputError(f"{where} is not a TOML file: {error}") from error


def plain(error: Exception) -> str:
    """msgspec's words with the place first: "run.n_way: expected ..."."""
    text, _, place = str(error).partition(" - at `$")
    return f"{place.rstrip('`').lstrip('.')}: {text}" if place.rstrip("`") else text
