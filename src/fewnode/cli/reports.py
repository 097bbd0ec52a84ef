"""Looking at results: ``fewnode report`` and ``fewnode compare``."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .output import add_json, emit, notes_said, say

if TYPE_CHECKING:
    from rich.console import Console


def add_commands(commands: Any) -> None:
    report = commands.add_parser("report", help="turn result rows into one HTML page with tables and figures")
    report.add_argument("results", nargs="+", help="files of rows, or folders of them")
    report.add_argument("--out", default="report.html", metavar="FILE", help="the page (report.html)")
    add_json(report)
    report.set_defaults(run=make_report)

    compare = commands.add_parser("compare", help="say what changed between two sets of rows")
    compare.add_argument("before", help="a file of rows, or a folder")
    compare.add_argument("after", help="another")
    add_json(compare)
    compare.set_defaults(run=compare_results)


def make_report(args: argparse.Namespace) -> None:
    from ..experiments.results import latest, read

    with notes_said():
        rows = latest(row for place in args.results for row in read(place))
    if not any(row["status"] == "ok" for row in rows):
        raise InputError(f"{', '.join(args.results)}: no run there has succeeded, so there is nothing to show")
    say(f"Drawing {len(rows)} rows ...")
    from ..report import write_report

    written = write_report(rows, Path(args.out))
    document = {"page": str(written[0]), "files": [str(path) for path in written[1:]], "rows": len(rows)}
    emit(args, document, _draw_report)


def _draw_report(console: "Console", document: dict[str, Any]) -> None:
    folder = Path(document["files"][0]).parent
    console.print(f"{document['page']}; its figures and tables as files in {folder}", soft_wrap=True)


def compare_results(args: argparse.Namespace) -> None:
    from ..experiments.results import read
    from ..report.comparison import compare

    with notes_said():
        before, after = read(args.before), read(args.after)
    emit(args, compare(before, after), _draw_comparison)


def _draw_comparison(console: "Console", document: dict[str, Any]) -> None:
    from rich.table import Table

    from ..report.comparison import label

    table = Table("", "before", "after", "change", "p", "", box=None, pad_edge=False)
    for change in document["changes"]:
        verdict = "more than noise" if change["more_than_noise"] else "noise"
        verdict += " of tasks; one seed" if change["one_seed"] else ""
        before, after = (f"{100 * change[key]:.2f}" for key in ("before", "after"))
        table.add_row(
            label(change), before, after, f"{100 * change['difference']:+.2f}", f"{change['p']:.2g}",
            verdict if change["difference"] else "the same",
        )  # fmt: skip
    console.print(table)
    for key, words in (("only_before", "only before"), ("only_after", "only after")):
        for cell in document[key]:
            console.print(f"{words}: {label(cell)}")
    for name, old in document["versions_before"].items():
        new = document["versions_after"].get(name)
        if new != old:
            console.print(f"{name}: {', '.join(old)} before, {', '.join(new or ['none'])} after")
