"""Cells of a CSV file that a spreadsheet shows and never runs.

A text that begins with ``= + - @`` (or a tab) is a formula to a spreadsheet unless it is a plain number. Such a text
gets an apostrophe in front; so does one that has apostrophes before such a sign, so that ``unguarded`` is exact.
"""

import re
from typing import Any

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*([eE][+-]?[0-9]+)?( [≈↓%])*")


def guarded(value: Any) -> Any:
    """A cell as it is written."""
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def unguarded(text: str) -> str:
    """The text that a cell was made from."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text[1:]) else text
