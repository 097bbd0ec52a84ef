"""What the label page and the service share: whom they answer, how much is read, errors as JSON, connections."""

import asyncio
import ipaddress
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from ..errors import InputError, refused

with refused("this needs a few more packages", ImportError, remedy="pip install 'fewnode[label]', or 'fewnode[serve]'"):
    import h11
    import uvicorn
    from starlette.datastructures import MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refusal(request: Request, local: bool) -> Response | None:
    """The answer to a page from elsewhere, None for others. If only this machine may ask (``local``), the request must
    also name it: a page from elsewhere may have had its own name resolved to here."""
    host = request.headers.get("host", "")
    if request.headers.get("origin", f"http://{host}") not in (f"http://{host}", f"https://{host}"):
        return json_response({"error": "a page from elsewhere may not ask this server"}, 403)
    with suppress(ValueError):
        if not local or is_loopback(urlsplit(f"//{host}").hostname or ""):
            return None
    return json_response({"error": f"this server is for this machine; ask at 127.0.0.1, not {host!r:.80}"}, 421)


def json_response(value: Any, status: int = 200) -> Response:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def failed(request: Request, error: Exception) -> Response:
    """What is wrong, as JSON; what only the developer understands stays in the log."""
    told, status = str(error), getattr(error, "status", 400)
    if isinstance(error, HTTPException):
        told, status = str(error.detail), error.status_code
    elif isinstance(error, OSError):
        told, status = f"that could not be written: {error}; nothing was changed", 507
    elif not isinstance(error, InputError):
        told, status = f"the service failed ({type(error).__name__}); its log says where", 500
    return json_response({"error": told}, status)


HANDLERS: dict[Any, Any] = dict.fromkeys((HTTPException, Exception, InputError, OSError), failed)


def guarded(
    app: ASGIApp,
    refusal: Callable[[Request], Response | None],
    headers: Mapping[str, str] = HEADERS,
    body: int = 8 << 20,
) -> ASGIApp:
    """The application for requests without a ``refusal``; every answer gets the ``headers`` that it does not have, and
    requests of more than ``body`` bytes are refused."""

    async def guarded_app(scope: Scope, receive: Receive, send: Send) -> None:
        size = 0

        async def receive_some() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > body:
                raise HTTPException(413, f"the request has more than {body:,} bytes; send it in parts")
            return message

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = MutableHeaders(scope=message)
                for name, value in headers.items():
                    there.setdefault(name, value)
            await send(message)

        answer = refusal(Request(scope)) if scope["type"] == "http" else None
        await (answer or app)(scope, receive_some, send_more)

    return guarded_app


class Connection(H11Protocol):
    """A connection that is closed if a request is only half sent after ``patience`` seconds."""

    patience = 30.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(self.patience, self._close_half_sent)

    def _close_half_sent(self) -> None:
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.transport.close()
        elif not self.transport.is_closing():
            self.loop.call_later(self.patience, self._close_half_sent)


def listening_at(host: str, port: int) -> socket.socket:
    remedy = "choose another with port=, or 0"
    with refused(f"{host}:{port} cannot be listened on", OSError, OverflowError, remedy=remedy):
        # From now on a browser waits instead of being refused while the map is drawn.
        made = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or the end of an answer waits 40 ms for a receipt
        return made


def server_of(app: ASGIApp, grace: int) -> uvicorn.Server:
    """A server that gives open requests ``grace`` seconds when it is stopped."""
    config = uvicorn.Config(app, http=Connection, log_level="warning", access_log=False, server_header=False)
    config.timeout_graceful_shutdown = grace
    return uvicorn.Server(config)
