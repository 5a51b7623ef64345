"""`serve` as users start it: where it listens, what it prints, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterplan.cli.serve import ServeOptions, token_of

from ..runs.conftest import children, is_running
from ..viz.report.runs import discrete_run
from .conftest import Run

PROGRAM = "from counterplan.cli import main; main()"
Start = Callable[..., tuple[subprocess.Popen[str], dict[str, Any]]]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return discrete_run(tmp_path_factory.mktemp("served"), 8, robust=False).folder


@pytest.fixture
def start(out: Path) -> Iterator[Start]:
    """The program in a process of its own, and what it has said."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        command = [sys.executable, "-c", PROGRAM, "serve", str(out), "--port", "0", "--json"]
        process = subprocess.Popen(
            [*command, "--workers", "1", *arguments],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            assert line, process.communicate()
            said += line
        return process, json.loads(said)

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str], by: signal.Signals) -> tuple[int, str]:
    workers = children(process)
    process.send_signal(by)
    _, errors = process.communicate(timeout=60)
    end = time.monotonic() + 30.0
    while any(map(is_running, workers)):
        assert time.monotonic() < end
        time.sleep(0.05)
    return process.returncode, errors


def test_served_until_ended(start: Start) -> None:
    process, said = start()
    assert said["token"] is None
    assert said["url"].startswith("http://127.0.0.1:")
    found = httpx.get(f"{said['url']}api/run", trust_env=False)
    assert found.json()["kind"] == "explain"
    assert "<title>counterplan</title>" in httpx.get(said["url"], trust_env=False).text
    question = {"kind": "solve", "id": "e7", "k": 1}
    assert httpx.post(f"{said['url']}api/jobs", json=question, trust_env=False).status_code == 202
    code, errors = ended(process, signal.SIGINT)
    assert "Traceback" not in errors
    assert code in (0, -signal.SIGINT, 128 + signal.SIGINT)


def test_another_address_needs_a_token(start: Start) -> None:
    process, said = start("--host", "0.0.0.0")
    token = said["token"]
    assert len(token) >= 32
    assert said["url"].endswith(f"/?token={token}")
    port = said["url"].split(":")[2].partition("/")[0]
    here = f"http://127.0.0.1:{port}"
    assert httpx.get(f"{here}/api/run", trust_env=False).status_code == 401
    with httpx.Client(base_url=here, follow_redirects=True, trust_env=False) as client:
        assert client.get("/", params={"token": token}).status_code == 200
        assert client.get("/api/run").status_code == 200
        assert client.get("/api/case", params={"id": "nobody", "token": token}).status_code == 404
    assert httpx.get(f"{here}/?token=wrong", trust_env=False).status_code == 401
    code, errors = ended(process, signal.SIGTERM)
    assert code in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
    # Nothing that is logged tells the token.
    assert token not in errors


def test_a_token_of_ones_own(out: Path) -> None:
    own = ServeOptions(run=out, token="a-token-of-my-own")
    assert token_of(own) == "a-token-of-my-own"
    assert token_of(ServeOptions(run=out)) is None
    made = [
        token_of(ServeOptions(run=out, host=host)) for host in ("0.0.0.0", "::", "", "10.0.0.1")
    ]
    assert all(token is not None and len(token) >= 32 for token in made)
    assert len(set(made)) == len(made)


def test_mistakes(run: Run, out: Path, tmp_path: Path) -> None:
    def says(*arguments: str) -> str:
        result = run("serve", *arguments)
        assert result.exit_code == 2
        return result.stderr

    assert "no such folder" in says(str(tmp_path / "absent"))
    assert "at least 16 plain characters" in says(str(out), "--token", "short")
    assert "letters, digits, - and _ only" in says(str(out), "--token", "a token with spaces")
    assert "whole number from 0 to 65535" in says(str(out), "--port", "70000")
    assert "cannot listen there" in says(str(out), "--host", "no.such.host.invalid")
    assert "seconds must be above 0" in says(str(out), "--port", "0", "--seconds", "0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"127.0.0.1:{port}: cannot listen there" in says(str(out), "--port", port)


def test_without_the_extra(run: Run, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "counterplan.explorer.app", raising=False)
    for name in ("fastapi", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)
    result = run("serve", str(out))
    assert result.exit_code == 2
    assert "in counterplan's folder, python -m pip install '.[web]'" in result.stderr
