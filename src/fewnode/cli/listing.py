"""What there is: ``fewnode ls``, ``info`` and ``completion``."""

import argparse
import sys
from dataclasses import asdict
from typing import Any

from .output import emit, load_with_bar, show, show_table


def list_names(args: argparse.Namespace) -> None:
    rows = {"datasets": _datasets, "methods": _methods, "grids": _grids}[args.what]()
    emit(args, rows, _draw_names)


def _datasets() -> list[dict[str, Any]]:
    from ..datasets import catalog

    counted = ("nodes", "edges", "features", "classes")
    return [
        {"name": name, **{key: getattr(entry.counts, key) for key in counted}, "description": entry.title}
        for name in catalog.names()
        if (entry := catalog.entry(name))
    ]


def _methods() -> list[dict[str, Any]]:
    from ..methods import describe

    return [{"name": name, "description": line} for name, line in describe().items()]


def _grids() -> list[dict[str, Any]]:
    from ..experiments.grid import grid_names, load_grid

    return [{"name": name, "description": load_grid(name).description} for name in grid_names()]


def _draw_names(rows: list[dict[str, Any]]) -> None:
    counts = {">nodes": "{nodes:,}", ">classes": "{classes:,}"} if "nodes" in rows[0] else {}
    show_table({"name": "{name}", **counts, "description": "{description}"}, rows)  # `info` and --json have more


def show_info(args: argparse.Namespace) -> None:
    from ..datasets import catalog

    entry = catalog.entry(args.dataset)  # refuses a wrong name before torch is imported
    graph, split = load_with_bar(entry.name, args.data_dir)
    from ..graph.graph import summary

    document = {
        "name": entry.name,
        "description": entry.title,
        "note": entry.note,
        **summary(graph, asdict(split)),
        "license": entry.license,
        "citation": entry.citation,
    }
    emit(args, document, lambda facts: _draw_info(facts, args.all))


def _draw_info(facts: dict[str, Any], every: bool) -> None:
    show("{name}  {description}", facts, style="bold")
    if facts["note"]:
        show(facts["note"])
    draw_counts(facts)
    show("{components:,} connected components, largest degree {max_degree:,}", facts)
    show("features: {features:,}" + ("" if facts["has_features"] else " (structural, none given)"), facts)
    split = ", ".join(f"{len(ids)} {part}" for part, ids in facts["split"].items())
    show(f"classes: {len(facts['classes'])} ({split})\n")
    _draw_bars(facts["classes"], every)
    show("\nlicence:  {license}\ncitation: {citation}", facts)


def draw_counts(facts: dict[str, Any]) -> None:
    """Nodes and edges of a graph."""
    show(
        "{nodes:,} nodes ({labelled:,} labelled, {isolated:,} without edges), "
        "{edges:,} edges ({self_loops:,} self-loops and {duplicates:,} duplicates dropped)",
        facts,
    )


def _draw_bars(classes: list[dict[str, Any]], every: bool) -> None:
    """Class sizes as bars, largest first; of a long list the 18 largest and the 6 smallest."""
    largest = max((row["nodes"] for row in classes), default=0) or 1
    rows = [
        {**row, "bar": "█" * round(40 * row["nodes"] / largest), "part": row["part"] or "unused"}
        for row in sorted(classes, key=lambda row: -row["nodes"])
    ]
    if len(rows) > 24 and not every:
        rows[18:-6] = [{"name": f"... {len(rows) - 24} more (--all)", "nodes": None, "bar": "", "part": ""}]
    show_table({"": "{name}", ">": "{nodes:,}", " ": "{bar}", "  ": "{part}"}, rows)


def print_completion(args: argparse.Namespace) -> None:
    import shtab

    sys.stdout.write(shtab.complete(args.parser, shell=args.shell) + "\n")
