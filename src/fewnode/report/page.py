"""The page: one HTML file that needs nothing else, with every figure and table also beside it as files."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..experiments.rows import Row
from ..files import atomic_write
from .figures import Figure, draw_all
from .results import (
    TEST,
    Cell,
    ResultTable,
    ablations,
    costs,
    dataset_title,
    difficulties,
    every_cell,
    gains,
    gather,
    leaderboards,
    sensitivities,
    side_by_side,
)
from .templating import render


# --- The page: one HTML file that needs nothing else, with every figure and table also beside it as files.
def write_report(rows: Sequence[Row], out: Path) -> list[Path]:
    """Write the page and, in a folder of the same name, its figures (SVG, PDF) and tables (CSV, Markdown, LaTeX)."""
    cells = gather(rows)
    figures, tables = draw_all(cells), all_tables(cells)
    folder = out.with_name(f"{out.stem}_files")
    written = [_write(folder / "cells.csv", every_cell(cells))]
    pictures = {}
    for name, (_, figure) in figures.items():
        pictures[name] = svg(figure, name)
        written.append(_write(folder / f"{name}.svg", pictures[name]))
        written.append(_write(folder / f"{name}.pdf", _bytes(figure, "pdf", name)))
    for table in (table for group in tables.values() for table in group):
        for ending, text in (("csv", table.csv()), ("md", table.markdown()), ("tex", table.latex())):
            written.append(_write(folder / f"{table.name}.{ending}", text))
    shown = {name: (title, pictures[name]) for name, (title, _) in figures.items()}
    return [_write(out, page(rows, cells, shown, tables)), *written]


def all_tables(cells: Sequence[Cell]) -> dict[str, list[ResultTable]]:
    """The tables by chapter."""
    return {
        "leaderboard": leaderboards(cells),
        "gains": gains(cells),
        "published": side_by_side(cells),
        "ablation": ablations(cells),
        "sensitivity": sensitivities(cells),
        "cost": costs(cells),
        "classes": difficulties(cells),
    }


def _write(path: Path, content: str | bytes) -> Path:
    with atomic_write(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


def _bytes(figure: Figure, kind: str, salt: str) -> bytes:
    import matplotlib

    out = io.BytesIO()
    # The salt makes ids differ between figures on one page and stay the same from one writing to the next.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt, "pdf.fonttype": 42}):
        date = {"Date": None} if kind == "svg" else {"CreationDate": None}
        figure.savefig(out, format=kind, metadata=date)
    return out.getvalue()


def svg(figure: Figure, name: str) -> str:
    text = _bytes(figure, "svg", name).decode()
    return text[text.index("<svg") :]  # without the XML head, whose document type names an outside address


CHAPTERS = {
    "leaderboard": ("Leaderboard", ("accuracy",)),
    "gains": ("What the default gains", ()),
    "published": ("Beside the published numbers", ()),
    "ablation": ("Ablation", ("ablation",)),
    "sensitivity": ("Sensitivity", ("sensitivity",)),
    "shots": ("Number of examples", ("shots",)),
    "cost": ("Cost", ("cost",)),
    "classes": ("Classes", ("classes",)),
}


def page(
    rows: Sequence[Row],
    cells: Sequence[Cell],
    figures: dict[str, tuple[str, str]],
    tables: dict[str, list[ResultTable]],
) -> str:
    """The HTML of the report."""
    chapters = []
    for key, (title, names) in CHAPTERS.items():
        pictures = [_picture(name, *figures[name]) for name in names if name in figures]
        own = tables.get(key, [])
        after = [*(table.note for table in own), ""][1:]  # a note that the next table repeats is said once, there
        noted = [(table, table.note != note) for table, note in zip(own, after, strict=True)]
        if pictures or noted:
            chapters.append({"key": key, "title": title, "pictures": pictures, "tables": noted})
    failed = [row for row in rows if row["status"] != "ok"]
    return render(
        "results_page.html",
        chapters=chapters,
        runs=len(rows) - len(failed),
        names=sorted({dataset_title(cell.problem.dataset) for cell in cells}),
        tasks=_span(sorted({len(cell.per_task) for cell in cells})),
        seeds=_span(sorted({len(cell.rows) for cell in cells if not cell.training_free})) or "no",
        test=TEST,
        versions=sorted({_versions(row["versions"]) for row in rows}),
        version=__version__,
        failed=[(_place(row["run"]), row["reason"]) for row in failed],
    )


def _versions(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {found.get(name, '?')}" for name in ("fewnode", "torch"))


def _picture(name: str, title: str, picture: str) -> dict[str, Any]:
    width = float(re.search(r'width="([\d.]+)pt"', picture)[1])  # type: ignore[index]  # matplotlib writes it
    # ids inside an SVG are global on a page: two figures must not share one
    named = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", picture)
    return {"title": title, "svg": named, "least": round(0.85 * width)}


def _span(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers)) if len(numbers) < 3 else f"{numbers[0]} to {numbers[-1]}"


def _place(run: dict[str, Any]) -> str:
    return f"{run['method']} on {dataset_title(run['dataset'])}, {run['n_way']}w{run['k_shot']}s, seed {run['seed']}"
