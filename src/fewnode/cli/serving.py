"""A model that is in use: ``fewnode serve``."""

import argparse

from . import options
from .output import say


def serve_model(args: argparse.Namespace) -> None:
    from ..serving.http import Limits, serve

    given = options.picked(args, "host", "port", "token_file", "workers")
    serve(args.folder, **given, limits=Limits(args.max_body, args.max_nodes, args.timeout), say=say)
