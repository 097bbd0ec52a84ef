"""The page's server: every address is one call of the session; it has no logic of its own."""

import asyncio
import io
import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..errors import InputError
from ..io import write_columns
from ..own.support import find_nodes
from .browsing import Browser, probabilities
from .guard import Guard, GuardMiddleware
from .session import LabelSession

PAGE = Path(__file__).parent / "page"
SHOWN = 200_000  # points that are drawn at most
EXAMPLES = 500  # of a class that are marked on the map
LARGEST = 8 << 20  # bytes of a step
TABLES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


class LabelServer:
    """Serves one session; ``places [N, 2]`` is the map."""

    def __init__(self, session: LabelSession, places: np.ndarray, guard: Guard, title: str = "") -> None:
        self.session, self.places, self.guard, self.title = session, places, guard, title
        self.browser = Browser(session.classifier)
        self.shown = self._sample()

    def _sample(self) -> np.ndarray:
        """The nodes on the map: all, or examples, then labelled nodes, then others at random, as many as are drawn."""
        n = self.session.graph.num_nodes
        if n <= SHOWN:
            return np.arange(n, dtype=np.uint32)
        _, _, label = self.session.scores()
        order = np.random.default_rng(0).permutation(n)
        chosen = order[np.argsort(-label[order].astype(np.int8), kind="stable")][:SHOWN]
        return np.sort(chosen).astype(np.uint32)

    def app(self) -> Starlette:
        get = [
            ("/api/state", self.state),
            ("/api/map", self.map),
            ("/api/scores", self.scores),
            ("/api/events", self.events),
            ("/api/search", self.search),
            ("/api/node", self.node),
            ("/api/why", self.why),
            ("/api/suggest", self.suggest),
            ("/api/more", self.more),
            ("/api/files/{name}", self.table),
        ]
        routes = [Route(path, handler) for path, handler in get]
        routes += [Route("/api/step", self.step, methods=["POST"]), Route("/", partial(_index))]
        return Starlette(
            routes=[*routes, Mount("/page", StaticFiles(directory=PAGE))],
            middleware=[Middleware(GuardMiddleware, guard=self.guard)],
            exception_handlers={InputError: _refused, OSError: _failed},
        )

    # --- the whole --------------------------------------------------------------------------------------

    async def state(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self._state))

    def _state(self) -> dict[str, Any]:
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

    async def map(self, request: Request) -> Response:
        """Little-endian: how many points, their nodes (uint32), then their places (two float32 each)."""
        places = self.places[self.shown].astype("<f4")
        parts = [np.array([len(self.shown)], "<u4"), self.shown.astype("<u4"), places]
        return _bytes(b"".join(part.tobytes() for part in parts))

    async def scores(self, request: Request) -> Response:
        """The version (uint32), then of every point the class (int16), the confidence and the label (uint8 each)."""
        return _bytes(await run_in_threadpool(self._scores))

    def _scores(self) -> bytes:
        with self.session.lock:
            choice, confidence, label = (part[self.shown] for part in self.session.scores())
            version = np.array([self.session.version], "<u4")
        return b"".join([version.tobytes(), choice.astype("<i2").tobytes(), confidence.tobytes(), label.tobytes()])

    async def events(self, request: Request) -> Response:
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        loop, versions = asyncio.get_running_loop(), asyncio.Queue[int]()
        end = self.session.listen(lambda version: loop.call_soon_threadsafe(versions.put_nowait, version))
        try:
            yield f"data: {self.session.version}\n\n"
            while True:
                try:
                    yield f"data: {await asyncio.wait_for(versions.get(), 15)}\n\n"
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            end()

    async def step(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise InputError("a step is sent as JSON")
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                raise InputError("this step names too many nodes at once; do it in parts")
        return _json(await run_in_threadpool(self._step, bytes(body)))

    def _step(self, body: bytes) -> dict[str, Any]:
        try:
            step = json.loads(body)
        except ValueError as error:
            raise InputError(f"a step is sent as JSON ({error})") from error
        if not isinstance(step, dict):
            raise InputError("a step is a JSON object")
        if isinstance(ids := step.get("ids"), list):  # a lasso: points by number
            step = {**step, "nodes": [self.browser.name(i) for i in self._ids(ids)]}
        if step.get("do") in ("undo", "redo"):
            getattr(self.session, step["do"])()
        else:
            self.session.do(step)
        return self._state()

    def _ids(self, ids: list[Any]) -> list[int]:
        found: list[int] = find_nodes(self.session.graph, ids, "nodes").tolist()
        return found

    # --- single nodes -----------------------------------------------------------------------------------

    async def search(self, request: Request) -> Response:
        words = request.query_params.get("q", "")[:500]
        return _json(await run_in_threadpool(lambda: self._rows(self.browser.search(words))))

    def _rows(self, nodes: list[int]) -> list[dict[str, Any]]:
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

    def _one(self, request: Request) -> int:
        given = request.query_params.get("id", "")
        if not given.isdecimal():
            raise InputError(f"a node is asked for by its number, not {given!r}")
        return self._ids([int(given)])[0]

    async def node(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self._node, self._one(request)))

    def _node(self, node: int) -> dict[str, Any]:
        around = self.browser.neighbours(node)
        with self.session.lock:
            return {
                **self._rows([node])[0],
                "columns": self.browser.row(node),
                "probabilities": probabilities(self.session, node),
                "degree": int(self.session.graph.degree[node]),
                "neighbours": self._rows(around),
            }

    async def why(self, request: Request) -> Response:
        node = self.browser.name(self._one(request))
        found = await run_in_threadpool(self.session.why, node)
        return _json(None if found is None else _without_probabilities(found.to_json()))

    async def suggest(self, request: Request) -> Response:
        asked = request.query_params
        n, by, label = asked.get("n", "10"), asked.get("by", "teach"), asked.get("class")
        if not n.isdecimal() or not 1 <= int(n) <= 200:
            raise InputError(f"{n!r} suggestions; ask for 1 to 200")
        found = await run_in_threadpool(self.session.suggest, int(n), by, label)
        return _json(await run_in_threadpool(self._rows, found.nodes.tolist()))

    async def more(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self._more, request.query_params))

    def _more(self, asked: Any) -> list[dict[str, Any]]:
        """More of a class, or more like a node."""
        label, node = asked.get("class"), asked.get("like")
        if label is not None:
            names = self.session.more(label)
        else:
            names = self.session.like([self.browser.name(i) for i in self._ids([int(node)])])
        return self._rows(find_nodes(self.session.graph, names, "nodes").tolist())

    async def table(self, request: Request) -> Response:
        name = request.path_params["name"]
        what, _, kind = name.partition(".")
        if what not in ("support", "predictions") or kind not in TABLES:
            raise InputError(f"there is no file {name!r}; there are support.csv, predictions.csv, predictions.parquet")
        data = await run_in_threadpool(self._table, what, name)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(data, media_type=TABLES[kind], headers=headers)

    def _table(self, what: str, name: str) -> bytes:
        columns = self.session.support_table() if what == "support" else self.session.predictions_table()
        if not columns["id"]:
            raise InputError("there is no example yet: give a node to a class first")
        with tempfile.TemporaryDirectory() as folder:  # written by the very function the command line has
            write_columns(Path(folder) / name, columns)
            return (Path(folder) / name).read_bytes()


def _said(changes: list[Any]) -> str | None:
    """The step that undo or redo would turn, in a few words."""
    if not changes:
        return None
    step = changes[-1].step
    nodes = step.get("nodes", ())
    what = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes" if nodes else step.get("name", "")
    return " ".join(
        str(part) for part in (step["do"], what, step.get("class") or step.get("to") or step.get("into") or "") if part
    )


def _without_probabilities(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in ("probabilities", "margins")}


async def _index(request: Request) -> Response:
    return FileResponse(PAGE / "index.html")


async def _refused(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _failed(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"that could not be written: {error}; nothing was changed"}, 507)


def _json(value: Any) -> Response:
    return Response(
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"), media_type="application/json"
    )


def _bytes(data: bytes) -> Response:
    return Response(io.BytesIO(data).getvalue(), media_type="application/octet-stream")
