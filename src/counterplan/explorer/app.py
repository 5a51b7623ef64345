"""A run as a web application: what can be asked about it, at which addresses, and the server.

Everything that goes wrong is one line of JSON: {"error": "..."}.
"""

from __future__ import annotations

import logging
import os
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import Body, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

import counterplan
from counterplan.errors import CounterplanError, InputError
from counterplan.explorer import models
from counterplan.explorer.jobs import BusyError, Job, Jobs, open_items, worker_spec
from counterplan.explorer.models import LARGEST, Name
from counterplan.explorer.security import LARGEST_HEAD, Access, Guard, Patience
from counterplan.runs.run import AbsentError, open_run
from counterplan.runs.task import EXPLAIN, REGRET

# Proved answers and pages of lists that are kept.
ANSWERS, PAGES = 200, 200
# Requests that are worked on at a time: more would only keep each other waiting.
AT_ONCE = 4
# Longest that answers under way are waited for when the server is ended.
GOODBYE = 2

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
WRONG: dict[int | str, dict[str, Any]] = {
    code: {"model": models.Error, "description": text}
    for code, text in {
        400: "The question makes no sense here.",
        401: "A token is needed.",
        403: "Not from another page.",
        404: "There is no such thing.",
        413: "The request is too large.",
        422: "The question is malformed.",
        429: "Too much at once.",
    }.items()
}
log = logging.getLogger(__name__)

Budget = Annotated[int | None, Query(ge=0, le=LARGEST)]
Asked = models.SolveQuestion | models.RestsQuestion | models.AdviseQuestion
Question = Annotated[Asked, Body(discriminator="kind")]
# What there is to say of a run where it is of another kind.
ABOUT = {
    name: one.get_default()
    for name, one in models.About.model_fields.items()
    if not one.is_required()
}
# What the answer to each kind of question is called.
ANSWERED = {"solve": "solved", "rests": "rests", "advise": "advice"}


@dataclass(frozen=True)
class Settings:
    """What the server allows.

    workers     processes that solve
    seconds     a search may take at most
    per_client  questions that one client may have waiting or at work
    """

    access: Access = field(default_factory=Access)
    workers: int = field(default_factory=lambda: max(1, min(4, os.cpu_count() or 1)))
    seconds: float = 60.0
    per_client: int = 4

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds <= 86_400.0:
            raise InputError(f"seconds must be above 0 and at most 86,400, got {self.seconds}")
        if self.workers < 1 or self.per_client < 1:
            raise InputError("there must be at least one worker, and one question for each client")


class Answer(JSONResponse):
    """A dictionary as JSON."""

    def render(self, content: Any) -> bytes:
        return models.to_json(content)


class Service:
    """A run and the workers that answer questions about it; each method with a route in `ROUTES`
    answers at its address."""

    def __init__(self, out: Path, settings: Settings) -> None:
        self.run, self.settings = open_run(out), settings
        self.run.verify()
        self.items = open_items(self.run)
        self._page = lru_cache(PAGES)(lambda done, make, query: make(query))
        self._answers: OrderedDict[str, Any] = OrderedDict()
        self.jobs = Jobs(worker_spec(self.run), settings.workers, settings.per_client)

    def _of(self, kind: str) -> Any:
        """The items, which must be of this kind."""
        if self.run.kind == kind:
            return self.items
        if kind == EXPLAIN:
            raise AbsentError("this run judges plans: it has scenarios, not cases")
        raise AbsentError("this run explains episodes: it has cases, not scenarios")

    def _listed(self, make: Callable[[Any], Any], query: Any) -> Answer:
        """`make(query)`, or what it made before, unless the run has gone on since."""
        return Answer(self._page(len(self.run.done), make, query))

    def about(self) -> Answer:
        """What the run is about."""
        run, done = self.run, len(self.run.done)
        about = {
            "title": run.folder.resolve().name,
            # A run that was under way when it was opened may have come to its end since.
            "complete": done == run.manifest.parts,
            "parts": run.manifest.parts,
            "done": done,
            "limits": {"seconds": self.settings.seconds, "jobs": self.settings.per_client},
            "version": counterplan.__version__,
        }
        return Answer(ABOUT | self.items.about() | about)

    def overview(self, k: Budget = None) -> Answer:
        """All items together, for one k."""
        return self._listed(self.items.overview, k)

    def cases(self, query: Annotated[models.CaseQuery, Query()]) -> Answer:
        """Cases that meet all conditions, a page of them."""
        return self._listed(self._of(EXPLAIN).page, query)

    def case(self, id: Name, k: Budget = None) -> Answer:
        """An episode and the run's answer for k, null where it has none."""
        return Answer(self._of(EXPLAIN).case(id, k))

    def what_if(self, asked: models.WhatIfQuestion) -> Answer:
        """What other actions would have led to, and how long that took on the server."""
        edits = {edit.t: edit.action for edit in asked.edits}
        return Answer(self._of(EXPLAIN).what_if(asked.id, edits))

    def scenarios(self, query: Annotated[models.ScenarioQuery, Query()]) -> Answer:
        """Scenarios that meet all conditions, a page of them."""
        return self._listed(self._of(REGRET).page, query)

    def scenario(self, id: Name) -> Answer:
        """A scenario and what everyone did along its path."""
        return Answer(self._of(REGRET).scenario(id))

    def submit(self, asked: Question, request: Request) -> Answer:
        """Ask a question that takes longer; the job tells when there is an answer. One that was
        answered before is done at once."""
        limit, client = self.settings.seconds, request.state.client
        if isinstance(asked, models.SolveQuestion):
            limit = min(limit, asked.seconds or limit)
            rules = {name: sorted({*getattr(asked, name)}) for name in ("forbidden", "fixed")}
            self._of(EXPLAIN).check(asked)
            asked = asked.model_copy(update={**rules, "seconds": limit})
        else:
            self._of(REGRET).check(asked)
        # The same question has the same answer, whatever its limit of time.
        key = asked.model_dump_json(exclude={"seconds", "job"})
        if (known := self._answers.get(key)) is not None:
            return self._job(self.jobs.answered(client, asked.model_dump(), known), 202)

        def keep(result: dict[str, Any]) -> None:
            # What was stopped early may be better next time.
            if "answer" not in result or result["answer"]["gap"] == 0.0:
                self._answers[key] = result
                if len(self._answers) > ANSWERS:
                    self._answers.popitem(last=False)

        job = self.jobs.submit(client, asked.model_dump(), limit, keep, asked.job)
        return self._job(job, 202)

    def job(self, job: Name) -> Answer:
        """How far a job is, and its answer when it is done."""
        return self._job(self._found(job))

    def cancel(self, job: Name, request: Request) -> Answer:
        """End a job, also one that was given a name and whose question is not here yet."""
        is_chosen = re.fullmatch(r"[0-9a-f]{24}", job) is not None
        found = self.jobs.give_up(request.state.client, job) if is_chosen else self._found(job)
        self.jobs.cancel(found)
        return self._job(found)

    def _found(self, name: str) -> Job:
        found = self.jobs.find(name)
        if found is None:
            raise AbsentError("there is no such job, or it was forgotten: ask again")
        return found

    def _job(self, job: Job, code: int = 200) -> Answer:
        # Read once, and first: a job that ends meanwhile must not be done without an answer.
        state = job.state
        about = {
            "job": job.id,
            "state": state,
            "ahead": self.jobs.ahead(job),
            "seconds": job.elapsed,
            "limit": job.seconds,
            "progress": job.progress if state == "running" else None,
            "error": job.error,
            **dict.fromkeys(ANSWERED.values()),
        }
        if state == "done":
            about[ANSWERED[job.question["kind"]]] = job.result
        return Answer(about, code)


# Addresses under /api, how they are asked, the method that answers, what with, and its status.
ROUTES: tuple[tuple[str, str, str, type[models.Told], int], ...] = (
    ("/run", "GET", "about", models.About, 200),
    ("/overview", "GET", "overview", models.Overview, 200),
    ("/cases", "GET", "cases", models.CaseList, 200),
    ("/case", "GET", "case", models.Case, 200),
    ("/what-if", "POST", "what_if", models.WhatIf, 200),
    ("/scenarios", "GET", "scenarios", models.ScenarioList, 200),
    ("/scenario", "GET", "scenario", models.Scenario, 200),
    ("/jobs", "POST", "submit", models.Job, 202),
    ("/jobs/{job}", "GET", "job", models.Job, 200),
    ("/jobs/{job}", "DELETE", "cancel", models.Job, 200),
)


def server_of(service: Service) -> uvicorn.Server:
    """A server for a run; `run(sockets=[...])` serves until it is told to end."""
    config = uvicorn.Config(
        create_app(service),
        log_level="warning",
        access_log=False,
        server_header=False,
        # What a proxy says about clients is not believed.
        proxy_headers=False,
        timeout_graceful_shutdown=GOODBYE,
        ws="none",
        http=Patience,
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )
    return uvicorn.Server(config)


def create_app(service: Service) -> FastAPI:
    """The application for one run."""

    @asynccontextmanager
    async def alive(_: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = AT_ONCE
        yield
        service.jobs.close()

    app = FastAPI(
        title="counterplan explorer",
        version=counterplan.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=alive,
    )
    for path, method, name, model, code in ROUTES:
        app.add_api_route(
            f"/api{path}", getattr(service, name), methods=[method], status_code=code,
            response_class=Answer, response_model=model, responses=WRONG,
        )  # fmt: skip
    _serve_page(app)
    _report_errors(app)
    app.add_middleware(Guard, access=service.settings.access)
    return app


def _serve_page(app: FastAPI) -> None:
    """The files of the page, read once; no other file can be asked for."""
    folder = files("counterplan.explorer") / "page"
    contents = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}

    @app.get("/", include_in_schema=False)
    @app.get("/page/{name}", include_in_schema=False)
    def file(name: str = "index.html") -> Response:
        if name not in contents:
            raise HTTPException(404, "there is no such page")
        kind = KINDS[Path(name).suffix]
        return Response(contents[name], media_type=kind, headers={"cache-control": "no-cache"})


def _report_errors(app: FastAPI) -> None:
    """Whatever goes wrong is one line of JSON."""

    def error(status: int, text: str) -> JSONResponse:
        line = " ".join(text.split()).encode(errors="replace").decode()
        return JSONResponse({"error": line}, status)

    @app.exception_handler(CounterplanError)
    def bad(_: Request, problem: CounterplanError) -> JSONResponse:
        status = 404 if isinstance(problem, AbsentError) else 400
        return error(429 if isinstance(problem, BusyError) else status, str(problem))

    @app.exception_handler(RequestValidationError)
    def malformed(_: Request, problem: RequestValidationError) -> JSONResponse:
        first = problem.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        return error(422, f"{place}: {first['msg']}" if place else first["msg"])

    @app.exception_handler(HTTPException)
    def http(_: Request, problem: HTTPException) -> JSONResponse:
        answer = error(problem.status_code, str(problem.detail))
        answer.headers.update(problem.headers or {})
        return answer

    @app.exception_handler(Exception)
    def fault(request: Request, problem: Exception) -> JSONResponse:
        log.error("a fault at %s", request.url.path, exc_info=problem)
        return error(500, "the server failed: this is its fault, see its log")
