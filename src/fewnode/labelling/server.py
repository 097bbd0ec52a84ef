"""The page's server: every address is one call of the session; it has no logic of its own."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..errors import InputError
from .contents import Contents
from .guard import Guard, GuardMiddleware

PAGE = Path(__file__).parent / "page"
LARGEST = 8 << 20  # bytes of a step
TABLES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


class LabelServer:
    """Serves the contents of one session to whom the guard knows."""

    def __init__(self, contents: Contents, guard: Guard) -> None:
        self.contents, self.session, self.guard = contents, contents.session, guard

    def app(self) -> Starlette:
        get = [
            ("/api/state", self.state),
            ("/api/map", self.map),
            ("/api/scores", self.scores),
            ("/api/events", self.events),
            ("/api/search", self.search),
            ("/api/rows", self.rows),
            ("/api/node", self.node),
            ("/api/why", self.why),
            ("/api/suggest", self.suggest),
            ("/api/more", self.more),
            ("/api/files/{name}", self.table),
        ]
        routes = [Route(path, handler) for path, handler in get]
        routes += [Route("/api/step", self.step, methods=["POST"]), Route("/", _index)]
        return Starlette(
            routes=[*routes, Mount("/page", StaticFiles(directory=PAGE))],
            middleware=[Middleware(GuardMiddleware, guard=self.guard)],
            exception_handlers={InputError: _refused, OSError: _failed},
        )

    # --- the whole --------------------------------------------------------------------------------------

    async def state(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self.contents.state))

    async def map(self, request: Request) -> Response:
        return _bytes(await run_in_threadpool(self.contents.map))

    async def scores(self, request: Request) -> Response:
        return _bytes(await run_in_threadpool(self.contents.scores))

    async def events(self, request: Request) -> Response:
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        loop, versions = asyncio.get_running_loop(), asyncio.Queue[int]()

        def heard(version: int) -> None:
            loop.call_soon_threadsafe(versions.put_nowait, version)

        end = self.session.listen(heard)
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
        return _json(await run_in_threadpool(self.contents.step, bytes(body)))

    # --- single nodes -----------------------------------------------------------------------------------

    async def search(self, request: Request) -> Response:
        words = request.query_params.get("q", "")[:500]
        return _json(await run_in_threadpool(lambda: self.contents.rows(self.contents.browser.search(words))))

    def _one(self, request: Request) -> int:
        return self.contents.numbers(request.query_params.get("id"))[0]

    async def rows(self, request: Request) -> Response:
        nodes = self.contents.numbers(request.query_params.get("ids"))
        return _json(await run_in_threadpool(self.contents.rows, nodes))

    async def node(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self.contents.node, self._one(request)))

    async def why(self, request: Request) -> Response:
        node = self.contents.browser.name(self._one(request))
        found = await run_in_threadpool(self.session.why, node)
        return _json(None if found is None else _without_probabilities(found.to_json()))

    async def suggest(self, request: Request) -> Response:
        asked = request.query_params
        n, by, label = asked.get("n", "10"), asked.get("by", "teach"), asked.get("class")
        if not n.isdecimal() or not 1 <= int(n) <= 200:
            raise InputError(f"{n!r} suggestions; ask for 1 to 200")
        found = await run_in_threadpool(self.session.suggest, int(n), by, label)
        return _json(await run_in_threadpool(self.contents.rows, found.nodes.tolist()))

    async def more(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self.contents.more, request.query_params))

    async def table(self, request: Request) -> Response:
        name = request.path_params["name"]
        what, _, kind = name.partition(".")
        if what not in ("support", "predictions") or kind not in TABLES:
            raise InputError(f"there is no file {name!r}; there are support.csv, predictions.csv, predictions.parquet")
        data = await run_in_threadpool(self.contents.table, what, name)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(data, media_type=TABLES[kind], headers=headers)


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
    return Response(data, media_type="application/octet-stream")
