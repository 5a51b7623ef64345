"""The whole report of a run that judged executed plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.validation import FloatArray, counted
from counterplan.errors import FileError, InputError
from counterplan.planning.description import (
    Axes,
    Columns,
    about,
    action_in_words,
    axes_of,
    state_in_words,
)
from counterplan.planning.model import ExogenousModel, State
from counterplan.runs.answer import changes_in_words
from counterplan.runs.regret import TOTALS, lost
from counterplan.runs.run import Run
from counterplan.runs.task import open_task
from counterplan.viz import path_figure, style
from counterplan.viz.labels import Quantity
from counterplan.viz.page import (
    Html,
    Page,
    Panel,
    Section,
    element,
    facts,
    items,
    join,
    panels,
    render,
)
from counterplan.viz.report.explain import NAME, NUMBER, Heading, Ranking, number, ranking, script
from counterplan.viz.report.model import incomplete, made_by, provenance
from counterplan.viz.report.source import MOST_ROWS, Names, Report, ReportOptions
from counterplan.viz.style import FULL, PALE

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

# ----------------------------------------------------------------------------------------------
# What all scenarios lost, as a figure.

BINS = 20
# Losses below this share of the largest are none.
ROUNDING = 1e-9


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


# ----------------------------------------------------------------------------------------------
# A run of executed plans opened for its report: the problem, its words, and what all come to.


@dataclass(frozen=True, eq=False)
class RegretSource:
    """All that a report of executed plans is made of.

    rows  results of all scenarios, those that lost most first; failed ones are left out
    """

    run: Run
    names: Names
    columns: Columns
    rows: list[dict[str, Any]]
    failures: list[tuple[str, str]]

    @property
    def problem(self) -> ExogenousModel:
        """What was decided about."""
        problem: ExogenousModel = self.columns.problem
        return problem

    @property
    def axes(self) -> Axes:
        """What its numbers are called."""
        return axes_of(self.problem)

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
    columns: Columns = task.columns  # type: ignore[attr-defined]
    rows = _rows(run.scan("results"))
    judged = [row for row in rows if row["status"] != "failed"]
    failures = [
        (row["scenario_id"], row["reason"] or "") for row in rows if row["status"] == "failed"
    ]
    # Of equals the first in the table comes first.
    judged.sort(key=lost, reverse=True)
    return RegretSource(run, names, columns, judged, failures)


def _rows(results: pl.LazyFrame) -> list[dict[str, Any]]:
    return results.collect().to_dicts()


# ----------------------------------------------------------------------------------------------
# A section for each scenario looked at closely: the decisions, what they lost, and a figure.

Row = Mapping[str, Any]
# Losses below this share of the largest are not worth a line.
LEAST_LOSS = 1e-6
VALUES = {
    "executed": "as executed",
    "hindsight": "best in hindsight",
    "without_foresight": "best policy without foresight",
    "open_loop": "open loop: the plan for expected values",
    "planned": "planner",
}


@dataclass(frozen=True, eq=False)
class ScenarioSection:
    """A scenario with all that is shown of it."""

    row: Row
    steps: Sequence[Row]
    panels: Sequence[Panel]
    rank: int
    place: str


def scenario_of(source: RegretSource, row: Row, steps: Sequence[Row], rank: int) -> ScenarioSection:
    """With its figure drawn."""
    place = f"case-{rank}" if rank else "case"
    if row["status"] == "failed":
        return ScenarioSection(row, steps, (), rank, place)
    panel = Panel(
        f"{place}-path",
        path_figure(list(steps), source.problem),
        "What was seen, what everyone did, and what was left, step by step.",
        f"Decisions of {len(steps)} steps as executed, planned and in hindsight; the numbers are "
        "in the table below.",
    )
    return ScenarioSection(row, steps, (panel,), rank, place)


def scenario_section(source: RegretSource, scenario: ScenarioSection) -> Html:
    """The section of a scenario."""
    row, name = scenario.row, source.names.shown(scenario.row["scenario_id"])
    title = f"{scenario.rank}. {name}" if scenario.rank else name
    if row["status"] == "failed":
        reason = source.names.within(row["reason"] or "", row["scenario_id"])
        words = element("p", f"Could not be judged: {reason}", class_="note weak")
        return element("article", element("h3", title), words, class_="case", id=scenario.place)
    left = element(
        "div",
        element("h4", "Which decisions lost, and what would have been better"),
        _decisions(source, scenario),
        *_changes(source, row),
    )
    right = element(
        "div",
        element("h4", "In numbers"),
        facts(*_facts(source, row), class_="facts"),
        element("h4", "Certificate"),
        element("p", _certificate(row), class_="certificate"),
    )
    return element(
        "article",
        element("h3", title),
        element("p", _headline(source, row), class_="headline"),
        element("div", left, right, class_="columns"),
        panels(scenario.panels),
        _table(source, scenario.steps),
        class_="case",
        id=scenario.place,
    )


def _headline(source: RegretSource, row: Row) -> str:
    write = source.quantity.write
    best = f"{write(row['hindsight'])} would have been possible had the future been known"
    if row["executed"] is None:
        return f"No decisions are given; {best}."
    text = f"{source.did.capitalize()} {write(row['executed'])}; {best}."
    if row["expected_regret"] is not None:
        text += f" The decisions lost {write(row['expected_regret'])} in expectation."
    return text


def _changes(source: RegretSource, row: Row) -> list[Html]:
    """The few decisions that should have been others, knowing the path, where that was asked."""
    if row.get("value") is None:
        return []
    title = element("h4", f"In hindsight, with at most {row['k']} changed decisions")
    if not row["changes"]:
        return [title, element("p", "No such change would have been better.")]
    items = [element("li", text) for text in changes_in_words(row)]
    write = source.quantity.write
    words = f"{write(row['value'])} instead of {write(row['executed'])}."
    return [title, element("ul", *items), element("p", words)]


def _decisions(source: RegretSource, scenario: ScenarioSection) -> Html:
    """The decisions that lost in expectation, the costliest first."""
    steps = scenario.steps
    losses = [step["expected_loss"] for step in steps]
    if scenario.row["executed"] is None:
        return element("p", "The table says nothing about what was done.")
    if None in losses:
        words = "What each decision lost is not known here; the policy's own are in the figure."
        return element("p", words)
    least = LEAST_LOSS * max(1e-12, *losses)
    costly = sorted((s for s, loss in enumerate(losses) if loss > least), key=lambda s: -losses[s])
    if not costly:
        return element("p", "No decision lost anything in expectation.", class_="note")
    states = _states(source, scenario)
    heads = (
        *(element("th", text) for text in ("When", "Done", "Better")),
        element("th", "Lost", class_="number"),
    )
    body = []
    for s in costly:
        done, better = (_action(source, steps[s], name) for name in ("executed", "advised"))
        cells = (
            # Ports and dates are counted from 1, steps in the figure from 0: say both.
            element("td", f"t={states[s].t}: {state_in_words(source.problem, states[s])}"),
            element("td", action_in_words(source.problem, done)),
            element("td", action_in_words(source.problem, better), class_="strong"),
            element("td", source.quantity.write(losses[s]), class_="number"),
        )
        body.append(element("tr", *cells))
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *body))
    return join(table)


def _states(source: RegretSource, scenario: ScenarioSection) -> list[State]:
    """Where each decision was made."""
    columns, keys = source.columns, source.axes.level_keys
    path, first = columns.path(columns.from_rows(scenario.steps)), source.problem.start.t
    levels = [_numbers(step, "executed_level", keys) for step in scenario.steps]
    return [State(first + s, path[s], levels[s]) for s in range(len(path))]


def _action(source: RegretSource, step: Row, name: str) -> FloatArray:
    return _numbers(step, name, source.axes.action_keys)


def _numbers(step: Row, name: str, endings: Sequence[str]) -> FloatArray:
    return np.array([step[f"{name}{ending}"] for ending in endings], dtype=np.float64)


def _facts(source: RegretSource, row: Row) -> list[tuple[str, str]]:
    write = source.quantity.write
    pairs = [(_value_name(name, row), write(row[name])) for name in VALUES if row[name] is not None]
    for name, words in (
        ("regret_hindsight", "Worse than hindsight by"),
        ("regret_policy", "Worse than the policy by, luck included"),
        ("expected_regret", "Lost in expectation, without luck"),
    ):
        if row[name] is not None:
            pairs.append((words, write(row[name])))
    return pairs


def _value_name(name: str, row: Row) -> str:
    if name == "planned" and row["planner"]:
        return f"Planner {row['planner']}"
    return VALUES[name].capitalize()


def _certificate(row: Row) -> str:
    """What is proved."""
    hindsight = "The value in hindsight is exact: no decisions on this path are better."
    if row["status"] == "optimal":
        return f"{hindsight} The policy is the optimum without foresight, by dynamic programming."
    return (
        f"{hindsight} The optimum without foresight cannot be computed here; the policy is the "
        f"best one known ({row['policy']})."
    )


def _table(source: RegretSource, steps: Sequence[Row]) -> Html:
    """All numbers of the scenario, folded away until they are asked for."""
    if not steps:
        return Html("")
    axes = source.axes
    columns = [(column.name, column.name) for column in source.columns.observed]
    for player in ("executed", "advised", "policy", "planned", "hindsight"):
        for ending, title in zip(axes.action_keys, axes.actions, strict=True):
            columns.append((f"{player}{ending}", f"{title}, {player}"))
    columns += [
        (f"executed_level{ending}", f"{title}, executed")
        for ending, title in zip(axes.level_keys, axes.levels, strict=True)
    ]
    columns.append(("expected_loss", "expected loss"))
    known = [one for one in columns if any(step.get(one[0]) is not None for step in steps)]
    head = element("tr", element("th", axes.step), *(element("th", title) for _, title in known))
    body = (
        element("tr", element("td", str(step["t"])), *(_cell(step[name]) for name, _ in known))
        for step in steps
    )
    table = element("table", element("thead", head), element("tbody", *body), class_="course")
    return element(
        "details",
        element("summary", "All decisions in numbers"),
        element("div", table, class_="scroll"),
    )


def _cell(value: Any) -> Html:
    text = value if isinstance(value, str) else "" if value is None else f"{value:.6g}"
    return element("td", text)


# ----------------------------------------------------------------------------------------------
# What a report of executed plans says of its problem, how to read it, what it does not claim.


def problem_facts(source: RegretSource) -> list[tuple[str, str]]:
    """What was decided about."""
    description = source.run.manifest.task["description"]
    asked = dict(description["problem"])
    asked.pop("domain", None)
    pairs = [
        ("Problem", about(source.problem)),
        ("Decisions", f"{source.problem.horizon} for each scenario"),
        ("Better", "lower costs" if source.is_cost else "higher values"),
    ]
    pairs += [(name.replace("_", " ").capitalize(), str(value)) for name, value in asked.items()]
    for name in sorted(source.run.manifest.task["files"]):
        pairs.append((f"File {name}", "is part of the run's folder"))
    policies = sorted({str(row["policy"]) for row in source.rows if row["policy"]})
    if policies:
        pairs.append(("Policy to compare with", ", ".join(policies)))
    if description.get("planner"):
        clip = "with" if description.get("clip") else "without"
        pairs.append(
            (
                "Planner",
                f"{description['planner']}, {description['simulations']:,} simulations for a "
                f"decision, {clip} clipping",
            )
        )
    return pairs


def taken_for_granted() -> list[str]:
    """What no calculation can check."""
    return [
        "Decisions do not move what is seen: prices, roads and the like come as they come.",
        "The law of what is seen (its probabilities) is taken as known. What decisions lost in "
        "expectation is right only as far as that law is.",
        "Whoever decided knew what had been seen so far, and nothing of what was to come.",
    ]


def reading(source: RegretSource) -> list[str]:
    """For those who see such a report for the first time."""
    word = "paid" if source.is_cost else "earned"
    texts = [
        f"“As executed” is what the decisions {word}. “Hindsight” is the best that was possible "
        "on this path had all of it been known: an exact bound, which nobody could have reached "
        "but by luck.",
        "“Policy” is what the best policy without foresight would have brought on the same path; "
        "where decisions were lucky, they can be better than it.",
        "“Lost in expectation” is what decisions lost when they were made, on average over all "
        "that could have come. There is no luck in it: judge decisions by it. It is known where "
        "the optimum can be computed.",
        "“Better” beside a decision is what the policy would have done in its place, with what was "
        "there at that moment.",
    ]
    if any(row["planned"] is not None for row in source.rows):
        texts.append(
            "“Planner” decided along the path step by step, as in use: it saw no more than whoever "
            "decided."
        )
    return texts


def not_claimed() -> list[str]:
    """What the numbers must not be taken for."""
    return [
        "It is no forecast. It judges what was decided, by a model of what could have come.",
        "Regret against hindsight is no reproach: it holds what could not be known against those "
        "who decided.",
        "The ranking picks the largest losses, some of which may be due to an error of the model.",
        "What the model leaves out (contracts, weather, wear) may have been the reason for a "
        "decision.",
    ]


# ----------------------------------------------------------------------------------------------

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


def _ranking(source: RegretSource, looks: Sequence[ScenarioSection]) -> Ranking:
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
