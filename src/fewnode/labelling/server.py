"""The server of the page: who may ask, the addresses, and ``label``."""

import asyncio
import hmac
import ipaddress
import json
import secrets
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..classifier.classifier import FewShotClassifier
from ..classifier.commands import load_attached
from ..classifier.inputs import Examples
from ..errors import InputError
from ..files import PathLike
from ..graph import Graph
from ..store import format_bytes
from .contents import Contents, kept_layout
from .journal import Journal
from .session import LabelSession

# --- Who may talk to the server: the browser window that was opened by it, and nobody else.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass
class Guard:
    """The secret of a session, and the names under which it may be asked for."""

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def cookie(self) -> str:
        return f"fewnode-label-{self.port}"  # cookies do not know ports: two sessions must not overwrite each other's

    def url(self, with_token: bool = True) -> str:
        shown = self.host if not _any_address(self.host) else "127.0.0.1"
        shown = f"[{shown}]" if ":" in shown else shown
        return f"http://{shown}:{self.port}/" + (f"?token={self.token}" if with_token else "")

    def knows_host(self, header: str | None) -> bool:
        """Another name for this address would be a page elsewhere that had itself resolved to here."""
        try:
            parts = urlsplit(f"//{header or ''}")
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if port != self.port:
            return False
        if is_loopback(self.host):
            return name in LOOPBACK
        return name == self.host.casefold() or name in LOOPBACK or (_any_address(self.host) and _is_address(name))

    def knows_origin(self, request: Request) -> bool:
        """A page from elsewhere says so itself; a step must say where it comes from."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin is None:
            return request.method in ("GET", "HEAD") and site in (None, "same-origin", "none")
        return origin == f"http://{request.headers.get('host')}"

    def knows_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())


def _any_address(host: str) -> bool:
    return host in ("0.0.0.0", "::", "")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return False


class GuardMiddleware:
    """Refuses every request that the guard does not know, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self.app, self.guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope)
        answer = self._refusal(request) or self._entry(request) or self.app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        if not self.guard.knows_host(request.headers.get("host")):
            return PlainTextResponse("This server answers to its own address only.\n", 421)
        if not self.guard.knows_origin(request):
            return PlainTextResponse("Only the page of this server may ask that.\n", 403)
        return None

    def _entry(self, request: Request) -> Response | None:
        """The token of the address is exchanged for a cookie, so that it does not stay in the address bar."""
        token = request.query_params.get("token")
        if self.guard.knows_token(token):
            answer = RedirectResponse(request.url.path, 303)
            answer.set_cookie(self.guard.cookie, self.guard.token, httponly=True, samesite="strict")
            return answer
        if token is None and self.guard.knows_token(request.cookies.get(self.guard.cookie)):
            return None
        return PlainTextResponse(
            "Open the address that `fewnode label` printed, with its token; this one is missing or old.\n", 401
        )


# --- The page's server: every address is one call of the session; it has no logic of its own.
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


# --- ``fewnode label``: a session of a model's folder, served to a browser on this machine until it is stopped.
Say = Callable[[str], None]
PER_NODE = 1024  # bytes: name and words, place on the map, class and confidence
PER_CLASS = 12  # bytes of a node: its probability now and while it is made


def open_session(
    folder: PathLike, support: PathLike | None = None, say: Say = lambda _: None, memory: int | None = None
) -> LabelSession:
    """The session in a model's folder, where it was left; a new one starts from the examples of ``support``. ``memory``
    bounds the work on a store."""
    classifier = load_attached(folder, say=say, memory=memory)
    examples = None if support is None else classifier.read_examples(support)
    try:
        return session_of(classifier, Path(folder), examples)
    except InputError as error:
        raise error if support is None or "journal" in str(error) else InputError(f"{support}: {error}") from error


def session_of(
    classifier: FewShotClassifier, folder: Path | None = None, examples: Examples | None = None
) -> LabelSession:
    """A session with a classifier; steps are kept in ``folder``, if one is given."""
    if classifier.graph is None:
        raise InputError("no graph is attached: call attach(graph) first")
    _check_room(classifier.graph)
    journal = None if folder is None else Journal(folder, classifier.graph.fingerprint)
    try:
        return LabelSession(classifier, journal, examples)
    except BaseException:
        if journal is not None:
            journal.close()
        raise


def _check_room(graph: Graph) -> None:
    """Refuse a store whose nodes do not fit into its memory: coordinates and edges stay on disk, the rest does not."""
    needed = graph.num_nodes * (PER_NODE + PER_CLASS * graph.num_classes)
    if graph.space is not None and not graph.space.fits(needed, graph.num_nodes):
        raise InputError(
            f"the page holds names and probabilities of all {graph.num_nodes:,} nodes in memory: give --memory "
            f"{format_bytes(graph.space.memory_for(needed, graph.num_nodes))} or more; or write examples into a "
            "table, with `fewnode find` to look for more of them"
        )


def label(
    classifier: FewShotClassifier | PathLike,
    *,
    support: PathLike | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    allow_remote: bool = False,
    browser: bool = True,
    memory: int | None = None,
    say: Say = lambda _: None,
) -> LabelSession:
    """Serve the page on which new classes are named by example, until it is stopped (Ctrl-C); returns the session.

    Args:
        classifier: a fitted one with its graph, or the folder of a saved one, which then keeps the labels.
        support: a table of examples to start from.
        host: the address to listen on; any other than this machine's own needs ``allow_remote``.
        port: 0 takes a free one.
        allow_remote: let other machines reach the page; whoever has its address with the token can use it.
        browser: open the page in a browser.
        memory: bytes that the program may take, if the graph is a store.
        say: told in a line what is being done, and the address.

    Example:
        >>> import fewnode
        >>> fewnode.label("runs/nowhere")
        Traceback (most recent call last):
        ...
        fewnode.errors.InputError: ...
    """
    check_installed()

    if not is_loopback(host) and not allow_remote:
        raise InputError(
            f"--host {host} lets other machines in; say so with --allow-remote, or leave it out to stay on this one"
        )
    listening = _listening(host, port)
    try:
        if isinstance(classifier, FewShotClassifier):
            examples = None if support is None else classifier.read_examples(support)
            session = session_of(classifier, classifier.folder, examples)
        else:
            session = open_session(classifier, support, say, memory)
        guard = Guard(host, listening.getsockname()[1])
        _serve(session, guard, listening, browser, say)
    finally:
        listening.close()
    return session


def _serve(session: LabelSession, guard: Any, listening: socket.socket, browser: bool, say: Say) -> None:
    import uvicorn

    from .contents import Contents

    folder = session.classifier.folder
    places = kept_layout(session.classifier.coordinates(), folder, say)
    app = LabelServer(Contents(session, places, "" if folder is None else folder.name), guard).app()
    if session.journal is not None:
        session.journal.announce(guard.url(with_token=False))
    for note in session.notes:
        say(f"note: {note}")
    say(f"Labelling at {guard.url()}")
    say("Every step is kept; stop with Ctrl-C.")
    if browser:
        webbrowser.open(guard.url())
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, server_header=False
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # uvicorn has shut down already
    finally:
        if session.journal is not None:
            session.journal.close()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(128)  # from now on a browser waits instead of being refused while the map is drawn
        return found
    except (OSError, OverflowError) as error:
        found.close()
        raise InputError(f"{host}:{port} cannot be listened on ({error}); choose another with --port, or 0") from error


def check_installed() -> None:
    """Refuse with the remedy if the server's libraries are not there."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError("labelling in the browser needs two more packages: pip install 'fewnode[label]'") from error
