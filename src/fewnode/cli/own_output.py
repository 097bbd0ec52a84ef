"""What the commands for a user's own graph show."""

import shlex
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from ..graph import Graph
    from ..own.classifier import FewShotClassifier
    from ..own.fitted import Comparison
    from ..own.tables import TableSource
    from ..tasks import ClassSplit

SHOWN = 30  # classes listed
ALIKE = 8  # columns between two of the same use that are counted instead of listed
CLASS_WIDTH = 28  # of the names of classes beside the figures of predictions


def understood(graph: "Graph", split: "ClassSplit", source: "TableSource") -> dict[str, Any]:
    """What was read from the tables, before anything is trained."""
    from ..own.classes import class_name, class_sizes

    part = dict.fromkeys(split.base, "base") | dict.fromkeys(split.validation, "validation")
    sizes = class_sizes(graph).tolist()
    return {
        "nodes": graph.num_nodes,
        "labelled": int((graph.y >= 0).sum()),
        "isolated": int((graph.degree == 0).sum()),
        "edges": graph.num_edges,
        "self_loops": graph.self_loops,
        "duplicates": graph.duplicates,
        "features": _features(graph, source),
        "columns": source.roles,
        "notes": source.notes,
        "classes": [
            {"name": class_name(graph, c), "nodes": size, "part": part.get(c, "too small")}
            for c, size in enumerate(sizes)
            if size
        ],
    }


def _features(graph: "Graph", source: "TableSource") -> str:
    if graph.features is None:
        return "none given (positions in the graph are used)"
    uses = {role["use"] for role in source.roles if role["use"] in ("text", "category", "number", "date", "vectors")}
    sparse = graph.features.layout != graph.indptr.layout
    if uses == {"text"} and source.features is None:
        return f"{graph.num_features:,} words of column {source.text_column!r}"
    if len(uses) + (source.features is not None) > 1 and sparse:
        return f"{graph.num_features:,} columns of words, categories, numbers or vectors, scaled to one another"
    return f"{graph.num_features:,} {'sparse' if sparse else 'numeric'} columns"


def draw_roles(console: "Console", facts: dict[str, Any]) -> None:
    """What each column was taken for, and the flag that changes it."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in ("table", "column", "taken for", "because", "to change it"):
        table.add_column(name)
    for (where, use, why), alike in groupby(facts["columns"], itemgetter("table", "use", "why")):
        for column, change in _shortened([(role["column"], role["change"]) for role in alike]):
            table.add_row(*map(Text, (where, column, use or "not used", why, change)))
    console.print(table)
    for note in facts["notes"]:
        console.print(f"note: {note}", markup=False)


def _shortened(columns: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """A long list of columns that were taken for the same, as its first and last with the number between them."""
    left_out = len(columns) - 2
    return columns if left_out < ALIKE else [columns[0], (f"... {left_out:,} more", ""), columns[-1]]


def draw_understood(console: "Console", facts: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    draw_roles(console, facts)
    console.print(
        f"{facts['nodes']:,} nodes ({facts['labelled']:,} labelled, {facts['isolated']:,} without edges), "
        f"{facts['edges']:,} edges ({facts['self_loops']:,} self-loops and {facts['duplicates']:,} duplicates dropped)"
    )
    console.print(f"features: {facts['features']}", markup=False)
    classes = sorted(facts["classes"], key=lambda row: -row["nodes"])
    parts = [row["part"] for row in classes]
    counted = ", ".join(f"{parts.count(part)} {part}" for part in ("base", "validation", "too small"))
    console.print(f"classes: {len(classes)} ({counted})")
    table = Table(box=None, pad_edge=False)
    table.add_column("class")
    table.add_column("labelled nodes", justify="right")
    table.add_column("used for")
    for row in classes[:SHOWN]:
        table.add_row(Text(row["name"]), f"{row['nodes']:,}", row["part"])
    if classes:
        console.print(table)
    if len(classes) > SHOWN:
        console.print(f"... {len(classes) - SHOWN} smaller ones")


def fitted(classifier: "FewShotClassifier", folder: str, compared: "Comparison | None") -> dict[str, Any]:
    """What came out of the training."""
    assert classifier.model is not None
    card = classifier.model.card
    return {
        "folder": folder,
        "method": card.method,
        "steps": card.stopped_at,
        "seconds": card.training_seconds,
        "interrupted": classifier.interrupted,
        "notes": classifier.notes,
        "calibrations": [one.to_json() for one in classifier.calibrations],
        "beside_probe": None if compared is None else list(compared[:2]),
        "beside_probe_interval": None if compared is None else compared.interval,
        "next": shlex.join(["fewnode", "predict", folder, "--support", "support.csv", "--out", "predictions.csv"]),
    }


def draw_fitted(console: "Console", facts: dict[str, Any]) -> None:
    from rich.table import Table

    if facts["interrupted"]:
        console.print(f"Stopped at step {facts['steps']:,}; the best weights so far are kept.")
        console.print("The same command with --resume goes on from the last check.")
    elif facts["steps"]:
        console.print(f"{facts['method']}: {facts['steps']:,} steps in {facts['seconds']:.1f} s")
    else:
        console.print(f"{facts['method']}: nothing to train")
    for note in (note for note in facts["notes"] if "edges" in note):
        console.print(f"{note[:1].upper()}{note[1:]}.", markup=False)
    if facts["calibrations"]:
        console.print("Telling new classes apart, if a node must be one of them (measured on the validation classes):")
        table = Table(box=None, pad_edge=False)
        for name in ("classes", "examples each", "accuracy", "calibration error", "uncalibrated"):
            table.add_column(name, justify="right")
        for one in facts["calibrations"]:
            shares = (f"{100 * one[key]:.1f} %" for key in ("accuracy", "ece_after", "ece_before"))
            table.add_row(str(one["n_way"]), f"{one['k_shot']:.0f}", *shares)
        console.print(table)
    else:
        console.print("No two validation classes: how good predictions will be is not known beforehand.")
    if facts["beside_probe"]:
        own, floor = facts["beside_probe"]
        shown = f"(probe): {100 * floor:.1f} %; {facts['method']}: {100 * own:.1f} %, on the same validation tasks."
        console.print(f"Without any training {shown}")
        if abs(own - floor) <= facts["beside_probe_interval"]:
            console.print("That is no more than chance would do: these tasks cannot tell whether training pays.")
        elif floor > own:
            console.print("Training does not pay here: --method probe --force gives the better model.")
    console.print(
        f"Model in {facts['folder']}. Write your examples (columns id,label) to support.csv; next:", markup=False
    )
    console.print(f"  {facts['next']}", soft_wrap=True, markup=False)


def draw_predicted(console: "Console", facts: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    if facts["among"] == "new":
        n = len(facts["examples"])
        console.print(f"Every node was forced into one of {n} new classes; --among all also asks if it is of another.")
    expected = facts["expectation"]
    table = Table(box=None, pad_edge=False)
    for name in ("class", "kind", "examples", "nodes", *(("precision", "recall") if expected else ())):
        widest = CLASS_WIDTH if name == "class" else None  # a long name must not push the figures off the screen
        table.add_column(name, justify="left" if name in ("class", "kind") else "right", no_wrap=True, max_width=widest)
    for name, count in _shown_counts(facts):
        shares = () if not expected else _shares(expected["classes"].get(name))
        kind = facts["kinds"].get(name, "")
        table.add_row(Text(name), kind, str(facts["examples"].get(name, "")), f"{count:,}", *shares)
    console.print(table)
    for line in open_expectation(expected) if expected else [expectation(facts["calibration"])]:
        console.print(line, markup=False)
    why = " To see why a node got its class:" if facts["next"] else ""
    console.print(f"{facts['nodes']:,} predictions in {facts['out']}.{why}", soft_wrap=True, markup=False)
    if facts["next"]:
        console.print(f"  {facts['next']}", soft_wrap=True, markup=False)


def _shown_counts(facts: dict[str, Any]) -> list[tuple[str, int]]:
    """New classes, the largest of the others, and how many there are beside them."""
    counts = {name: count for name, count in facts["counts"].items() if name in facts["examples"] or count}
    new = [(name, count) for name, count in counts.items() if facts["kinds"].get(name) == "new"]
    rest = sorted(((name, n) for name, n in counts.items() if facts["kinds"].get(name) != "new"), key=lambda x: -x[1])
    hidden = rest[SHOWN:]
    more = [(f"... {len(hidden)} more", sum(count for _, count in hidden))] if hidden else []
    return [*new, *rest[:SHOWN], *more]


def _shares(found: dict[str, Any] | None) -> tuple[str, str]:
    return ("", "") if found is None else (_span(found["precision"]), _span(found["recall"]))


def _span(estimate: dict[str, float | None]) -> str:
    """An estimate and its interval, in percent."""
    if estimate["value"] is None:
        return "–"
    value, low, high = (100 * float(estimate[key] or 0) for key in ("value", "low", "high"))
    return f"{value:.0f} % ({low:.0f} to {high:.0f})"


def open_expectation(found: dict[str, Any]) -> list[str]:
    """What is to be expected of the rows, in words."""
    lines = [
        f"Expected to be right: {_span(found['right'])} of all {found['rows']:,} rows; "
        f"{_span(found['known'])} of the nodes that are of a known class."
    ]
    if found["rehearsals"]:
        lines.append(
            f"Precision: right among the nodes called so; recall: found among the class's own. In brackets, the range "
            f"of nine in ten of {found['rehearsals']} rehearsals, in which known classes played new."
        )
    else:
        lines.append("Too few known classes to rehearse with: these figures were not checked on this graph.")
    return [*lines, f"Assumed: {'; '.join(found['assumed'])}."]


def draw_found(console: "Console", facts: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    named = f"{facts['candidates']:,} candidates for {facts['class']!r} ({facts['examples']} examples)"
    where = f", in {facts['out']}" if facts["out"] else ""
    console.print(f"{named}, the likeliest first{where}.", markup=False, soft_wrap=True)
    table = Table("candidate", "probability", box=None, pad_edge=False)
    for row in facts["listed"]:
        table.add_row(Text(row["id"]), f"{100 * row['probability']:.1f} %")
    if facts["listed"]:
        console.print(table)
    for first, right in facts["expected"].items():
        console.print(f"  of the first {int(first):>6,}, {right:,.1f} are expected to be right")
    if facts["out"]:
        console.print(f"First: {', '.join(facts['first'])}", markup=False)
    console.print("To see why:", markup=False)
    console.print(f"  {facts['next']}", soft_wrap=True, markup=False)


def expectation(found: dict[str, Any]) -> str:
    """How far the predictions of the closed question can be trusted, in words."""
    if found["accuracy"] is None:
        return "Nothing to measure on: the probabilities are not calibrated. Two examples of a class would help."
    if found["source"] == "examples":
        return (
            f"Expected accuracy about {100 * found['accuracy']:.0f} %: so many of the {found['n_tasks']} examples were "
            "recognised when left out. That is rough; there are no validation classes to measure on."
        )
    return (
        f"If every node is really of one of these classes: accuracy {100 * found['accuracy']:.1f} %, measured on "
        f"{found['n_tasks']} validation tasks of {found['n_way']} classes with {found['k_shot']:.3g} examples each; "
        f"calibration error {100 * found['ece_after']:.1f} % ({100 * found['ece_before']:.1f} % before)."
    )
