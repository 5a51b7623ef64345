"""The explorer as it is served: a real server on loopback, in a thread."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from counterplan.explorer.app import ROUTES, Service, Settings, server_of


def _hold_against_its_model(response: httpx.Response) -> None:
    """What is answered has the keys that the API's document tells."""
    path, method = response.request.url.path, response.request.method
    for pattern, asked_by, _, model, status in ROUTES:
        known = re.sub(r"{\w+}", r"[^/]+", f"/api{pattern}")
        if method == asked_by and response.status_code == status and re.fullmatch(known, path):
            response.read()
            model.model_validate(response.json())


class Explorer:
    """A client of a server, and the service behind it."""

    def __init__(self, service: Service, url: str) -> None:
        self.service, self.url = service, url
        self._clients: list[httpx.Client] = []
        self.client = self.another()

    def another(self) -> httpx.Client:
        """Another client, with cookies of its own."""
        client = httpx.Client(
            base_url=self.url,
            timeout=60.0,
            trust_env=False,
            event_hooks={"response": [_hold_against_its_model]},
        )
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Let all clients go."""
        for client in self._clients:
            client.close()

    def get(self, path: str, **query: Any) -> Any:
        """An answer that must be there."""
        found = self.client.get(f"/api/{path}", params=query)
        assert found.status_code == 200, found.text
        return found.json()

    def post(self, path: str, body: Any, status: int = 200) -> Any:
        """The same for a question."""
        found = self.client.post(f"/api/{path}", json=body)
        assert found.status_code == status, found.text
        return found.json()

    def refused(self, path: str, body: Any = None) -> tuple[int, str]:
        """The status and the one line that say why not."""
        method = "GET" if body is None else "POST"
        found = self.client.request(method, f"/api/{path}", json=body)
        assert [*found.json()] == ["error"], found.text
        return found.status_code, found.json()["error"]

    def long_ids(self, least: int = 4) -> list[str]:
        """Episodes of at least so many steps that have an answer."""
        lines = self.get("cases", limit=200)["lines"]
        return [one["id"] for one in lines if one["steps"] >= least and one["status"] != "failed"]

    def finished(self, question: Any, client: httpx.Client | None = None) -> Any:
        """A job when it is over."""
        asking = client or self.client
        job = asking.post("/api/jobs", json=question)
        assert job.status_code == 202, job.text
        return self.wait(job.json()["job"], asking)

    def wait(self, name: str, client: httpx.Client | None = None) -> Any:
        """Ask until a job is over."""
        end = time.monotonic() + 120.0
        while True:
            job = (client or self.client).get(f"/api/jobs/{name}").json()
            if job["state"] in ("done", "failed", "cancelled"):
                return job
            assert time.monotonic() < end, job
            time.sleep(0.05)


@contextmanager
def serving(out: Path, **settings: Any) -> Iterator[Explorer]:
    """A server for a run, ended at the end."""
    service = Service(out, Settings(**{"workers": 1, "seconds": 20.0, **settings}))
    try:
        server = server_of(service)
        with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            explorer = Explorer(service, f"http://127.0.0.1:{listener.getsockname()[1]}")
            try:
                yield explorer
            finally:
                explorer.close()
                server.should_exit = True
                thread.join()
    finally:
        service.jobs.close()
