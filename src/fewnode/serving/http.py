"""The service over HTTP: its addresses, access control, limits, and ``serve``."""

import asyncio
import ctypes
import gc
import hmac
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Annotated, Any

import jinja2
import torch

from .. import __version__
from ..classifier.commands import Say
from ..classifier.predictions import Predictions
from ..errors import InputError, refused
from ..files import PathLike, readable
from ..labelling.web import HANDLERS, guarded, is_loopback, json_response, listening_at, refusal, server_of
from ..training.checkpoint import read_manifest
from .service import NotReady, Served, Service

with refused("a service needs three more packages", ImportError, remedy="pip install 'fewnode[serve]'"):
    import anyio
    from fastapi import FastAPI, Query, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, values
    from prometheus_client.multiprocess import MultiProcessCollector
    from pydantic import AfterValidator, BaseModel, Field
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A lone surrogate is no text: encoding it fails, which pydantic reports like any other wrong value.
Text = Annotated[str, AfterValidator(lambda text: text.encode().decode())]
Cell = Text | int | float | bool | None
THREADS = 4  # that answer requests at the same time
GROW = "/v1/grow"
MESSAGES = {  # by the type of pydantic's error; its own words for the others
    "json_invalid": "this is not JSON",
    "model_attributes_type": "send a JSON object, with the header content-type: application/json",
    "extra_forbidden": "there is no such field; /docs lists those that there are",
    "missing": "this is required",
}


@dataclass(frozen=True)
class Limits:
    """Limits of a request: bytes of its body, number of nodes, and seconds after which it is cancelled."""

    body: int = 8 << 20
    nodes: int = 10_000
    seconds: float = 30.0


class Asked(BaseModel, extra="forbid"):
    """The nodes to predict: nodes of the graph, by their ids, or new nodes with their edges."""

    nodes: list[Text | int] = Field([], description="ids of nodes of the graph")
    new_nodes: list[dict[Text, Cell]] = Field([], description="rows with the columns of the node table: id, attributes")
    new_edges: list[list[Cell] | dict[Text, Cell]] = Field(
        [], description="pairs of ids (and a weight), or rows with the columns of the edge table"
    )
    threshold: float = Field(0.0, ge=0, le=1, description="nodes below this probability are called unknown")
    all_probabilities: bool = Field(False, description="add the probability of every class")


class NewClass(BaseModel, extra="forbid"):
    """A class with its example nodes, or a sentence that describes it. Examples are added to an existing class."""

    name: Text = Field(min_length=1, max_length=200)
    examples: list[Text | int] = Field([], description="ids of nodes of the graph")
    description: Text = Field("", max_length=4000, description="for models whose texts were read by a text encoder")


class Labels(BaseModel, extra="forbid"):
    """Labels to learn in addition to those given before: nodes by class. A label of the graph that differs is
    corrected."""

    labels: dict[Text, list[Text | int]] = Field({}, description="ids of nodes of the graph, by class")


class Prediction(BaseModel):
    id: str
    label: str
    probability: float
    runner_up: str
    margin: float
    kind: str = "new"
    probabilities: dict[str, float] | None = None


class Answer(BaseModel):
    """The predictions in the order of the request, and the version of the ``model`` that computed them."""

    model: str
    predictions: list[Prediction]


class ClassRow(BaseModel):
    """A class: known, new or other; its examples, its number of labels in the graph, and the numbers of nodes that are
    predicted as this class, and predicted with certainty."""

    name: str
    kind: str
    examples: list[str]
    labelled: int
    predicted: int
    sure: int


class Classes(BaseModel):
    model: str
    classes: list[ClassRow]


class Grown(BaseModel):
    """The result of learning labels.

    It holds the numbers of nodes with a first label and with another label, the classes that became known and those
    that still have too few labels, each with its number of labels, and the version of the ``model``.
    """

    model: str
    added: int
    changed: int
    promoted: dict[str, int]
    waiting: dict[str, int]


class Found(BaseModel):
    """The unlabelled nodes that most likely belong to a class, with their probabilities."""

    model: str
    label: str
    candidates: dict[str, float]


class Problem(BaseModel):
    """An error: what is wrong, and what would be right."""

    error: str


def application(service: Service, limits: Limits, token: str | None = None) -> ASGIApp:
    """The addresses of a service, with access control."""
    count = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> Any:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        yield

    wrong: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (400, 401, 413, 422, 503)}
    about = 'Errors are JSON: {"error": what is wrong, and what would be right}.'
    app = FastAPI(title="fewnode", version=__version__, description=about, docs_url=None, redoc_url=None,
                  responses=wrong, lifespan=lifespan,
                  exception_handlers=HANDLERS | {RequestValidationError: _misshapen})  # fmt: skip

    @app.post("/v1/predict", response_model=Answer)
    def predict(asked: Asked) -> Response:
        """Classes and probabilities of nodes of the graph, or of new nodes."""
        if bool(asked.nodes) == bool(asked.new_nodes):
            raise InputError("give either nodes, the ids of nodes of the graph, or new_nodes with their attributes")
        if (n := len(asked.nodes or asked.new_nodes)) > limits.nodes or len(asked.new_edges) > 100 * limits.nodes:
            raise InputError(f"{n:,} nodes at once; ask for at most {limits.nodes:,}, with 100 edges each")
        served = service.current()
        if asked.nodes:
            found = served.classifier.predict_proba([str(node) for node in asked.nodes])
        else:
            found = served.classifier.predict_proba(new_nodes=asked.new_nodes, new_edges=asked.new_edges)
        count.nodes.labels("known" if asked.nodes else "new").inc(n)
        return json_response({"model": served.model, "predictions": _rows(found, asked)})

    @app.get("/v1/classes", response_model=Classes)
    def classes() -> Response:
        """All classes that can be predicted."""
        return _classes(service.current())

    @app.post("/v1/classes", response_model=Classes)
    def add(given: NewClass) -> Response:
        """Define a class by examples, a description or both, or add to one. It is kept before this answers."""
        if not given.examples and not given.description:
            raise InputError(f"class {given.name!r} has neither examples nor a description; give it one of them")
        return _classes(service.add(given.name, [str(node) for node in given.examples], given.description))

    @app.delete("/v1/classes/{name:path}", response_model=Classes)
    def remove(name: str) -> Response:
        """Remove a new class and its examples."""
        return _classes(service.change({"do": "remove", "name": name}))

    @app.post(GROW, response_model=Grown)
    def grow(given: Labels) -> Response:
        """Learn labels for good: classes with enough of them become known. The answer comes when the grown model
        answers, which may take a minute or more and has no limit of time; predictions go on meanwhile."""
        labels = {name: [str(node) for node in nodes] for name, nodes in given.labels.items()}
        found = service.grow(labels)._asdict()
        return json_response({"model": service.current().model, **found})

    @app.get("/v1/find", response_model=Found)
    def find(
        label: Annotated[str | None, Query(alias="class", description="by default the only new one")] = None,
        top: Annotated[int, Query(ge=1, le=limits.nodes)] = 20,
    ) -> Response:
        """The nodes without a label that are likeliest of a class."""
        served = service.current()
        found = served.classifier.find(label, top)
        rows = dict(zip(found.names, found.probabilities.double().numpy().round(6).tolist(), strict=True))
        return json_response({"model": served.model, "label": found.label, "candidates": rows})

    @app.get("/v1/explain", response_model=dict[str, Any])
    def explain(node: str, neighbours: Annotated[int, Query(ge=0, le=100)] = 5) -> Response:
        """Why a node gets its class, and what would change it."""
        served = service.current()
        found = served.classifier.explain(node, n_neighbours=neighbours).to_json()
        return json_response({"model": served.model, **found})

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> dict[str, str]:
        """Whether a model is loaded."""
        if service.served is None:
            raise NotReady("the model is being loaded")
        return {"status": "ready", "model": service.served.model}

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Counts and times for Prometheus."""
        return Response(generate_latest(count.registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        template = Path(__file__).with_name("docs.html").read_text("utf-8")
        page = jinja2.Environment(autoescape=True).from_string(template).render(openapi=app.openapi())
        return HTMLResponse(page, headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"})

    return _limited(guarded(app, lambda request: _refusal(request, token), body=limits.body), count, limits)


def _rows(found: Predictions, asked: Asked) -> list[dict[str, Any]]:
    table = found.table(asked.threshold)
    columns = [values if isinstance(values, list) else values.tolist() for values in table.values()]
    rows = [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]
    if asked.all_probabilities:
        for row, shares in zip(rows, found.probabilities.double().numpy().round(6).tolist(), strict=True):
            row["probabilities"] = dict(zip(found.classes, shares, strict=True))
    return rows


def _classes(served: Served) -> Response:
    return json_response({"model": served.model, "classes": served.session.counts()})


def _misshapen(request: Request, error: Any) -> Response:
    first = error.errors()[0]
    where = "" if first["type"] == "json_invalid" else ".".join(map(str, first["loc"][1:]))
    return json_response({"error": f"{where or 'body'}: {MESSAGES.get(first['type'], first['msg'])}"}, 422)


# --- who may ask, and how much ----------------------------------------------------------------------------------------


class Metrics:
    """Counts and times of requests, summed over all workers."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.seconds = Histogram(
            "fewnode_request_seconds", "time of requests", ["method", "path", "status"], registry=registry,
            buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )  # fmt: skip
        self.nodes = Counter("fewnode_nodes", "nodes that were predicted", ["kind"], registry=registry)
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        self.registry = registry


def _limited(app: ASGIApp, count: Metrics, limits: Limits) -> ASGIApp:
    """The application with a limit of time; every answer is counted."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        status, started = 0, time.perf_counter()

        async def send_noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            async with asyncio.timeout(None if scope["path"] == GROW else limits.seconds):
                await app(scope, receive, send_noted)
        except TimeoutError:
            if not status:
                told = f"this took longer than {limits.seconds:g} s and was given up; ask for less, or later"
                told += "" if scope["method"] == "GET" else ". Classes that were sent may have been kept"
                await json_response({"error": told}, 503)(scope, receive, send_noted)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            count.seconds.labels(scope["method"], path, status).observe(time.perf_counter() - started)

    return limited


def _refusal(request: Request, token: str | None) -> Response | None:
    """The answer to those who may not ask; None for the others."""
    probe = request.scope["path"] in ("/healthz", "/readyz")
    answer = refusal(request, local=token is None and not probe)
    if answer is not None or token is None or probe:
        return answer
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if hmac.compare_digest(given.encode(), token.encode()):
        return None
    told = json_response({"error": "send the token of this service: Authorization: Bearer TOKEN"}, 401)
    told.headers["WWW-Authenticate"] = "Bearer"
    return told


# --- processes --------------------------------------------------------------------------------------------------------


def serve(
    folder: PathLike,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: PathLike | None = None,
    workers: int = 1,
    limits: Limits | None = None,
    say: Say = lambda _: None,
) -> None:
    """Serve the model in ``folder`` over HTTP until the process is stopped (Ctrl-C, or SIGTERM).

    Args:
        folder: a folder that ``fit`` wrote. If a new model replaces it, the new one is loaded and served.
        host: the address to listen on; any other than this machine's own needs a ``token_file``.
        port: the port; 0 for any free one.
        token_file: a file with the token that every request must contain.
        workers: number of processes; they share the arrays of the model.
        limits: limits of a single request.
        say: called with a line about what is being done, and with the address.
    """
    if not is_loopback(host) and token_file is None:
        raise InputError(
            f"host={host!r} lets other machines in: keep a secret of 16 letters or more in a file and name it with "
            "token_file=, or leave host= out to stay on this one"
        )
    if workers < 1:
        raise InputError(f"workers is {workers}; it is 1 or more")
    read_manifest(folder)  # refuses a folder without a model
    token = None if token_file is None else _token(token_file)
    if not is_loopback(host):
        say("note: this is plain HTTP: put a reverse proxy with TLS before it, or others can read requests and token")
    torch.set_num_threads(1)  # requests are answered side by side; and a thread pool would not survive a fork
    with suppress(OSError, AttributeError):  # glibc has a heap for each thread, which keeps what was freed: use one
        ctypes.CDLL(None).mallopt(-8, 1)  # M_ARENA_MAX
    service, limits = Service(folder, say), limits or Limits()
    listening = listening_at(host, port)
    where = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    say(f"Listening at {where} (documentation: {where}/docs); stop with Ctrl-C")
    with listening:
        if workers == 1:
            return _answer(service, limits, token, listening)
        with tempfile.TemporaryDirectory(prefix="fewnode-metrics-") as metrics:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics
            values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]  # was chosen on import
            _supervise(workers, (service, limits, token, listening), say)


def _token(file: PathLike) -> str:
    token = readable(file).read_text("utf-8").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise InputError(f"{file}: a token has 16 or more letters and digits; make one with `openssl rand -hex 24`")
    return token


def _answer(service: Service, limits: Limits, token: str | None, listening: Any) -> None:
    """Answer in this process."""
    server, stop = server_of(application(service, limits, token), grace=5), threading.Event()

    def watch() -> None:
        service.watch(stop)
        server.should_exit = True  # the first model could not be loaded

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    with suppress(KeyboardInterrupt):  # uvicorn has shut down already
        server.run(sockets=[listening])
    stop.set()
    if service.served is None and service.error is not None:
        raise service.error


def _work(*given: Any) -> None:
    """Answer in a worker, which ends when its supervisor does."""
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, signal.SIG_DFL)  # until uvicorn has its own handlers
    with suppress(OSError, AttributeError):  # other systems than Linux
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    _answer(*given)


def _supervise(n: int, given: tuple[Any, ...], say: Say) -> None:
    """Keep ``n`` processes that answer. They are copies of this one, which has loaded libraries and model for all of
    them and has no other thread."""
    given[0].load()
    gc.freeze()  # or the first collection of a worker would write to, and so copy, the pages of every object
    context = multiprocessing.get_context("fork")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    workers: list[Any] = []
    try:
        while True:
            while len(workers) < n:
                workers.append(context.Process(target=_work, args=given))
                workers[-1].start()
            wait([worker.sentinel for worker in workers])
            for worker in [worker for worker in workers if not worker.is_alive()]:
                workers.remove(worker)
                say(f"note: a worker ended ({worker.exitcode}); another takes its place")
                time.sleep(0.2)
    except KeyboardInterrupt:
        pass
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join(10)
            worker.kill()
