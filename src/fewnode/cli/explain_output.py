"""What ``fewnode explain`` shows."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 30  # neighbours listed
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
            for row in facts["neighbours"][:SHOWN]
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
