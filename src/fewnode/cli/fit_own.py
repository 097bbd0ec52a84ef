"""``fewnode fit-own``: learn from the labelled classes of a user's own graph."""

import argparse
from typing import TYPE_CHECKING, Any

from . import own_output
from .engines import add_engine, given_engine, given_memory
from .output import TrainingBar, add_json, emit, notes_said, pair, say, stages

if TYPE_CHECKING:
    from ..graph import Graph
    from ..own.tables import TableSource
    from ..tasks import ClassSplit

COLUMNS = {
    "id_column": "column of node ids",
    "label_column": "column of classes ('' if there are no labels)",
    "source_column": "column of the nodes that edges start from",
    "target_column": "column of the nodes that edges lead to",
    "weight_column": "column of the edge table: how strong each edge is, a number above zero",
    "edge_kind_column": "column of the edge table: what kind of edge each is",
}
SEVERAL_COLUMNS = {
    "text_column": "a text to learn words from",
    "category_column": "one of a few values",
    "number_column": "a number or a date",
    "ignore_column": "of no use",
}
OPTIONS = ("strict", "knn", "directed", "kind_per_file", "multi_label", "decimal")


def add_commands(commands: Any) -> None:
    fit = commands.add_parser("fit-own", help="learn from the labelled classes of your own graph")
    add_tables(fit, needed=True)
    _add_columns(fit)
    fit.add_argument("--method", default="vantage", help="a name of `fewnode ls methods` (vantage)")
    fit.add_argument("--n-way", type=int, default=5, metavar="N", help="classes in a training task (5)")
    fit.add_argument("--k-shot", type=int, default=5, metavar="K", help="examples of each class in it (5)")
    fit.add_argument("--min-size", type=int, metavar="M", help="labelled nodes a class needs (twice K)")
    fit.add_argument("--seed", type=int, default=0, help="of the first weights and the training tasks (0)")
    fit.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="an option of the method")
    fit.add_argument("--device", default="auto", help="cpu, cuda, ... (auto)")
    fit.add_argument("--out", required=True, metavar="DIR", help="where the model goes")
    fit.add_argument("--force", action="store_true", help="replace a model in DIR")
    fit.add_argument("--resume", action="store_true", help="go on with a training for DIR that was stopped or killed")
    add_json(fit)
    fit.set_defaults(run=fit_own)


def add_tables(parser: argparse.ArgumentParser, needed: bool) -> None:
    """The flags that say where the graph is; to ask a fitted model they are not ``needed``."""
    default = "" if needed else " (those the model was fitted on)"
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "metavar": "FILE"}
    parser.add_argument(
        "--edges", **several, help=f"table of edges: source, target; or several files; or a store{default}"
    )
    parser.add_argument(
        "--nodes", **several, help="table of nodes: id, label (may be empty), and what is known of them"
    )
    parser.add_argument("--features", metavar="FILE", help="features apart: a table, .npy, .npz or .parquet of vectors")
    parser.add_argument("--memory", metavar="SIZE", help="bound the work on a store, e.g. 4GB (half of what is free)")
    add_engine(parser, "the work on a store is done", "task")


def _add_columns(parser: argparse.ArgumentParser) -> None:
    for name, what in COLUMNS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="NAME", help=what)
    for name, what in SEVERAL_COLUMNS.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, action="append", metavar="NAME", help=f"column of the nodes: {what}; may be repeated")
    parser.add_argument(
        "--labels", nargs="+", action="extend", metavar="FILE", help="a table of labels apart: id, label"
    )
    parser.add_argument("--multi-label", choices=("first", "none", "one"), help="what cells with several labels mean")
    parser.add_argument("--decimal", choices=(",", "."), help="the decimal mark, where it cannot be told")
    parser.add_argument("--strict", action="store_true", help="refuse edges to nodes that the table of nodes lacks")
    parser.add_argument("--knn", type=int, metavar="K", help="without --edges: link each node to the K most like it")
    parser.add_argument("--directed", action="store_true", help="edges lead one way")
    parser.add_argument("--kind-per-file", action="store_true", help="the edges of each file are a kind of their own")


def fit_own(args: argparse.Namespace) -> int:
    from ..errors import one_of
    from ..methods import find, names

    one_of("method", args.method, names())  # wrong names are answered before torch is imported
    say("Reading the tables ...")
    from ..methods.options import parse_options
    from ..own.tables import TableSource as Source
    from ..own.workflow import fit_tables

    options = parse_options(find(args.method), dict(pair(text) for text in args.set))
    columns = {name: value for name in (*COLUMNS, *SEVERAL_COLUMNS) if (value := getattr(args, name)) is not None}
    chosen = {name: value for name in OPTIONS if (value := getattr(args, name))}
    source = Source.of(args.edges, args.nodes, args.features, labels=args.labels, options=chosen, **columns)
    shape = {name: getattr(args, name) for name in ("n_way", "k_shot", "min_size", "seed", "device")}
    facts: dict[str, Any] = {}

    def understood(graph: "Graph", split: "ClassSplit", source: "TableSource") -> None:
        facts.update(own_output.understood(graph, split, source))
        if not args.json:
            emit(args, facts, own_output.draw_understood)

    try:
        with notes_said():
            fitted = fit_tables(
                source,
                args.out,
                force=args.force,
                resume=args.resume,
                method=args.method,
                settings={**shape, **options},
                understood=understood,
                training=TrainingBar(),
                learning=stages(),
                memory=given_memory(args),
                engine=given_engine(args),
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped before there was a model; --resume goes on from the last check") from None
    emit(args, {**facts, **own_output.fitted(fitted.classifier, args.out, fitted.beside_probe)}, own_output.draw_fitted)
    return 130 if fitted.classifier.interrupted else 0
