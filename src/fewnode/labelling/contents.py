"""What the page shows: the state, a node, the map, search results."""

import json
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..classifier.classifier import FewShotClassifier
from ..classifier.inputs import find_nodes, node_name
from ..errors import InputError
from ..files import read_npz, write_npz
from ..graph.arrays import csr_parts
from ..tables.columns import read_columns
from ..tables.roles import find_id
from ..tables.writing import write_columns
from .session import Change, LabelSession

# --- What a person reads of a node, and finds it by: the columns of its row, its text, its neighbours.
LONGEST = 2000  # letters of a value that are shown
WORDS = 40  # words or columns of a row that has no table
NEIGHBOURS = 60
BREAK = "\n"


class Browser:
    """The rows of the nodes' table if the model remembers it, else the named features; and a search in all of it."""

    def __init__(self, classifier: FewShotClassifier) -> None:
        assert classifier.graph is not None
        self.classifier, self.graph = classifier, classifier.graph
        self.columns = self._table()

    def _table(self) -> dict[str, list[str]]:
        """Every column of the table of nodes, in the order of the graph's nodes."""
        source = self.classifier.source
        if source is None or source.nodes is None or source.missing():
            return {}
        table = read_columns(source.nodes)
        try:
            key = source.columns.get("id_column") or find_id(table, (), ())[0]
        except InputError:  # rows that are nodes by their place alone
            return {}
        row = {name: i for i, name in enumerate(table.text(key, "ids"))}
        order = [row.get(self.name(i), -1) for i in range(self.graph.num_nodes)]
        plain = [name for name, column in table.columns.items() if name != key and column.ndim == 1]
        texts = {name: [*table.text(name, "columns"), ""] for name in plain}  # the last: no row
        return {name: [values[i] for i in order] for name, values in texts.items()}

    def name(self, node: int) -> str:
        return node_name(self.graph, node)

    def row(self, node: int) -> list[tuple[str, str]]:
        """Names and values of what is known of a node."""
        if self.columns:
            return [(name, values[node][:LONGEST]) for name, values in self.columns.items() if values[node]]
        return list(self._features(node))

    def _features(self, node: int) -> Iterator[tuple[str, str]]:
        x, names = self.graph.features, self.graph.feature_names
        if x is None or names is None:
            return
        if x.layout == torch.sparse_csr:
            indptr, indices, values = csr_parts(x)
            part = slice(int(indptr[node]), int(indptr[node + 1]))
            words = [names[i] for i in indices[part][values[part].argsort(descending=True)].tolist()[:WORDS]]
            yield "words", ", ".join(words)
            return
        for name, value in list(zip(names, x[node].tolist(), strict=True))[:WORDS]:
            yield name, f"{value:.4g}"

    def summary(self, node: int) -> str:
        """The longest value, in one line: what tells a node best."""
        values = [value for _, value in self.row(node)]
        return " ".join(max(values, key=len, default="").split())[:160]

    def neighbours(self, node: int) -> list[int]:
        """The first neighbours, at most ``NEIGHBOURS``."""
        start, end = self.graph.indptr[node : node + 2].tolist()
        found: list[int] = self.graph.indices[start : min(end, start + NEIGHBOURS)].long().tolist()
        return found

    # --- search -----------------------------------------------------------------------------------------

    def search(self, words: str, most: int = 30) -> list[int]:
        """Nodes whose name, else whose row, holds all the words; exact names first."""
        wanted = words.casefold().split()
        if not wanted:
            return []
        whole = words.casefold().strip()
        found = dict.fromkeys(self._names.nodes_with(f"{BREAK}{whole}{BREAK}", most))
        for start in (f"{BREAK}{whole}", whole):
            found |= dict.fromkeys(self._names.nodes_with(start, most - len(found)))
        longest = max(wanted, key=len)
        for text in (self._names, self._texts):
            for node in text.nodes_with(longest, 1 << 30):
                if len(found) >= most:
                    return list(found)[:most]
                if all(word in text.lines[node] or word in self._names.lines[node] for word in wanted):
                    found[node] = None
        return list(found)[:most]

    @cached_property
    def _names(self) -> "Lines":
        return Lines([self.name(i) for i in range(self.graph.num_nodes)])

    @cached_property
    def _texts(self) -> "Lines":
        if self.columns:
            return Lines([" ".join(row) for row in zip(*self.columns.values(), strict=True)])
        sparse = self.graph.features is not None and self.graph.features.layout == torch.sparse_csr
        if not sparse or self.graph.feature_names is None:
            return Lines([""] * self.graph.num_nodes)
        return Lines(self._words())

    def _words(self) -> list[str]:
        assert self.graph.features is not None and self.graph.feature_names is not None
        indptr, indices, _ = (part.tolist() for part in csr_parts(self.graph.features))
        names = self.graph.feature_names
        return [" ".join(names[i] for i in indices[a:b]) for a, b in pairwise(indptr)]


class Lines:
    """One line for each node, as one text: a word is found in it many times faster than line by line."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = [line.casefold().replace(BREAK, " ") for line in lines]
        self.text = BREAK + BREAK.join(self.lines) + BREAK
        self.starts = list(accumulate((len(line) + 1 for line in self.lines), initial=1))

    def nodes_with(self, part: str, most: int) -> Iterator[int]:
        """The nodes whose line holds ``part``, in their order; a line break stands for the start or end of a line."""
        at, given = 0, 0
        while given < most and (at := self.text.find(part, at)) >= 0:
            node = bisect_right(self.starts, at + part.startswith(BREAK)) - 1
            yield node
            given, at = given + 1, self.starts[node + 1] - 1


# --- What the page is told, as plain values and bytes: the state, the map, the scores, a node, a table.
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


# --- A map of the nodes in two dimensions: landmarks by t-SNE, every other node between the landmarks it is like.
LANDMARKS, LEADING = 3000, 50  # nodes laid out by t-SNE; coordinates with most variance that it sees
NEAREST, SPREAD = 3, 0.35  # landmarks a node lies between; how far from there, in distances of landmarks
FEW = 30  # nodes below which the two principal directions do
ROWS = 4096
MAP = "map.npz"


def layout(x: Tensor, seed: int = 0) -> np.ndarray:
    """Places ``[N, 2]`` from 0 to 1 of nodes with the coordinates ``x [N, d]``; the same for the same input."""
    leading = _leading(x)
    if len(x) < FEW:
        return _within(np.pad(leading[:, -2:].numpy(), ((0, 0), (0, max(0, 2 - leading.shape[1])))))
    from sklearn.manifold import TSNE  # a second that a map drawn before saves

    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    chosen = order[:LANDMARKS]
    marks = leading[chosen]
    start = marks[:, -2:] / marks[:, -1].std().clamp(min=1e-9) * 1e-4
    perplexity = min(30.0, (len(chosen) - 1) / 4)
    tsne = TSNE(2, init=start.numpy(), perplexity=perplexity, random_state=seed, max_iter=500, metric="cosine")
    places = torch.from_numpy(tsne.fit_transform(marks.numpy()).astype(np.float32))
    return _within(_between(leading, marks, places, chosen, seed).numpy())


def kept_layout(x: Tensor, folder: Path | None, say: Callable[[str], None] = lambda _: None) -> np.ndarray:
    """The layout that was kept in a model's folder for these coordinates, or a new one, which is kept."""
    mark = np.array([len(x), float(x[:: max(len(x) // 1000, 1)].double().abs().sum())])
    path = None if folder is None else folder / MAP
    if path is not None and path.exists():
        try:
            parts = read_npz(path)
            if np.array_equal(parts["mark"], mark) and parts["places"].shape == (len(x), 2):
                return parts["places"]
        except (InputError, KeyError):
            pass  # damaged: it is made again
    say("Drawing the map ...")
    places = layout(x)
    if path is not None:
        write_npz(path, {"mark": mark, "places": places}, compress=False)
    return places


def _leading(x: Tensor) -> Tensor:
    """The coordinates with most variance, the largest last, turned to principal directions."""
    sample = x[:: max(len(x) // 20_000, 1)].float().cpu()
    centre = sample.mean(0)
    _, directions = torch.linalg.eigh(((sample - centre).T @ (sample - centre)).double())
    turn = directions[:, -LEADING:].float().to(x.device)
    parts = [(part.float() - centre.to(x.device)) @ turn for part in x.split(ROWS)]
    return torch.cat(parts).cpu()


def _between(leading: Tensor, marks: Tensor, places: Tensor, chosen: Tensor, seed: int) -> Tensor:
    unit = torch.nn.functional.normalize(marks, dim=1)
    near = torch.cdist(places, places).topk(min(5, len(places)), largest=False).values[:, -1]
    found = []
    for part in leading.split(ROWS):
        alike, which = (torch.nn.functional.normalize(part, dim=1) @ unit.T).topk(NEAREST, dim=1)
        weight = (20 * (alike - alike[:, :1])).exp()
        weight = weight / weight.sum(1, keepdim=True)
        found.append(
            torch.cat([(weight[:, :, None] * places[which]).sum(1), (weight * near[which]).sum(1)[:, None]], 1)
        )
    all_ = torch.cat(found)
    noise = torch.randn(len(all_), 2, generator=torch.Generator().manual_seed(seed + 1))
    spread = all_[:, :2] + SPREAD * all_[:, 2:] * noise  # nodes between the same landmarks would hide each other
    spread[chosen] = places
    return spread


def _within(places: np.ndarray) -> np.ndarray:
    """Moved and scaled into the unit square; the two axes keep their proportion."""
    low, high = np.quantile(places, [0.001, 0.999], axis=0)
    size = float((high - low).max()) or 1.0
    centred = (places - (low + high) / 2) / size + 0.5
    clipped: np.ndarray = centred.clip(0, 1).astype(np.float32)
    return clipped
