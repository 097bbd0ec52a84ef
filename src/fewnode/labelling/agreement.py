"""How far people agree: Cohen's kappa of each pair, Fleiss' kappa of all (Cohen 1960, Fleiss 1971)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from .labels import SETTLED, Answer


def agreement(answers: Iterable[Mapping[str, Answer]]) -> dict[str, Any]:
    """Of the nodes that several people gave a class: their number, ``fleiss`` of all classes and of each, and ``pairs``
    of people with the nodes both answered, the share they agree on, and ``cohen`` of all classes and of each.

    Kappa is 1 for full agreement and 0 for that of chance; None where it is not defined, as with a single class.
    """
    said = [{who: one.label for who, one in people.items() if one.label and who != SETTLED} for people in answers]
    said = [people for people in said if len(people) > 1]
    pairs = []
    for who, other in sorted({pair for people in said for pair in combinations(sorted(people), 2)}):
        both = [{who: one[who], other: one[other]} for one in said if who in one and other in one]
        share = sum(one[who] == one[other] for one in both) / len(both)
        a, b = ([one[name] for one in both] for name in (who, other))
        classes = sorted({*a, *b})
        each = {c: cohen_kappa([x == c for x in a], [x == c for x in b]) for c in classes}
        pairs.append(
            {"people": [who, other], "nodes": len(both), "share": share, "cohen": cohen_kappa(a, b), "classes": each}
        )
    whole, each = fleiss_kappa([list(people.values()) for people in said])
    return {"nodes": len(said), "fleiss": whole, "classes": each, "pairs": pairs}


def cohen_kappa(a: Sequence[Any], b: Sequence[Any]) -> float | None:
    """Cohen's kappa of two people's answers about the same nodes."""
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(a, b)) if len({*a, *b}) > 1 else None


def fleiss_kappa(answers: Sequence[Sequence[str]]) -> tuple[float | None, dict[str, float | None]]:
    """Fleiss' kappa of all classes and of each; ``answers`` are those about each node, two or more."""
    classes = sorted({label for some in answers for label in some})
    counts = np.array([[some.count(c) for c in classes] for some in answers], dtype=float).reshape(
        len(answers), len(classes)
    )
    people, share = counts.sum(1, keepdims=True), counts.sum(0) / max(counts.sum(), 1)
    differing = (counts * (people - counts)).sum(0)
    by_chance = (people * (people - 1)).sum() * share * (1 - share)
    whole = 1 - float(differing.sum() / by_chance.sum()) if by_chance.any() else None
    return whole, {c: 1 - float(d / e) if e else None for c, d, e in zip(classes, differing, by_chance, strict=True)}
