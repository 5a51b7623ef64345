"""The report of a run that judged executed plans: what all lost, their ranking, each scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray, counted
from counterplan.errors import InputError
from counterplan.planning.description import about, action_in_words, axes_of, state_in_words
from counterplan.planning.model import State
from counterplan.runs.answer import changes_in_words
from counterplan.runs.run import DECISIONS, Run
from counterplan.runs.scenario import TOTALS, lost
from counterplan.viz import path_figure, style
from counterplan.viz.quantity import Quantity
from counterplan.viz.report.page import (
    MOST_ROWS,
    Item,
    Panel,
    Pseudonyms,
    RankingColumn,
    Report,
    ReportOptions,
    Row,
    number_cell,
    ranking_table,
    render,
)
from counterplan.viz.style import FULL, PALE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 20
# Losses below these shares of the largest are none, or are not worth a line.
ROUNDING, LEAST_LOSS = 1e-9, 1e-6
# Failed scenarios that are named.
MOST_FAILURES = 20
# Columns of results: what values are called in sentences, and above the ranking.
VALUES = {
    "executed": "as executed",
    "hindsight": "best in hindsight",
    "without_foresight": "best policy without foresight",
    "open_loop": "open loop: the plan for expected values",
    "planned": "planner",
    "expected_regret": "lost in expectation",
}
TITLES = {
    "executed": "As executed",
    "hindsight": "Hindsight",
    "without_foresight": "Policy",
    "open_loop": "Open loop",
    "planned": "Planner",
    "regret_hindsight": "Worse than hindsight",
    "regret_policy": "Worse than policy",
    "expected_regret": "Lost in expectation",
}


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """A run of executed plans with its results.

    rows      results of all scenarios, those that lost most first; failed ones are left out
    failures  names and reasons
    """

    run: Run
    pseudonyms: Pseudonyms
    rows: list[dict[str, Any]]
    failures: list[tuple[str, str]]

    @property
    def about(self) -> str:
        """What is decided."""
        return about(self.run.problem)

    @property
    def is_cost(self) -> bool:
        """Whether values are costs."""
        return self.run.problem.sense == "min"

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

    @cached_property
    def totals(self) -> dict[str, float]:
        """Sums over the scenarios that were executed, or over all if none was."""
        rows = self.executed or self.rows
        known = {name: [row[name] for row in rows if row[name] is not None] for name in TOTALS}
        return {name: sum(values) for name, values in known.items() if len(values) == len(rows) > 0}


def regret_report(run: Run, options: ReportOptions) -> Report:
    """The page about all scenarios of a run, or about one of them."""
    rows = run.results().collect().to_dicts()
    failures = [
        (row["scenario_id"], row["reason"] or "") for row in rows if row["status"] == "failed"
    ]
    # Of equals the first in the table comes first.
    rows = sorted((row for row in rows if row["status"] != "failed"), key=lost, reverse=True)
    judged = JudgedRun(run, options.pseudonyms, rows, failures)
    if options.k is not None:
        raise InputError(f"{run.folder}: judges executed plans, which have no --k: leave it out")
    if options.case is not None:
        return _page(judged, _scenarios(judged, [_result(judged, options.case)], [0]), single=True)
    chosen = rows[: options.cases]
    scenarios = _scenarios(judged, chosen, range(1, len(chosen) + 1))
    ranking = _ranking(judged, scenarios)
    total = len(rows)
    return _page(judged, scenarios, _panels(judged), single=False, ranking=ranking, total=total)


def _page(
    judged: JudgedRun, scenarios: Sequence[Scenario], panels: Sequence[Panel] = (), **more: Any
) -> Report:
    context = {
        "run": judged.run,
        "judged": judged,
        "pseudonyms": judged.pseudonyms,
        "quantity": judged.quantity,
        "scenarios": scenarios,
        "panels": panels,
        "values": VALUES,
        "most_failures": MOST_FAILURES,
        **more,
    }
    shown = (*panels, *(panel for scenario in scenarios for panel in scenario.panels))
    return Report(render("regret.html", context), shown)


def _result(judged: JudgedRun, name: str) -> Row:
    """The result of one scenario, failed or not."""
    for row in judged.rows:
        if row["scenario_id"] == name:
            return row
    for failed, reason in judged.failures:
        if failed == name:
            return {"scenario_id": name, "status": "failed", "reason": reason}
    raise InputError(f"{judged.run.folder}: has no scenario {name!r}; check it")


def _ranking(judged: JudgedRun, scenarios: Sequence[Scenario]) -> dict[str, Any]:
    rows, write = judged.rows[:MOST_ROWS], judged.quantity.write

    def number(row: Row, name: str) -> Any:
        return number_cell(row[name], "" if row[name] is None else write(row[name]))

    def shown(row: Row) -> str:
        return judged.pseudonyms.shown(row["scenario_id"])

    columns = [RankingColumn("Scenario", shown, "name")]
    for name, title in TITLES.items():
        if any(row[name] is not None for row in rows):
            columns.append(RankingColumn(title, partial(number, name=name), "number"))
    if len({row["status"] for row in rows}) > 1:
        columns.append(RankingColumn("Policy is", itemgetter("status"), choose=True))
    columns.append(RankingColumn("Costliest decision", lambda row: row["costliest"] or ""))
    anchors = {one.row["scenario_id"]: one.anchor for one in scenarios}
    return ranking_table(columns, rows, anchors, "scenario_id")


def _panels(judged: JudgedRun) -> list[Panel]:
    """What all scenarios lost."""
    if not judged.executed:
        return []
    in_expectation = any(row["expected_regret"] is not None for row in judged.rows)
    what = "lost in expectation" if in_expectation else "worse than the policy, luck included"
    losses = [lost(row) for row in judged.executed]
    return [
        Panel(
            "regret",
            loss_figure(losses, judged.quantity, what),
            f"Scenarios by what their decisions lost ({what}).",
            f"Histogram of losses of {counted(len(losses), 'scenario')}, the largest "
            f"{judged.quantity.write(max(losses))}.",
        )
    ]


def loss_figure(losses: Sequence[float], quantity: Quantity, title: str) -> Figure:
    """Histogram of what each scenario lost; those that lost nothing stand apart."""
    from matplotlib.ticker import MaxNLocator

    values = np.array(losses, dtype=np.float64)
    low, top = min(0.0, float(values.min())), float(values.max())
    is_none = np.abs(values) <= ROUNDING * max(abs(low), abs(top), 1e-300)
    if top <= low:
        top = low + 1.0
    edges = np.linspace(low, top, BINS + 1)
    heights, _ = np.histogram(values[~is_none], edges)
    figure, axes = style.new_axes(4.6, 3.1)
    width = float(edges[1] - edges[0])
    apart = low - 2.5 * width
    axes.bar(apart, int(is_none.sum()), width, color=PALE, label="lost nothing")
    axes.bar(
        edges[:-1], heights, width, align="edge", color=FULL, edgecolor="white", linewidth=0.6,
        label="lost something" if low == 0.0 else "lost, or gained by luck where negative",
    )  # fmt: skip
    ticks = [tick for tick in MaxNLocator(5).tick_values(low, top) if low <= tick <= top]
    axes.set_xticks([apart, *ticks], ["none", *(quantity.write(float(tick)) for tick in ticks)])
    axes.set_xlabel(title)
    axes.set_ylabel("scenarios")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend_above(figure)
    return figure


# --- Scenarios ---


class Loss(NamedTuple):
    """A decision that lost in expectation: when, what was done, what was better, and how much."""

    when: str
    done: str
    better: str
    lost: float


@dataclass(frozen=True, eq=False)
class Scenario(Item):
    """A scenario with all that is shown of it.

    losses       the decisions that lost, the costliest first; None where that is not known
    changes      the few decisions that should have been others, knowing the path, in words
    steps_table  headings, and for each step whether it is marked and its cells
    """

    losses: Sequence[Loss] | None = None
    changes: Sequence[str] = ()
    panels: Sequence[Panel] = ()
    steps_table: tuple[list[str], list[tuple[bool, list[str]]]] = ([], [])


def _scenarios(judged: JudgedRun, chosen: Sequence[Row], ranks: Sequence[int]) -> list[Scenario]:
    steps = judged.run.rows_of(DECISIONS, [row["scenario_id"] for row in chosen])
    return [
        _scenario(judged, row, rank, steps[row["scenario_id"]])
        for row, rank in zip(chosen, ranks, strict=True)
    ]


def _scenario(judged: JudgedRun, row: Row, rank: int, steps: Sequence[Row]) -> Scenario:
    """A scenario with its figure drawn."""
    name = judged.pseudonyms.shown(row["scenario_id"])
    if row["status"] == "failed":
        return Scenario(row, name, rank)
    panel = Panel(
        f"case-{rank}-path" if rank else "case-path",
        path_figure(list(steps), judged.run.problem),
        "What was seen, what everyone did, and what was left, step by step.",
        f"Decisions of {len(steps)} steps as executed, planned and in hindsight; the numbers are "
        "in the table below.",
    )
    changes = changes_in_words(row) if row.get("changes") else ()
    losses = None if row["executed"] is None else _losses(judged.run, steps)
    table = _steps_table(judged.run, steps)
    return Scenario(row, name, rank, losses, changes, (panel,), table)


def _losses(run: Run, steps: Sequence[Row]) -> list[Loss] | None:
    losses = [step["expected_loss"] for step in steps]
    if None in losses:
        return None
    least = LEAST_LOSS * max(1e-12, *losses)
    costly = sorted((s for s, loss in enumerate(losses) if loss > least), key=lambda s: -losses[s])
    problem, columns, axes = run.problem, run.columns, axes_of(run.problem)
    path, found = columns.path(columns.from_rows(steps)), []
    for s in costly:
        level = _numbers(steps[s], "executed_level", axes.level_keys)
        state = State(problem.start.t + s, path[s], level)
        done, better = (
            _numbers(steps[s], name, axes.action_keys) for name in ("executed", "advised")
        )
        found.append(
            Loss(
                # Ports and dates are counted from 1, steps in the figure from 0: say both.
                f"t={state.t}: {state_in_words(problem, state)}",
                action_in_words(problem, done),
                action_in_words(problem, better),
                losses[s],
            )
        )
    return found


def _numbers(step: Row, name: str, endings: Sequence[str]) -> FloatArray:
    return np.array([step[f"{name}{ending}"] for ending in endings], dtype=np.float64)


def _steps_table(run: Run, steps: Sequence[Row]) -> tuple[list[str], list[tuple[bool, list[str]]]]:
    """All numbers of the scenario."""
    axes = axes_of(run.problem)
    columns = [(column.name, column.name) for column in run.columns.observed]
    for player in ("executed", "advised", "policy", "planned", "hindsight"):
        for ending, title in zip(axes.action_keys, axes.actions, strict=True):
            columns.append((f"{player}{ending}", f"{title}, {player}"))
    for ending, title in zip(axes.level_keys, axes.levels, strict=True):
        columns.append((f"executed_level{ending}", f"{title}, executed"))
    columns.append(("expected_loss", "expected loss"))
    known = [one for one in columns if any(step.get(one[0]) is not None for step in steps)]
    rows = [(False, [str(step["t"]), *(_cell(step[name]) for name, _ in known)]) for step in steps]
    return [axes.step, *(title for _, title in known)], rows


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else f"{value:.6g}"
