"""A user's own graph: ``fewnode fit-own``, ``fewnode predict`` and ``fewnode explain``."""

import argparse
import shlex
import time
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from . import own_output
from .output import NodeBar, TrainingBar, add_json, emit, notes_said, pair, say

if TYPE_CHECKING:
    from ..graph import Graph
    from ..tasks import ClassSplit

COLUMNS = ("id_column", "label_column", "text_column", "source_column", "target_column")


def add_commands(commands: Any) -> None:
    fit = commands.add_parser("fit-own", help="learn from the labelled classes of your own graph")
    _add_tables(fit, needed=True)
    for name in COLUMNS:
        flag = name.replace("_", "-")
        fit.add_argument(f"--{flag}", metavar="NAME", help=f"the {flag.replace('-', ' ')} of the tables")
    fit.add_argument("--method", default="vantage", help="a name of `fewnode ls methods` (vantage)")
    fit.add_argument("--n-way", type=int, default=5, metavar="N", help="classes in a training task (5)")
    fit.add_argument("--k-shot", type=int, default=5, metavar="K", help="examples of each class in it (5)")
    fit.add_argument("--min-size", type=int, metavar="M", help="labelled nodes a class needs (twice K)")
    fit.add_argument("--seed", type=int, default=0, help="of the first weights and the training tasks (0)")
    fit.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="an option of the method")
    fit.add_argument("--device", default="auto", help="cpu, cuda, ... (auto)")
    fit.add_argument("--out", required=True, metavar="DIR", help="where the model goes")
    fit.add_argument("--force", action="store_true", help="replace a model in DIR")
    add_json(fit)
    fit.set_defaults(run=fit_own)

    predict = commands.add_parser("predict", help="name new classes by examples, get the class of every node")
    _add_adapted(predict)
    predict.add_argument("--out", required=True, metavar="FILE", help="predictions, .csv or .parquet")
    predict.add_argument(
        "--threshold", type=float, default=0.0, metavar="P", help="call nodes below this probability unknown (0)"
    )
    predict.add_argument("--nodes-file", metavar="FILE", help="a table whose column id says which nodes to predict")
    predict.add_argument("--force", action="store_true", help="replace FILE if it exists")
    add_json(predict)
    predict.set_defaults(run=predict_nodes)

    explain = commands.add_parser("explain", help="why a node gets its class")
    _add_adapted(explain)
    explain.add_argument("--node", required=True, metavar="ID", help="the node to explain")
    explain.add_argument(
        "--neighbours", type=int, default=5, metavar="N", help="for how many the edge is tried without (5)"
    )
    add_json(explain)
    explain.set_defaults(run=explain_node)


def _add_tables(parser: argparse.ArgumentParser, needed: bool) -> None:
    default = "" if needed else " (those the model was fitted on)"
    parser.add_argument("--edges", required=needed, metavar="FILE", help=f"table: source, target{default}")
    parser.add_argument("--nodes", metavar="FILE", help="table: id, label (may be empty), numeric columns or a text")
    parser.add_argument("--features", metavar="FILE", help="features apart: a table or an .npz")


def _add_adapted(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="what `fewnode fit-own --out` wrote")
    parser.add_argument(
        "--support", required=True, metavar="FILE", help="table: id, label; the examples of new classes"
    )
    _add_tables(parser, needed=False)
    parser.add_argument(
        "--among", choices=("new", "all"), default="new", help="offer the new classes, or the known ones too (new)"
    )


def fit_own(args: argparse.Namespace) -> int:
    from ..errors import one_of
    from ..methods import find, names

    one_of("method", args.method, names())  # wrong names are answered before torch is imported
    say("Reading the tables ...")
    from ..methods.options import parse_options
    from ..own.tables import TableSource
    from ..own.workflow import fit_tables

    options = parse_options(find(args.method), dict(pair(text) for text in args.set))
    columns = {name: value for name in COLUMNS if (value := getattr(args, name)) is not None}
    source = TableSource.of(args.edges, args.nodes, args.features, **columns)
    shape = {name: getattr(args, name) for name in ("n_way", "k_shot", "min_size", "seed", "device")}
    facts: dict[str, Any] = {}

    def understood(graph: "Graph", split: "ClassSplit") -> None:
        facts.update(own_output.understood(graph, split, source))
        if not args.json:
            emit(args, facts, own_output.draw_understood)

    try:
        with notes_said():
            fitted = fit_tables(
                source,
                args.out,
                force=args.force,
                method=args.method,
                settings={**shape, **options},
                understood=understood,
                training=TrainingBar(),
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped before there was a model; nothing is kept") from None
    emit(args, {**facts, **own_output.fitted(fitted.classifier, args.out, fitted.beside_probe)}, own_output.draw_fitted)
    return 130 if fitted.classifier.interrupted else 0


def predict_nodes(args: argparse.Namespace) -> None:
    from ..own.workflow import predict_tables

    started = time.perf_counter()
    classifier, found = predict_tables(
        args.folder,
        args.support,
        args.out,
        threshold=args.threshold,
        nodes_file=args.nodes_file,
        force=args.force,
        scoring=NodeBar(),
        **_where(args),
    )
    document = {
        "out": str(args.out),
        "nodes": len(found),
        "among": args.among,
        "threshold": args.threshold,
        "counts": found.counts(args.threshold),
        "examples": dict(zip(found.classes, classifier.support.shots(), strict=True)) if classifier.support else {},
        "calibration": classifier.calibration.to_json() if classifier.calibration else {},
        "seconds": round(time.perf_counter() - started, 3),
        "next": _explain_command(args, own_output.least_sure(found.table(args.threshold))),
    }
    emit(args, document, own_output.draw_predicted)


def _where(args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(args, name) for name in ("edges", "nodes", "features", "among")} | {"say": say}


def _explain_command(args: argparse.Namespace, node: str) -> str:
    words = ["fewnode", "explain", args.folder, "--support", args.support]
    for name in ("edges", "nodes", "features"):
        words += [f"--{name}", getattr(args, name)] if getattr(args, name) else []
    words += ["--among", "all"] if args.among == "all" else []
    return shlex.join([*words, "--node", node])


def explain_node(args: argparse.Namespace) -> None:
    from ..own.workflow import load_adapted

    if args.neighbours < 0:
        raise InputError(f"--neighbours {args.neighbours}: it is 0 or more")
    classifier = load_adapted(args.folder, args.support, wanted=[args.node], **_where(args))
    say(f"Explaining {args.node} ...")
    found = classifier.explain(args.node, n_neighbours=args.neighbours)
    emit(args, found.to_json(), own_output.draw_explanation)
