"""A model that is in use: ``fewnode serve`` and ``drift``."""

import argparse
from dataclasses import asdict
from pathlib import Path

from ..errors import one_of
from . import options
from .output import emit, say


def serve_model(args: argparse.Namespace) -> None:
    from ..serving.http import Limits, serve

    given = options.picked(args, "host", "port", "token_file", "workers")
    serve(args.folder, **given, limits=Limits(args.max_body, args.max_nodes, args.timeout), say=say)


def show_drift(args: argparse.Namespace) -> int:
    kind = one_of("kind of figure", Path(args.figure or "x.svg").suffix[1:], ("svg", "png", "pdf"))
    from ..classifier.drift import drift_tables
    from ..files import atomic_write

    found = drift_tables(args.folder, args.edges, args.nodes, say=say)
    if args.figure is not None:
        from ..report.figures import draw_drift
        from ..report.page import figure_bytes

        with atomic_write(args.figure) as file:
            file.write(figure_bytes(draw_drift(found), kind, "drift"))
    emit(
        args, {"drift": bool(found.reasons), "verdict": found.verdict, **asdict(found), "figure": args.figure}, "drift"
    )
    return 3 if found.reasons else 0
