"""The run in a folder, opened for questions: what the web application passes on to."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import counterplan
from counterplan.core.problem import Progress
from counterplan.errors import FileError, InputError
from counterplan.explorer import models
from counterplan.explorer.cases import Cases
from counterplan.explorer.jobs import ANSWER, Job, Jobs
from counterplan.explorer.lists import Cache
from counterplan.explorer.scenarios import Scenarios
from counterplan.explorer.security import Access
from counterplan.runs.run import AbsentError, open_run
from counterplan.runs.task import EXPLAIN, REGRET, PartResult, TaskSpec

# Proved answers and pages of lists that are kept.
ANSWERS, PAGES = 200, 200
# Seconds between two notes about how far a search is.
PAUSE = 0.1

Page = TypeVar("Page")


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


def open_view(out: Path, *, verify: bool = False) -> Cases | Scenarios:
    """The run in a folder, by its kind; `verify`: whether to check all of its files."""
    run = open_run(out)
    if verify:
        run.verify()
    if run.kind == EXPLAIN:
        return Cases(run)
    if run.kind == REGRET:
        return Scenarios(run)
    raise FileError(f"{out}: is a run of {run.kind!r}, which the explorer does not know")


class Service:
    """A run and the workers that answer questions about it."""

    def __init__(self, out: Path, settings: Settings) -> None:
        self.view, self.settings = open_view(out, verify=True), settings
        self.run = self.view.run
        self._answers: Cache[dict[str, Any]] = Cache(ANSWERS)
        self._pages: Cache[Any] = Cache(PAGES)
        spec = TaskSpec(__name__, {"out": str(out)})
        self.jobs = Jobs(spec, settings.workers, settings.per_client)

    @property
    def cases(self) -> Cases:
        """Of a run of explanations."""
        if not isinstance(self.view, Cases):
            raise AbsentError("this run judges plans: it has scenarios, not cases")
        return self.view

    @property
    def scenarios(self) -> Scenarios:
        """Of a run of judged plans."""
        if not isinstance(self.view, Scenarios):
            raise AbsentError("this run explains episodes: it has cases, not scenarios")
        return self.view

    def about(self) -> models.RunAbout:
        """What the run is about."""
        run, done = self.run, len(self.run.done)
        return models.RunAbout.model_validate(
            {
                **self.view.about(),
                "kind": run.kind,
                "title": run.folder.resolve().name,
                # A run that was under way when it was opened may have come to its end since.
                "complete": done == run.manifest.parts,
                "parts": run.manifest.parts,
                "done": done,
                "limits": {"seconds": self.settings.seconds, "jobs": self.settings.per_client},
                "version": counterplan.__version__,
            }
        )

    def listed(self, make: Callable[[Any], Page], query: Any) -> Page:
        """`make(query)`: a page that was made before, unless the run has gone on since."""
        key = (len(self.run.done), make, query)
        return cast(Page, self._pages.get(key, lambda: make(query)))

    # --- Jobs -----------------------------------------------------------------------------------

    def submit(self, client: str, asked: models.SolveQuestion | models.AdviseQuestion) -> Job:
        """Put a question in line; one that was answered before is done at once."""
        limit = self.settings.seconds
        if isinstance(asked, models.SolveQuestion):
            self.cases.check(asked)
            limit = min(limit, asked.seconds or limit)
            rules = {name: sorted({*getattr(asked, name)}) for name in ("forbidden", "fixed")}
            asked = asked.model_copy(update=rules)
        else:
            self.scenarios.check(asked)
        # The same question has the same answer, whatever its limit of time.
        key = asked.model_dump_json(exclude={"seconds"})
        if (known := self._answers.find(key)) is not None:
            return self.jobs.answered(client, known)

        def keep(result: dict[str, Any]) -> None:
            # What was stopped early may be better next time.
            if "answer" not in result or result["answer"]["gap"] == 0.0:
                self._answers.add(key, result)

        return self.jobs.submit(client, asked.model_dump(), limit, keep)

    def job(self, name: str) -> Job:
        """A job by its id."""
        found = self.jobs.find(name)
        if found is None:
            raise AbsentError("there is no such job, or it was forgotten: ask again")
        return found

    def job_about(self, job: Job) -> models.JobAbout:
        """A job and how far it is."""
        kind = "solved" if isinstance(self.view, Cases) else "advice"
        return models.JobAbout.model_validate(
            {
                "job": job.id,
                "state": job.state,
                "ahead": self.jobs.ahead(job),
                "seconds": job.elapsed,
                "limit": job.seconds,
                "progress": job.progress,
                "error": job.error,
                kind: job.result if job.state == "done" else None,
            }
        )


# --- Inside a worker process --------------------------------------------------------------------


def open_task(spec: TaskSpec) -> Answering:
    """The task of answering questions about the run in a folder, its model loaded."""
    return Answering(open_view(Path(spec.description["out"])))


class Answering:
    """Answers questions about a run: JSON in, JSON out."""

    def __init__(self, view: Cases | Scenarios) -> None:
        self._view = view

    def solve(self, part: bytes) -> PartResult:
        """The answer to a question, see `models.SolveQuestion` and `models.AdviseQuestion`."""
        question = json.loads(part)
        notes = Notes(Path(question.pop("notes")))
        found = self._view.answer(question, notes)
        return PartResult({ANSWER: found.model_dump_json().encode()}, {})


class Notes:
    """Writes down how far a search is, and stops it if someone says so."""

    def __init__(self, path: Path) -> None:
        self._path, self._stop, self._next = path, path.with_suffix(".stop"), 0.0

    def __call__(self, progress: Progress) -> bool:
        now = time.monotonic()
        if now < self._next:
            return True
        self._next = now + PAUSE
        if self._stop.exists():
            return False
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps([progress.done, progress.value, progress.bound]))
        # Whoever reads sees all of a note or the one before.
        beside.replace(self._path)
        return True
