"""``fewnode label``: a session of a model's folder, served to a browser on this machine until it is stopped."""

import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..graph import Graph
from ..own.classifier import FewShotClassifier
from ..own.loading import load_attached
from ..own.support import Examples, read_examples
from ..storage import PathLike
from ..store.sizes import said
from .journal import Journal
from .layout import kept_layout
from .session import LabelSession

Say = Callable[[str], None]
PER_NODE = 1024  # bytes: name and words, place on the map, class and confidence
PER_CLASS = 12  # bytes of a node: its probability now and while it is made


def open_session(
    folder: PathLike, support: PathLike | None = None, say: Say = lambda _: None, memory: int | None = None
) -> LabelSession:
    """The session in a model's folder, where it was left; a new one starts from the examples of ``support``. ``memory``
    bounds the work on a store."""
    examples = None if support is None else read_examples(support)
    classifier = load_attached(folder, say=say, memory=memory)
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
    if graph.space is not None and not graph.space.has_room(needed, graph.num_nodes):
        raise InputError(
            f"the page holds names and probabilities of all {graph.num_nodes:,} nodes in memory: give --memory "
            f"{said(graph.space.memory_for(needed, graph.num_nodes))} or more; or write examples into a table, with "
            "`fewnode find` to look for more of them"
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
    from .guard import Guard, is_loopback

    if not is_loopback(host) and not allow_remote:
        raise InputError(
            f"--host {host} lets other machines in; say so with --allow-remote, or leave it out to stay on this one"
        )
    listening = _listening(host, port)
    try:
        if isinstance(classifier, FewShotClassifier):
            examples = None if support is None else read_examples(support)
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
    from .server import LabelServer

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
