"""Who may ask, and how much: what every request passes before it reaches the explorer.

* The Host header must name this server: a page from elsewhere whose name was pointed at this
  machine (DNS rebinding) is refused, and so is any request another page makes (Origin).
* With a token every request needs it, as a bearer token or in the cookie that opening the address
  with ?token=... sets; it is compared in constant time.
* Bodies are read up to a limit of size and time, before anything else is done with them.
* Every answer carries headers that forbid foreign scripts, frames and guesses about its type.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import secrets
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 256 * 1024
BODY_SECONDS = 20.0
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
        host = _host_of(header)
        if host is None:
            return False
        return host in self.hosts or (self.token is not None and _is_address(host))

    def knows_token(self, shown: str) -> bool:
        """Whether this is the token; how long the comparison takes says nothing about it."""
        return self.token is None or hmac.compare_digest(shown.encode(), self.token.encode())


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_of(header: str) -> str | None:
    """The name or address in a Host header, in small letters; None if it is malformed."""
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class RefusedError(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Guard:
    """Lets through what may pass, and adds headers to all that comes back."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing here speaks web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _headers(scope)
        cookies = _cookies(headers.get("cookie", ""))
        client = cookies.get(self._access.client_cookie, "")
        answer = _Answer(send)
        if not 16 <= len(client) <= 64:
            answer.set_cookie(self._access.client_cookie, secrets.token_urlsafe(16))
            # Programs that keep no cookies: those of one machine count as one client.
            client = f"at {(scope.get('client') or ('nowhere',))[0]}"
        scope["state"] = {**scope.get("state", {}), "client": client}
        try:
            self._check(headers)
            if self._enters(scope):
                answer.set_cookie(self._access.token_cookie, self._access.token or "")
                await answer.redirect(scope["path"])
                return
            self._check_token(headers, cookies)
            body = await _body(headers, receive)
        except RefusedError as problem:
            await answer.refuse(problem)
            return
        await self._app(scope, _replay(body, receive), answer.send)

    def _check(self, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        if not self._access.knows_host(host):
            raise RefusedError(403, "this server has another name: use the address it printed")
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        is_link = headers.get("sec-fetch-mode") == "navigate"
        is_foreign = origin is not None and origin.partition("://")[2] != host
        if is_foreign or (site == "cross-site" and not is_link):
            raise RefusedError(403, "requests of other pages are refused")

    def _enters(self, scope: Scope) -> bool:
        """Whether someone opens the page with the token in its address."""
        if self._access.token is None or scope["method"] != "GET" or scope["path"] != "/":
            return False
        shown = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])
        return self._access.knows_token(shown[0])

    def _check_token(self, headers: dict[str, str], cookies: dict[str, str]) -> None:
        if self._access.token is None:
            return
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        shown = (bearer, cookies.get(self._access.token_cookie, ""))
        # Both are compared, whichever is right.
        if not any([self._access.knows_token(one) for one in shown]):  # noqa: C419
            raise RefusedError(
                401, "a token is needed: open the address that the server printed at its start"
            )


class _Answer:
    """What goes back, with the headers of every answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._cookies: list[bytes] = []

    def set_cookie(self, name: str, value: str) -> None:
        # Lax: a link to a view opens it, but no other page can send a question.
        cookie = f"{name}={value}; Path=/; HttpOnly; SameSite=Lax"
        self._cookies.append(cookie.encode("latin-1"))

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", []))
            present = {name for name, _ in given}
            for name, value in HEADERS.items():
                if name.encode() not in present:
                    given.append((name.encode(), value.encode()))
            given += [(b"set-cookie", cookie) for cookie in self._cookies]
            message = {**message, "headers": given}
        await self._send(message)

    async def refuse(self, problem: RefusedError) -> None:
        content = json.dumps({"error": problem.why}).encode()
        await self._whole(problem.status, content, [(b"content-type", b"application/json")])

    async def redirect(self, path: str) -> None:
        await self._whole(303, b"", [(b"location", path.encode())])

    async def _whole(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        length = (b"content-length", str(len(body)).encode())
        start = {"type": "http.response.start", "status": status, "headers": [*headers, length]}
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _cookies(header: str) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header).items()}
    except CookieError:
        return {}


async def _body(headers: dict[str, str], receive: Receive) -> bytes:
    """All of a request's body."""
    too_large = RefusedError(413, f"the request is too large: at most {LARGEST_BODY:,} bytes")
    length = headers.get("content-length", "0")
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
        raise RefusedError(408, "the request came too slowly") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """What was read, once more, and then whatever else comes."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again
