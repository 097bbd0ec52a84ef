"""HTML from templates in which every value is escaped: names and texts of a user's data never become markup."""

import unicodedata
from typing import Any

from ..errors import InputError


def render(template: str, **values: Any) -> str:
    """The template of that name, filled in."""
    text: str = environment().get_template(template).render(**values)
    return text


def environment() -> Any:
    """Jinja's environment with our templates and filters; an error with the remedy where Jinja is not installed."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise InputError("a page needs jinja2: pip install 'fewnode[report]'") from error
    found = Environment(
        loader=PackageLoader("fewnode.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"clean": clean, "short": short, "percent": percent, "percent0": percent0, "count": count}
    return found


def clean(text: str) -> str:
    """A text without characters that no page may hold, or that change the direction of writing: "\\u202egnp.exe" must
    not look like "exe.png"."""
    directions = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return "".join(
        "\ufffd"
        if unicodedata.category(letter) in ("Cc", "Cs") or unicodedata.bidirectional(letter) in directions
        else letter
        for letter in text
    )


def short(text: str, longest: int = 120) -> str:
    """A name that fits into a table."""
    return clean(text if len(text) <= longest else f"{text[: longest - 1]}…")


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def percent0(share: float) -> str:
    """Whole, for a sentence; but 99.6 is not 100."""
    digits = 0 if 0.01 <= share <= 0.99 or share in (0, 1) else 1
    return f"{100 * share:.{digits}f} %"


def count(number: float) -> str:
    return f"{number:,.0f}"
