"""The page: one HTML file that needs nothing else, with every figure and table also beside it as files."""

import html
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..experiments.results import Row
from ..storage import atomic_write
from .cells import Cell, dataset_title, gather
from .contents import ablations, costs, difficulties, every_cell, gains, leaderboards, sensitivities
from .figures import Figure, draw_all
from .published import side_by_side
from .significance import TEST
from .tables import ResultTable

STYLE = """
:root { color-scheme: light; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --tint: #f3f6f9; --accent: #0072b2 }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.2rem; max-width: 75rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }
h1 { font-size: 1.6rem; margin: .2rem 0 }
h2 { margin: 2.4rem 0 .4rem; padding-top: .6rem; border-top: 2px solid var(--line) }
h3 { margin: 1.2rem 0 .3rem; font-size: 1rem } p { max-width: 46rem }
nav a { margin-right: 1rem } a { color: var(--accent) }
figure { margin: 0 0 1.4rem } figcaption { color: var(--soft); font-size: .85rem; max-width: 60rem; margin-top: .3rem }
.wide { overflow-x: auto } .wide svg { max-width: 100%; height: auto; display: block }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap }
tbody th, thead th:first-child { text-align: left; font-weight: 500; position: sticky; left: 0; background: #fff }
tbody tr:hover > * { background: var(--tint) } td.strong { font-weight: 700; color: #003d66; background: #e3f0f9 }
.bad { color: #9a3412 }
@media print { body { font-size: 10pt; max-width: none; padding: 0 } figure { break-inside: avoid }
  nav { display: none }
  .wide { overflow: visible } .wide svg { min-width: 0 !important; width: 100% } table { font-size: 7.5pt }
  th, td { padding: .1rem .3rem; white-space: normal } }
"""


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
    parts, links = [], []
    for key, (title, names) in CHAPTERS.items():
        pictures = [_picture(name, *figures[name]) for name in names if name in figures]
        own = tables.get(key, [])
        after = [*(table.note for table in own), ""][1:]  # a note that the next table repeats is said once, there
        body = pictures + [table.html(table.note != note) for table, note in zip(own, after, strict=True)]
        if body:
            links.append(f'<a href="#part-{key}">{title}</a>')
            parts.append(f'<section><h2 id="part-{key}">{title}</h2>\n' + "\n".join(body) + "</section>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>fewnode report</title><style>{STYLE}</style></head>\n<body>\n<h1>Few-shot node classification</h1>\n"
        f"{_summary(rows, cells)}\n<nav>{''.join(links)}</nav>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _picture(name: str, title: str, picture: str) -> str:
    # ids inside an SVG are global on a page: two figures must not share one
    width = float(re.search(r'width="([\d.]+)pt"', picture)[1])  # type: ignore[index]  # matplotlib writes it
    named = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", picture)
    return (
        f'<figure><h3>{html.escape(title)}</h3><div class="wide" role="img" aria-label="{html.escape(title)}">'
        f"{named.replace('<svg', f'<svg style=min-width:{0.85 * width:.0f}pt', 1)}</div></figure>"
    )


def _summary(rows: Sequence[Row], cells: Sequence[Cell]) -> str:
    failed = [row for row in rows if row["status"] != "ok"]
    names = sorted({dataset_title(cell.problem.dataset) for cell in cells})
    versions = sorted({f"fewnode {row['versions']['fewnode']}, torch {row['versions']['torch']}" for row in rows})
    tasks = sorted({len(cell.per_task) for cell in cells})
    seeds = sorted({len(cell.rows) for cell in cells if not cell.training_free})
    text = (
        f"<p>{len(rows) - len(failed)} runs on {len(names)} data sets ({html.escape(', '.join(names))}). Every method "
        f"met the same {_span(tasks)} tasks of each setting, drawn once from the novel classes; a trained method was "
        f"trained from {_span(seeds) or 'no'} seeds and selected on validation tasks only. Intervals are over tasks, "
        f"standard deviations over training seeds. Marks come from a {html.escape(TEST)}: they speak of other tasks on "
        f"the same graph, not of other graphs. {html.escape('; '.join(versions))}; report by "
        f"fewnode {__version__}.</p>"
    )
    return text + _failures(failed)


def _span(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers)) if len(numbers) < 3 else f"{numbers[0]} to {numbers[-1]}"


def _failures(failed: Sequence[Row]) -> str:
    if not failed:
        return ""
    items = "".join(f"<li>{html.escape(_place(row['run']))}: {html.escape(row['reason'])}</li>" for row in failed)
    return f'<details class="bad"><summary>failed: {len(failed)}</summary><ul>{items}</ul></details>'


def _place(run: dict[str, Any]) -> str:
    return f"{run['method']} on {dataset_title(run['dataset'])}, {run['n_way']}w{run['k_shot']}s, seed {run['seed']}"
