"""Everything that the commands print: one JSON document or tables for people; progress on standard error."""

import argparse
import json
import math
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..errors import InputError

# --- Printing: one JSON document or a picture for people on standard output; progress on standard error.
if TYPE_CHECKING:
    from rich.console import Console

    from ..training.loop import TrainingProgress


# Control characters (escape sequences begin with one), but not line ends and tabs; marks that turn the order of
# letters; and surrogates, which cannot be printed at all.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def emit(args: argparse.Namespace, document: Any, draw: "Callable[[Console, Any], None]") -> None:
    """Print ``document`` as JSON if asked for, else let ``draw(console, document)`` show it."""
    if args.json:
        text = json.dumps(finite(document), ensure_ascii=False, allow_nan=False)
        sys.stdout.write(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
        return
    draw(console(), printable(document))


def console(stderr: bool = False) -> "Console":
    """Where people look; names in square brackets or between colons are names, not markup."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def printable(value: Any) -> Any:
    """``value`` with every character of its texts visible: an escape sequence in a label must not reach a terminal."""
    if isinstance(value, str):
        return _UNSEEN.sub(lambda found: f"\\x{ord(found[0]):02x}", value)
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    return [printable(item) for item in value] if isinstance(value, list | tuple) else value


def finite(value: Any) -> Any:
    """``value`` with NaN and infinity as None: JSON has no word for them."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(message: str) -> None:
    """A line on standard error at once: a person waits behind it."""
    sys.stderr.write(f"{printable(message)}\n")
    sys.stderr.flush()


def stages() -> Callable[[str, float], None]:
    """A listener that says once what is being done, each time it is something else."""
    last = ""

    def tell(what: str, part: float) -> None:
        nonlocal last
        if what not in (last, "done"):
            say(f"{what} ...")
        last = what

    return tell


def clock(seconds: float) -> str:
    """Seconds for people: 42 s, 7 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def pair(text: str) -> tuple[str, str]:
    """Name and value of a ``--set``."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise InputError(f"--set {text!r}: write option=value, for example --set hidden_channels=32")
    return name.strip().replace("-", "_"), value.strip()


@contextmanager
def notes_said() -> Iterator[None]:
    """The library's warnings as plain lines; those of the packages below it are left out."""

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any) -> None:
        if Path(__file__).parents[1] in Path(filename).parents:
            say(f"note: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]  # takes more than it needs
        yield


def load_with_bar(name: str, data_dir: str | None) -> Any:
    """Graph and split of a data set; a download, if one is needed, shows a bar."""
    say(f"Loading {name} ...")
    from ..datasets import load_dataset

    with DownloadBar() as bar:
        return load_dataset(name, data_dir, bar)


class Bar:
    """Progress on standard error: a live bar in a terminal, else a line every few seconds.

    ``columns`` follow the bar itself; they may show ``{task.description}`` and ``{task.fields[facts]}``.
    """

    PAUSE = 5.0  # seconds between lines where there is no terminal

    def __init__(self, *columns: Any, transient: bool = True) -> None:
        from rich import progress

        screen = console(stderr=True)
        texts = [progress.TextColumn(part, markup=False) if isinstance(part, str) else part for part in columns]
        shown = progress.BarColumn(), *texts, progress.TimeRemainingColumn()
        name = progress.TextColumn("{task.description}", markup=False)
        self.bar = progress.Progress(name, *shown, console=screen, transient=transient)
        self.live, self.said = screen.is_terminal, -math.inf
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.tasks:
            self.bar.stop()

    def show(self, name: str, done: int, total: int | None, facts: str = "", line: str = "") -> None:
        """Say how far ``name`` is: on the bar, or as ``line`` where there is no terminal."""
        if self.live:
            if not self.tasks:
                self.bar.start()
            if name not in self.tasks:
                self.tasks[name] = self.bar.add_task(printable(name), total=total, facts=facts)
            self.bar.update(self.tasks[name], completed=done, total=total, facts=facts)
        elif line and (time.monotonic() - self.said >= self.PAUSE or done == total):
            say(line)
            self.said = time.monotonic()


class DownloadBar(Bar):
    """Told the file, bytes so far, bytes in all."""

    def __init__(self) -> None:
        from rich.progress import DownloadColumn

        super().__init__(DownloadColumn(), transient=False)

    def __call__(self, file: str, done: int, total: int | None) -> None:
        share = "" if not total else f" of {total / 1e6:,.1f}"
        self.show(file, done, total, line=f"{file}: {done / 1e6:,.1f}{share} MB")


class NodeBar(Bar):
    """Told how many nodes are classified, and of how many."""

    def __init__(self) -> None:
        from rich.progress import MofNCompleteColumn

        super().__init__(MofNCompleteColumn())

    def __call__(self, done: int, total: int) -> None:
        self.show("classifying", done, total, line=f"{done:,} of {total:,} nodes classified" if self._long() else "")

    def _long(self) -> bool:
        """Whether it takes long enough to be worth a line."""
        self.said = time.monotonic() if self.said == -math.inf else self.said
        return time.monotonic() - self.said >= self.PAUSE


class TrainingBar(Bar):
    """Told how far a training is."""

    def __init__(self) -> None:
        from rich.progress import MofNCompleteColumn

        super().__init__(MofNCompleteColumn(), "{task.fields[facts]}")
        self.accuracy: float | None = None

    def __call__(self, now: "TrainingProgress") -> None:
        self.accuracy = self.accuracy if now.accuracy is None else now.accuracy
        checked = "" if self.accuracy is None else f"  validation {100 * self.accuracy:.1f} %"
        facts = f"loss {now.loss:.4f}{checked}  {now.steps_per_second:.1f} steps/s"
        left = (now.steps - now.step) / max(now.steps_per_second, 1e-9)
        line = f"step {now.step}/{now.steps}  {facts}  at most {left:.0f} s left"
        self.show("training", now.step, now.steps, facts, line)


# --- What the commands for a user's own graph show.
if TYPE_CHECKING:
    from rich.console import Console

    from ..classifier.classifier import Comparison, FewShotClassifier
    from ..classifier.inputs import TableSource
    from ..graph import Graph
    from ..tasks import ClassSplit

SHOWN = 30  # classes listed
ALIKE = 8  # columns between two of the same use that are counted instead of listed
CLASS_WIDTH = 28  # of the names of classes beside the figures of predictions


def understood(graph: "Graph", split: "ClassSplit", source: "TableSource") -> dict[str, Any]:
    """What was read from the tables, before anything is trained."""
    from ..classifier.inputs import class_name, class_sizes

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
    for note in (note for note in facts["notes"] if "edge" in note):
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


# --- What ``fewnode explain`` shows.
if TYPE_CHECKING:
    from rich.console import Console

EXPLAIN_OUTPUT_SHOWN = 30  # neighbours listed
SHOWN_CLASSES = 10  # with their probabilities
EFFECTS = ("influence", "evidence")


def draw_explanation(console: "Console", facts: dict[str, Any]) -> None:
    kind = f" ({facts['kind']})" if facts["kind"] else ""
    head = f"{facts['node']} is {facts['label']}{kind}: {100 * facts['probability']:.1f} %"
    console.print(head, markup=False, style="bold")
    if facts["given"] is not None:
        console.print(f"it has a label already: {facts['given']}", markup=False)
    classes = list(facts["probabilities"].items())
    rows = [
        (name, f"{100 * p:.1f} %", "" if i == 0 else f"{100 * facts['margins'][name]:.1f}")
        for i, (name, p) in enumerate(classes[:SHOWN_CLASSES])
    ]
    _draw_table(console, ("class", "probability", "margin"), rows)
    if len(classes) > SHOWN_CLASSES:
        console.print(f"... {len(classes) - SHOWN_CLASSES} less likely ones")
    examples = [(row["node"], row["label"], f"{row['similarity']:.3f}", *_effects(row)) for row in facts["examples"]]
    _draw_table(console, ("nearest examples", "class", "similarity", *EFFECTS), examples[:10])
    if facts["neighbours"]:
        title = f"neighbours ({facts['degree']:,})"
        around = [
            (row["node"], row["label"], _origin(row), f"{row['weight']:.3f}", *_effects(row))
            for row in facts["neighbours"][:EXPLAIN_OUTPUT_SHOWN]
        ]
        _draw_table(console, (title, "class", "from", "weight", *EFFECTS), around)
    else:
        console.print("\nno neighbours: only its own features count")
    _draw_columns(console, facts)
    console.print(
        "\ninfluence: by how many points the margin over the runner-up would shrink without the example or edge, "
        "or with an average amount of the word; evidence: the same in log odds"
    )
    if facts["tried"]:
        _draw_changes(console, facts)


def _draw_columns(console: "Console", facts: dict[str, Any]) -> None:
    """The words or columns that speak for the class and against it, with what is due to the node's own features."""
    for title, sign in ((f"speaks for {facts['label']}", 1), ("speaks against", -1)):
        columns = sorted(
            (row for row in facts["columns"] if sign * row["evidence"] > 0), key=lambda row: -sign * row["evidence"]
        )
        if columns:
            rows = [
                (row["name"], "more" if row["more"] else "less", *_effects(row), f"{row['own']:+.2f}")
                for row in columns
            ]
            _draw_table(console, (title, "than average", *EFFECTS, "its own"), rows)


def _draw_changes(console: "Console", facts: dict[str, Any]) -> None:
    """What would change the answer, or how far the next class is."""
    console.print("\nWhat would change the answer:", style="bold")
    for change in facts["changes"]:
        names = ", ".join(change["without"])
        what = {"edges": "without the edges to", "examples": "without the examples", "columns": "with an average"}
        line = f"{what[change['what']]} {names}: {change['label']} ({100 * change['probability']:.1f} %)"
        console.print(f"  {line}", markup=False, soft_wrap=True)
    if not facts["changes"]:
        tried = ", ".join(f"{count} {what}" for what, count in facts["tried"].items() if count)
        runner_up, margin = next(iter(facts["margins"].items()))
        line = f"nothing that was tried ({tried or 'there is nothing to take away'})"
        console.print(
            f"  {line}; {runner_up} comes next, {100 * margin:.1f} points behind", markup=False, soft_wrap=True
        )


def _origin(row: dict[str, Any]) -> str:
    return "label" if row["labelled"] else "prediction"


def _effects(row: dict[str, Any]) -> tuple[str, str]:
    influence = "" if row["influence"] is None else f"{100 * row['influence']:+.2f}"
    return influence, "" if row["evidence"] is None else f"{row['evidence']:+.2f}"


def _draw_table(console: "Console", titles: tuple[str, ...], rows: Any) -> None:
    """Rows of texts; the first column, the class and where it is from are words, the others numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for i, name in enumerate(titles):
        table.add_column(Text(name), justify="left" if i == 0 or name in ("class", "from") else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print()
    console.print(table)
