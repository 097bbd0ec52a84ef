"""A model of a user's own graph: ``fewnode fit``, ``predict``, ``find``, ``explain`` and ``label``."""

import argparse
import shlex
import time
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from . import output as explain_output
from . import output as own_output
from .output import NodeBar, TrainingBar, add_json, emit, notes_said, pair, say, stages
from .stores import add_engine, given_engine, given_memory

# --- ``fewnode fit``: learn from the labelled classes of a user's own graph.
if TYPE_CHECKING:
    from ..classifier.inputs import TableSource
    from ..graph import Graph
    from ..tasks import ClassSplit

COLUMNS = {
    "id_column": "column of node ids",
    "label_column": "column of classes ('' if there are no labels)",
    "source_column": "column of the nodes that edges start from",
    "target_column": "column of the nodes that edges lead to",
    "weight_column": "column of the edge table: how strong each edge is, a number above zero",
    "edge_type_column": "column of the edge table: the type of each edge",
}
SEVERAL_COLUMNS = {
    "text_column": "a text to learn words from",
    "category_column": "one of a few values",
    "number_column": "a number or a date",
    "ignore_column": "of no use",
}
OPTIONS = ("strict", "knn", "directed", "type_per_file", "multi_label", "decimal")


def add_commands(commands: Any) -> None:
    fit = commands.add_parser("fit", help="learn from the labelled classes of your own graph")
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
    parser.add_argument(
        "--type-per-file", action="store_true", help="the edges of each file are an edge type of their own"
    )


def fit_own(args: argparse.Namespace) -> int:
    from ..errors import one_of
    from ..methods import find, names

    one_of("method", args.method, names())  # wrong names are answered before torch is imported
    say("Reading the tables ...")
    from ..classifier.commands import fit_tables
    from ..classifier.inputs import TableSource as Source
    from ..methods.options import parse_options

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


# --- What a model of a user's own graph is asked: ``fewnode predict``, ``find`` and ``explain``.
if TYPE_CHECKING:
    from ..classifier.classifier import FewShotClassifier
    from ..classifier.commands import PredictedTables

LISTED = 20  # candidates shown where no file is wanted


def add_commands_own(commands: Any) -> None:
    _add_predict(commands.add_parser("predict", help="name new classes by examples, get the class of every node"))
    _add_find(commands.add_parser("find", help="more like these: the likeliest nodes of a new class, ranked"))
    _add_explain(commands.add_parser("explain", help="why a node gets its class"))


def _add_predict(predict: argparse.ArgumentParser) -> None:
    _add_adapted(predict)
    predict.add_argument("--out", required=True, metavar="FILE", help="predictions, .csv or .parquet")
    predict.add_argument(
        "--threshold",
        action="append",
        type=_threshold,
        default=[],
        metavar="[CLASS=]P",
        help="call nodes below this probability unknown; for one class with its name; may be repeated",
    )
    predict.add_argument("--all-probabilities", action="store_true", help="add a column for every class")
    predict.add_argument("--nodes-file", metavar="FILE", help="a table whose column id says which nodes to predict")
    predict.add_argument(
        "--new-nodes", metavar="FILE", help="predict nodes that arrive later: a table like --nodes, ..."
    )
    predict.add_argument("--new-edges", metavar="FILE", help="... and how they are joined to the graph, like --edges")
    predict.add_argument("--report", metavar="PAGE", help="write a page about it too: an .html that needs nothing else")
    predict.add_argument("--force", action="store_true", help="replace FILE and PAGE if they exist")
    _add_raw_cells(predict)
    add_json(predict)
    predict.set_defaults(run=predict_nodes)


def _add_find(find: argparse.ArgumentParser) -> None:
    _add_adapted(find)
    find.add_argument("--class", dest="label", metavar="NAME", help="the class to find, if the support names several")
    find.add_argument("--top", type=int, metavar="N", help=f"how many candidates (200; without --out {LISTED})")
    find.add_argument("--out", metavar="FILE", help="candidates, .csv or .parquet; without it they are listed")
    find.add_argument("--force", action="store_true", help="replace FILE if it exists")
    _add_raw_cells(find)
    add_json(find)
    find.set_defaults(run=find_nodes)


def _add_explain(explain: argparse.ArgumentParser) -> None:
    _add_adapted(explain)
    explain.add_argument("--node", required=True, metavar="ID", help="the node to explain")
    explain.add_argument(
        "--neighbours", type=int, default=5, metavar="N", help="for how many the edge is tried without (5)"
    )
    add_json(explain)
    explain.set_defaults(run=explain_node)


def _add_raw_cells(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--raw-cells",
        action="store_true",
        help="write cells that begin with = + - @ as they are, without the apostrophe that keeps them from being run",
    )


def _add_adapted(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="what `fewnode fit --out` wrote")
    parser.add_argument(
        "--support", required=True, metavar="FILE", help="table: id, label; the examples of new classes"
    )
    add_tables(parser, needed=False)
    parser.add_argument(
        "--among",
        choices=("all", "new"),
        help="all: known, new, or other (default); new: every node is forced into one of the new classes",
    )
    parser.add_argument(
        "--prior",
        action="append",
        type=_share,
        default=[],
        metavar="CLASS=SHARE",
        help="how common a new class (or other) is among the nodes without a label; may be repeated",
    )


def _share(text: str) -> tuple[str, float]:
    name, sign, value = text.rpartition("=")
    try:
        return name if sign else _refused(text), float(value)
    except ValueError:
        return _refused(text), 0.0


def _refused(text: str) -> str:
    raise argparse.ArgumentTypeError(f"{text!r}: write CLASS=SHARE, for example mule=0.01")


def _threshold(text: str) -> tuple[str | None, float]:
    name, sign, value = text.rpartition("=")
    try:
        return name if sign else None, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write a probability, or CLASS=P for one class") from None


def predict_nodes(args: argparse.Namespace) -> None:
    from ..classifier.commands import predict_tables

    later = args.new_nodes is not None
    if args.report is not None:
        from ..report.predictions_page import check_page, write_predictions_page

        if later:
            raise InputError("--report is about the nodes of the fitted graph; leave it out with --new-nodes")
        check_page(args.report, args.force)
    started = time.perf_counter()
    threshold, thresholds = _thresholds(args.threshold)
    done = predict_tables(
        args.folder,
        args.support,
        args.out,
        threshold=threshold,
        thresholds=thresholds,
        all_probabilities=args.all_probabilities,
        nodes_file=args.nodes_file,
        new_nodes=args.new_nodes,
        new_edges=args.new_edges,
        force=args.force,
        raw_cells=args.raw_cells,
        scoring=NodeBar(),
        **_where(args),
    )
    if args.report is not None and done.found is None:
        say("note: there is no page (--report), which holds all predictions in memory; those of a store are in --out")
    elif args.report is not None and done.found is not None:
        page = write_predictions_page(done.classifier, done.found, args.report, threshold, thresholds)
        say(f"Page in {page}")
    document = {
        "out": str(args.out),
        "report": None if done.found is None else args.report,
        "threshold": threshold,
        "thresholds": thresholds,
        **_predicted(done),
        "seconds": round(time.perf_counter() - started, 3),
        "next": None if later else _explain_command(args, done.answered.least_sure),
    }
    emit(args, document, own_output.draw_predicted)


def _predicted(done: "PredictedTables") -> dict[str, Any]:
    """What was found, as JSON."""
    found, classifier = done.answered, done.classifier
    return {
        "nodes": found.rows,
        "among": "new" if found.expectation is None else "all",
        "counts": found.counts,
        "kinds": dict(zip(found.classes, found.kinds or ["new"] * len(found.classes), strict=True)),
        "examples": _shots(classifier),
        "expectation": None if found.expectation is None else found.expectation.to_json(),
        "calibration": None if classifier.calibration is None else classifier.calibration.to_json(),
    }


def _thresholds(given: list[tuple[str | None, float]]) -> tuple[float, dict[str, float]]:
    """The common threshold, the last one given, and those of single classes."""
    common = [value for name, value in given if name is None]
    return (common or [0.0])[-1], {name: value for name, value in given if name is not None}


def _shots(classifier: "FewShotClassifier") -> dict[str, int]:
    support = classifier.support
    return {} if support is None else dict(zip(support.classes, support.shots(), strict=True))


def find_nodes(args: argparse.Namespace) -> None:
    from ..classifier.commands import find_tables

    started = time.perf_counter()
    top = (LISTED if args.out is None else 200) if args.top is None else args.top
    shown = {"label": args.label, "top": top, "force": args.force, "raw_cells": args.raw_cells}
    classifier, found = find_tables(args.folder, args.support, args.out, **shown, **_where(args))
    listed = [] if args.out is not None else zip(found.names, found.probabilities.tolist(), strict=True)
    steps = sorted({min(n, len(found)) for n in (10, 50, 200, len(found))})
    document = {
        "out": args.out,
        "class": found.label,
        "candidates": len(found),
        "listed": [{"id": name, "probability": round(share, 6)} for name, share in listed],
        "examples": _shots(classifier)[found.label],
        "expected": {str(n): round(found.expected(n), 2) for n in steps},
        "first": found.names[:10],
        "seconds": round(time.perf_counter() - started, 3),
        "next": _explain_command(args, found.names[0]),
    }
    emit(args, document, own_output.draw_found)


def _where(args: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(args, name) for name in ("edges", "nodes", "features", "among")}
    return {**given, "priors": dict(args.prior), "memory": given_memory(args), "engine": given_engine(args), "say": say}


def _explain_command(args: argparse.Namespace, node: str) -> str:
    words = ["fewnode", "explain", args.folder, "--support", args.support]
    for name in ("edges", "nodes", "features"):
        given = getattr(args, name) or []
        words += [f"--{name}", *([given] if isinstance(given, str) else given)] if given else []
    words += ["--memory", args.memory] if args.memory else []
    words += ["--among", args.among] if args.among else []
    for name, share in args.prior:
        words += ["--prior", f"{name}={share:g}"]
    return shlex.join([*words, "--node", node])


def explain_node(args: argparse.Namespace) -> None:
    from ..classifier.commands import load_adapted

    if args.neighbours < 0:
        raise InputError(f"--neighbours {args.neighbours}: it is 0 or more")
    classifier = load_adapted(args.folder, args.support, wanted=[args.node], **_where(args))
    say(f"Explaining {args.node} ...")
    found = classifier.explain(args.node, n_neighbours=args.neighbours)
    emit(args, found.to_json(), explain_output.draw_explanation)


# --- ``fewnode label``: name new classes by example in the browser.
def add_commands_labelling(commands: Any) -> None:
    parser = commands.add_parser("label", help="name new classes by example, in the browser")
    parser.add_argument("folder", metavar="DIR", help="what `fewnode fit --out` wrote; the labels are kept in it")
    parser.add_argument("--support", metavar="FILE", help="table: id, label; examples to start from")
    parser.add_argument("--port", type=int, default=0, metavar="P", help="where the page is served (0: any free port)")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen on (127.0.0.1)")
    parser.add_argument("--allow-remote", action="store_true", help="let other machines reach the page on --host")
    parser.add_argument("--memory", metavar="SIZE", help="bound the work on a store, e.g. 4GB (half of what is free)")
    parser.set_defaults(run=label_nodes)


def label_nodes(args: argparse.Namespace) -> None:
    from ..labelling.server import label
    from ..store import parsed_memory

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
