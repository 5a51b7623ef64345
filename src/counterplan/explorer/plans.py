"""A run that judged executed plans, opened, and the list of its scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from counterplan.cohort.regret_task import RegretTask, open_task
from counterplan.cohort.task import REGRET
from counterplan.errors import FileError
from counterplan.exogenous.model import ExogenousModel
from counterplan.explorer import models
from counterplan.explorer.folder import Folder
from counterplan.explorer.paging import Window, contains, page_of
from counterplan.explorer.plain import number
from counterplan.explorer.ranking import Rankings
from counterplan.io.scenario_form import ScenarioForm
from counterplan.io.scenario_parts import scenarios_from_bytes
from counterplan.io.scenario_table import ID, Scenario

SORTS = {
    "expected_regret": "expected_regret",
    "executed": "executed",
    "regret_policy": "regret_policy",
    "regret_hindsight": "regret_hindsight",
    "hindsight": "hindsight",
    "id": ID,
}


class PlanDesk:
    """All that is needed to look at a scenario of the run."""

    def __init__(self, out: Path) -> None:
        self.folder = Folder(out, ID)
        self.rankings = Rankings(self.folder)
        kind = self.folder.run.manifest.task["kind"]
        if kind != REGRET:
            raise FileError(f"is a run of {kind!r}, which has no scenarios")

    @cached_property
    def _task(self) -> RegretTask:
        return open_task(self.folder.run.spec())

    @property
    def problem(self) -> ExogenousModel:
        """What was planned."""
        return self._task.problem

    @property
    def form(self) -> ScenarioForm:
        """How its scenarios are written down."""
        return self._task.form

    @property
    def description(self) -> Any:
        """What was asked."""
        return self.folder.run.manifest.task["description"]

    def scenario(self, name: str) -> Scenario:
        """A scenario as it was read."""
        (found,) = scenarios_from_bytes(self.folder.input_of(name), self.form)
        return found


@dataclass(frozen=True)
class PlanFilter:
    """Which scenarios.

    min_expected_regret  that lost at least so much in expectation
    statuses             none given means any
    search               part of the id
    """

    min_expected_regret: float | None = None
    statuses: tuple[str, ...] = ()
    search: str = ""


def list_plans(desk: PlanDesk, wanted: PlanFilter, window: Window) -> models.PlanPage:
    """A page of the list."""
    import polars as pl

    conditions = []
    if wanted.min_expected_regret is not None:
        conditions.append(pl.col("expected_regret") >= wanted.min_expected_regret)
    if wanted.statuses:
        conditions.append(pl.col("status").is_in(list(wanted.statuses)))
    if wanted.search:
        conditions.append(contains(ID, wanted.search))
    column = SORTS[window.sort]
    at = Window(column, window.descending, window.offset, window.limit)
    found = page_of(desk.rankings, wanted, conditions, at)
    lines = [line_of(row) for row in found.rows]
    return models.PlanPage(total=found.total, offset=window.offset, lines=lines)


def line_of(row: dict[str, Any]) -> models.PlanLine:
    """A row of results as a line of the list."""
    return models.PlanLine(
        id=row[ID],
        executed=number(row["executed"]),
        hindsight=number(row["hindsight"]),
        without_foresight=number(row["without_foresight"]),
        planned=number(row["planned"]),
        regret_hindsight=number(row["regret_hindsight"]),
        regret_policy=number(row["regret_policy"]),
        expected_regret=number(row["expected_regret"]),
        costliest=row["costliest"],
        status=row["status"],
        reason=row["reason"],
    )
