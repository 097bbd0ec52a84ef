"""The results page: a self-contained HTML file, with every figure and table also in separate files."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..experiments.grid import Run
from ..experiments.rows import Row
from ..files import atomic_write
from . import figures, tables
from .results import TEST, Cell, dataset_title, gather, read_names
from .tables import ResultTable
from .templating import render

CHAPTERS: dict[str, dict[str, str]] = read_names("tables.toml")["chapter"]


def write_report(rows: Sequence[Row], out: Path) -> list[Path]:
    """Write the page and, in a folder of the same name, its figures (SVG, PDF) and tables (CSV, Markdown, LaTeX)."""
    cells = gather(rows)
    found, pictures = all_tables(cells), {}
    contents: dict[str, str | bytes] = {"cells.csv": tables.every_cell(cells).csv()}
    for key, chapter in CHAPTERS.items():
        if "figure" in chapter and (figure := getattr(figures, chapter["figure"])(cells)) is not None:
            pictures[key] = contents[f"{key}.svg"] = svg(figure, key)
            contents[f"{key}.pdf"] = figure_bytes(figure, "pdf", key)
    for table in (table for group in found.values() for table in group):
        contents[f"{table.name}.csv"] = table.csv()
        contents[f"{table.name}.md"] = table.markdown()
        contents[f"{table.name}.tex"] = table.latex()
    folder = out.with_name(f"{out.stem}_files")
    files = {out: page(rows, cells, pictures, found)} | {folder / name: content for name, content in contents.items()}
    for path, content in files.items():
        with atomic_write(path) as file:
            file.write(content.encode() if isinstance(content, str) else content)
    return list(files)


def all_tables(cells: Sequence[Cell]) -> dict[str, list[ResultTable]]:
    """The tables by chapter."""
    made = {key: chapter["tables"] for key, chapter in CHAPTERS.items() if "tables" in chapter}
    return {key: getattr(tables, name)(cells) for key, name in made.items()}


def svg(figure: Any, name: str) -> str:
    """A figure as SVG without the XML head, whose document type names an external address.

    All ids start with ``name``: ids are global on a page, so two figures must not share one.
    """
    text = figure_bytes(figure, "svg", name).decode()
    return re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text[text.index("<svg") :])


def figure_bytes(figure: Any, kind: str, salt: str) -> bytes:
    import matplotlib

    out = io.BytesIO()
    # The salt keeps ids the same from one writing to the next.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt, "pdf.fonttype": 42}):
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure.savefig(out, format=kind, metadata=undated.get(kind))
    return out.getvalue()


def page(
    rows: Sequence[Row], cells: Sequence[Cell], pictures: dict[str, str], found: dict[str, list[ResultTable]]
) -> str:
    """The HTML of the report: ``pictures`` (SVG) and tables by chapter."""
    failed = [row for row in rows if row["status"] != "ok"]
    return render(
        "results_page.html",
        chapters={key: chapter for key, chapter in CHAPTERS.items() if found.get(key) or key in pictures},
        pictures=pictures,
        tables=found,
        runs=len(rows) - len(failed),
        names=sorted({dataset_title(cell.problem.dataset) for cell in cells}),
        tasks=sorted({len(cell.per_task) for cell in cells}),
        seeds=sorted({len(cell.rows) for cell in cells if not cell.training_free}),
        test=TEST,
        versions=sorted({(row["versions"].get("fewnode", "?"), row["versions"].get("torch", "?")) for row in rows}),
        version=__version__,
        failed=[(Run(**row["run"]), row["reason"]) for row in failed],
    )
