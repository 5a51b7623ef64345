"""A run of executed plans opened for its report: the problem, its words, and what all come to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from counterplan.cohort.reading import Run
from counterplan.cohort.regret_summary import TOTALS, lost
from counterplan.cohort.task import open_task
from counterplan.errors import FileError
from counterplan.exogenous.model import ExogenousModel
from counterplan.io.scenario_form import ScenarioForm
from counterplan.viz.quantity import Quantity
from counterplan.viz.report.names import Names

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class RegretSource:
    """All that a report of executed plans is made of.

    rows  results of all scenarios, those that lost most first; failed ones are left out
    """

    run: Run
    names: Names
    form: ScenarioForm
    rows: list[dict[str, Any]]
    failures: list[tuple[str, str]]

    @property
    def problem(self) -> ExogenousModel:
        """What was decided about."""
        return self.form.problem

    @property
    def is_cost(self) -> bool:
        """Whether values are costs."""
        return self.problem.sense == "min"

    @property
    def quantity(self) -> Quantity:
        """What values are."""
        return Quantity("cost", better="lower") if self.is_cost else Quantity("value")

    @property
    def did(self) -> str:
        """What one does with values."""
        return "paid" if self.is_cost else "earned"

    @cached_property
    def executed(self) -> list[dict[str, Any]]:
        """Scenarios that say what was done."""
        return [row for row in self.rows if row["executed"] is not None]

    @property
    def has_losses(self) -> bool:
        """Whether what decisions lost in expectation is known."""
        return any(row["expected_regret"] is not None for row in self.rows)

    @cached_property
    def totals(self) -> dict[str, float]:
        """Sums over the scenarios that were executed, or over all if none was."""
        rows = self.executed or self.rows
        known = {name: [row[name] for row in rows if row[name] is not None] for name in TOTALS}
        return {name: sum(values) for name, values in known.items() if len(values) == len(rows) > 0}

    def steps_of(self, ids: list[str]) -> dict[str, list[dict[str, Any]]]:
        """By scenario: its decisions, step by step."""
        import polars as pl

        found: dict[str, list[dict[str, Any]]] = {name: [] for name in ids}
        table = self.run.scan("decisions").filter(pl.col("scenario_id").is_in(ids)).sort("t")
        for row in table.collect().iter_rows(named=True):
            found[row["scenario_id"]].append(row)
        return found


def open_regret(run: Run, names: Names) -> RegretSource:
    """A run with its problem."""
    try:
        task = open_task(run.spec())
    except (KeyError, TypeError) as problem:
        raise FileError(
            f"{run.layout.manifest}: is damaged: {problem}; make the run anew"
        ) from None
    form: ScenarioForm = task.form  # type: ignore[attr-defined]
    rows = _rows(run.scan("results"))
    judged = [row for row in rows if row["status"] != "failed"]
    failures = [
        (row["scenario_id"], row["reason"] or "") for row in rows if row["status"] == "failed"
    ]
    # Of equals the first in the table comes first.
    judged.sort(key=lost, reverse=True)
    return RegretSource(run, names, form, judged, failures)


def _rows(results: pl.LazyFrame) -> list[dict[str, Any]]:
    return results.collect().to_dicts()
