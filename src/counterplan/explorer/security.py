"""Who may ask, and how much: what every request passes before it reaches the explorer.

* A connection that brings no whole request for a while is closed, one address has so many at most,
  and heads of requests are small: nothing is parsed before that.
* The Host header must name this server: a page from elsewhere whose name was pointed at this
  machine (DNS rebinding) is refused, and so is any request another page makes (Origin).
* With a token every request needs it, as a bearer token or in the cookie that opening the address
  with ?token=... sets; it is compared in constant time. Cookies that tell clients apart are signed:
  who makes one up counts as a program of his machine that keeps none.
* Bodies are read up to a limit of size and time, before anything else is done with them.
* Every answer carries headers that forbid foreign scripts, frames and guesses about its type.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Of a request: its first line with all headers, and its body; and how long each may take to come.
LARGEST_HEAD, LARGEST_BODY = 16 * 1024, 256 * 1024
HEAD_SECONDS, BODY_SECONDS = 15.0, 20.0
# Open connections of one address.
MOST_CONNECTIONS = 256
SHORTEST_TOKEN = 16
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """Who is let in.

    hosts  names that the Host header may have, without the port
    port   that the server listens at; part of the names of its cookies, since browsers keep the
           cookies of all ports of a host together
    token  what requests must show, None if nothing
    """

    hosts: frozenset[str] = LOOPBACK
    port: int = 0
    token: str | None = None

    @property
    def token_cookie(self) -> str:
        """The cookie that holds the token."""
        return f"counterplan_token_{self.port}"

    @property
    def client_cookie(self) -> str:
        """The cookie that tells clients apart."""
        return f"counterplan_client_{self.port}"

    def knows_host(self, header: str) -> bool:
        """Whether a Host header names this server; with a token, any address will do: only names
        can be pointed at other machines."""
        try:
            host = urlsplit(f"//{header}").hostname or ""
            if host in self.hosts:
                return True
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return self.token is not None

    def knows_token(self, shown: str) -> bool:
        """Whether this is the token; how long the comparison takes says nothing about it."""
        return self.token is None or hmac.compare_digest(shown.encode(), self.token.encode())


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Patience(H11Protocol):
    """A connection that waits only so long for a request, and for whoever asked to read the answer;
    an address has so many at most."""

    seconds, most = HEAD_SECONDS, MOST_CONNECTIONS
    _open: ClassVar[Counter[str]] = Counter()
    _address, _timer, _unread = "", None, None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Head and body are sent apart: together with a client that acknowledges late, Nagle's
        # algorithm would hold every answer back for 40 ms. asyncio turns it off only where a socket
        # names its protocol, which those of `create_server` do not.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._address = self.client[0] if self.client else ""
        self._open[self._address] += 1
        self._wait()
        if self._open[self._address] > self.most:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open[self._address] -= 1
        if not self._open[self._address]:
            del self._open[self._address]
        self._wait(False)
        self._is_read()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._is_read()
        super().resume_writing()

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()

    def data_received(self, data: bytes) -> None:
        if self._is_idle and self._timer is None:  # the first bytes of a further request
            self._wait()
        super().data_received(data)
        if not self._is_idle:
            self._wait(False)

    @property
    def _is_idle(self) -> bool:
        current: Any = self.cycle
        return current is None or bool(current.response_complete)

    def _wait(self, is_waiting: bool = True) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self.seconds, self._end) if is_waiting else None

    def _end(self) -> None:
        self._timer = None
        if self._is_idle:
            self.transport.abort()


class Guard:
    """The middleware around the application: checks requests, and adds headers to all answers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access, self._key = app, access, secrets.token_bytes(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing here speaks web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        request = HTTPConnection(scope)
        cookies: dict[str, str] = {}

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(MutableHeaders(scope=message), cookies)
            await send(message)

        answer: ASGIApp = self._app
        try:
            self._check_source(request)
            client = self._client(request)
            if not client:
                cookies[self._access.client_cookie] = self._signed(secrets.token_urlsafe(16))
            # Programs that keep no cookies: those of one machine count as one client.
            address = request.client.host if request.client else "nowhere"
            request.state.client = f"{client} at {address}".strip()
            if self._enters(request):
                cookies[self._access.token_cookie] = self._access.token or ""
                answer = RedirectResponse("/", 303)
            else:
                self._check_token(request)
                receive = _replay(await _body(request, receive), receive)
        except HTTPException as problem:
            answer = JSONResponse({"error": problem.detail}, problem.status_code)
        await answer(scope, receive, send_guarded)

    def _check_source(self, request: HTTPConnection) -> None:
        """Raise unless the request was made to this server, and not by another page."""
        headers = request.headers
        if sum(len(name) + len(value) for name, value in headers.raw) > LARGEST_HEAD:
            raise HTTPException(431, f"the headers are too large: at most {LARGEST_HEAD:,} bytes")
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._access.knows_host(host):
            raise HTTPException(403, "this server has another name: use the address it printed")
        is_link = headers.get("sec-fetch-mode") == "navigate"
        is_foreign = origin is not None and origin.partition("://")[2] != host
        if is_foreign or (headers.get("sec-fetch-site") == "cross-site" and not is_link):
            raise HTTPException(403, "requests of other pages are refused")

    def _signed(self, name: str) -> str:
        return f"{name}.{hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()[:32]}"

    def _client(self, request: HTTPConnection) -> str:
        """The name that a client was given; empty if it shows none, or one that it made up."""
        shown = cookie_of(request, self._access.client_cookie)
        name = shown.partition(".")[0]
        return name if hmac.compare_digest(self._signed(name).encode(), shown.encode()) else ""

    def _enters(self, request: HTTPConnection) -> bool:
        """Whether someone opens the page with the token in its address."""
        if self._access.token is None or request.scope["method"] != "GET":
            return False
        shown = request.query_params.get("token", "")
        return request.scope["path"] == "/" and self._access.knows_token(shown)

    def _check_token(self, request: HTTPConnection) -> None:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        shown = (bearer, cookie_of(request, self._access.token_cookie))
        # Both are compared, whichever is right.
        if not any([self._access.knows_token(one) for one in shown]):  # noqa: C419
            raise HTTPException(
                401, "a token is needed: open the address that the server printed at its start"
            )


def cookie_of(request: HTTPConnection, name: str) -> str:
    """A cookie's value, empty if there is none. Only this name is looked for: parsers of whole
    headers are slow on some."""
    for header in request.headers.getlist("cookie"):
        for part in header.split(";"):
            found, _, value = part.strip().partition("=")
            if found == name:
                return value
    return ""


def _add_headers(headers: MutableHeaders, cookies: dict[str, str]) -> None:
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    for name, value in cookies.items():
        # Lax: a link to a view opens it, but no other page can send a question.
        headers.append("set-cookie", f"{name}={value}; Path=/; HttpOnly; SameSite=Lax")


async def _body(request: HTTPConnection, receive: Receive) -> bytes:
    """All of a request's body."""
    too_large = HTTPException(413, f"the request is too large: at most {LARGEST_BODY:,} bytes")
    length = request.headers.get("content-length", "0")
    # No number of more digits is small enough.
    if not length.isdigit() or len(length) > len(str(LARGEST_BODY)) or int(length) > LARGEST_BODY:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > LARGEST_BODY:
                    raise too_large
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise HTTPException(408, "the request came too slowly") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """What was read, once more, and then whatever else comes."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again
