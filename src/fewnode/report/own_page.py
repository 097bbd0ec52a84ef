"""A page about a user's own graph: what was found, how far to trust it, and what to do next. One file, nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import InputError
from ..graph import Graph
from ..own.classifier import FewShotClassifier
from ..own.predictions import Predictions
from ..own.support import Support, node_name
from ..storage import PathLike, atomic_write
from .own_contents import CLASSES, Answers, bins, class_rows, headline, ranked, to_label
from .own_details import Details
from .own_map import draw_map
from .templating import check_installed, render

EXAMPLES = 20  # of a class that are named


def check_page(path: PathLike, force: bool = False) -> Path:
    """``path`` if a page may be written there: to be asked before the work that fills it."""
    page = Path(path)
    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{page}: a page must end in .html, not {page.suffix or 'nothing'!r}")
    if page.is_dir():
        raise InputError(f"{page} is a folder; name a file")
    if page.exists() and not force:
        raise InputError(f"{page} exists already; choose another name or overwrite it (--force, in Python force=True)")
    check_installed()
    return page


def write_own_page(
    classifier: FewShotClassifier,
    found: Predictions,
    path: PathLike,
    threshold: float = 0.0,
    thresholds: Mapping[str, float] | None = None,
) -> Path:
    """Write the page about ``found``, predictions of the adapted ``classifier``; thresholds as in ``found.labels``."""
    text = own_page(classifier, found, threshold, thresholds)
    with atomic_write(path) as file:
        file.write(text.encode("utf-8", "replace"))
    return Path(path)


def own_page(
    classifier: FewShotClassifier,
    found: Predictions,
    threshold: float = 0.0,
    thresholds: Mapping[str, float] | None = None,
) -> str:
    """The HTML of the page."""
    graph, support = classifier.graph, classifier.support
    if graph is None or support is None:
        raise InputError("a page needs an adapted classifier: call attach(graph) and adapt({class: [nodes]}) first")
    answers, details = Answers(found, threshold, thresholds), Details(classifier)
    closed = found.kinds is None
    sizes = class_rows(classifier, answers)
    return render(
        "own_page.html",
        version=__version__,
        rows=len(found),
        unlabelled=_unlabelled(graph, support, found),
        closed=closed,
        threshold=threshold,
        thresholds=thresholds or {},
        told=headline(answers),
        kinds=set(answers.kinds),
        expected=None if closed else classifier.expect(found, threshold, thresholds),
        calibration=classifier.calibration,
        examples=_examples(graph, support),
        sizes=sizes[:CLASSES],
        sizes_left=sizes[CLASSES:],
        largest=max(max(row.labelled, row.predicted) for row in sizes),
        map=draw_map(classifier, answers),
        ranked=ranked(answers, details),
        bins=bins(answers),
        next=to_label(answers, details),
        detail=details.title,
    )


def _unlabelled(graph: Graph, support: Support, found: Predictions) -> bool:
    """Whether all rows are about nodes without a label."""
    labelled = graph.y.cpu() >= 0
    labelled[support.nodes.cpu()] = True
    return not bool(labelled[found.nodes].any())


def _examples(graph: Graph, support: Support) -> list[dict[str, Any]]:
    return [
        {"name": name, "count": len(nodes), "nodes": [node_name(graph, i) for i in nodes[:EXAMPLES].tolist()]}
        for name, nodes in support.examples().items()
    ]
