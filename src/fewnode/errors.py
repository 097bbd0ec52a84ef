"""The error that wrong input raises."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Wrong input; the message names the value, where it is, and what would be right."""


def one_of(kind: str, value: str, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``; else the error names the closest match and all choices."""
    valid = sorted(choices)
    if value in valid:
        return value
    close = get_close_matches(value, valid, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    shown = valid if len(valid) <= 30 else [*valid[:10], f"... {len(valid) - 10} more"]
    raise InputError(f"unknown {kind} {value!r}.{hint} Valid: {', '.join(shown) or 'none'}")
