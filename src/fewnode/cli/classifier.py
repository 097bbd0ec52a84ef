"""A classifier of a user's own graph: ``fewnode fit``, ``predict``, ``find``, ``explain`` and ``label``."""

import argparse
import shlex
import time
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from . import options
from .listing import draw_counts
from .output import NodeBar, StageBar, TrainingBar, emit, percent, say, show, show_table, warnings_as_notes
from .training import draw_steps

if TYPE_CHECKING:
    from ..classifier.classifier import FewShotClassifier
    from ..classifier.inputs import TableSource
    from ..graph import Graph
    from ..tasks import ClassSplit


def fit_classifier(args: argparse.Namespace) -> int:
    from ..errors import one_of
    from ..methods import find, names

    one_of("method", args.method, names())  # refuses a wrong name before torch is imported
    say("Reading the tables ...")
    from ..classifier.commands import fit_tables
    from ..classifier.inputs import TableSource
    from ..methods.options import parse_options

    method_options = parse_options(find(args.method), options.option_pairs(args.set))
    reading = ("labels", "strict", "knn", "directed", "type_per_file", "multi_label", "decimal")
    chosen = {name: value for name, value in options.picked(args, *reading).items() if value}
    source = TableSource.of(args.edges, args.nodes, args.features, **chosen, **options.given_columns(args))
    settings = options.picked(args, "n_way", "k_shot", "min_size", "seed", "device") | method_options
    how = options.picked(args, "force", "resume", "method") | options.given_resources(args)
    facts: dict[str, Any] = {}

    def understood(graph: "Graph", split: "ClassSplit", source: "TableSource") -> None:
        facts.update(_understood(graph, split, source))
        if not args.json:
            draw_understood(facts)

    try:
        with warnings_as_notes(), StageBar() as learning:
            how |= {"training": TrainingBar(), "learning": learning}
            classifier = fit_tables(source, args.out, settings=settings, understood=understood, **how)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped before there was a model; --resume continues from the last check") from None
    emit(args, {**facts, **_fitted(classifier, args.out)}, draw_fitted)
    return 130 if classifier.interrupted else 0


def _understood(graph: "Graph", split: "ClassSplit", source: "TableSource") -> dict[str, Any]:
    """What was read from the tables."""
    from ..graph.graph import summary

    features = "none given (positions in the graph are used)"
    if graph.features is not None:
        sparse = graph.features.layout != graph.indptr.layout
        features = f"{graph.num_features:,} {'sparse' if sparse else 'numeric'} columns"
    facts = summary(graph, asdict(split), components=False)
    used = [{**row, "part": row["part"] or "too small"} for row in facts["classes"] if row["nodes"]]
    return {**facts, "classes": used, "features": features, "columns": source.roles, "notes": source.notes}


def draw_understood(facts: dict[str, Any]) -> None:
    draw_roles(facts)
    draw_counts(facts)
    show("features: {features}", facts)
    classes = sorted(facts["classes"], key=lambda row: -row["nodes"])
    parts = [row["part"] for row in classes]
    counted = ", ".join(f"{parts.count(part)} {part}" for part in ("base", "validation", "too small"))
    show(f"classes: {len(classes)} ({counted})")
    columns = {"class": "{name}", ">labelled nodes": "{nodes:,}", "used for": "{part}"}
    show_table(columns, classes, most=30, rest="smaller ones")


def draw_roles(facts: dict[str, Any]) -> None:
    """What each column was taken for, and the flag that changes it; of many alike the first and the last."""
    roles: list[dict[str, str]] = []
    for _, group in groupby(facts["columns"], itemgetter("table", "use", "why")):
        alike = list(group)
        if len(alike) >= 10:
            alike[1:-1] = [{**alike[0], "column": f"... {len(alike) - 2:,} more", "change": ""}]
        roles += [{**role, "use": role["use"] or "not used"} for role in alike]
    columns = {"table": "{table}", "column": "{column}", "taken for": "{use}", "because": "{why}"}
    show_table({**columns, "to change it": "{change}"}, roles)
    for note in facts["notes"]:
        show(f"note: {note}")


def _fitted(classifier: "FewShotClassifier", folder: str) -> dict[str, Any]:
    """What came out of the training."""
    assert classifier.model is not None
    card, compared = classifier.model.card, None if classifier.interrupted else classifier.compare()
    return {
        "folder": folder,
        "method": card.method,
        "steps": card.stopped_at,
        "seconds": card.training_seconds,
        "interrupted": classifier.interrupted,
        "notes": classifier.notes,
        "calibrations": [asdict(one) for one in classifier.calibrations],
        "beside_probe": None if compared is None else list(compared[:2]),
        "beside_probe_interval": None if compared is None else compared.interval,
        "next": shlex.join(["fewnode", "predict", folder, "--support", "support.csv", "--out", "predictions.csv"]),
    }


def draw_fitted(facts: dict[str, Any]) -> None:
    draw_steps(facts)
    for note in facts["notes"]:
        if "edge" in note:
            show(f"{note[:1].upper()}{note[1:]}.")
    if facts["calibrations"]:
        show("Closed-set accuracy, if every node is of one of the new classes (measured on the validation classes):")
        columns = {">classes": "{n_way}", ">examples each": "{k_shot:.0f}", ">accuracy": "{accuracy:.1%}"}
        errors = {">calibration error": "{ece_after:.1%}", ">uncalibrated": "{ece_before:.1%}"}
        show_table({**columns, **errors}, facts["calibrations"])
    else:
        show("There are fewer than two validation classes, so the accuracy cannot be estimated beforehand.")
    if facts["beside_probe"]:
        trained, baseline = facts["beside_probe"]
        shares = {"method": facts["method"], "trained": trained, "baseline": baseline}
        show("Same validation tasks, training-free baseline (probe): {baseline:.1%}; {method}: {trained:.1%}.", shares)
        if abs(trained - baseline) <= facts["beside_probe_interval"]:
            show("The difference is within noise: these tasks cannot tell whether training pays.")
        elif baseline > trained:
            show("Training does not pay here: --method probe --force gives the better model.")
    show("Model in {folder}. Write your examples (columns id,label) to support.csv; next:", facts)


def predict_nodes(args: argparse.Namespace) -> None:
    from ..classifier.commands import predict_tables

    if args.report is not None:
        from ..report.predictions_page import check_page, write_predictions_page

        if args.new_nodes is not None:
            raise InputError("--report is about the nodes of the fitted graph; leave it out with --new-nodes")
        check_page(args.report, args.force)
    started = time.perf_counter()
    thresholds = dict(args.threshold)
    limits = {"threshold": thresholds.pop("", 0.0), "thresholds": thresholds}  # of all classes, of single ones
    names = ("all_probabilities", "nodes_file", "new_nodes", "new_edges", "force", "raw_cells")
    how = options.picked(args, *names) | limits | {"adapting": _adapting(args)}
    done = predict_tables(args.folder, args.support, args.out, scoring=NodeBar(), **how)
    if args.report is not None and done.found is None:
        say("note: there is no page (--report), which needs all predictions in memory; those of a store are in --out")
    elif args.report is not None and done.found is not None:
        say(f"Page in {write_predictions_page(done.classifier, done.found, args.report, **limits)}")
    question, calibration = done.classifier.question, done.classifier.calibration
    classes = done.classifier.classes_
    document = {
        "out": str(args.out),
        "report": None if done.found is None else args.report,
        **limits,
        "nodes": done.rows,
        "closed_set": done.expectation is None,
        "counts": done.counts,
        "kinds": dict.fromkeys(classes, "new") if question is None else dict(zip(classes, question.kinds, strict=True)),
        "examples": _shots(done.classifier),
        "expectation": None if done.expectation is None else done.expectation.to_json(),
        "calibration": None if calibration is None else asdict(calibration),
        "seconds": round(time.perf_counter() - started, 3),
        "next": None if args.new_nodes is not None else _explain_command(args, done.least_sure),
    }
    emit(args, document, _draw_predicted)


def _adapting(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of everything that adapts a saved classifier to a support table."""
    priors = dict(args.prior)
    if "" in priors:
        raise InputError(f"--prior {priors['']:g}: write CLASS=SHARE, for example mule=0.01")
    found = options.picked(args, "edges", "nodes", "features") | options.given_resources(args)
    return found | {"among": "new" if args.closed_set else None, "priors": priors, "say": say}


def _shots(classifier: "FewShotClassifier") -> dict[str, int]:
    support = classifier.support
    return {} if support is None else dict(zip(support.classes, support.shots(), strict=True))


def _explain_command(args: argparse.Namespace, node: str) -> str:
    words = ["fewnode", "explain", args.folder, "--support", args.support]
    for name in ("edges", "nodes", "features", "memory"):
        given = getattr(args, name)
        words += [f"--{name}", *([given] if isinstance(given, str) else given)] if given else []
    words += ["--closed-set"] if args.closed_set else []
    for name, share in args.prior:
        words += ["--prior", f"{name}={share:g}"]
    return shlex.join([*words, "--node", node])


def _draw_predicted(facts: dict[str, Any]) -> None:
    if facts["closed_set"]:
        show(f"Every node was assigned to one of {len(facts['examples'])} new classes (--closed-set).")
    expected = facts["expectation"]
    rows = []
    for name, count in _shown_counts(facts):
        row = {"name": name, "nodes": count, "kind": facts["kinds"].get(name), "shots": facts["examples"].get(name)}
        found = expected["classes"].get(name, {}) if expected else {}
        rows.append(row | {key: _interval(found.get(key)) for key in ("precision", "recall")})
    columns = {"class": "{name}", "kind": "{kind}", ">examples": "{shots}", ">nodes": "{nodes:,}"}
    show_table(columns | ({">precision": "{precision}", ">recall": "{recall}"} if expected else {}), rows)
    for line in _open_set_estimates(expected) if expected else [_closed_set_estimate(facts["calibration"])]:
        show(line)
    why = " To see why a node got its class:" if facts["next"] else ""
    show("{nodes:,} predictions in {out}." + why, facts, wrap=False)


def _shown_counts(facts: dict[str, Any]) -> list[tuple[str, int]]:
    """New classes, the 30 largest of the others, and one line for the rest."""
    counts = [(name, count) for name, count in facts["counts"].items() if name in facts["examples"] or count]
    new = [(name, count) for name, count in counts if facts["kinds"].get(name) == "new"]
    rest = sorted((pair for pair in counts if pair not in new), key=lambda pair: -pair[1])
    if len(rest) > 30:
        rest[30:] = [(f"... {len(rest) - 30} more", sum(count for _, count in rest[30:]))]
    return [*new, *rest]


def _interval(estimate: dict[str, float] | None) -> str:
    """An estimate with its interval, in percent."""
    if estimate is None or estimate["value"] is None:
        return "" if estimate is None else "–"
    value, low, high = (100 * (estimate[key] or 0) for key in ("value", "low", "high"))
    return f"{value:.0f} % ({low:.0f} to {high:.0f})"


def _open_set_estimates(found: dict[str, Any]) -> list[str]:
    """How many of the predictions are expected to be right, in words."""
    checked = "There are too few known classes to simulate novel ones: these figures are unchecked."
    if found["simulations"]:
        checked = (
            "Precision: share of the nodes predicted as the class that are of it; recall: share of its nodes that are "
            f"found. In brackets: the range of 90 % of {found['simulations']} simulations, in which known classes were "
            "treated as novel."
        )
    right, known = _interval(found["right"]), _interval(found["known"])
    expected = f"Expected accuracy: {right} of all {found['rows']:,} rows; {known} of the nodes of known classes."
    return [expected, checked, f"Assumed: {'; '.join(found['assumed'])}."]


def _closed_set_estimate(found: dict[str, Any]) -> str:
    """How accurate closed-set predictions are expected to be, in words."""
    if found["accuracy"] is None:
        return "Nothing to measure on: the probabilities are not calibrated. Two examples of a class would help."
    if found["source"] == "examples":
        return (
            f"Expected accuracy about {100 * found['accuracy']:.0f} %: the share of the {found['n_tasks']} examples "
            "that were recognised when left out. This is rough; there are no validation classes to measure on."
        )
    return (
        f"If every node is of one of these classes: accuracy {percent(found['accuracy'])}, measured on "
        f"{found['n_tasks']} validation tasks of {found['n_way']} classes with {found['k_shot']:.3g} examples each; "
        f"calibration error {percent(found['ece_after'])} ({percent(found['ece_before'])} before)."
    )


def find_nodes(args: argparse.Namespace) -> None:
    from ..classifier.commands import load_adapted
    from ..tables import check_writable, write_columns

    started = time.perf_counter()
    if args.out is not None:
        check_writable(args.out, args.force)
    classifier = load_adapted(args.folder, args.support, **_adapting(args))
    found = classifier.find(args.label, args.top or (20 if args.out is None else 200))
    if args.out is not None:
        write_columns(args.out, found.table(), args.force, args.raw_cells)
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
    emit(args, document, _draw_found)


def _draw_found(facts: dict[str, Any]) -> None:
    where = f", in {facts['out']}" if facts["out"] else ""
    text = "{candidates:,} candidates for {class!r} ({examples} examples), the most likely first"
    show(text + where + ".", facts, wrap=False)
    if facts["listed"]:
        show_table({"candidate": "{id}", ">probability": "{probability:.1%}"}, facts["listed"])
    for first, right in facts["expected"].items():
        show(f"  of the first {int(first):>6,}, {right:,.1f} are expected to be right")
    if facts["out"]:
        show(f"First: {', '.join(facts['first'])}")
    show("To see why:")


def explain_node(args: argparse.Namespace) -> None:
    from ..classifier.commands import load_adapted

    if args.neighbours < 0:
        raise InputError(f"--neighbours {args.neighbours}: it is 0 or more")
    classifier = load_adapted(args.folder, args.support, wanted=[args.node], **_adapting(args))
    say(f"Explaining {args.node} ...")
    emit(args, classifier.explain(args.node, n_neighbours=args.neighbours).to_json(), _draw_explanation)


EFFECTS = {">influence": "{influence:+.2%}", ">evidence": "{evidence:+.2f}"}


def _draw_explanation(facts: dict[str, Any]) -> None:
    kind = f" ({facts['kind']})" if facts["kind"] else ""
    show("{node} is {label}" + kind + ": {probability:.1%}", facts, style="bold")
    if facts["given"] is not None:
        show("it has a label already: {given}", facts)
    classes = [{"name": k, "p": p, "margin": facts["margins"].get(k)} for k, p in facts["probabilities"].items()]
    shares = {"class": "{name}", ">probability": "{p:.1%}", ">margin": "{margin:.1%}"}
    show("")
    show_table(shares, classes, most=10, rest="less likely ones")
    examples = {"nearest examples": "{node}", "class": "{label}", ">similarity": "{similarity:.3f}"}
    show("")
    show_table(examples | EFFECTS, facts["examples"][:10])
    if facts["neighbours"]:
        show("")
        rows = [{**row, "from": "label" if row["labelled"] else "prediction"} for row in facts["neighbours"]]
        around = {f"neighbours ({facts['degree']:,})": "{node}", "class": "{label}", "from": "{from}"}
        show_table({**around, ">weight": "{weight:.3f}", **EFFECTS}, rows[:30])
    else:
        show("\nno neighbours: only its own features count")
    for title, sign in (("speaks for {label}", 1), ("speaks against {label}", -1)):
        strongest = sorted(facts["columns"], key=lambda row: -sign * row["evidence"])
        rows = [row | {"than": "more" if row["more"] else "less"} for row in strongest if sign * row["evidence"] > 0]
        if rows:
            named = {title.format(**facts): "{name}", "than average": "{than}"}
            show("")
            show_table({**named, **EFFECTS, ">its own features": "{own:+.2f}"}, rows)
    show(
        "\ninfluence: how much the margin over the runner-up would shrink without the example or edge, or with an "
        "average amount of the word; evidence: the same in log odds"
    )
    if facts["tried"]:
        _draw_changes(facts)


def _draw_changes(facts: dict[str, Any]) -> None:
    """What would change the prediction, or how far the next class is."""
    show("\nWhat would change the prediction:", style="bold")
    what = {"edges": "without the edges to", "examples": "without the examples", "columns": "with an average"}
    for change in facts["changes"]:
        names = ", ".join(change["without"])
        show(f"  {what[change['what']]} {names}: {change['label']} ({percent(change['probability'])})", wrap=False)
    if not facts["changes"]:
        tried = ", ".join(f"{count} {what}" for what, count in facts["tried"].items() if count)
        runner_up, margin = next(iter(facts["margins"].items()))
        line = f"nothing that was tried ({tried or 'there is nothing to take away'})"
        show(f"  {line}; {runner_up} comes next, {100 * margin:.1f} points behind", wrap=False)


def label_nodes(args: argparse.Namespace) -> None:
    from ..labelling.server import label

    given = options.picked(args, "support", "host", "port", "allow_remote")
    label(args.folder, **given, browser=not args.no_browser, memory=options.given_memory(args), say=say)
