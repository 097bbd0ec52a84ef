"""A user's own graph: ``fewnode fit`` and all that works with its folder, ``import`` and ``plan``."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

from ..classifier.classifier import FewShotClassifier, check_folder
from ..classifier.commands import load_attached, predict_tables
from ..classifier.inputs import TableSource, find_nodes
from ..classifier.planning import plan
from ..errors import InputError, one_of
from ..files import atomic_write, readable
from ..graph.graph import summary
from ..labelling.session import grow_folder
from ..methods import find
from ..methods.base import checked_options
from ..store import Store
from ..tables import check_writable, find_id, read_columns, write_columns
from ..tables.importing import import_tables
from . import options
from .output import Bar, emit, fill, say


def fit_classifier(args: argparse.Namespace) -> None:
    say("Reading the tables ...")
    check_folder(args.out, args.force)
    method_options = checked_options(find(args.method or "vantage"), options.option_pairs(args.set))
    reading = ("labels", "strict", "knn", "directed", "type_per_file", "multi_label", "max_classes", "decimal")
    chosen = {name: value for name, value in options.picked(args, *reading, "text_encoder").items() if value}
    source = TableSource.of(args.edges, args.nodes, args.features, **chosen, **options.given_columns(args))
    graph, source = source.infer(args.memory)
    settings = options.picked(args, "method", "n_way", "k_shot", "min_size", "seed", "device") | method_options
    classifier = FewShotClassifier(**settings)
    split = classifier.choose_split(graph)
    facts = summary(graph, asdict(split), components=False)
    facts["classes"] = [{**row, "part": row["part"] or "too small"} for row in facts["classes"] if row["nodes"]]
    facts["features"] = "none given (positions in the graph are used)"
    if graph.features is not None:
        sparse = graph.features.layout != graph.indptr.layout
        facts["features"] = f"{graph.num_features:,} {'sparse' if sparse else 'numeric'} columns"
    facts["notes"] = [options.with_flags(note, args) for note in source.notes]
    facts["columns"] = [{**role, "change": options.with_flags(role["change"], args)} for role in source.roles]
    if not args.json:
        sys.stdout.write(fill("understood", **facts, roles=shortened(facts["columns"])))
    with Bar() as learning:
        classifier.fit(graph, split, source=source, progress=learning.stage)
        classifier.save(args.out, force=args.force, data=not args.without_data, progress=learning.stage)
    assert classifier.model is not None
    card = classifier.model.card
    facts["notes"] += classifier.notes[len(source.notes) :]
    document = {
        **facts,
        "folder": args.out,
        "bytes": sum(path.stat().st_size for path in Path(args.out).iterdir() if path.is_file()),
        "method": card.method,
        "steps": card.stopped_at,
        "edge_notes": [note for note in card.notes if "edge" in note],
        "open_set": classifier.simulated() if facts["labelled"] else None,
        "next": shlex.join(["fewnode", "predict", args.out, "--support", "support.csv", "--out", "predictions.csv"]),
    }
    emit(args, document, "fit")


def shortened(roles: list[dict[str, str]]) -> list[dict[str, str]]:
    """What each column was taken for; of many alike the first and the last."""
    found: list[dict[str, str]] = []
    for _, group in groupby(roles, itemgetter("table", "use", "why")):
        alike = list(group)
        if len(alike) >= 10:
            alike[1:-1] = [{**alike[0], "column": f"... {len(alike) - 2:,} more", "change": ""}]
        found += alike
    return found


def predict_nodes(args: argparse.Namespace) -> None:
    if args.report is not None:
        from ..report.predictions_page import write_predictions_page

        if args.new_nodes is not None:
            raise InputError("--report is about the nodes of the fitted graph; leave it out with --new-nodes")
        check_writable(args.report, args.force, "page", (".html", ".htm"))
    check_writable(args.out, args.force)
    nodes = None
    if args.nodes_file is not None:
        table = read_columns(args.nodes_file)
        column = next(iter(table.columns)) if len(table.columns) == 1 else find_id(table, (), ())[0]
        nodes = table.text(column, "nodes to predict")
    thresholds = dict(args.threshold)
    limits = {"threshold": thresholds.pop("", 0.0), "thresholds": thresholds}  # of all classes, of single ones
    how = options.picked(args, "all_probabilities", "new_nodes", "new_edges", "force", "raw_cells") | limits
    classifier = _adapted(args, nodes or ())
    with Bar() as bar:
        done = predict_tables(classifier, args.out, nodes=nodes, progress=bar.count_nodes, **how)
    if args.report is not None and done.found is None:
        say("note: there is no page (--report), which needs all predictions in memory; those of a store are in --out")
    elif args.report is not None and done.found is not None:
        say(f"Page in {write_predictions_page(classifier, done.found, args.report, **limits)}")
    question, calibration, classes = classifier.question, classifier.calibration, classifier.classes_
    kinds = dict.fromkeys(classes, "new") if question is None else dict(zip(classes, question.kinds, strict=True))
    new = [name for name in done.counts if kinds.get(name) == "new"]
    others = sorted((name for name in done.counts if name not in new), key=lambda name: -done.counts[name])
    document = {
        "out": str(args.out),
        "report": None if done.found is None else args.report,
        **limits,
        "nodes": done.rows,
        "unlisted": int((~classifier.predicted()).sum()),
        "closed_set": done.expectation is None,
        "counts": {name: done.counts[name] for name in (*new, *others)},
        "kinds": kinds,
        "examples": _shots(classifier),
        "expectation": None if done.expectation is None else done.expectation.to_json(),
        "surplus": {} if question is None else question.surplus(),
        "other_f1": None if question is None else question.other_f1(),
        "calibration": None if calibration is None else asdict(calibration),
        "next": None if args.new_nodes is not None else _explain_command(args, done.least_sure),
    }
    emit(args, document, "predict")


def _adapted(args: argparse.Namespace, wanted: Sequence[str] = ()) -> FewShotClassifier:
    """The saved classifier, adapted to the support table, if there is one. Nodes that are ``wanted`` later are looked
    up as soon as the graph is read: a misspelt one is reported before any work."""
    priors, told = dict(args.prior), dict[str, str]()
    if "" in priors:
        raise InputError(f"--prior {priors['']:g}: write CLASS=SHARE, for example mule=0.01")
    described = dict(text.partition("=")[::2] for text in args.describe)
    if wrong := [name for name, text in described.items() if not name or not text]:
        raise InputError(f"--describe {wrong[0]!r}: write CLASS=TEXT, for example 'mule=accounts that forward money'")
    if args.support is not None:
        readable(args.support)
    classifier = load_attached(args.folder, say=say, **options.picked(args, *options.GRAPH))
    assert classifier.graph is not None
    find_nodes(classifier.graph, wanted, "nodes asked for")
    closed = args.closed_set or not bool((classifier.graph.y >= 0).any())
    if closed and not args.closed_set:
        say("note: no node has a label, so predictions are closed-set")
    examples = {} if args.support is None else classifier.read_examples(args.support, told)
    how = options.picked(args, "include_unlisted", "use_class_names") | {"descriptions": told | described}
    given = " and ".join(filter(None, (args.support and str(args.support), args.describe and "--describe")))
    try:
        return classifier.adapt(examples, among="new" if closed else "all", priors=priors, **how)
    except InputError as error:
        raise InputError(f"{given}: {error}" if given else str(error)) from error


def _shots(classifier: FewShotClassifier) -> dict[str, int]:
    return {name: len(nodes) for name, nodes in (classifier.support or {}).items()}


def _explain_command(args: argparse.Namespace, node: str) -> str:
    words = ["fewnode", "explain", args.folder]
    for name in ("support", "describe", *options.GRAPH):
        given = getattr(args, name) or []
        for value in given if isinstance(given, list) else [given]:
            words += [f"--{name}", str(value)]
    words += [f"--{name.replace('_', '-')}" for name in ("use_class_names", "closed_set") if getattr(args, name)]
    for name, share in args.prior:
        words += ["--prior", f"{name}={share:g}"]
    return shlex.join([*words, "--node", node])


def find_candidates(args: argparse.Namespace) -> None:
    if args.out is not None:
        check_writable(args.out, args.force)
    top = args.top or (20 if args.out is None else 200)
    if args.text is not None:
        classifier = load_attached(args.folder, say=say, **options.picked(args, *options.GRAPH))
        found = classifier.search(args.text, top)
    else:
        classifier = _adapted(args)
        found = classifier.find(args.label, top)
    if args.out is not None:
        write_columns(args.out, found.table(), args.force, args.raw_cells)
    titles = found.titles or [""] * len(found)
    listed = [] if args.out is not None else zip(found.names, titles, found.probabilities.tolist(), strict=True)
    steps = sorted({min(n, len(found)) for n in (10, 50, 200, len(found))})
    document = {
        "out": args.out,
        "class": found.label,
        "candidates": len(found),
        "listed": [{"id": name, "title": title, "probability": round(share, 6)} for name, title, share in listed],
        "examples": _shots(classifier).get(found.label),
        "expected": {str(n): round(found.expected(n), 2) for n in steps} if args.text is None else {},
        "first": found.names[:10],
        "next": _explain_command(args, found.names[0]) if args.text is None else None,
    }
    emit(args, document, "find")


def grow_model(args: argparse.Namespace) -> None:
    with Bar() as bar:
        found = grow_folder(
            args.folder, args.labels, args.out, progress=bar.stage, say=say, **options.picked(args, *options.GRAPH)
        )
    emit(args, {"folder": args.out or args.folder, **found._asdict()}, "grow")


def explain_node(args: argparse.Namespace) -> None:
    classifier = _adapted(args, [args.node])
    say(f"Explaining {args.node} ...")
    emit(args, classifier.explain(args.node, n_neighbours=args.neighbours).to_json(), "explain")


def find_label_issues(args: argparse.Namespace) -> None:
    if args.out is not None:
        check_writable(args.out, args.force)
    classifier = load_attached(args.folder, say=say, **options.picked(args, *options.GRAPH))
    with Bar() as bar:
        found = classifier.find_label_issues(args.top, progress=bar.stage)
    table = found.table()
    if args.out is not None:
        write_columns(args.out, table, args.force, args.raw_cells)
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    document = {"out": args.out, "labelled": found.labelled, "issues": len(found), "listed": rows}
    emit(args, document, "label-issues", shown=rows[:20])


def label_nodes(args: argparse.Namespace) -> None:
    from ..labelling.server import label

    given = options.picked(args, "support", "host", "port", "people", "twice", "memory")
    label(args.folder, **given, browser=not args.no_browser, say=say)


def serve_model(args: argparse.Namespace) -> None:
    from ..serving.http import Limits, serve

    given = options.picked(args, "host", "port", "token_file", "workers")
    serve(args.folder, **given, limits=Limits(args.max_body, args.max_nodes, args.timeout), say=say)


def show_drift(args: argparse.Namespace) -> int:
    kind = one_of("kind of figure", Path(args.figure or "x.svg").suffix[1:], ("svg", "png", "pdf"))
    from ..classifier.drift import drift_tables

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


def import_graph(args: argparse.Namespace) -> None:
    columns = options.given_columns(args)
    typed = columns.pop("edge_type_column", None) is not None or args.directed
    wanted = options.picked(args, "features", "memory", "decimal", "multi_label", "max_classes", "text_encoder")
    columns |= {"text_encoder": "auto"} | {name: value for name, value in wanted.items() if value}
    with Bar() as bar:
        out = import_tables(args.edges, args.nodes, args.out, typed=typed, progress=bar.stage, **columns)
    store = Store(out)
    taken = [{**role, "change": options.with_flags(role["change"], args)} for role in store.facts.roles]
    document = {
        "out": str(out),
        "nodes": len(store.arrays["y"]),
        "labelled": int((store.arrays["y"] >= 0).sum()),
        "isolated": int((np.diff(store.arrays["indptr"]) == 0).sum()),
        "edges": len(store.arrays["indices"]) // 2,
        **options.picked(store.facts, "self_loops", "duplicates"),
        "columns": store.facts.width or (store.arrays["features"].shape[1] if "features" in store.arrays else 0),
        "notes": [options.with_flags(note, args) for note in store.facts.notes],
        "tables": taken,
        "classes": len(store.facts.class_names or ()),
        "bytes": sum(path.stat().st_size for path in out.iterdir()),
        "next": shlex.join(["fewnode", "fit", "--edges", str(out), "--out", "runs/model"]),
    }
    emit(args, document, "import", roles=shortened(taken))


def plan_work(args: argparse.Namespace) -> None:
    found = plan(args.nodes, args.edges, args.columns, classes=args.classes, memory=args.memory)
    emit(args, found, "plan")
