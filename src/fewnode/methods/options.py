"""The options of a method, read from its signature: declared once, used by the command line and by grids."""

import ast
import inspect
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from ..errors import InputError, one_of
from .base import Method, Training

CONTEXT = {"in_channels", "base_classes", "n_way", "k_shot", "edges", "words"}  # filled in by fit, not chosen


def constructor_parameters(kind: type[Method]) -> dict[str, Any]:
    """The type of every parameter of a method's constructor; what it passes on (``**options``) is its base's."""
    found: dict[str, Any] = {}
    for init in (vars(owner)["__init__"] for owner in kind.__mro__ if "__init__" in vars(owner)):
        hints, parameters = get_type_hints(init), inspect.signature(init).parameters
        passed_on = [name for name, each in parameters.items() if each.kind is each.VAR_KEYWORD]
        found |= {name: hints.get(name, Any) for name in parameters if name not in {"self", *passed_on, *found}}
        if not passed_on:
            break
    return found


def option_types(kind: type[Method]) -> dict[str, Any]:
    """The type of every option of a method: those of its training, if there is any, and of its constructor."""
    training = {} if kind.training_settings is None else get_type_hints(Training)
    return training | {name: hint for name, hint in constructor_parameters(kind).items() if name not in CONTEXT}


def check_option(kind: type[Method], name: str) -> None:
    """Refuse an option that a method does not have, with the closest it has."""
    one_of(f"option of {kind.key()}", name, option_types(kind))


def parse_options(kind: type[Method], given: Mapping[str, str]) -> dict[str, Any]:
    """Options given as text (``{"gamma": "0.5"}``) as values of the types the method's signature names."""
    for name in given:
        check_option(kind, name)
    known = option_types(kind)
    return {name: parse_value(name, text, known[name]) for name, text in given.items()}


def parse_value(name: str, text: str, kind: Any) -> Any:
    """``text`` as a value of type ``kind``; a text that is none is answered with what would be one."""
    if get_origin(kind) in (Union, types.UnionType):
        if text.lower() == "none" and type(None) in get_args(kind):
            return None
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is Literal:
        return one_of(name, text, get_args(kind))
    if kind is str:
        return text
    try:
        if kind is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]
        return msgspec.convert(ast.literal_eval(text), kind)
    except (KeyError, ValueError, SyntaxError) as error:  # msgspec's are ValueErrors
        words = {int: "a whole number", float: "a number", bool: "true or false"}
        expected = words.get(kind, f"a value of type {getattr(kind, '__name__', kind)}")
        raise InputError(f"{name}={text!r}: expected {expected}") from error
