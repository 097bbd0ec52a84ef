"""What papers have printed, beside what was measured here."""

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from .cells import Cell, dataset_title, title
from .tables import ResultTable


@cache
def published() -> dict[str, Any]:
    return tomllib.loads((files("fewnode.report") / "published.toml").read_text(encoding="utf-8"))


def side_by_side(cells: Sequence[Cell]) -> list[ResultTable]:
    """One table for each data set of a paper: printed and measured accuracy of every method and setting.

    The data sets of the first source appear even if they were not run; those of later ones only if they were.
    """
    main = [cell for cell in cells if cell.kind == "main" and not cell.problem.inductive and cell.problem.n_query == 10]
    first, *later = published()["source"]
    tables = [_table(first, dataset, main) for dataset in _datasets(first)]
    return tables + [
        _table(source, dataset, main) for source in later for dataset in _datasets(source) if _measured(dataset, main)
    ]


def _datasets(source: dict[str, Any]) -> list[str]:
    return [key for key, value in source.items() if isinstance(value, dict)]


def _measured(dataset: str, cells: Sequence[Cell]) -> str | None:
    """The data set whose cells stand beside the printed ones: itself, else one that stands in for it."""
    stands = [name for name, (original, _) in published()["stand_in"].items() if original == dataset]
    run = {cell.problem.dataset for cell in cells}
    return next((name for name in [dataset, *stands] if name in run), None)


def _table(source: dict[str, Any], dataset: str, cells: Sequence[Cell]) -> ResultTable:
    measured, settings = _measured(dataset, cells), source["settings"]
    ours = {
        (cell.title, f"{cell.problem.n_way}w{cell.problem.k_shot}s"): f"{100 * cell.accuracy:.1f}"
        for cell in cells
        if cell.problem.dataset == measured
    }
    printed = {title(method, {}): numbers for method, numbers in source[dataset].items()}
    others = dict.fromkeys(name for name, _ in ours if name not in printed)
    rows = []
    for name in [*printed, *others]:
        paper = (
            [f"{number:.{source['decimals']}f}" for number in printed[name]]
            if name in printed
            else ["–"] * len(settings)
        )
        here = [ours.get((name, setting), "–") for setting in settings]
        pairs = zip(paper, here, strict=True) if measured else zip(paper, strict=True)
        rows.append([name, *(text for pair in pairs for text in pair)])
    kinds = ["paper", "here"] if measured else ["paper"]
    heads = ["method", *(f"{setting} {kind}" for setting in settings for kind in kinds)]
    name = f"published_{source['key']}_{dataset}"
    return ResultTable(
        name, f"{dataset_title(dataset)}, {source['short']}", heads, rows, _note(source, dataset, measured)
    )


def _note(source: dict[str, Any], dataset: str, measured: str | None) -> str:
    text = f"Accuracy in %. Paper: {source['title']}."
    if measured is None:
        return f"{text} This data set was not run here."
    if measured != dataset:
        return f"{text} Here: a stand-in, {published()['stand_in'][measured][1]}."
    return text
