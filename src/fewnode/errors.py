"""The error raised for wrong input."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class InputError(ValueError):
    """Wrong input. The message names the value, its place, and what would be right."""


@contextmanager
def refused(told: str, *kinds: type[Exception], remedy: str = "") -> Iterator[None]:
    """Turn errors of these ``kinds`` into an ``InputError`` with the text ``told``, the reason and the ``remedy``."""
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        raise InputError(f"{told}: {reason(error)}{remedy and f'; {remedy}'}") from error


def reason(error: Exception) -> str:
    """The first line of an error's message, with the place first if it is of msgspec: "run.n_way: expected ..."; the
    first two if it is of torch, which begins with a title."""
    text, _, place = str(error).replace(":\n\t", ": ").strip().partition("\n")[0].rstrip().partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    return f"{place}: {text}" if place else text or type(error).__name__


def one_of(kind: str, value: str, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``; else the error names the closest match and all choices."""
    valid = sorted(choices)
    if value in valid:
        return value
    close = get_close_matches(value, valid, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    shown = valid if len(valid) <= 30 else [*valid[:10], f"... {len(valid) - 10} more"]
    raise InputError(f"unknown {kind} {value!r}.{hint} Valid: {', '.join(shown) or 'none'}")
