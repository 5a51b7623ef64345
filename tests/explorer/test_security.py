"""Who is let in, and what is kept out."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from counterplan.errors import CounterplanError, FileError
from counterplan.explorer.app import Service, Settings
from counterplan.explorer.security import (
    HEADERS,
    LARGEST_BODY,
    LOOPBACK,
    Access,
    Patience,
    is_loopback,
)

from .serving import Explorer, serving

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def guarded(discrete_out: Path) -> Iterator[Explorer]:
    """A server that wants a token."""
    access = Access(LOOPBACK | {"ward.example"}, 8765, TOKEN)
    with serving(discrete_out, access=access) as explorer:
        yield explorer


def raw(explorer: Explorer, method: str, target: str, **headers: str) -> http.client.HTTPResponse:
    """A request whose target is sent as it is."""
    connection = http.client.HTTPConnection(urlsplit(explorer.url).netloc, timeout=30)
    connection.putrequest(method, target, skip_host="host" in headers, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    response = connection.getresponse()
    response.read()
    connection.close()
    return response


# --- Names and pages ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[", "a b"]
)
def test_other_names_are_refused(discrete: Explorer, host: str) -> None:
    """Whatever address a foreign name is pointed at."""
    assert raw(discrete, "GET", "/api/run", host=host).status in (400, 403)
    assert raw(discrete, "GET", "/", host=host).status in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:8765"])
def test_own_names_are_not(discrete: Explorer, host: str) -> None:
    assert raw(discrete, "GET", "/api/run", host=host).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://[", "https://127.0.0.1:1"]
)
def test_other_pages_are_refused(discrete: Explorer, origin: str) -> None:
    found = discrete.client.post("/api/what-if", json={}, headers={"origin": origin})
    assert (found.status_code, found.json()) == (
        403,
        {"error": "requests of other pages are refused"},
    )
    found = discrete.client.get("/api/run", headers={"origin": discrete.url})
    assert found.status_code == 200


def test_reading_across_sites_is_refused_but_links_are_followed(discrete: Explorer) -> None:
    across = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert discrete.client.get("/api/run", headers=across).status_code == 403
    across["sec-fetch-mode"] = "navigate"
    assert discrete.client.get("/", headers=across).status_code == 200


def test_no_other_origin_is_ever_allowed(discrete: Explorer) -> None:
    found = discrete.client.options(
        "/api/jobs",
        headers={"origin": discrete.url, "access-control-request-method": "POST"},
    )
    assert found.status_code == 405
    assert not [name for name in found.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/api/run", "/nothing", "/page/main.js"])
def test_every_answer_has_the_headers(discrete: Explorer, path: str) -> None:
    found = discrete.client.get(path)
    for name, value in HEADERS.items():
        if name != "cache-control":
            assert found.headers[name] == value
    assert "server" not in found.headers
    policy = found.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy


# --- The token ----------------------------------------------------------------------------------


def test_without_the_token_there_is_nothing(guarded: Explorer) -> None:
    for path in ("/", "/api/run", "/page/main.js", "/api/case?id=e7", "/nothing"):
        found = guarded.client.get(path)
        assert found.status_code == 401, path
        assert found.json()["error"].startswith("a token is needed")
    assert guarded.client.post("/api/what-if", json={"id": "e7", "edits": []}).status_code == 401


@pytest.mark.parametrize("wrong", ["x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ü", "\u0663" * 20])
def test_wrong_tokens(guarded: Explorer, wrong: str) -> None:
    shown = {"authorization": f"Bearer {wrong}".encode("latin-1", "replace")}
    assert guarded.client.get("/api/run", headers=shown).status_code == 401
    found = guarded.client.get("/", params={"token": wrong})
    assert found.status_code == 401
    assert "counterplan_token" not in str(found.headers.get_list("set-cookie"))


def test_the_token_opens(guarded: Explorer) -> None:
    shown = {"authorization": f"Bearer {TOKEN}"}
    assert guarded.client.get("/api/run", headers=shown).status_code == 200
    client = guarded.another()
    entered = client.get("/", params={"token": TOKEN})
    # The address that people copy does not hold the token.
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = next(c for c in entered.headers.get_list("set-cookie") if "token" in c)
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert client.get("/api/run").status_code == 200
    assert client.get("/").status_code == 200
    assert guarded.client.get("/api/run").status_code == 401


def test_with_a_token_addresses_will_do_and_names_must_be_known(guarded: Explorer) -> None:
    bearer = f"Bearer {TOKEN}"
    for host in ("10.1.2.3:8765", "[fe80::1]", "ward.example", "WARD.example:80"):
        assert raw(guarded, "GET", "/api/run", host=host, authorization=bearer).status == 200
    assert raw(guarded, "GET", "/api/run", host="evil.example", authorization=bearer).status == 403


def test_addresses_of_this_machine() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert is_loopback(host)
    for host in ("0.0.0.0", "::", "192.168.1.7", "ward.example", ""):
        assert not is_loopback(host)


# --- Paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        "/page/../app.py",
        "/page/..%2fapp.py",
        "/page/%2e%2e/app.py",
        "/page/..\\app.py",
        "/../../../../etc/passwd",
        "/page//etc/passwd",
        "/page/%00index.html",
        "/page/",
        "/page/./index.html",
        "//etc/passwd",
        "/manifest.json",
        "/files/model.safetensors",
        "/api/../manifest.json",
    ],
)
def test_no_other_file_is_reachable(discrete: Explorer, target: str) -> None:
    assert raw(discrete, "GET", target).status in (400, 404), target


@pytest.mark.parametrize(
    "name", ["../manifest.json", "..", "/etc/passwd", "part-00000.parquet", "*"]
)
def test_ids_are_no_paths(discrete: Explorer, name: str) -> None:
    for found in (
        discrete.client.get("/api/case", params={"id": name}),
        discrete.client.post("/api/what-if", json={"id": name, "edits": []}),
        discrete.client.post("/api/jobs", json={"kind": "solve", "id": name, "k": 1}),
        discrete.client.get(f"/api/jobs/{name}"),
    ):
        assert found.status_code in (400, 404), found.text


def test_links_out_of_the_folder_are_refused(discrete_out: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(discrete_out, tmp_path / "out")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (copy / "results" / "part-00099.parquet").symlink_to(secret)
    with pytest.raises(FileError, match="is a link"):
        Service(copy, Settings())


# --- Amounts ------------------------------------------------------------------------------------


def test_large_requests_are_refused(discrete: Explorer) -> None:
    content = b'{"id": "' + b"x" * LARGEST_BODY + b'"}'
    kind = {"content-type": "application/json"}
    found = discrete.client.post("/api/what-if", content=content, headers=kind)
    assert (found.status_code, set(found.json())) == (413, {"error"})

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(content), 9_000):
            yield content[start : start + 9_000]

    found = discrete.client.post("/api/what-if", content=pieces(), headers=kind)
    assert found.status_code == 413


def test_what_is_said_about_the_length_is_not_believed(discrete: Explorer) -> None:
    for length in ("9" * 30, str(LARGEST_BODY + 1)):
        assert raw(discrete, "POST", "/api/what-if", content_length=length).status in (400, 413)


def test_long_addresses(discrete: Explorer) -> None:
    found = discrete.client.get("/api/cases", params={"search": "x" * 1_001})
    assert found.status_code == 422
    with contextlib.suppress(ConnectionError):  # it may hang up before all of it is sent
        assert raw(discrete, "GET", "/api/cases?search=" + "x" * 200_000).status in (400, 414, 431)


def test_half_a_request_holds_up_nobody(discrete: Explorer) -> None:
    place = urlsplit(discrete.url)
    assert place.hostname is not None
    with socket.create_connection((place.hostname, place.port or 0)) as slow:
        slow.sendall(
            b"POST /api/what-if HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        for _ in range(5):
            assert discrete.client.get("/api/run").status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe",
        b'{"id": "\\ud800", "edits": []}',
        b'{"id": "e7", "edits": [{"t": 1e400, "action": 0}]}',
        b'{"id": "e7", "edits": [{"t": NaN, "action": 0}]}',
        b'{"id": "e7", "edits": [{"t": ' + b"9" * 5_000 + b', "action": 0}]}',
        b'{"id": "e7", "edits": [{"t": 0, "action": 0, "more": 1}]}',
        b'{"id": "e7", "edits": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"id": "", "edits": []}',
        b'{"id": "e7", "edits": [{"t": -1, "action": 0}]}',
    ],
)
def test_bad_questions_are_told_in_one_line(discrete: Explorer, content: bytes) -> None:
    kind = {"content-type": "application/json"}
    found = discrete.client.post("/api/what-if", content=content, headers=kind)
    assert found.status_code in (400, 422), found.text
    assert set(found.json()) == {"error"}
    line = found.json()["error"]
    assert line
    assert "\n" not in line
    assert "Traceback" not in line


def test_questions_must_say_that_they_are_json(discrete: Explorer) -> None:
    """A form of another page cannot say so."""
    content = b'{"id": "e7", "edits": []}'
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {"content-type": kind}
        found = discrete.client.post("/api/what-if", content=content, headers=headers)
        assert found.status_code == 422


def test_odd_cookies(discrete: Explorer) -> None:
    for cookie in ("a=b=c;;; =", "counterplan_client_0=" + "x" * 5_000, '"\\', "ü=1"):
        headers = {"cookie": cookie.encode("latin-1")}
        assert discrete.client.get("/api/run", headers=headers).status_code == 200


def test_cookies_that_were_made_up_are_none(discrete: Explorer) -> None:
    """Or one machine could have as many questions as it likes."""
    name = f"counterplan_client_{discrete.service.settings.access.port}"
    question, url = {"kind": "solve", "id": "e9", "k": 1}, f"{discrete.url}/api/jobs"
    given = discrete.another().get("/api/run").cookies[name]
    for cookie, is_known in ((given, True), ("x" * 20, False), (given[:-1] + "-", False)):
        headers = {"cookie": f"a=b; {name}={cookie}"}
        job = httpx.post(url, json=question, headers=headers, trust_env=False).json()["job"]
        found = discrete.service.jobs.find(job)
        assert found is not None
        assert (found.client != "at 127.0.0.1") == is_known
        discrete.wait(job)


def test_half_of_the_places_in_line_are_for_other_addresses(
    discrete: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = discrete.service.jobs
    monkeypatch.setattr(jobs, "_begin_next", lambda: None)
    asked = [jobs.submit(f"c{i} at 10.0.0.1", {"k": i}, 1.0) for i in range(50)]
    with pytest.raises(CounterplanError, match="too many questions are waiting"):
        jobs.submit("c51 at 10.0.0.1", {"k": 1}, 1.0)
    asked.append(jobs.submit("c at 10.0.0.2", {"k": 1}, 1.0))
    for job in asked:
        jobs.cancel(job)


def test_heads_of_requests_are_small(discrete: Explorer) -> None:
    """Whoever asks: before cookies are read, or anything else is."""
    for host in ("localhost", "elsewhere"):
        found = raw(discrete, "GET", "/api/run", cookie="a" * 60_000, host=host)
        assert found.status in (400, 431)
    many = {f"x_{i}": "v" * 150 for i in range(110)}
    assert raw(discrete, "GET", "/api/run", **many).status in (400, 431)


def test_connections_that_bring_nothing_end(
    discrete: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Patience, "seconds", 0.2)
    place = urlsplit(discrete.url)
    begun = (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api")
    for first in begun:
        with socket.create_connection((place.hostname, place.port), timeout=30.0) as one:
            one.sendall(first)
            while one.recv(65_536):  # until it is closed
                pass


def test_answers_are_not_held_back(discrete: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nagle's algorithm and a client that acknowledges late: 40 ms for every answer."""
    made, nodelay = Patience.connection_made, []

    def seen(self: Patience, transport: asyncio.Transport) -> None:
        made(self, transport)
        one = transport.get_extra_info("socket")
        nodelay.append(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(Patience, "connection_made", seen)
    assert discrete.another().get("/api/run").status_code == 200
    assert nodelay == [1]


def test_connections_that_read_nothing_end(
    discrete: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Patience, "seconds", 0.2)
    lost, ends = Patience.connection_lost, list[object]()

    def seen(self: Patience, problem: Exception | None) -> None:
        lost(self, problem)
        ends.append(self.client)

    monkeypatch.setattr(Patience, "connection_lost", seen)
    place = urlsplit(discrete.url)
    question = b"GET /page/style.css HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=0.5) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        deadline = time.monotonic() + 60.0
        # Ended by the server, whatever the client's own side still takes.
        while one.getsockname() not in ends:
            assert time.monotonic() < deadline
            with contextlib.suppress(OSError):
                one.sendall(100 * question)
            time.sleep(0.3)


def test_one_address_has_so_many_connections(
    discrete: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = urlsplit(discrete.url)
    monkeypatch.setattr(Patience, "most", 4 + sum(Patience._open.values()))
    address = place.hostname, place.port
    held = [socket.create_connection(address, timeout=30.0) for _ in range(4)]
    with (
        socket.create_connection(address, timeout=30.0) as refused,
        contextlib.suppress(ConnectionError),
    ):
        refused.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert refused.recv(1) == b""
    for one in held:
        one.close()
    deadline = time.monotonic() + 30.0
    while sum(Patience._open.values()) >= Patience.most:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert discrete.another().get("/api/run").status_code == 200


def test_methods_that_are_none(discrete: Explorer) -> None:
    for method in ("PUT", "PATCH", "TRACE", "BREW"):
        assert raw(discrete, method, "/api/run").status in (400, 405)


def test_programs_without_cookies_are_one_client(discrete: Explorer) -> None:
    jobs = discrete.service.jobs
    question = {"kind": "solve", "id": "e9", "k": 1}
    url = f"{discrete.url}/api/jobs"
    found = [httpx.post(url, json=question, trust_env=False).json()["job"] for _ in range(2)]
    assert {jobs.find(name).client for name in found} == {"at 127.0.0.1"}  # type: ignore[union-attr]
    people = [discrete.another() for _ in range(2)]
    for client in people:
        client.get("/api/run")
    asked = [client.post("/api/jobs", json=question).json()["job"] for client in people]
    clients = {jobs.find(name).client for name in asked}  # type: ignore[union-attr]
    assert len(clients) == 2
    assert "at 127.0.0.1" not in clients
    for name in (*found, *asked):
        discrete.wait(name)
