"""``fewnode label``: name new classes by example in the browser."""

import argparse
from typing import Any

from .output import say


def add_commands(commands: Any) -> None:
    parser = commands.add_parser("label", help="name new classes by example, in the browser")
    parser.add_argument("folder", metavar="DIR", help="what `fewnode fit-own --out` wrote; the labels are kept in it")
    parser.add_argument("--support", metavar="FILE", help="table: id, label; examples to start from")
    parser.add_argument("--port", type=int, default=0, metavar="P", help="where the page is served (0: any free port)")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen on (127.0.0.1)")
    parser.add_argument("--allow-remote", action="store_true", help="let other machines reach the page on --host")
    parser.add_argument("--memory", metavar="SIZE", help="bound the work on a store, e.g. 4GB (half of what is free)")
    parser.set_defaults(run=label_nodes)


def label_nodes(args: argparse.Namespace) -> None:
    from ..labelling.serving import label
    from ..store.sizes import parsed_memory

    label(
        args.folder,
        support=args.support,
        host=args.host,
        port=args.port,
        allow_remote=args.allow_remote,
        browser=not args.no_browser,
        memory=None if args.memory is None else parsed_memory(args.memory),
        say=say,
    )
