"""Texts from templates in which every value is escaped, so names and texts of a user's data never become markup."""

import re
from functools import cache
from typing import Any

import jinja2

# Control characters, marks that change the direction of writing, and surrogates, which cannot be encoded.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MARKDOWN = str.maketrans({letter: f"\\{letter}" for letter in "|*_\\`[]#!"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})
_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
    "^": r"\^{}", "~": r"\~{}", "±": r"$\pm$", "≈": r"$\approx$", "↓": r"$\downarrow$", "·": r"$\cdot$", "–": "--",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
})  # fmt: skip


@cache
def environment() -> jinja2.Environment:
    """Jinja's environment with the templates and filters of this package; HTML is escaped automatically."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("fewnode.report"),
        autoescape=jinja2.select_autoescape(),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= dict(clean=clean, short=short, percent=percent, percent0=percent0, count="{:,.0f}".format)
    found.filters["markdown"] = lambda text: clean(text).translate(_MARKDOWN)
    found.filters["latex"] = lambda text: clean(text).translate(_LATEX)
    return found


def render(template: str, **values: Any) -> str:
    """The template of that name, filled in."""
    return environment().get_template(template).render(**values)


def clean(text: str) -> str:
    """A text without characters that no page may hold, or that change the direction of writing: "\\u202egnp.exe" must
    not look like "exe.png"."""
    return _UNSEEN.sub("\ufffd", text)


def short(text: str, longest: int = 120) -> str:
    """A name shortened for a table."""
    return clean(text if len(text) <= longest else f"{text[: longest - 1]}…")


def percent(share: float | None) -> str:
    """A percentage with one digit, for a table."""
    return "–" if share is None else f"{100 * share:.1f} %"


def percent0(share: float) -> str:
    """A percentage without digits, for a sentence; 99.6 is not shown as 100."""
    digits = 0 if 0.01 <= share <= 0.99 or share in (0, 1) else 1
    return f"{100 * share:.{digits}f} %"
