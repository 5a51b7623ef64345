"""The run in a folder, opened for questions: everything that the web part passes on."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from counterplan.errors import CounterplanError, FileError
from counterplan.explorer import models
from counterplan.explorer.items import AbsentError, Folder, Recent, Window, collected
from counterplan.explorer.jobs import Job, Jobs
from counterplan.explorer.models import Settings, number
from counterplan.explorer.scenarios import ADVICE, PlanDesk, PlanFilter, list_plans, state_at
from counterplan.explorer.views import (
    CaseFilter,
    about_cases,
    about_plans,
    answer_of_found,
    answer_of_row,
    budget_of,
    list_cases,
    names_in,
    observed_actions,
    order_in,
    overview_of,
)
from counterplan.explorer.whatif import Desk, SolveRequest, check_wish, inadmissible, what_if
from counterplan.explorer.work import work_spec
from counterplan.runs.answer import answers
from counterplan.runs.run import RESULTS, TRAJECTORIES, open_run
from counterplan.runs.task import EXPLAIN, REGRET, PartResult
from counterplan.tables.parts import ID

# Proved answers and pages of lists that are kept.
ANSWERS, PAGES = 200, 200

Page = TypeVar("Page")


class Service:
    """A run and the workers that answer questions about it."""

    def __init__(self, out: Path, settings: Settings) -> None:
        run = open_run(out)
        run.verify()
        self.kind: str = run.manifest.task["kind"]
        if self.kind not in (EXPLAIN, REGRET):
            raise FileError(f"{out}: is a run of {self.kind!r}, which the explorer does not know")
        self.settings, self._out = settings, out
        self._answers: Recent[models.Solved | models.Advice] = Recent(ANSWERS)
        self._pages: Recent[Any] = Recent(PAGES)
        self.jobs = Jobs(work_spec(out), settings.workers, settings.per_client, self._finish)

    @cached_property
    def desk(self) -> Desk:
        """Of a run of explanations."""
        if self.kind != EXPLAIN:
            raise AbsentError("this run judges plans: it has scenarios, not cases")
        return Desk(self._out)

    @cached_property
    def plans(self) -> PlanDesk:
        """Of a run of judged plans."""
        if self.kind != REGRET:
            raise AbsentError("this run explains episodes: it has cases, not scenarios")
        return PlanDesk(self._out)

    @property
    def folder(self) -> Folder:
        """Its tables."""
        return self.desk.folder if self.kind == EXPLAIN else self.plans.folder

    def warm(self) -> None:
        """Load and compile what the first question would otherwise wait for."""
        self.about()
        if self.kind != EXPLAIN:
            return
        try:
            first = str(collected(self.folder.results().select(ID).head(1))[ID][0])
            self.what_if(first, {})
            taken = observed_actions(self.desk.explainer, self.desk.recorded(first))[0]
            self.what_if(first, {0: 1 if taken == 0 else 0})
        except CounterplanError:
            # Neither a run that has just begun nor an episode that cannot be answered is a reason
            # not to start.
            return

    def about(self) -> models.RunAbout:
        """What the run is about."""
        if self.kind == EXPLAIN:
            return about_cases(self.desk, self.settings)
        return about_plans(self.plans, self.settings)

    def overview(self, k: int | None) -> models.Overview:
        """All items together."""
        folder = self.folder
        if self.kind == REGRET:
            return self._listed("overview", lambda: overview_of(folder, "expected_regret", []))
        budget, outcomes = budget_of(self.desk, k), self.desk.outcomes
        return self._listed(
            ("overview", budget), lambda: overview_of(folder, "improvement", outcomes, budget)
        )

    def cases(self, wanted: CaseFilter, window: Window) -> models.CasePage:
        """A page of the list of cases."""
        key = (wanted, window)
        return self._listed(key, lambda: list_cases(self.desk, wanted, window))

    def scenarios(self, wanted: PlanFilter, window: Window) -> models.PlanPage:
        """A page of the list of scenarios."""
        key = (wanted, window)
        return self._listed(key, lambda: list_plans(self.plans, wanted, window))

    def _listed(self, key: Hashable, make: Callable[[], Page]) -> Page:
        """A page that was made before, unless the run has gone on since."""
        done = len(self.folder.run.done)
        return cast(Page, self._pages.get((done, key), make))

    def what_if(self, name: str, edits: Mapping[int, int]) -> models.WhatIfAnswer:
        """What a plan made by hand leads to."""
        started = time.perf_counter()
        desk, recorded = self.desk, self.desk.recorded(name)
        question = what_if(desk.explainer, recorded.episode, edits, desk.memo)
        found = answers(desk.explainer, recorded, question)[0]
        answer = answer_of_found(desk, found)
        answer.notes = inadmissible(desk.explainer, found)
        return models.WhatIfAnswer(
            answer=answer,
            names=names_in(desk, answer.course),
            order=order_in(desk, answer.course),
            milliseconds=1000.0 * (time.perf_counter() - started),
        )

    # --- Jobs -----------------------------------------------------------------------------------

    def submit(
        self, client: str, asked: models.SolveQuestion | models.AdviseQuestion
    ) -> models.JobAbout:
        """Put a question in line; one that was answered before is done at once."""
        limit = self.settings.seconds
        if isinstance(asked, models.SolveQuestion):
            limit = min(limit, asked.seconds or limit)
            forbidden, fixed = (tuple(sorted(set(one))) for one in (asked.forbidden, asked.fixed))
            episode = self.desk.recorded(asked.id).episode
            check_wish(self.desk.explainer, episode, SolveRequest(asked.k, forbidden, fixed, limit))
            question = {**asked.model_dump(), "forbidden": forbidden, "fixed": fixed}
        else:
            state_at(self.plans, asked.id, asked.t, asked.player)
            question = asked.model_dump()
        known = self._answers.find(_key(question))
        if known is not None:
            return self.job_about(self.jobs.known(client, question, known))
        return self.job_about(self.jobs.submit(client, question, limit))

    def job(self, name: str) -> Job:
        """A job by its id."""
        found = self.jobs.find(name)
        if found is None:
            raise AbsentError("there is no such job, or it was forgotten: ask again")
        return found

    def job_about(self, job: Job) -> models.JobAbout:
        """A job and how far it is."""
        reached, result = job.reached(), job.result if job.state == "done" else None
        progress = None
        if reached is not None:
            nodes, value, bound = reached
            progress = models.Progress(nodes=nodes, value=number(value), bound=number(bound))
        return models.JobAbout(
            job=job.id,
            state=job.state,
            ahead=self.jobs.ahead(job),
            seconds=job.elapsed,
            limit=job.seconds,
            progress=progress,
            error=job.error,
            solved=result if isinstance(result, models.Solved) else None,
            advice=result if isinstance(result, models.Advice) else None,
        )

    def _finish(self, question: Mapping[str, Any], found: PartResult) -> Any:
        """What a worker has sent, as the page takes it."""
        if ADVICE in found.tables:
            advice = models.Advice(**json.loads(found.tables[ADVICE]))
            return self._answers.keep(_key(question), advice)
        import polars as pl

        desk = self.desk
        rows, steps = (
            pl.read_parquet(io.BytesIO(found.tables[name])) for name in (RESULTS, TRAJECTORIES)
        )
        recorded = desk.recorded(question["id"])
        answer = answer_of_row(desk, recorded, rows.row(0, named=True), steps)
        solved = models.Solved(
            answer=answer,
            names=names_in(desk, answer.course),
            order=order_in(desk, answer.course),
        )
        # What was stopped early may be better next time.
        return self._answers.keep(_key(question), solved) if answer.gap == 0.0 else solved


def _key(question: Mapping[str, Any]) -> str:
    """The same for the same question, whatever its limit of time."""
    return json.dumps({**question, "seconds": None}, sort_keys=True)
