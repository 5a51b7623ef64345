"""The report of a run that judged executed plans: what all lost, their ranking, each scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.errors import InputError
from counterplan.planning.description import about, action_in_words, axes_of, state_in_words
from counterplan.runs.answer import changes_in_words
from counterplan.runs.regret import TOTALS, lost
from counterplan.runs.run import DECISIONS, Run
from counterplan.viz import style
from counterplan.viz.path import journeys, numbers_of, path_figure
from counterplan.viz.quantity import Quantity
from counterplan.viz.report.page import (
    MOST_ROWS,
    Panel,
    Pseudonyms,
    RankingColumn,
    Report,
    ReportOptions,
    Row,
    Section,
    make_report,
    number_cell,
)
from counterplan.viz.style import FULL, PALE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 20
# Losses below these shares of the largest are none, or are not worth a line.
ROUNDING, LEAST_LOSS = 1e-9, 1e-6
# Columns of results above the ranking.
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


def regret_report(run: Run, options: ReportOptions) -> Report:
    """The page about all scenarios of a run, or about one of them."""
    if options.k is not None:
        raise InputError(f"{run.folder}: judges executed plans, which have no --k: leave it out")
    every = run.results().collect().to_dicts()
    # Those that lost most first; of equals the first in the table.
    rows = sorted((row for row in every if row["status"] != "failed"), key=lost, reverse=True)
    executed = [row for row in rows if row["executed"] is not None]
    counted = executed or rows
    sums = {name: [row[name] for row in counted if row[name] is not None] for name in TOTALS}
    # Over the scenarios that were executed, or over all if none was; where all are known.
    totals = {name: sum(known) for name, known in sums.items() if len(known) == len(counted) > 0}
    is_cost = run.problem.sense == "min"
    unit = axes_of(run.problem).unit
    quantity = Quantity("value", unit=unit)
    if is_cost:
        quantity = Quantity("cost", unit=unit, better="lower")
    context: dict[str, Any] = {
        "run": run,
        "pseudonyms": options.pseudonyms,
        "about": about(run.problem),
        "quantity": quantity,
        "rows": rows,
        "failures": [row for row in every if row["status"] == "failed"],
        "executed": executed,
        "totals": totals,
    }
    if options.case is None:
        sections = _scenarios(run, options.pseudonyms, rows[: options.cases], 1)
        columns = _ranking(rows[:MOST_ROWS], quantity, options.pseudonyms)
        return make_report("regret.html", sections, _panels(executed, quantity), columns, **context)
    chosen = [row for row in every if row["scenario_id"] == options.case][:1]
    if not chosen:
        raise InputError(f"{run.folder}: has no scenario {options.case!r}; check it")
    return make_report("regret.html", _scenarios(run, options.pseudonyms, chosen, 0), **context)


def _ranking(rows: Sequence[Row], quantity: Quantity, names: Pseudonyms) -> list[RankingColumn]:
    columns = [RankingColumn("Scenario", [names.shown(row["scenario_id"]) for row in rows], "name")]
    for name, title in TITLES.items():
        values = [row[name] for row in rows]
        cells = [number_cell(one, "" if one is None else quantity.write(one)) for one in values]
        if any(value is not None for value in values):
            columns.append(RankingColumn(title, cells, "number"))
    statuses = [row["status"] for row in rows]
    if len({*statuses}) > 1:
        columns.append(RankingColumn("Policy is", statuses, choose=True))
    costliest = [row["costliest"] or "" for row in rows]
    return [*columns, *([RankingColumn("Costliest decision", costliest)] if any(costliest) else [])]


def _panels(executed: Sequence[dict[str, Any]], quantity: Quantity) -> list[Panel]:
    """What all scenarios lost."""
    if not executed:
        return []
    in_expectation = any(row["expected_regret"] is not None for row in executed)
    what = "lost in expectation" if in_expectation else "worse than the policy, luck included"
    losses = [lost(row) for row in executed]
    if max(map(abs, losses)) <= ROUNDING:
        return []
    figure = loss_figure(losses, quantity, what)
    return [Panel("regret", figure, "regret", {"what": what, "losses": losses})]


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
    axes.set_xlabel(f"{title} ({quantity.unit})" if quantity.unit else title)
    axes.set_ylabel("scenarios")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend_above(figure)
    return figure


# --- Scenarios ---


def _scenarios(run: Run, names: Pseudonyms, chosen: Sequence[Row], first: int) -> list[Section]:
    """Scenarios with their figures drawn, ranked from `first`; 0 for one alone."""
    every, found = run.rows_of(DECISIONS, [row["scenario_id"] for row in chosen]), []
    for rank, row in enumerate(chosen, start=first):
        steps = every[row["scenario_id"]]
        section = Section(row, names.shown(row["scenario_id"]), rank, steps)
        if row["status"] != "failed":
            panel = section.panel("path", path_figure(steps, run.problem), steps=len(steps))
            more = {
                # Decisions that lost, the costliest first; None where that is not known.
                "losses": None if row["executed"] is None else _losses(run, steps),
                # The few that should have been others, knowing the path, in words.
                "changes": changes_in_words(row) if row.get("changes") else (),
                "table": _steps_table(run, steps),
            }
            section = replace(section, panels=(panel,), more=more)
        found.append(section)
    return found


def _losses(run: Run, steps: Sequence[Row]) -> list[dict[str, Any]] | None:
    losses = [step["expected_loss"] for step in steps]
    if None in losses:
        return None
    least, problem = LEAST_LOSS * max(1e-12, *losses), run.problem
    done, advised = (
        journeys(problem, steps)["executed"],
        numbers_of(steps, "advised", axes_of(problem).action_keys),
    )
    assert advised is not None
    found = [
        {
            # Ports and dates are counted from 1, steps in the figure from 0: say both.
            "when": f"t={state.t}: {state_in_words(problem, state)}",
            "done": action_in_words(problem, action),
            "better": action_in_words(problem, better),
            "lost": lost,
        }
        for state, action, better, lost in zip(
            done.states, done.actions, advised, losses, strict=True
        )
        if lost > least
    ]
    return sorted(found, key=lambda one: -one["lost"])


def _steps_table(run: Run, steps: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells: all numbers of the scenario that are known."""
    axes = axes_of(run.problem)
    titles = {column.name: column.name for column in run.columns.observed}
    for player in ("executed", "advised", "policy", "planned", "hindsight"):
        for ending, title in zip(axes.action_keys, axes.actions, strict=True):
            titles[f"{player}{ending}"] = f"{title}, {player}"
    for ending, title in zip(axes.level_keys, axes.levels, strict=True):
        titles[f"executed_level{ending}"] = f"{title}, executed"
    titles["expected_loss"] = "expected loss"
    known = [name for name in titles if any(step.get(name) is not None for step in steps)]
    rows = [[str(step["t"]), *(_cell(step[name]) for name in known)] for step in steps]
    return [axes.step, *(titles[name] for name in known)], rows


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else f"{value:.6g}"
