"""Comparison of two tables of predictions: rows added and removed, and nodes that got another class."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from ..files import PathLike, readable, unguarded
from ..tables import read_columns

CONFIDENCE = (0.0, 0.5, 0.7, 0.9, 0.99)  # where the bands of the agreement begin


class Predicted(NamedTuple):
    """A row of a table of predictions."""

    label: str
    probability: float


def is_table(path: PathLike) -> bool:
    """Whether a file is a table. A file of result rows begins with a brace."""
    return not Path(path).is_dir() and not readable(path).read_bytes().lstrip().startswith(b"{")


def compare_predictions(before: PathLike, after: PathLike, top: int = 20) -> dict[str, Any]:
    """The changes from one table of predictions to another.

    They are the nodes in only one of the tables; the number of other nodes that got another class, by both classes; the
    ``top`` most certain of these changes (by the lower of the two probabilities); and the share of nodes that kept
    their class, by their former probability.
    """
    old, new = _read(before), _read(after)
    pairs = {node: (row, new[node]) for node, row in old.items() if node in new}
    changed = {node: pair for node, pair in pairs.items() if pair[0].label != pair[1].label}
    surest = sorted(changed.items(), key=lambda item: (-min(row.probability for row in item[1]), item[0]))[:top]
    moves = Counter((a.label, b.label) for a, b in changed.values())
    a, b = (Counter(row.label for row in part.values()) for part in (old, new))
    bands = []
    for low, high in zip(CONFIDENCE, (*CONFIDENCE[1:], 2.0), strict=True):
        kept = [node not in changed for node, (row, _) in pairs.items() if low <= row.probability < high]
        bands.append({"from": low, "nodes": len(kept), "agreement": sum(kept) / len(kept) if kept else None})
    return {
        "nodes": len(pairs),
        "added": [node for node in new if node not in old],
        "gone": [node for node in old if node not in new],
        "changed": len(changed),
        "classes": [
            {"label": name, "before": a[name], "after": b[name], "change": b[name] - a[name]}
            for name, _ in (a | b).most_common()
        ],
        "moves": [{"before": a, "after": b, "nodes": n} for (a, b), n in moves.most_common()],
        "surest": [
            {"id": node, "before": a.label, "probability_before": a.probability,
             "after": b.label, "probability_after": b.probability}
            for node, (a, b) in surest
        ],
        "agreement": bands,
    }  # fmt: skip


def _read(path: PathLike) -> dict[str, Predicted]:
    table = read_columns(path)
    if lacking := {"id", "label", "probability"} - set(table.columns):
        raise InputError(
            f"{path} is neither a table of predictions, which has the columns id, label and probability (it lacks "
            f"{', '.join(sorted(lacking))}), nor a file of result rows"
        )
    found: dict[str, Predicted] = {}
    cells = (table.text(name, "predictions") for name in ("id", "label", "probability"))
    for row, (node, label, probability) in enumerate(zip(*cells, strict=True)):
        if node in found:
            raise InputError(f"{table.place(row, 'id')}: node {node!r} is listed twice; keep one of the rows")
        try:
            found[node] = Predicted(unguarded(label), float(probability))
        except ValueError:
            raise InputError(f"{table.place(row, 'probability')}: {probability!r} is not a number") from None
    return {unguarded(node): row for node, row in found.items()}
