"""The results page: one HTML file that needs nothing else, with every figure and table also beside it as files."""

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..experiments.rows import Row
from ..files import atomic_write
from . import figures, tables
from .results import TEST, Cell, dataset_title, gather
from .tables import ResultTable
from .templating import render

Cells = Sequence[Cell]
# key -> title, function that makes the tables, title of the figure, function that draws it
CHAPTERS: dict[str, tuple[str, Callable[[Cells], list[ResultTable]], str, Callable[[Cells], figures.Figure | None]]] = {
    "leaderboard": ("Leaderboard", tables.leaderboards, "Accuracy of every method", figures.draw_accuracy),
    "gains": ("Gain of the default method", tables.gains, "", lambda cells: None),
    "published": ("Beside the published numbers", tables.side_by_side, "", lambda cells: None),
    "ablation": ("Ablation", tables.ablations, "Without a level of adaptation", figures.draw_ablation),
    "sensitivity": ("Sensitivity", tables.sensitivities, "By the size of training tasks", figures.draw_sensitivity),
    "shots": ("Number of examples", lambda cells: [], "Accuracy by number of examples", figures.draw_shots),
    "cost": ("Cost", tables.costs, "Accuracy against seconds of training", figures.draw_cost),
    "classes": ("Classes", tables.difficulties, "The hardest classes", figures.draw_classes),
}


def write_report(rows: Sequence[Row], out: Path) -> list[Path]:
    """Write the page and, in a folder of the same name, its figures (SVG, PDF) and tables (CSV, Markdown, LaTeX)."""
    cells = gather(rows)
    found, pictures = all_tables(cells), {}
    contents: dict[str, str | bytes] = {"cells.csv": tables.every_cell(cells).csv()}
    for key, (*_, draw) in CHAPTERS.items():
        if (figure := draw(cells)) is not None:
            pictures[key] = contents[f"{key}.svg"] = svg(figure, key)
            contents[f"{key}.pdf"] = _bytes(figure, "pdf", key)
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
    return {key: make(cells) for key, (_, make, *_) in CHAPTERS.items()}


def svg(figure: Any, name: str) -> str:
    """A figure as SVG without the XML head, whose document type names an outside address."""
    text = _bytes(figure, "svg", name).decode()
    return text[text.index("<svg") :]


def _bytes(figure: Any, kind: str, salt: str) -> bytes:
    import matplotlib

    out = io.BytesIO()
    # The salt makes ids differ between figures on one page and stay the same from one writing to the next.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt, "pdf.fonttype": 42}):
        figure.savefig(out, format=kind, metadata={"Date" if kind == "svg" else "CreationDate": None})
    return out.getvalue()


def page(
    rows: Sequence[Row], cells: Sequence[Cell], pictures: dict[str, str], found: dict[str, list[ResultTable]]
) -> str:
    """The HTML of the report: ``pictures`` (SVG) and tables by chapter."""
    chapters = [
        {
            "key": key,
            "title": title,
            "picture": _picture(key, caption, pictures[key]) if key in pictures else None,
            "tables": found.get(key, []),
        }
        for key, (title, _, caption, _) in CHAPTERS.items()
        if found.get(key) or key in pictures
    ]
    failed = [row for row in rows if row["status"] != "ok"]
    return render(
        "results_page.html",
        chapters=chapters,
        runs=len(rows) - len(failed),
        names=sorted({dataset_title(cell.problem.dataset) for cell in cells}),
        tasks=_span({len(cell.per_task) for cell in cells}),
        seeds=_span({len(cell.rows) for cell in cells if not cell.training_free}) or "no",
        test=TEST,
        versions=sorted({_versions(row["versions"]) for row in rows}),
        version=__version__,
        failed=[(_place(row["run"]), row["reason"]) for row in failed],
    )


def _picture(key: str, title: str, picture: str) -> dict[str, Any]:
    width = float(re.search(r'width="([\d.]+)pt"', picture)[1])  # type: ignore[index]  # matplotlib writes it
    # ids inside an SVG are global on a page: two figures must not share one
    named = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{key}-", picture)
    return {"title": title, "svg": named, "least": round(0.85 * width)}


def _versions(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {found.get(name, '?')}" for name in ("fewnode", "torch"))


def _span(numbers: set[int]) -> str:
    return " or ".join(map(str, sorted(numbers))) if len(numbers) < 3 else f"{min(numbers)} to {max(numbers)}"


def _place(run: dict[str, Any]) -> str:
    return f"{run['method']} on {dataset_title(run['dataset'])}, {run['n_way']}w{run['k_shot']}s, seed {run['seed']}"
