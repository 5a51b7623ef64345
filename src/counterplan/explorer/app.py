"""The web application: addresses, what they take, and what goes wrong in one line of JSON."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

import counterplan
from counterplan.errors import CounterplanError
from counterplan.explorer import models
from counterplan.explorer.items import MOST_LINES, AbsentError, Window
from counterplan.explorer.jobs import BusyError
from counterplan.explorer.models import LARGEST, Name, Text
from counterplan.explorer.scenarios import PlanFilter, scenario_of
from counterplan.explorer.security import Guard
from counterplan.explorer.service import Service
from counterplan.explorer.views import CaseFilter, case_of

# ----------------------------------------------------------------------------------------------
# What the addresses of lists take.

Amount = Annotated[float, Field(allow_inf_nan=False)]
Place = Annotated[int, Field(ge=0, le=LARGEST)]
Status = Literal["optimal", "limit", "heuristic", "failed"]
CaseSort = Literal["improvement", "relative", "gap", "factual", "value", "changes", "steps", "id"]
PlanSort = Literal[
    "expected_regret", "executed", "regret_policy", "regret_hindsight", "hindsight", "id"
]


class ListQuery(BaseModel):
    """Which lines of a list."""

    model_config = ConfigDict(extra="forbid")

    descending: bool = True
    offset: Annotated[int, Field(ge=0, le=10**9)] = 0
    limit: Annotated[int, Field(ge=1, le=MOST_LINES)] = 25
    status: Annotated[list[Status], Field(max_length=10, default_factory=list)]
    search: Text = ""


class CaseQuery(ListQuery):
    """Which cases; see `cases.CaseFilter`."""

    sort: CaseSort = "improvement"
    k: Place | None = None
    min_improvement: Amount | None = None
    max_changes: Place | None = None
    support: Literal["yes", "no", ""] = ""
    outcome: Annotated[list[Text], Field(max_length=20, default_factory=list)]
    changed: Text = ""

    def wanted(self) -> CaseFilter:
        """The conditions."""
        return CaseFilter(
            self.k,
            tuple(self.status),
            self.min_improvement,
            self.max_changes,
            self.support,
            tuple(self.outcome),
            self.changed,
            self.search,
        )

    def window(self) -> Window:
        """Which lines, in which order."""
        return Window(self.sort, self.descending, self.offset, self.limit)


class PlanQuery(ListQuery):
    """Which scenarios; see `plans.PlanFilter`."""

    sort: PlanSort = "expected_regret"
    min_expected_regret: Amount | None = None

    def wanted(self) -> PlanFilter:
        """The conditions."""
        return PlanFilter(self.min_expected_regret, tuple(self.status), self.search)

    def window(self) -> Window:
        """Which lines, in which order."""
        return Window(self.sort, self.descending, self.offset, self.limit)


# ----------------------------------------------------------------------------------------------

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
WRONG: dict[int | str, dict[str, Any]] = {
    code: {"model": models.Error, "description": words}
    for code, words in {
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
    for router in (_run(service), _cases(service), _plans(service), _jobs(service)):
        app.include_router(router, prefix="/api", responses=WRONG)
    app.include_router(_page())
    _tell_mistakes(app)
    app.add_middleware(Guard, access=service.settings.access)
    return app


def _run(service: Service) -> APIRouter:
    router = APIRouter()

    @router.get("/run")
    def run() -> models.RunAbout:
        """What the run is about."""
        return service.about()

    @router.get("/overview")
    def overview(k: Budget = None) -> models.Overview:
        """All items together."""
        return service.overview(k)

    return router


def _cases(service: Service) -> APIRouter:
    router = APIRouter()

    @router.get("/cases")
    def cases(wanted: Annotated[CaseQuery, Query()]) -> models.CasePage:
        """Cases that meet all conditions, a page of them."""
        return service.cases(wanted.wanted(), wanted.window())

    @router.get("/case")
    def case(id: Case, k: Budget = None) -> models.Case:
        """An episode and the run's answer for k."""
        return case_of(service.desk, id, k)

    @router.post("/what-if")
    def what_if(asked: models.WhatIfQuestion) -> models.WhatIfAnswer:
        """What other actions would have led to."""
        return service.what_if(asked.id, {edit.t: edit.action for edit in asked.edits})

    return router


def _plans(service: Service) -> APIRouter:
    router = APIRouter()

    @router.get("/scenarios")
    def scenarios(wanted: Annotated[PlanQuery, Query()]) -> models.PlanPage:
        """Scenarios that meet all conditions, a page of them."""
        return service.scenarios(wanted.wanted(), wanted.window())

    @router.get("/scenario")
    def scenario(id: Case) -> models.Scenario:
        """A scenario and what everyone did along its path."""
        return scenario_of(service.plans, id)

    return router


def _jobs(service: Service) -> APIRouter:
    router = APIRouter()

    @router.post("/jobs", status_code=202)
    def submit(asked: Question, request: Request) -> models.JobAbout:
        """Ask a question that takes longer; the job tells when there is an answer."""
        return service.submit(request.state.client, asked)

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


def _tell_mistakes(app: FastAPI) -> None:
    """Whatever goes wrong is one line of JSON."""

    def told(status: int, text: str) -> JSONResponse:
        line = " ".join(text.split()).encode(errors="replace").decode()
        return JSONResponse({"error": line}, status)

    @app.exception_handler(CounterplanError)
    def bad(_: Request, problem: CounterplanError) -> JSONResponse:
        return told(_status(problem), str(problem))

    @app.exception_handler(RequestValidationError)
    def malformed(_: Request, problem: RequestValidationError) -> JSONResponse:
        first = problem.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        return told(422, f"{place}: {first['msg']}" if place else first["msg"])

    @app.exception_handler(HTTPException)
    def http(_: Request, problem: HTTPException) -> JSONResponse:
        answer = told(problem.status_code, str(problem.detail))
        answer.headers.update(problem.headers or {})
        return answer

    @app.exception_handler(Exception)
    def fault(request: Request, problem: Exception) -> JSONResponse:
        log.error("a fault at %s", request.url.path, exc_info=problem)
        return told(500, "the server failed: this is its fault, see its log")


def _status(problem: CounterplanError) -> int:
    if isinstance(problem, AbsentError):
        return 404
    return 429 if isinstance(problem, BusyError) else 400
