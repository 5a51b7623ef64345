"""The web application and its server: addresses, and what goes wrong in one line of JSON."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any

import uvicorn
from fastapi import APIRouter, Body, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

import counterplan
from counterplan.errors import CounterplanError
from counterplan.explorer import models
from counterplan.explorer.jobs import BusyError
from counterplan.explorer.models import LARGEST, Name
from counterplan.explorer.security import Guard
from counterplan.explorer.service import Service
from counterplan.runs.run import AbsentError

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

Case = Annotated[Name, Query(description="The id of an episode.")]
Budget = Annotated[int | None, Query(ge=0, le=LARGEST)]
Question = Annotated[models.SolveQuestion | models.AdviseQuestion, Body(discriminator="kind")]


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
        return service.listed(service.view.overview, k)

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
