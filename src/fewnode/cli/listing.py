"""What there is: ``fewnode ls``, ``info`` and ``completion``."""

import argparse
import sys
from dataclasses import asdict
from typing import Any

from ..errors import InputError
from .options import picked
from .output import emit, load_with_bar


def list_names(args: argparse.Namespace) -> None:
    from ..datasets import catalog
    from ..experiments.grid import grid_names, load_grid
    from ..methods import describe

    rows: list[dict[str, Any]]
    if args.what == "datasets":
        counted = ("nodes", "edges", "features", "classes")
        found = catalog.entries().values()
        rows = [{"name": one.name, **picked(one.counts, *counted), "description": one.title} for one in found]
    else:
        lines = describe() if args.what == "methods" else {name: load_grid(name).description for name in grid_names()}
        rows = [{"name": name, "description": line} for name, line in lines.items()]
    emit(args, rows, "names")


def get_encoder(args: argparse.Namespace) -> None:
    """Fetch the default text encoder, once the user has agreed."""
    from ..datasets.download import fetch_encoder
    from .output import say

    if not args.yes:
        if not sys.stdin.isatty():
            raise InputError("nobody is here to be asked: say --yes to fetch the encoder from huggingface.co")
        say("potion-base-8M (31 MB, MIT licence, by MinishLab) will be fetched from huggingface.co. Go on? [y/N] ")
        if input().strip().lower() not in ("y", "yes"):
            raise InputError("nothing was fetched")
    emit(args, {"folder": str(fetch_encoder())}, "encoder")


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
