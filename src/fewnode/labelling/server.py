"""The server of the label page: access control, the addresses, and ``label``."""

import asyncio
import secrets
import socket
import tempfile
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from ..classifier.classifier import FewShotClassifier
from ..classifier.commands import Say
from ..classifier.inputs import find_nodes, name_index
from ..errors import InputError, one_of, refused
from ..files import PathLike, parse_json
from ..report.nodes import NodeRows
from ..tables import write_columns
from . import exchange
from .labels import SKIPPED, Step, agreement
from .layout import kept_layout
from .session import LabelSession, open_session
from .web import HANDLERS, HEADERS, guarded, is_loopback, json_response, listening_at, refusal, server_of

with refused("labelling in the browser needs two more packages", ImportError, remedy="pip install 'fewnode[label]'"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp

Query = Mapping[str, Any]  # of an address, who asks, and the body
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; img-src 'self'"
)


@dataclass
class Guard:
    """Controls who has access, and under which names of the server.

    A link with a token that works once gives a person access, and from then on a personal cookie. ``people`` are the
    names of the persons.
    """

    host: str
    port: int
    people: tuple[str, ...] = ("",)
    tokens: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)

    @property
    def cookie(self) -> str:
        return f"fewnode-label-{self.port}"  # cookies do not know ports: two sessions must not overwrite each other's

    def url(self) -> str:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def link(self, who: str = "") -> str:
        """An address that gives a person access once."""
        token = secrets.token_urlsafe(24)
        self.tokens[token] = one_of("person", who, self.people)
        return f"{self.url()}?token={token}"

    def answer(self, request: Request) -> Response | None:
        """The guard's own answer to a request; None if the application may answer."""
        if (answer := refusal(request, local=is_loopback(self.host))) is not None:
            return answer
        token = request.query_params.get("token")
        if token in self.tokens:  # exchanged for a cookie: it may be seen in the list of processes or in a history
            entry, session = RedirectResponse("/", 303), secrets.token_urlsafe(24)
            self.sessions[session] = self.tokens.pop(token)
            entry.set_cookie(self.cookie, session, httponly=True, samesite="strict")
            return entry
        if (who := self.sessions.get(request.cookies.get(self.cookie, ""))) is None:
            return PlainTextResponse(
                "Open the address that `fewnode label` printed. It works once: for another browser, take a new link "
                "under Answers on the page, or start `fewnode label` again.\n",
                401,
            )
        request.scope["who"] = who
        return None if token is None else RedirectResponse("/", 303)  # a link that has been used by this browser


TABLES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
PAGE = Path(__file__).parent / "page"


class LabelServer:
    """The content of the page for one session, and the addresses that it requests; ``places [N, 2]`` is the map.

    The methods that answer an address take its query, with the person (``who``) and the ``body``, and return plain
    values or bytes.
    """

    def __init__(
        self, session: LabelSession, places: np.ndarray, guard: Guard, title: str = "", most_points: int = 200_000
    ) -> None:
        self.session, self.places, self.guard, self.title = session, places, guard, title
        self.browser = NodeRows(session.classifier)
        self._told = -1  # the version whose classes the browser knows words of
        # The nodes on the map: all, or examples, then labelled nodes, then others at random, at most so many. In random
        # order, so that the first ones are representative: a slow machine draws only those while the map moves.
        random = np.random.default_rng(0)
        order = random.permutation(session.graph.num_nodes)
        if len(order) > most_points:
            label = session.scores()[2][order].astype(np.int8)
            order = random.permutation(order[np.argsort(-label, kind="stable")][:most_points])
        self.shown = order.astype("<u4")

    def app(self) -> ASGIApp:
        asked = "state map scores search rows node why suggest more answers columns link"
        routes = [
            *(Route(f"/api/{name}", _answering(getattr(self, name))) for name in asked.split()),
            Route("/api/events", lambda _: StreamingResponse(self._versions(), media_type="text/event-stream")),
            *(Route(f"/api/{name}", _answering(getattr(self, name)), methods=["POST"]) for name in ("step", "grow")),
            Route("/api/files/{name}", self._file),
            Route("/", lambda _: FileResponse(PAGE / "index.html")),
            Mount("/page", StaticFiles(directory=PAGE)),
        ]
        headers = {**HEADERS, "Content-Security-Policy": " ".join([POLICY, *self.browser.image_hosts()])}
        return guarded(Starlette(routes=routes, exception_handlers=HANDLERS), self.guard.answer, headers)

    # --- the whole --------------------------------------------------------------------------------------

    def state(self, query: Query) -> dict[str, Any]:
        """Everything but the points: classes, progress, what can be undone."""
        session = self.session
        with session.lock:
            answered, marks = session.labels.examples(), list(session.labels.marks.values())
            return {
                "title": self.title,
                "version": session.version,
                "nodes": session.graph.num_nodes,
                "shown": len(self.shown),
                "open": session.open,
                "classes": [self._class(one, len(answered.get(one["name"], ()))) for one in session.counts()],
                "answers": session.labels.count_answers(),
                "skipped": marks.count(SKIPPED),
                "undo": self._last_step(session.labels.done, query["who"]),
                "redo": self._last_step(session.labels.undone, query["who"]),
                "who": query["who"],
                "people": self.guard.people,
                "unsettled": marks.count(None),
                "points": [asdict(point) for point in session.points],
                "settled": session.settled(),
                "checked": session.checked(),
                "learning": session.found is not None,
                "notes": session.notes,
                "described": session.described,
                "least": session.classifier.least_size(),
            }

    def _last_step(self, steps: Sequence[Step], who: str) -> str | None:
        """The step of a person that undo or redo would turn, in a few words."""
        step = next((step for step in reversed(steps) if step.who == who), None)
        place = {} if step is None else name_index(self.session.graph, step.nodes)
        if step is None or len(step.nodes) != 1 or step.nodes[0] not in place:
            return None if step is None else str(step)
        shown = self.browser.title(place[step.nodes[0]]) or step.nodes[0]
        return str(msgspec.structs.replace(step, nodes=[shown]))

    def _class(self, one: dict[str, Any], answers: int) -> dict[str, Any]:
        """A class with the number of nodes that people gave to it, and the places of its latest 500 examples."""
        names, called, title = one["examples"], self.browser.name, self.browser.title
        ids = self._ids(names[-500:])
        shown = [{"id": i, "name": called(i), "title": title(i), "place": self.places[i].tolist()} for i in ids]
        about = self.session.labels.about.get(one["name"], "")
        return {**one, "answers": answers, "count": len(names), "examples": shown, "about": about}

    def map(self, query: Query) -> bytes:
        """Little-endian: how many points, their nodes (uint32), then their places (two float32 each)."""
        places = self.places[self.shown].astype("<f4")
        parts = [np.array([len(self.shown)], "<u4"), self.shown, places]
        return b"".join(part.tobytes() for part in parts)

    def scores(self, query: Query) -> bytes:
        """The version (uint32), then of every point the class (int16), the confidence and the label (uint8 each)."""
        with self.session.lock:
            choice, confidence, label = (part[self.shown] for part in self.session.scores())
            version = np.array([self.session.version], "<u4")
        return b"".join([version.tobytes(), choice.astype("<i2").tobytes(), confidence.tobytes(), label.tobytes()])

    async def _versions(self) -> AsyncIterator[str]:
        told = None
        while True:
            if told != self.session.version:
                told = self.session.version
                yield f"data: {told}\n\n"
            await asyncio.sleep(0.1)

    def step(self, query: Query) -> dict[str, Any]:
        """Do the step of a person in a JSON text; the state after it."""
        step = parse_json(query["body"], Step, "the step")
        nodes = [self.browser.name(i) for i in self._ids(step.ids)]  # a lasso: points by number
        self.session.do(msgspec.structs.replace(step, ids=[], nodes=[*step.nodes, *nodes], who=query["who"]))
        return self.state(query)

    def grow(self, query: Query) -> dict[str, Any]:
        """Learn the answers for good; what that did, and the state after it."""
        return {"grown": self.session.grow()._asdict(), **self.state(query)}

    def _file(self, request: Request) -> Response:
        """Tables, written by the function that the command line uses, or the answers as other programs read them."""
        name, session = request.path_params["name"], self.session
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        if name in exchange.FORMATS:
            with session.lock:
                about = {node: self.browser.about(i) for node, i in session.answered_nodes().items()}
                data = exchange.write(name, session.labels.answers, about)
            return Response(data, media_type="application/json", headers=headers)
        what, _, kind = name.partition(".")
        if what not in ("support", "predictions", "labels") or kind not in TABLES:
            there = "support, predictions and labels (.csv, .parquet)"
            raise InputError(f"there is no file {name!r}; there are {there}, {', '.join(exchange.FORMATS)}")
        columns = getattr(session, f"{what}_table")()
        if not columns["id"]:
            raise InputError("there is no example yet: give a node to a class first")
        with tempfile.TemporaryDirectory() as folder:
            write_columns(Path(folder) / name, columns)
            data = (Path(folder) / name).read_bytes()
        return Response(data, media_type=TABLES[kind], headers=headers)

    # --- single nodes -----------------------------------------------------------------------------------

    def _ids(self, nodes: Sequence[str | int]) -> list[int]:
        """Numbers of nodes that are given by name or by number."""
        given = torch.tensor(nodes) if nodes and isinstance(nodes[0], int) else nodes
        return find_nodes(self.session.graph, given, "nodes").tolist()

    def _numbers(self, given: str | None) -> list[int]:
        """Nodes from a text of at most 100 numbers with commas."""
        parts = (given or "").split(",")[:100]
        if not all(part.isdecimal() and len(part) < 16 for part in parts):
            raise InputError(f"nodes are asked for by their numbers, not {given!r:.80}")
        return self._ids([int(part) for part in parts])

    def _rows(self, nodes: Iterable[int]) -> list[dict[str, Any]]:
        """A few words about each node."""
        session, answers = self.session, self.session.labels.answers
        with session.lock:
            if self._told != session.version:
                self._told = session.version
                self.browser.tell(session.choice.numpy())
            return [
                {
                    "id": node,
                    "name": self.browser.name(node),
                    "title": self.browser.title(node),
                    "about": self.browser.summary(node, int(session.choice[node])),
                    "class": int(session.choice[node]),
                    "confidence": round(float(session.confidence[node]), 4),
                    "given": bool(session.label[node]),
                    "marked": int(session.label[node]) == 2,
                    "issue": (session.known_issues or {}).get(self.browser.name(node)),
                    "people": {who: one._asdict() for who, one in answers.get(self.browser.name(node), {}).items()},
                    "place": self.places[node].tolist(),
                }
                for node in nodes
            ]

    def rows(self, query: Query) -> list[dict[str, Any]]:
        """Nodes by their numbers, or the first 100 with a value in a column."""
        if column := query.get("column"):
            return self._rows(self.browser.matching(column, query.get("value", ""))[:100])
        return self._rows(self._numbers(query.get("ids")))

    def search(self, query: Query) -> list[dict[str, Any]]:
        return self._rows(self.browser.search(query.get("q", "")[:500]))

    def columns(self, query: Query) -> dict[str, list[tuple[str, int]]]:
        """The columns by which nodes can be filtered, each with its commonest values and how often they occur."""
        return self.browser.values()

    def answers(self, query: Query) -> dict[str, Any]:
        """The latest 2,000 nodes that somebody answered about, and how far people agree."""
        with self.session.lock:
            nodes = list(self.session.answered_nodes().values())
            return {"rows": self._rows(nodes[:-2001:-1]), "agreement": agreement(self.session.labels.answers.values())}

    def link(self, query: Query) -> dict[str, str]:
        """A link that lets the person in with another browser, once."""
        return {"url": self.guard.link(query["who"])}

    def node(self, query: Query) -> dict[str, Any]:
        """All about one node."""
        node = self._numbers(query.get("id"))[0]
        with self.session.lock:
            found, likeliest = self.session.found, list[tuple[str, float]]()
            if found is not None:
                shares = zip(found.classes, found.probabilities[node].tolist(), strict=True)
                likeliest = sorted(shares, key=lambda share: -share[1])[:8]
            return {
                **self._rows([node])[0],
                "columns": self.browser.row(node),
                "probabilities": likeliest,
                "degree": int(self.session.graph.degree[node]),
                "neighbours": self._rows(self.browser.neighbours(node)),
            }

    def why(self, query: Query) -> dict[str, Any] | None:
        found = self.session.why(self.browser.name(self._numbers(query.get("id"))[0]))
        return None if found is None else found.to_json()

    def suggest(self, query: Query) -> list[dict[str, Any]]:
        among = self.browser.matching(query["column"], query.get("value", "")) if query.get("column") else None
        ways = query.get("by", "teach"), query.get("class"), query["who"]
        names = self.session.questions(12, *ways, None if among is None else torch.tensor(among))
        return self._rows(self._ids(names))

    def more(self, query: Query) -> list[dict[str, Any]]:
        """More nodes of a class, or more like some nodes."""
        if (label := query.get("class")) is not None:
            names = self.session.more(label)
        else:
            names = self.session.like([self.browser.name(i) for i in self._numbers(query.get("like"))])
        return self._rows(self._ids(names))


def _answering(method: Callable[[Query], Any]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that answers with what a method returns, which works in a thread."""

    async def endpoint(request: Request) -> Response:
        body = await request.body()
        if body and request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise InputError("a step is sent as JSON")
        query = {**request.query_params, "who": request.scope["who"], "body": body}
        found = await run_in_threadpool(method, query)
        binary = isinstance(found, bytes)
        return Response(found, media_type="application/octet-stream") if binary else json_response(found)

    return endpoint


def label(
    classifier: FewShotClassifier | PathLike,
    *,
    support: PathLike | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    people: Sequence[str] = (),
    twice: float = 0.1,
    browser: bool = True,
    memory: int | None = None,
    say: Say = lambda _: None,
) -> LabelSession:
    """Serve the label page, on which new classes are defined by example, until it is stopped (Ctrl-C).

    Args:
        classifier: a fitted classifier with its graph, or the folder of a saved one, in which labels are then stored.
        support: a table of initial examples, or answers exported from Label Studio, doccano or Argilla.
        host: the address to listen on; with any other than this machine's own, other machines can open the page.
        port: the port; 0 for any free one.
        people: the names of the people who label together; each gets a personal link, which works once.
        twice: the share of questions that two people are asked.
        browser: whether to open the page in a browser.
        memory: bytes that the program may use, if the graph is a store.
        say: called with a line about what is being done, and with the address.

    Returns:
        The session, with all answers.

    Example:
        >>> import fewnode
        >>> fewnode.label("runs/nowhere")
        Traceback (most recent call last):
        ...
        fewnode.errors.InputError: ...
    """
    if not 0 <= twice <= 1:
        raise InputError(f"twice={twice:g} is not a share: give a number from 0 to 1")
    if len(set(people)) < len(people) or not all(name.isprintable() and name for name in people):
        raise InputError(f"every person needs a name of their own: {', '.join(map(repr, people)):.200}")
    if not is_loopback(host):
        say(
            "note: the page is served over plain HTTP: whoever can read the network between can read it and its cookies"
        )
    with listening_at(host, port) as listening:
        session = open_session(classifier, support, say, memory, twice)
        with closing(session.journal), suppress(KeyboardInterrupt):  # uvicorn has shut down already
            _serve(session, Guard(host, listening.getsockname()[1], tuple(people) or ("",)), listening, browser, say)
    return session


def _serve(session: LabelSession, guard: Guard, listening: socket.socket, browser: bool, say: Say) -> None:
    folder = session.classifier.folder
    places = kept_layout(session.classifier.coordinates(), folder, say)
    app = LabelServer(session, places, guard, "" if folder is None else folder.name).app()
    session.journal.announce(guard.url())
    for note in session.notes:
        say(f"note: {note}")
    for who in guard.people:
        say(f"{who}{': l' if who else 'L'}abelling at {guard.link(who)}")
    say("Each address works once, for one browser. Every step is kept; stop with Ctrl-C.")
    if browser:
        webbrowser.open(guard.link(guard.people[0]))
    server_of(app, grace=1).run(sockets=[listening])
