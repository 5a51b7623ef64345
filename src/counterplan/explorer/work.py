"""What worker processes of the explorer do: questions come in as JSON, answers go out as tables.

A worker is one of `cohort.workers`, whose task is this module. How far a search is goes into a file
beside, which the server reads; a file of the same name with the ending ".stop" ends the search.
"""

from __future__ import annotations

import json
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from counterplan.core.problem import Progress
from counterplan.errors import CounterplanError
from counterplan.explorer.scenarios import ADVICE, PlanDesk, advise
from counterplan.explorer.whatif import Desk, SolveRequest, rules_of
from counterplan.runs.answer import answers, parquet_bytes, results_table, trajectories_table
from counterplan.runs.run import RESULTS, TRAJECTORIES, open_run
from counterplan.runs.task import REGRET, PartResult, TaskSpec

KIND = "counterplan.explorer.work"
# Seconds between two notes about the progress.
PAUSE = 0.1


class StoppedError(CounterplanError):
    """Someone has cancelled the search."""


def work_spec(out: Path) -> TaskSpec:
    """The task of answering questions about the run in a folder."""
    return TaskSpec(KIND, {"out": str(out)})


def open_task(spec: TaskSpec) -> Work:
    """The task that a specification stands for, its model loaded."""
    work = Work(Path(spec.description["out"]))
    work.warm()
    return work


class Work:
    """Answers questions about a run."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def warm(self) -> None:
        """Load what questions will be about."""
        if open_run(self._out).manifest.task["kind"] == REGRET:
            _ = self._plans.problem
        else:
            _ = self._desk.explainer

    @cached_property
    def _desk(self) -> Desk:
        return Desk(self._out)

    @cached_property
    def _plans(self) -> PlanDesk:
        return PlanDesk(self._out)

    def solve(self, part: bytes) -> PartResult:
        """The answer to a question, see `models.SolveQuestion` and `models.AdviseQuestion`."""
        question = json.loads(part)
        if question["kind"] == "advise":
            return PartResult({ADVICE: advise(self._plans, question)}, {})
        return self._solve(question)

    def _solve(self, question: dict[str, Any]) -> PartResult:
        desk, recorded = self._desk, self._desk.recorded(question["id"])
        wish = SolveRequest(
            question["k"],
            tuple(question["forbidden"]),
            tuple(question["fixed"]),
            question["seconds"],
        )
        watch = Watcher(Path(question["progress"]))
        rules = rules_of(desk.question, desk.explainer, recorded.episode, wish, watch)
        found = answers(desk.explainer, recorded, rules)
        tables = {
            RESULTS: parquet_bytes(results_table(found, desk.outcomes)),
            TRAJECTORIES: parquet_bytes(trajectories_table(desk.explainer, found)),
        }
        return PartResult(tables, {})


class Watcher:
    """Notes how far a search is, and ends it if someone says so."""

    def __init__(self, path: Path) -> None:
        self._path, self._stop, self._next = path, path.with_suffix(".stop"), 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PAUSE
        if self._stop.exists():
            raise StoppedError("cancelled")
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps([progress.done, progress.value, progress.bound]))
        # Whoever reads sees all of a note or the one before.
        beside.replace(self._path)
