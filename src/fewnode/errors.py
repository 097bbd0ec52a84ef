"""The one error a user's input can cause, and the way it names the remedy."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Something handed in from outside is wrong; the message names it, where it is, and what would be right."""


def one_of(kind: str, value: str, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``; else raise with the closest match and those there are."""
    valid = sorted(choices)
    if value in valid:
        return value
    close = get_close_matches(value, valid, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    shown = valid if len(valid) <= 30 else [*valid[:10], f"... {len(valid) - 10} more"]
    raise InputError(f"unknown {kind} {value!r}.{hint} Valid: {', '.join(shown) or 'none'}")
