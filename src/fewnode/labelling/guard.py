"""Who may talk to the server: the browser window that was opened by it, and nobody else."""

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
