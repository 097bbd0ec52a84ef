"""A user's own graph: ``fewnode fit-own``, ``fewnode predict`` and ``fewnode explain``."""

import argparse
import shlex
import time
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from . import own_screen
from .screen import TrainingBar, add_json, emit, load_dataset, say

if TYPE_CHECKING:
    from ..graph import Graph
    from ..prediction import FewShotClassifier

COLUMNS = ("id_column", "label_column", "text_column", "source_column", "target_column")


def add_commands(commands: Any) -> None:
    fit = commands.add_parser("fit-own", help="learn from the labelled classes of your own graph")
    _add_tables(fit, needed=True)
    for name in COLUMNS:
        flag = name.replace("_", "-")
        fit.add_argument(f"--{flag}", metavar="NAME", help=f"the {flag.replace('-', ' ')} of the tables")
    fit.add_argument("--method", default="tent", help="a name of `fewnode ls methods` (tent)")
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
    from ..methods import names

    one_of("method", args.method, names())  # wrong names are answered before torch is imported
    say("Reading the tables ...")
    from ..keeping import check_folder
    from ..known import choose_split
    from ..options import parse_options
    from ..prediction import FewShotClassifier
    from ..source import Source
    from .training import notes_said, pair

    check_folder(args.out, args.force)
    options = parse_options(args.method, dict(pair(text) for text in args.set))
    columns = {name: value for name in COLUMNS if (value := getattr(args, name)) is not None}
    source = Source.of(args.edges, args.nodes, args.features, **columns)
    graph = source.read()
    shape = {"n_way": args.n_way, "k_shot": args.k_shot, "min_size": args.min_size, "seed": args.seed}
    classifier = FewShotClassifier(args.method, **shape, device=args.device, **options)
    split = choose_split(graph, classifier.min_size)
    understood = own_screen.understood(graph, split, source)
    if not args.json:
        emit(args, understood, own_screen.draw_understood)
    try:
        with notes_said(), TrainingBar() as bar:
            classifier.fit(graph, split, source=source, callback=bar)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped before there was a model; nothing is kept") from None
    classifier.save(args.out, force=args.force)
    stopped = any(note.startswith("interrupted") for note in classifier.notes)
    compared = classifier.compare() if args.method != "probe" and not stopped else None
    emit(args, {**understood, **own_screen.fitted(classifier, args.out, compared)}, own_screen.draw_fitted)
    return 130 if stopped else 0


def _adapted(args: argparse.Namespace) -> "FewShotClassifier":
    """The model in the folder, on its graph, taught the examples of the support table."""
    say(f"Loading the model in {args.folder} ...")
    from ..prediction import FewShotClassifier
    from ..support import read_examples

    classifier = FewShotClassifier.load(args.folder)
    examples = read_examples(args.support)
    say("Reading the graph ...")
    graph = _graph(classifier, args)
    classifier.attach(graph)
    try:
        return classifier.adapt(examples, among=args.among)
    except InputError as error:
        raise InputError(f"{args.support}: {error}") from error


def _graph(classifier: "FewShotClassifier", args: argparse.Namespace) -> "Graph":
    from ..source import Source

    given = {name: getattr(args, name) for name in ("edges", "nodes", "features")}
    if args.edges is None and (args.nodes or args.features):
        raise InputError("another graph needs its edges: name them with --edges")
    assert classifier.model is not None and classifier.schema is not None
    if classifier.source is None:
        if args.edges is not None:
            return Source.of(**given).read()
        dataset = classifier.model.card.get("dataset")
        if dataset is None:
            raise InputError(f"{args.folder} does not remember its tables: name them with --edges and --nodes")
        graph: Graph = load_dataset(dataset, None)[0]
        return graph
    if args.edges is None and (lost := classifier.source.missing()):
        raise InputError(f"{lost}, which the model was fitted on, is gone: name the tables with --edges and --nodes")
    graph = classifier.read(**given)
    if args.edges is None and graph.fingerprint != classifier.schema.fingerprint:
        say("note: the tables have changed since the model was fitted; they are taken as they are now")
    return graph


def predict_nodes(args: argparse.Namespace) -> None:
    from ..tables import check_writable, read_columns, write_columns

    check_writable(args.out, args.force)
    if not 0 <= args.threshold <= 1:
        raise InputError(f"--threshold {args.threshold}: it is a probability, from 0 to 1")
    wanted = None
    if args.nodes_file is not None:
        wanted = read_columns(args.nodes_file).text("id", "nodes to predict")
    started = time.perf_counter()
    classifier = _adapted(args)
    with own_screen.NodeBar() as bar:
        found = classifier.predict_proba(_unlabelled(classifier) if wanted is None else wanted, progress=bar)
    table = found.table(args.threshold)
    write_columns(args.out, table, args.force)
    document = {
        "out": str(args.out),
        "nodes": len(found),
        "among": args.among,
        "threshold": args.threshold,
        "counts": found.counts(args.threshold),
        "examples": dict(zip(found.classes, classifier.support.shots(), strict=True)) if classifier.support else {},
        "calibration": classifier.calibration.to_json() if classifier.calibration else {},
        "seconds": round(time.perf_counter() - started, 3),
        "next": _explain_command(args, own_screen.least_sure(table)),
    }
    emit(args, document, own_screen.draw_predicted)


def _explain_command(args: argparse.Namespace, node: str) -> str:
    words = ["fewnode", "explain", args.folder, "--support", args.support]
    for name in ("edges", "nodes", "features"):
        words += [f"--{name}", getattr(args, name)] if getattr(args, name) else []
    words += ["--among", "all"] if args.among == "all" else []
    return shlex.join([*words, "--node", node])


def _unlabelled(classifier: "FewShotClassifier") -> Any:
    """All nodes that have no label, in the graph or as an example."""
    graph, support = classifier.graph, classifier.support
    assert graph is not None and support is not None
    open_ = graph.y < 0
    open_[support.nodes] = False
    nodes = open_.nonzero().flatten()
    if not len(nodes):
        raise InputError("every node has a label already; say with --nodes-file which ones to predict")
    return nodes


def explain_node(args: argparse.Namespace) -> None:
    classifier = _adapted(args)
    found = classifier.explain(args.node, n_neighbours=args.neighbours)
    emit(args, found.to_json(), own_screen.draw_explanation)
