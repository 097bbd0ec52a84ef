"""A table as CSV, Markdown and LaTeX; ``templates/results_page.html`` shows it on the page."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..storage.spreadsheet import guarded
from .templating import clean

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
    "^": r"\^{}", "~": r"\~{}", "±": r"$\pm$", "≈": r"$\approx$", "↓": r"$\downarrow$", "·": r"$\cdot$", "–": "--",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
}  # fmt: skip
_MARKDOWN = {letter: f"\\{letter}" for letter in "|*_\\`[]#!"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


@dataclass(frozen=True)
class ResultTable:
    """Texts in rows and columns; ``strong`` has the (row, column) of those that stand out, ``note`` explains marks."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    strong: frozenset[tuple[int, int]] = field(default_factory=frozenset)

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(map(guarded, self.columns))
        writer.writerows(map(guarded, row) for row in self.rows)
        return out.getvalue()

    def markdown(self) -> str:
        head = [_line(map(_plain, self.columns)), _line(["---"] + ["---:"] * (len(self.columns) - 1))]
        body = [
            _line([f"**{_plain(text)}**" if (r, c) in self.strong else _plain(text) for c, text in enumerate(row)])
            for r, row in enumerate(self.rows)
        ]
        return "\n".join(head + body) + "\n"

    def latex(self) -> str:
        """A ``tabular`` in a ``table``, rules from the booktabs package."""
        lines = [
            [rf"\textbf{{{latex(text)}}}" if (r, c) in self.strong else latex(text) for c, text in enumerate(row)]
            for r, row in enumerate(self.rows)
        ]
        body = "\n".join(" & ".join(line) + r" \\" for line in lines)
        head = " & ".join(map(latex, self.columns))
        return (
            f"% needs \\usepackage{{booktabs}}\n\\begin{{table}}\n\\centering\n\\caption{{{latex(self.title)}. "
            f"{latex(self.note)}}}\n\\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}\n\\toprule\n{head} \\\\\n"
            f"\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
        )


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _plain(text: str) -> str:
    """Text in which Markdown sees nothing to interpret."""
    return "".join(_MARKDOWN.get(letter, letter) for letter in clean(text))


def latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in clean(text))
