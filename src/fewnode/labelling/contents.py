"""What the page is told, as plain values and bytes: the state, the map, the scores, a node, a table."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..io import write_columns
from ..own.support import find_nodes
from .browsing import Browser
from .labels import Change
from .session import LabelSession

SHOWN = 200_000  # points that are drawn at most
EXAMPLES = 500  # of a class that are marked on the map
LIKELIEST = 8  # classes of a node


class Contents:
    """Of one session; ``places [N, 2]`` is the map."""

    def __init__(self, session: LabelSession, places: np.ndarray, title: str = "") -> None:
        self.session, self.places, self.title = session, places, title
        self.browser = Browser(session.classifier)
        self.shown = self._sample()

    def _sample(self) -> np.ndarray:
        """The nodes on the map: all, or examples, then labelled nodes, then others at random, as many as are drawn.

        In random order: the first are a fair picture of all, and all that a slow machine draws while the map moves.
        """
        random = np.random.default_rng(0)
        order = random.permutation(self.session.graph.num_nodes)
        if len(order) > SHOWN:
            label = self.session.scores()[2][order].astype(np.int8)
            order = random.permutation(order[np.argsort(-label, kind="stable")][:SHOWN])
        return order.astype(np.uint32)

    def state(self) -> dict[str, Any]:
        """Everything but the points: classes, progress, what can be undone."""
        session = self.session
        with session.lock:
            return {
                "title": self.title,
                "version": session.version,
                "nodes": session.graph.num_nodes,
                "shown": len(self.shown),
                "open": session.open,
                "classes": [self._class(one) for one in session.counts()],
                "answers": session.labels.answers(),
                "skipped": session.skipped(),
                "undo": _said(session.labels.done),
                "redo": _said(session.labels.undone),
                "points": [asdict(point) for point in session.points],
                "settled": session.settled(),
                "checked": session.checked(),
                "learning": session.found is not None,
                "notes": session.notes,
            }

    def _class(self, one: dict[str, Any]) -> dict[str, Any]:
        """A class with its examples where they lie; of many, the latest."""
        names = one["examples"]
        ids = find_nodes(self.session.graph, names[-EXAMPLES:], "examples").tolist()
        shown = [{"id": i, "name": self.browser.name(i), "place": self.places[i].tolist()} for i in ids]
        return {**one, "count": len(names), "examples": shown}

    def map(self) -> bytes:
        """Little-endian: how many points, their nodes (uint32), then their places (two float32 each)."""
        places = self.places[self.shown].astype("<f4")
        parts = [np.array([len(self.shown)], "<u4"), self.shown.astype("<u4"), places]
        return b"".join(part.tobytes() for part in parts)

    def scores(self) -> bytes:
        """The version (uint32), then of every point the class (int16), the confidence and the label (uint8 each)."""
        with self.session.lock:
            choice, confidence, label = (part[self.shown] for part in self.session.scores())
            version = np.array([self.session.version], "<u4")
        return b"".join([version.tobytes(), choice.astype("<i2").tobytes(), confidence.tobytes(), label.tobytes()])

    def step(self, body: bytes) -> dict[str, Any]:
        """Do the step in a JSON text; the state after it."""
        try:
            step = json.loads(body)
        except ValueError as error:
            raise InputError(f"a step is sent as JSON ({error})") from error
        if not isinstance(step, dict):
            raise InputError("a step is a JSON object")
        if isinstance(ids := step.get("ids"), list):  # a lasso: points by number
            step = {**step, "nodes": [self.browser.name(i) for i in self.ids(ids)]}
        if step.get("do") in ("undo", "redo"):
            getattr(self.session, step["do"])()
        else:
            self.session.do(step)
        return self.state()

    def ids(self, ids: list[Any]) -> list[int]:
        """Nodes by their numbers, checked; names may be whole numbers too, so they are not looked up."""
        n = self.session.graph.num_nodes
        for i in ids:
            if not isinstance(i, int) or isinstance(i, bool) or not 0 <= i < n:
                raise InputError(f"there is no node {i!r}; they are numbered from 0 to {n - 1}")
        return ids

    def numbers(self, given: str | None, most: int = 100) -> list[int]:
        """Nodes from a text of numbers with commas, checked."""
        parts = (given or "").split(",")[:most]
        if not all(part.isdecimal() for part in parts):
            raise InputError(f"nodes are asked for by their numbers, not {given!r}")
        return self.ids([int(part) for part in parts])

    def rows(self, nodes: list[int]) -> list[dict[str, Any]]:
        """A few words about each node."""
        session = self.session
        with session.lock:
            return [
                {
                    "id": node,
                    "name": self.browser.name(node),
                    "about": self.browser.summary(node),
                    "class": int(session.choice[node]),
                    "confidence": round(float(session.confidence[node]), 4),
                    "given": int(session.given[node]) >= 0,
                    "marked": bool(session.marked[node]),
                    "place": self.places[node].tolist(),
                }
                for node in nodes
            ]

    def node(self, node: int) -> dict[str, Any]:
        """All about one node."""
        around = self.browser.neighbours(node)
        with self.session.lock:
            return {
                **self.rows([node])[0],
                "columns": self.browser.row(node),
                "probabilities": self._probabilities(node),
                "degree": int(self.session.graph.degree[node]),
                "neighbours": self.rows(around),
            }

    def _probabilities(self, node: int) -> list[tuple[str, float]]:
        found = self.session.found
        if found is None:
            return []
        p, which = found.probabilities[node].topk(min(LIKELIEST, len(found.classes)))
        return [(found.classes[c], value) for value, c in zip(p.tolist(), which.tolist(), strict=True)]

    def more(self, asked: Mapping[str, str]) -> list[dict[str, Any]]:
        """More of a class, or more like a node."""
        if (label := asked.get("class")) is not None:
            names = self.session.more(label)
        else:
            names = self.session.like([self.browser.name(i) for i in self.numbers(asked.get("like"))])
        return self.rows(find_nodes(self.session.graph, names, "nodes").tolist())

    def table(self, what: str, name: str) -> bytes:
        """The support or the predictions, written by the very function the command line has."""
        columns = self.session.support_table() if what == "support" else self.session.predictions_table()
        if not columns["id"]:
            raise InputError("there is no example yet: give a node to a class first")
        with tempfile.TemporaryDirectory() as folder:
            write_columns(Path(folder) / name, columns)
            return (Path(folder) / name).read_bytes()


def _said(changes: list[Change]) -> str | None:
    """The step that undo or redo would turn, in a few words."""
    if not changes:
        return None
    step = changes[-1].step
    nodes = step.get("nodes", ())
    what = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes" if nodes else step.get("name", "")
    return " ".join(
        str(part) for part in (step["do"], what, step.get("class") or step.get("to") or step.get("into") or "") if part
    )
