"""What there is: ``fewnode ls``, ``info`` and ``completion``."""

import argparse
import sys
from dataclasses import asdict
from typing import Any

from .output import emit, load_with_bar


def list_names(args: argparse.Namespace) -> None:
    rows = {"datasets": _datasets, "methods": _methods, "grids": _grids}[args.what]()
    emit(args, rows, "names")


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
    emit(args, document, "info", every=args.all)


def print_completion(args: argparse.Namespace) -> None:
    import shtab

    sys.stdout.write(shtab.complete(args.parser, shell=args.shell) + "\n")
