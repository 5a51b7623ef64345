"""A run as a web application: what can be asked about it, at which addresses, and the server.

Everything that goes wrong is one line of JSON: {"error": "..."}.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import uvicorn
from fastapi import APIRouter, Body, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

import counterplan
from counterplan.errors import CounterplanError, InputError
from counterplan.explorer import models
from counterplan.explorer.jobs import BusyError, Job, Jobs, open_items, worker_spec
from counterplan.explorer.models import LARGEST, Name
from counterplan.explorer.security import Access, Guard
from counterplan.runs.run import AbsentError, open_run
from counterplan.runs.task import EXPLAIN

if TYPE_CHECKING:
    from counterplan.explorer.cases import Cases
    from counterplan.explorer.scenarios import Scenarios

# Proved answers and pages of lists that are kept.
ANSWERS, PAGES = 200, 200
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

Page = TypeVar("Page")
Case = Annotated[Name, Query(description="The id of an episode.")]
Budget = Annotated[int | None, Query(ge=0, le=LARGEST)]
Asked = models.SolveQuestion | models.RestsQuestion | models.AdviseQuestion
Question = Annotated[Asked, Body(discriminator="kind")]
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


class Service:
    """A run and the workers that answer questions about it."""

    def __init__(self, out: Path, settings: Settings) -> None:
        self.run, self.settings = open_run(out), settings
        self.run.verify()
        self.items = open_items(self.run)
        self._page = lru_cache(PAGES)(lambda done, make, query: make(query))
        self._answers: OrderedDict[str, Any] = OrderedDict()
        self.jobs = Jobs(worker_spec(self.run), settings.workers, settings.per_client)

    @property
    def cases(self) -> Cases:
        """Of a run of explanations."""
        if self.run.kind != EXPLAIN:
            raise AbsentError("this run judges plans: it has scenarios, not cases")
        return cast("Cases", self.items)

    @property
    def scenarios(self) -> Scenarios:
        """Of a run of judged plans."""
        if self.run.kind == EXPLAIN:
            raise AbsentError("this run explains episodes: it has cases, not scenarios")
        return cast("Scenarios", self.items)

    def about(self) -> models.RunAbout:
        """What the run is about."""
        run, done = self.run, len(self.run.done)
        return models.RunAbout(
            **self.items.about(),
            title=run.folder.resolve().name,
            # A run that was under way when it was opened may have come to its end since.
            complete=done == run.manifest.parts,
            parts=run.manifest.parts,
            done=done,
            limits=models.Limits(seconds=self.settings.seconds, jobs=self.settings.per_client),
            version=counterplan.__version__,
        )

    def listed(self, make: Callable[[Any], Page], query: Any) -> Page:
        """`make(query)`, or what it made before, unless the run has gone on since."""
        return cast(Page, self._page(len(self.run.done), make, query))

    def submit(self, client: str, asked: Asked) -> Job:
        """Put a question in line; one that was answered before is done at once."""
        limit = self.settings.seconds
        if isinstance(asked, models.SolveQuestion):
            self.cases.check(asked)
            limit = min(limit, asked.seconds or limit)
            rules = {name: sorted({*getattr(asked, name)}) for name in ("forbidden", "fixed")}
            asked = asked.model_copy(update={**rules, "seconds": limit})
        else:
            self.scenarios.check(asked)
        # The same question has the same answer, whatever its limit of time.
        key = asked.model_dump_json(exclude={"seconds"})
        if (known := self._answers.get(key)) is not None:
            return self.jobs.answered(client, asked.model_dump(), known)

        def keep(result: dict[str, Any]) -> None:
            # What was stopped early may be better next time.
            if "answer" not in result or result["answer"]["gap"] == 0.0:
                self._answers[key] = result
                if len(self._answers) > ANSWERS:
                    self._answers.popitem(last=False)

        return self.jobs.submit(client, asked.model_dump(), limit, keep)

    def job(self, name: str) -> Job:
        """A job by its id."""
        found = self.jobs.find(name)
        if found is None:
            raise AbsentError("there is no such job, or it was forgotten: ask again")
        return found

    def job_about(self, job: Job) -> models.JobAbout:
        """A job and how far it is."""
        kind = ANSWERED[job.question["kind"]]
        # Read once, and first: a job that ends meanwhile must not be done without an answer.
        state = job.state
        about: Any = {
            kind: job.result if state == "done" else None,
            "progress": job.progress if state == "running" else None,
        }
        return models.JobAbout(
            **about,
            job=job.id,
            state=state,
            ahead=self.jobs.ahead(job),
            seconds=job.elapsed,
            limit=job.seconds,
            error=job.error,
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
    )
    return uvicorn.Server(config)


def create_app(service: Service) -> FastAPI:
    """The application for one run."""

    @asynccontextmanager
    async def alive(_: FastAPI) -> AsyncIterator[None]:
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
    for router in (_items(service), _jobs(service)):
        app.include_router(router, prefix="/api", responses=WRONG)
    app.include_router(_page())
    _report_errors(app)
    app.add_middleware(Guard, access=service.settings.access)
    return app


def _items(service: Service) -> APIRouter:
    """What the run is about, its lists, and single cases and scenarios."""
    router = APIRouter()

    @router.get("/run")
    def run() -> models.RunAbout:
        """What the run is about."""
        return service.about()

    @router.get("/overview")
    def overview(k: Budget = None) -> models.Overview:
        """All items together."""
        return service.listed(service.items.overview, k)

    @router.get("/cases")
    def cases(query: Annotated[models.CaseQuery, Query()]) -> models.CasePage:
        """Cases that meet all conditions, a page of them."""
        return service.listed(service.cases.page, query)

    @router.get("/case")
    def case(id: Case, k: Budget = None) -> models.Case:
        """An episode and the run's answer for k."""
        return service.cases.case(id, k)

    @router.post("/what-if")
    def what_if(asked: models.WhatIfQuestion) -> models.WhatIfAnswer:
        """What other actions would have led to."""
        return service.cases.what_if(asked.id, {edit.t: edit.action for edit in asked.edits})

    @router.get("/scenarios")
    def scenarios(query: Annotated[models.ScenarioQuery, Query()]) -> models.ScenarioPage:
        """Scenarios that meet all conditions, a page of them."""
        return service.listed(service.scenarios.page, query)

    @router.get("/scenario")
    def scenario(id: Case) -> models.Scenario:
        """A scenario and what everyone did along its path."""
        return service.scenarios.scenario(id)

    return router


def _jobs(service: Service) -> APIRouter:
    """Questions that take longer."""
    router = APIRouter()

    @router.post("/jobs", status_code=202)
    def submit(asked: Question, request: Request) -> models.JobAbout:
        """Ask a question that takes longer; the job tells when there is an answer."""
        return service.job_about(service.submit(request.state.client, asked))

    @router.get("/jobs/{job}")
    def job(job: Name) -> models.JobAbout:
        """How far a job is, and its answer when it is done."""
        return service.job_about(service.job(job))

    @router.delete("/jobs/{job}")
    def cancel(job: Name) -> models.JobAbout:
        """End a job."""
        found = service.job(job)
        service.jobs.cancel(found)
        return service.job_about(found)

    return router


def _page() -> APIRouter:
    """The files of the page, read once; no other file can be asked for."""
    router = APIRouter(include_in_schema=False)
    folder = files("counterplan.explorer") / "page"
    contents = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}

    def found(name: str) -> Response:
        content = contents.get(name)
        if content is None:
            raise HTTPException(404, "there is no such page")
        kind = KINDS[name[name.rindex(".") :]]
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    @router.get("/")
    def index() -> Response:
        return found("index.html")

    @router.get("/page/{name}")
    def file(name: str) -> Response:
        return found(name)

    return router


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
