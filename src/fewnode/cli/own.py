"""What a model of a user's own graph is asked: ``fewnode predict``, ``find`` and ``explain``."""

import argparse
import shlex
import time
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from . import explain_output, own_output
from .engines import given_engine, given_memory
from .fit_own import add_tables
from .output import NodeBar, add_json, emit, say

if TYPE_CHECKING:
    from ..own.classifier import FewShotClassifier
    from ..own.workflow import PredictedTables

LISTED = 20  # candidates shown where no file is wanted


def add_commands(commands: Any) -> None:
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
    parser.add_argument("folder", metavar="DIR", help="what `fewnode fit-own --out` wrote")
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
    from ..own.workflow import predict_tables

    later = args.new_nodes is not None
    if args.report is not None:
        from ..report.own_page import check_page, write_own_page

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
        say(f"Page in {write_own_page(done.classifier, done.found, args.report, threshold, thresholds)}")
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
    from ..own.workflow import find_tables

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
    from ..own.loading import load_adapted

    if args.neighbours < 0:
        raise InputError(f"--neighbours {args.neighbours}: it is 0 or more")
    classifier = load_adapted(args.folder, args.support, wanted=[args.node], **_where(args))
    say(f"Explaining {args.node} ...")
    found = classifier.explain(args.node, n_neighbours=args.neighbours)
    emit(args, found.to_json(), explain_output.draw_explanation)
