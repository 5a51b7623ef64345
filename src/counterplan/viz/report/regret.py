"""The whole report of a run that judged executed plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterplan.cohort.reading import Run
from counterplan.cohort.regret_summary import lost
from counterplan.core.words import counted
from counterplan.errors import InputError
from counterplan.viz.html import Html, element, facts, items, join
from counterplan.viz.page import Page, Panel, Section, panels, render
from counterplan.viz.report.options import MOST_ROWS, Report, ReportOptions
from counterplan.viz.report.provenance import incomplete, made_by, provenance
from counterplan.viz.report.ranking import (
    NAME,
    NUMBER,
    Heading,
    Ranking,
    number,
    ranking,
    script,
)
from counterplan.viz.report.regret_case import VALUES, Scenario, scenario_of, scenario_section
from counterplan.viz.report.regret_figures import loss_figure
from counterplan.viz.report.regret_source import RegretSource, open_regret
from counterplan.viz.report.regret_texts import (
    not_claimed,
    problem_facts,
    reading,
    taken_for_granted,
)

NUMBERS = {
    "executed": "As executed",
    "hindsight": "Hindsight",
    "without_foresight": "Policy",
    "open_loop": "Open loop",
    "planned": "Planner",
    "regret_hindsight": "Worse than hindsight",
    "regret_policy": "Worse than policy",
    "expected_regret": "Lost in expectation",
}
# Failed scenarios that are named.
MOST_FAILURES = 20


def regret_report(run: Run, options: ReportOptions) -> Report:
    """The report of a run of executed plans."""
    source = open_regret(run, options.names)
    if options.k is not None:
        raise InputError(
            f"{run.layout.out}: judges executed plans, which have no --k: leave it out"
        )
    if options.case is not None:
        return _single(source, options.case)
    chosen = source.rows[: options.cases]
    steps = source.steps_of([row["scenario_id"] for row in chosen])
    looks = [
        scenario_of(source, row, steps[row["scenario_id"]], rank)
        for rank, row in enumerate(chosen, start=1)
    ]
    about_all = _cohort_panels(source)
    sections = [
        Section("summary", "In short", "In short", _summary(source, about_all)),
        Section("cases", "Scenarios by what they lost", "All scenarios",
                ranking(_ranking(source, looks))),
    ]  # fmt: skip
    if looks:
        body = join(*(scenario_section(source, look) for look in looks))
        sections.append(Section("close", f"The top {len(looks)}, closely", "Closely", body))
    count = len(source.rows) + len(source.failures)
    lead = [
        f"For each of {counted(count, 'scenario')}: what the decisions brought, what was possible "
        "had the future been known, what the best policy without foresight would have brought, and "
        "which decisions lost most."
    ]
    sections += _ending(source)
    page = Page("counterplan · executed plans, judged", "What did the decisions cost?", lead,
                sections, made_by(source.names), script())  # fmt: skip
    shown = (*about_all, *(panel for look in looks for panel in look.panels))
    return Report(render(page), shown)


def _single(source: RegretSource, name: str) -> Report:
    row = next((row for row in source.rows if row["scenario_id"] == name), None)
    failed = next((reason for one, reason in source.failures if one == name), None)
    if row is None and failed is None:
        raise InputError(f"{source.run.layout.out}: has no scenario {name!r}; check it")
    found = row or {"scenario_id": name, "status": "failed", "reason": failed}
    look = scenario_of(source, found, source.steps_of([name])[name], 0)
    sections = [
        Section("close", "What did the decisions cost?", "The scenario",
                scenario_section(source, look)),
        *_ending(source),
    ]  # fmt: skip
    title = f"Scenario {source.names.shown(name)}"
    page = Page(
        "counterplan · an executed plan, judged", title, [], sections, made_by(source.names)
    )
    return Report(render(page), tuple(look.panels))


def _ending(source: RegretSource) -> list[Section]:
    model = join(
        facts(*problem_facts(source), class_="facts wide"),
        element("h3", "What it takes for granted"),
        items(*taken_for_granted()),
    )
    return [
        Section("model", "The problem and its assumptions", "The problem", model),
        Section("reading", "How to read this", "How to read this", items(*reading(source))),
        Section("limits", "What this does not claim", "What this does not claim",
                items(*not_claimed())),
        Section("provenance", "Where it comes from", "Where it comes from", provenance(source.run)),
    ]  # fmt: skip


def _summary(source: RegretSource, shown: Sequence[Panel]) -> Html:
    warnings = [text] if (text := incomplete(source.run)) else []
    if source.failures:
        warnings.append(f"{counted(len(source.failures), 'scenario')} could not be judged.")
    if not source.executed:
        warnings.append("The table does not say what was done, so there is nothing to regret.")
    return join(
        *([element("div", items(*warnings), class_="note weak warnings")] if warnings else []),
        facts(*_cards(source), class_="cards"),
        _totals(source),
        *_failures(source),
        panels(shown),
    )


def _cards(source: RegretSource) -> list[tuple[str, str]]:
    totals, write = source.totals, source.quantity.write
    cards = [("scenarios judged", f"{len(source.rows):,}")]
    if "executed" in totals:
        cards.append((f"{source.did} in total", write(totals["executed"])))
    if "hindsight" in totals:
        cards.append(("possible had the future been known", write(totals["hindsight"])))
    if "expected_regret" in totals and "executed" in totals:
        worth = totals["expected_regret"] / abs(totals["executed"]) if totals["executed"] else 0.0
        text = f"lost in expectation by the decisions, {100 * worth:.1f} % of what was {source.did}"
        cards.append((text, write(totals["expected_regret"])))
    return cards


def _totals(source: RegretSource) -> Html:
    count = len(source.executed or source.rows)
    rows = [
        (name.capitalize(), source.totals[key])
        for key, name in {**VALUES, "expected_regret": "lost in expectation"}.items()
        if key in source.totals
    ]
    heads = (
        element("th", ""),
        element("th", "In total", class_="number"),
        element("th", "For each scenario", class_="number"),
    )
    body = (
        element(
            "tr",
            element("td", name),
            element("td", source.quantity.write(value), class_="number strong"),
            element("td", source.quantity.write(value / count), class_="number"),
        )
        for name, value in rows
    )
    better = "Lower" if source.is_cost else "Higher"
    return join(
        element("p", f"Over {counted(count, 'scenario')}. {better} is better, save for losses."),
        element("table", element("thead", element("tr", *heads)), element("tbody", *body),
                class_="narrow"),
    )  # fmt: skip


def _failures(source: RegretSource) -> list[Html]:
    if not source.failures:
        return []
    lines = [
        f"{source.names.shown(name)}: {source.names.within(reason, name)}"
        for name, reason in source.failures[:MOST_FAILURES]
    ]
    if len(source.failures) > MOST_FAILURES:
        lines.append(f"and {len(source.failures) - MOST_FAILURES:,} more")
    return [element("h3", "Why some failed"), items(*lines)]


def _cohort_panels(source: RegretSource) -> list[Panel]:
    rows = source.executed
    if not rows:
        return []
    what = "lost in expectation" if source.has_losses else "worse than the policy, luck included"
    losses = [lost(row) for row in rows]
    return [
        Panel(
            "regret",
            loss_figure(losses, source.quantity, what),
            f"Scenarios by what their decisions lost ({what}).",
            f"Histogram of losses of {counted(len(losses), 'scenario')}, the largest "
            f"{source.quantity.write(max(losses))}.",
        )
    ]


def _ranking(source: RegretSource, looks: Sequence[Scenario]) -> Ranking:
    shown = source.rows[:MOST_ROWS]
    known = [name for name in NUMBERS if any(row[name] is not None for row in shown)]
    several = len({row["status"] for row in shown}) > 1
    headings = [
        Heading("Scenario", NAME),
        *(Heading(NUMBERS[name], NUMBER) for name in known),
        *([Heading("Policy is", choose=True)] if several else []),
        Heading("Costliest decision"),
    ]
    places = {look.row["scenario_id"]: look.place for look in looks}
    rows = []
    for row in shown:
        cells: list[Any] = [source.names.shown(row["scenario_id"])]
        for name in known:
            value = row[name]
            cells.append(number(value, "" if value is None else source.quantity.write(value)))
        cells += [row["status"]] if several else []
        cells.append(row["costliest"] or "")
        rows.append((places.get(row["scenario_id"], ""), cells))
    more = "Any other scenario has a page of its own with counterplan report OUT --case ID."
    if len(shown) < len(source.rows):
        more = f"The first {len(shown):,} of {len(source.rows):,} are in this table. {more}"
    return Ranking(headings, rows, len(source.rows), "scenario", more)
